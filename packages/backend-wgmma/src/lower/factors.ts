/** Factors of sums that are promoted: each thread loads those of its own rows and columns, and finds them by the element of its accumulator. */
import {
  arrayAddress,
  axisIndex,
  CannotLower,
  type Context,
  elementGuard,
  type GlobalArray,
  globalArray,
  loadRun,
  NOWHERE,
  ownedPosition,
  ownedTile,
  ownerOf,
  type Reg,
  type StmtOf,
  sharedAddress,
  type ThreadCoord,
  type ThreadPosition,
} from "@tilewright/codegen";
import { bufferOf, lit, type OwnedRegister, type View } from "@tilewright/ir";
import { type AddressOperand, f32imm, imm } from "@tilewright/ptx";

/** Bytes of a factor. */
const BYTES = 4;

/** Out of memory; what lies outside of the matrix is 0. Neighbours are loaded together where they can be. */
export function loadFactors(ctx: Context, copy: StmtOf<"copy">): void {
  const tile = ownedTile(ctx, copy.dst.buffer, 0);
  const position = ownedPosition(ctx.values, ownerOf(bufferOf(ctx.program, copy.dst.buffer)));
  const array = globalArray(ctx, copy.src.buffer);
  const { src, dst } = copy;
  const first = ctx.constant(dst.origin[0], "factors");
  for (let run = 0; run < dst.extent[1]; run++) {
    const column = tile.elements
      .filter(({ col, row }) => col === run && row >= first && row < first + dst.extent[0])
      .map((element) => ({ ...element, row: element.row - first }));
    const width = beginsEven(ctx, src) && pairable(array, column) ? 2 : 1;
    for (let i = 0; i < column.length; i += width) {
      const registers = column.slice(i, i + width).map(({ register }) => tile.at(register));
      const at = column[i]?.row ?? 0;
      const guard = elementGuard(ctx, src, copy.guard, position, at, run);
      if (guard !== null) for (const register of registers) ctx.emitAny(null, "mov.f32", register, f32imm(0));
      if (guard === "outside") continue;
      const address = addressOf(ctx, array, src, position, at, run);
      loadRun(ctx, guard, "global", "f32", width, registers, address);
    }
  }
}

/** Where a factor lies: rows that share one count as one. */
function addressOf(
  ctx: Context,
  array: GlobalArray,
  { buffer, origin }: View,
  position: ThreadPosition,
  row: number,
  run: number,
): AddressOperand {
  const { runs = 1 } = bufferOf(ctx.program, buffer).layout?.interleaved ?? {};
  if (runs === 1) return arrayAddress(ctx, array, origin, position, row, run);
  const { constant, terms } = ctx.linear(origin[0]);
  const index = axisIndex(ctx, terms, position.row);
  const whole = Math.floor((constant + row) / runs);
  if (index === null)
    return arrayAddress(ctx, array, [lit(whole), origin[1]], { ...position, row: NOWHERE }, 0, run);
  const rest = (constant + row) % runs;
  const from = rest === 0 ? index : ctx.values.sum(index, imm(rest));
  const at: ThreadCoord = { key: `${from.name}/${runs}`, reg: ctx.values.divide(from, runs), bits: null };
  return arrayAddress(ctx, array, [lit(whole), origin[1]], { ...position, row: at }, 0, run);
}

/** Out of shared memory, to which they came with the chunk. */
export function readFactors(ctx: Context, copy: StmtOf<"copy">): void {
  const tile = ownedTile(ctx, copy.dst.buffer, 0);
  const position = ownedPosition(ctx.values, ownerOf(bufferOf(ctx.program, copy.dst.buffer)));
  for (let run = 0; run < copy.dst.extent[1]; run++) {
    const column = tile.elements.filter(({ col }) => col === run);
    const width = isPaired(column) ? 2 : 1;
    for (let i = 0; i < column.length; i += width) {
      const registers = column.slice(i, i + width).map(({ register }) => tile.at(register));
      const address = sharedAddress(ctx, copy.src, position, column[i]?.row ?? 0, run);
      loadRun(ctx, null, "shared", "f32", width, registers, address);
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
  const [first, run] = view.origin.map((from) => ctx.constant(from, "factors"));
  const column = new Map(
    tile.elements.filter(({ col }) => col === run).map((e) => [e.row, tile.at(e.register)] as const),
  );
  return ({ row, col }) => {
    const register = column.get((first ?? 0) + Math.floor((axis === 0 ? row : col) / each));
    if (!register) throw new CannotLower("accumulate", "an element has no factor");
    return register;
  };
}

/** Whether a view begins at an even row in every tile: not of a second factor of an odd number of columns. */
function beginsEven(ctx: Context, { origin }: View): boolean {
  const { constant, terms } = ctx.linear(origin[0]);
  return [constant, ...terms.values()].every((each) => each % 2 === 0);
}

/** Whether factors of neighbouring columns are loaded together: they begin at multiples of 8 bytes in every run along k. */
const pairable = ({ rowStride, colStride }: GlobalArray, column: readonly OwnedRegister[]): boolean =>
  rowStride === BYTES && typeof colStride === "number" && colStride % (2 * BYTES) === 0 && isPaired(column);

/** Whether every other one is followed by its neighbour. */
const isPaired = (column: readonly OwnedRegister[]): boolean =>
  column.length % 2 === 0 &&
  column.every(({ row }, i) => (i % 2 === 0 ? row % 2 === 0 : row === (column[i - 1]?.row ?? 0) + 1));
