/** Factors of sums that are promoted: each thread loads those of its own rows and columns, and finds them by the element of its accumulator. */
import {
  arrayAddress,
  CannotLower,
  type Context,
  elementGuard,
  type GlobalArray,
  loadRun,
  ownedPosition,
  ownedTile,
  ownerOf,
  type Reg,
  type StmtOf,
  type ThreadCoord,
} from "@tilewright/codegen";
import { BLOCK_SCALE, type BlockFactors, blockFactors } from "@tilewright/core";
import { bufferOf, type Expr, lit, type OwnedRegister, type View } from "@tilewright/ir";
import { f32imm } from "@tilewright/ptx";

/** Bytes of a factor. */
const BYTES = 4;

/** Out of memory; what lies outside of the matrix is 0. Neighbours are loaded together where they can be. */
export function loadFactors(ctx: Context, copy: StmtOf<"copy">): void {
  const side = copy.src.buffer === "SFA" ? "a" : "b";
  const factors = blockFactors(ctx.program.problem, side);
  if (factors === null) throw new CannotLower(`%${copy.src.buffer}`, "is no matrix of factors in f32");
  const tile = ownedTile(ctx, copy.dst.buffer, 0);
  const position = ownedPosition(ctx.values, ownerOf(bufferOf(ctx.program, copy.dst.buffer)));
  const array: GlobalArray = {
    name: `sf${side}`,
    rowStride: BYTES * factors.strides[0],
    colStride: BYTES * factors.strides[1],
    batchStride: BYTES * factors.stride,
  };
  const [shared, origin] = tileRow(ctx, copy.src.origin[0]);
  const row = shared === null ? position.row : moved(ctx, position.row, shared);
  const src: View = { ...copy.src, origin: [origin, copy.src.origin[1]] };
  for (let run = 0; run < copy.dst.extent[1]; run++) {
    const column = tile.elements.filter(({ col }) => col === run);
    const width = pairable(factors, column) ? 2 : 1;
    for (let i = 0; i < column.length; i += width) {
      const registers = column.slice(i, i + width).map(({ register }) => tile.at(register));
      const at = column[i]?.row ?? 0;
      const guard = elementGuard(ctx, src, copy.guard, { ...position, row }, at, run);
      if (guard !== null) for (const register of registers) ctx.emitAny(null, "mov.f32", register, f32imm(0));
      if (guard === "outside") continue;
      const address = arrayAddress(ctx, array, src.origin, { ...position, row }, at, run);
      loadRun(ctx, guard, "global", "f32", width, registers, address);
    }
  }
}

/** Those that were asked for a chunk before. */
export function takeFactors(ctx: Context, { dst, src }: StmtOf<"copy">): void {
  const [to, from] = [ownedTile(ctx, dst.buffer, 0), ownedTile(ctx, src.buffer, 0)];
  to.registers.forEach((register, i) => {
    ctx.emitAny(null, `mov.${to.type}`, register, from.registers[i] ?? register);
  });
}

/** The factor of an accumulator's element along an axis. */
export function factorsOf(ctx: Context, acc: View, view: View, axis: 0 | 1): (element: OwnedRegister) => Reg {
  const tile = ownedTile(ctx, view.buffer, 0);
  const each = acc.extent[axis] / view.extent[0];
  const run = ctx.constant(view.origin[1], "run");
  const column = new Map(
    tile.elements.filter(({ col }) => col === run).map((e) => [e.row, tile.at(e.register)] as const),
  );
  return ({ row, col }) => {
    const register = column.get(Math.floor((axis === 0 ? row : col) / each));
    if (!register) throw new CannotLower("accumulate", "an element has no factor");
    return register;
  };
}

/** Whether factors of neighbouring columns are loaded together: they begin at multiples of 8 bytes in every run along k. */
const pairable = ({ strides }: BlockFactors, column: readonly OwnedRegister[]): boolean =>
  strides[0] === 1 &&
  strides[1] % 2 === 0 &&
  column.length % 2 === 0 &&
  column.every(({ row }, i) => (i % 2 === 0 ? row % 2 === 0 : row === (column[i - 1]?.row ?? 0) + 1));

const moved = (ctx: Context, { key, reg }: ThreadCoord, by: Reg<"u32">): ThreadCoord => ({
  key: `${by.name}+${key}`,
  reg: reg === null ? by : ctx.values.sum(by, reg),
  bits: null,
});

/** A tile's first row of factors: a register where several tiles lie under one, and what is affine. */
function tileRow(ctx: Context, origin: Expr): readonly [Reg<"u32"> | null, Expr] {
  const folded = ctx.fold(origin);
  if (folded.kind !== "div") return [null, folded];
  if (folded.lhs.kind !== "var")
    throw new CannotLower("mma", `a tile's factors begin at its number over a part of ${BLOCK_SCALE}`);
  const tile = ctx.tileVars.get(folded.lhs.name);
  if (tile?.reg == null) return [null, lit(0)];
  return [ctx.values.divide(tile.reg, folded.divisor), lit(0)];
}
