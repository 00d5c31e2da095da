/** Fragments of 16 bits from e4m3 in shared memory. */
import {
  type Context,
  loadRun,
  type OwnedTile,
  ownedPosition,
  ownedTile,
  ownerOf,
  type StmtOf,
  sharedAddress,
  type Word,
  widenPair,
} from "@tilewright/codegen";
import { bufferOf, type MatrixLoad } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";

/** Byte 0 of the first operand and of the second above zeros in each half: byte 3 of both is 0 (PTX ISA, prmt: each digit picks a byte of b:a). */
const APART = 0x4303;
/** Bytes 0 and 1 of one operand. */
const TOGETHER = 0x1303;

/** A fragment of 16-bit elements from a tile of bytes: pairs that are neighbours by one load, others by two. */
export function loadWidened(ctx: Context, copy: StmtOf<"copy">): void {
  const [src, dst] = [bufferOf(ctx.program, copy.src.buffer), bufferOf(ctx.program, copy.dst.buffer)];
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
    widenPair(ctx, dst.dtype, halves, tile.at(low.register));
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
  cells.forEach((cell, matrix) => {
    const at = load.apart.reduce((sum, apart, bit) => sum + ((matrix >> bit) & 1) * apart, first);
    COLUMNS.forEach((pick, column) => {
      const halves = ctx.entry.reg("b32", "halves");
      ctx.emit(null, "prmt.b32", halves, cell, imm(0), imm(pick));
      widenPair(ctx, tile.dtype, halves, tile.at((at + column * (load.pair ?? 0)) * tile.packed));
    });
  });
}
