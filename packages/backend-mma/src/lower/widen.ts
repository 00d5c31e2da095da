/**
 * Fragments of 16 bits from e4m3 in shared memory: exponent and mantissa are moved to their places in both halves of a word, and the difference of the exponents' biases is multiplied in, which is
 * exact for every finite element, subnormal ones included. Integer and packed arithmetic alone: targets without conversions of byte floats have it, too. A NaN counts as the number that its bits would
 * be, 480.
 */
import {
  AND_OR,
  type Context,
  loadRun,
  type OwnedTile,
  ownedPosition,
  ownedTile,
  ownerOf,
  pairConstant,
  type Reg,
  SIGNS,
  type StmtOf,
  sharedAddress,
  twice,
  type Word,
} from "@tilewright/codegen";
import type { DType } from "@tilewright/core";
import { bufferOf, type MatrixLoad } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";

/** How two elements of e4m3 become a pair. */
interface Form {
  /** Bits by which exponent and mantissa move down from the top of a half, and where they are then, in both halves. */
  readonly down: number;
  readonly kept: number;
  /** The power of two between the biases, in both halves. */
  readonly factor: number;
}

/** Factors are 2^8 and 2^120. */
const forms: Readonly<Partial<Record<DType, Form>>> = {
  f16: { down: 1, kept: twice(0x3f80), factor: twice(0x5c00) },
  bf16: { down: 4, kept: twice(0x07f0), factor: twice(0x7b80) },
};

function formOf(dtype: DType): Form {
  const form = forms[dtype];
  // The verifier of dtypes says so.
  if (form === undefined) throw new TypeError(`e4m3 is not widened to ${dtype}`);
  return form;
}

/** Byte 0 of the first operand and of the second above zeros in each half: byte 3 of both is 0 (PTX ISA, prmt: each digit picks a byte of b:a). */
const APART = 0x4303;
/** Bytes 0 and 1 of one operand. */
const TOGETHER = 0x1303;

/** A fragment of 16-bit elements from a tile of bytes: pairs that are neighbours by one load, others by two. */
export function loadWidened(ctx: Context, copy: StmtOf<"copy">): void {
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
  const form = formOf(dst.dtype);
  const position = ownedPosition(ctx.values, ownerOf(dst));
  const tile = ownedTile(ctx, dst.name, ctx.constant(copy.dst.slot, `slot of %${dst.name}`));
  const elements = [...tile.elements].sort((x, y) => x.register - y.register);
  const together = copy.vector[0] % tile.packed === 0;
  const load = (element: (typeof elements)[number], count: number): Word => {
    const d = ctx.entry.reg("b32", "byte");
    loadRun(
      ctx,
      null,
      "shared",
      src.dtype,
      count,
      [d],
      sharedAddress(ctx, copy.src, position, element.row, element.col),
    );
    return d;
  };
  for (let i = 0; i < elements.length; i += tile.packed) {
    const [low, high] = elements.slice(i, i + tile.packed);
    if (low === undefined || high === undefined) continue;
    const first = load(low, together ? 2 : 1);
    const second = together ? first : load(high, 1);
    const halves = ctx.entry.reg("b32", "halves");
    ctx.emit(null, "prmt.b32", halves, first, second, imm(together ? TOGETHER : APART));
    widen(ctx, form, dst.dtype, halves, tile.at(low.register));
  }
}

/** Bytes 0 and 2 of a cell, and 1 and 3, above zeros in each half: the second operand is 0. */
const COLUMNS = [0x2404, 0x3414] as const;

/** Registers of two columns from cells of a transposed load, each of two rows of both. */
export function widenCells(
  ctx: Context,
  tile: OwnedTile,
  cells: readonly Word[],
  { first, load }: { readonly first: number; readonly load: MatrixLoad },
): void {
  const form = formOf(tile.dtype);
  cells.forEach((cell, matrix) => {
    const at = load.apart.reduce((sum, apart, bit) => sum + ((matrix >> bit) & 1) * apart, first);
    COLUMNS.forEach((pick, column) => {
      const halves = ctx.entry.reg("b32", "halves");
      ctx.emit(null, "prmt.b32", halves, cell, imm(0), imm(pick));
      widen(ctx, form, tile.dtype, halves, tile.at((at + column * (load.pair ?? 0)) * tile.packed));
    });
  });
}

/** A pair from its bytes, each above zeros in its half. */
function widen(ctx: Context, form: Form, dtype: DType, halves: Word, into: Reg): void {
  const fresh = (name: string): Word => ctx.entry.reg("b32", name);
  const [moved, magnitude, signed] = [fresh("moved"), fresh("magnitude"), fresh("signed")] as const;
  ctx.emit(null, "shr.u32", moved, halves, imm(form.down));
  ctx.emit(null, "and.b32", magnitude, moved, imm(form.kept));
  ctx.emitAny(null, "lop3.b32", signed, halves, pairConstant(ctx, SIGNS), magnitude, imm(AND_OR));
  ctx.emitAny(
    null,
    `fma.rn.${dtype}x2`,
    into,
    signed,
    pairConstant(ctx, form.factor),
    pairConstant(ctx, SIGNS),
  );
}
