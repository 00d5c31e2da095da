/** A of 8 bits for products of 16: read from its shared tile in its own width, widened without loss, and held in the registers that instructions take A from. */
import {
  type Context,
  loadRun,
  ownedPosition,
  ownerOf,
  type Reg,
  type StmtOf,
  sharedAddress,
  type Word,
} from "@tilewright/codegen";
import type { DType } from "@tilewright/core";
import { bufferOf, must, type WarpgroupAtom } from "@tilewright/ir";
import { imm, vec } from "@tilewright/ptx";

type Mma = StmtOf<"mma">;

/** Elements of a register. */
const PAIR = 2;
/** A register's place in the fragment: rows 8 apart, then columns 8 apart (PTX ISA, wgmma: register fragment of A). */
const PLACES = [
  [0, 0],
  [8, 0],
  [0, 8],
  [8, 8],
] as const;

/** Two bytes in the low half of a word, as a pair of 16-bit elements. */
type Widen = (ctx: Context, bytes: Word) => Word;

const word = (ctx: Context): Word => ctx.entry.reg("b32", "fw");

/** A constant in a register, made once for the role: packed arithmetic takes no immediates. */
const constant = (ctx: Context, value: number): Word =>
  ctx.roleValue(`constant ${value}`, (code) => {
    const d = ctx.entry.reg("b32", "fc");
    code.emit(null, "mov.b32", d, imm(value));
    return d;
  });

/** The two bytes in the lower bytes of halves, above them a byte of `fill` (PTX ISA, prmt: each digit picks a byte of b:a). */
function spread(ctx: Context, bytes: Word, fill: number): Word {
  const d = word(ctx);
  ctx.body.emit(null, "prmt.b32", d, bytes, constant(ctx, fill), imm(0x4140));
  return d;
}

const packed = (ctx: Context, mnemonic: string, a: Word, b: Word): Word => {
  const d = word(ctx);
  ctx.body.emitAny(null, mnemonic, [d, a, b]);
  return d;
};

const masked = (ctx: Context, from: Word, mask: number, bits: number): Word => {
  const [kept, d] = [word(ctx), word(ctx)];
  ctx.body.emit(null, "and.b32", kept, from, imm(mask));
  ctx.body.emit(null, "or.b32", d, kept, imm(bits));
  return d;
};

/** An unsigned byte u under the exponent of 1024 in f16 is 1024 + u; so much is taken away again, and of signed ones, whose sign bit is turned over, 128 more. */
const integerToF16 =
  (signed: boolean): Widen =>
  (ctx, bytes) => {
    const unsigned = signed ? word(ctx) : bytes;
    if (signed) ctx.body.emit(null, "xor.b32", unsigned, bytes, imm(0x8080));
    const biased = spread(ctx, unsigned, 0x64646464);
    return packed(ctx, "sub.rn.f16x2", biased, constant(ctx, signed ? 0x64806480 : 0x64006400));
  };

/** Under the exponent of 128 in bf16 the low 7 bits u are 128 + u, and the top bit alone is 128 or 256: which is taken away, or (after 256) added. */
const integerToBf16 =
  (signed: boolean): Widen =>
  (ctx, bytes) => {
    const halves = spread(ctx, bytes, 0);
    const low = masked(ctx, halves, 0x007f007f, 0x43004300);
    const top = masked(ctx, halves, 0x00800080, 0x43004300);
    if (signed) return packed(ctx, "sub.rn.bf16x2", low, top);
    return packed(ctx, "add.rn.bf16x2", packed(ctx, "sub.rn.bf16x2", low, constant(ctx, 0x43804380)), top);
  };

const floatToF16 =
  (dtype: "e4m3" | "e5m2"): Widen =>
  (ctx, bytes) => {
    const [half, d] = [ctx.entry.reg("b16", "fh"), word(ctx)];
    ctx.body.emitAny(null, "cvt.u16.u32", [half, bytes]);
    ctx.body.emitAny(null, `cvt.rn.f16x2.${dtype}x2`, [d, half]);
    return d;
  };

/** By f16 and f32, of which all that is not 0 lies in the upper half. */
const floatToBf16 =
  (dtype: "e4m3" | "e5m2"): Widen =>
  (ctx, bytes) => {
    const pair = floatToF16(dtype)(ctx, bytes);
    const halves = [ctx.entry.reg("b16", "fh"), ctx.entry.reg("b16", "fh")] as const;
    ctx.body.emitAny(null, "mov.b32", [vec(...halves), pair]);
    const [low, high] = halves.map((half): Word => {
      const [value, bits] = [ctx.entry.reg("f32", "fv"), word(ctx)];
      ctx.body.emitAny(null, "cvt.f32.f16", [value, half]);
      ctx.body.emit(null, "mov.b32", bits, value);
      return bits;
    });
    const d = word(ctx);
    if (low && high) ctx.body.emit(null, "prmt.b32", d, low, high, imm(0x7632));
    return d;
  };

const widenings: Readonly<Partial<Record<DType, Partial<Record<DType, Widen>>>>> = {
  s8: { f16: integerToF16(true), bf16: integerToBf16(true) },
  u8: { f16: integerToF16(false), bf16: integerToBf16(false) },
  e4m3: { f16: floatToF16("e4m3"), bf16: floatToBf16("e4m3") },
  e5m2: { f16: floatToF16("e5m2"), bf16: floatToBf16("e5m2") },
};

/** Registers of A for the instruction at rows `row` (beside the warpgroup's) and `k` of the chunk. */
export type Fragments = (row: number, k: number) => readonly Reg[];

/** Load and widen the thread's part of a chunk of A: of all `rows` at which an instruction begins, and every step along k. */
export function widenedFragments(
  ctx: Context,
  mma: Mma,
  atom: WarpgroupAtom,
  rows: readonly number[],
): Fragments {
  const { dtype } = bufferOf(ctx.program, mma.a.buffer);
  const widen = must(widenings[dtype]?.[atom.a], "A is of the instruction's dtype or widened (instructions)");
  const own = ownerOf(bufferOf(ctx.program, mma.acc.buffer));
  // Rows are those of the accumulator; four lanes hold two columns each.
  const position = ownedPosition(ctx.values, {
    rows: own.rows,
    cols: [
      { tier: "thread", extent: 4, stride: 1 },
      { tier: "register", extent: PAIR, stride: 1 },
    ],
  });
  const made = new Map<string, readonly Reg[]>();
  for (let k = 0; k < mma.a.extent[1]; k += atom.k)
    for (const row of new Set(rows)) {
      const bytes = PLACES.map(([down, right]): Word => {
        const d = word(ctx);
        const address = sharedAddress(ctx, mma.a, position, row + down, k + right);
        loadRun(ctx, null, "shared", dtype, PAIR, [d], address);
        return d;
      });
      made.set(
        `${row} ${k}`,
        bytes.map((d) => widen(ctx, d)),
      );
    }
  return (row, k) => must(made.get(`${row} ${k}`), "fragments are made of all rows and k steps");
}
