/** Factors of 128 along k: each thread loads those of its own rows and columns, before the products that they scale. */
import {
  arrayAddress,
  CannotLower,
  type Context,
  elementGuard,
  type GlobalArray,
  loadRun,
  type OwnedTile,
  ownedPosition,
  ownerOf,
  type Reg,
  type StmtOf,
  type ThreadCoord,
  type ThreadPosition,
} from "@tilewright/codegen";
import { BLOCK_SCALE, type BlockFactors, blockFactors } from "@tilewright/core";
import {
  bufferOf,
  type Expr,
  lit,
  type OwnedRegister,
  type OwnershipMode,
  type Range,
  rangeOf,
  sizeRanges,
  type View,
} from "@tilewright/ir";
import { f32imm, imm } from "@tilewright/ptx";

type Mma = StmtOf<"mma">;
type F32 = Reg<"f32">;

/** Bytes of a factor. */
const BYTES = 4;

/** Warps of a warpgroup. */
const WARPS = 4;

const ZERO: ThreadCoord = { key: "0", reg: null, bits: 0 };

/** The factor of an accumulator's element on one side. */
export type FactorOf = (element: OwnedRegister) => F32;

/** Factors that are asked for one chunk ahead; more would take the registers of accumulators. */
export const MOST_AHEAD = 40;

/**
 * The thread's factors of both sides for each of `runs` runs along k of the chunk at hand; what lies outside of the matrix is 0. In a loop over chunks those of
 * the next one are asked for here and those of this one have been by the turn before, so that nothing waits for memory; where they are few enough, and all of k
 * has factors.
 */
export function chunkFactors(
  ctx: Context,
  mma: Mma,
  acc: OwnedTile,
  runs: number,
): readonly { readonly a: FactorOf; readonly b: FactorOf }[] {
  const sides = (["a", "b"] as const).map((side) => sideOf(ctx, mma, side, acc));
  const count = runs * sides.reduce((sum, { keys }) => sum + keys.length, 0);
  const { loop } = ctx;
  const ahead = loop !== null && count <= MOST_AHEAD && sides.every((side) => side.always);
  const all = Array.from({ length: runs }, (_, run) =>
    sides.map((side): FactorOf => {
      const held = side.keys.map(() => ctx.entry.reg("f32", "sf"));
      if (!ahead) side.load(held, run, false);
      else {
        const next = side.keys.map(() => ctx.entry.reg("f32", "sf"));
        ctx.into(loop.pre, () => side.load(next, run, false));
        held.forEach((register, i) => {
          ctx.body.emit(null, "mov.f32", register, next[i] ?? register);
        });
        side.load(next, run, true);
      }
      return side.of(held);
    }),
  );
  return all.map(([a, b]) => {
    if (a === undefined || b === undefined) throw new CannotLower("mma", "factors have two sides");
    return { a, b };
  });
}

interface Side {
  /** One for each factor of the thread's. */
  readonly keys: readonly number[];
  /** Every chunk's factors are there. */
  readonly always: boolean;
  /** Load those of a run of the chunk at hand, or of the one after it, where there is one. */
  load(registers: readonly F32[], run: number, next: boolean): void;
  of(registers: readonly F32[]): FactorOf;
}

function sideOf(ctx: Context, mma: Mma, side: "a" | "b", acc: OwnedTile): Side {
  const factors = blockFactors(ctx.program.problem, side);
  const view = mma.scales?.[side];
  if (factors === null || view === undefined)
    throw new CannotLower("mma", `there are no factors of ${side.toUpperCase()}`);
  const place = placeOf(ctx, mma, side, view);
  const keys = [...new Set(acc.elements.map(place.key))].sort((x, y) => x - y);
  const width = place.each === 1 && pairable(factors, keys) ? 2 : 1;
  return {
    keys,
    always: !leaves(ctx, view, 1),
    load(registers, run, next) {
      for (let i = 0; i < keys.length; i += width)
        load(ctx, { factors, side, view, run, next }, place.at(keys[i] ?? 0), registers.slice(i, i + width));
    },
    of: (registers) => (element) => {
      const register = registers[keys.indexOf(place.key(element))];
      if (!register) throw new CannotLower("mma", "an element has no factor");
      return register;
    },
  };
}

/** Whether a tile's factors can lie outside of their matrix along an axis. */
const leaves = (ctx: Context, view: View, axis: 0 | 1): boolean =>
  rangeOf(ctx.fold(view.origin[axis]), rangesOf(ctx))[1] + view.extent[axis] >
  (bufferOf(ctx.program, view.buffer).shape[axis] ?? 0);

/** Whether factors of neighbouring columns are loaded together: they begin at multiples of 8 bytes in every run along k. */
const pairable = ({ strides }: BlockFactors, keys: readonly number[]): boolean =>
  strides[0] === 1 &&
  strides[1] % 2 === 0 &&
  keys.length % 2 === 0 &&
  keys.every((key, i) => (i % 2 === 0 ? key % 2 === 0 : key === (keys[i - 1] ?? 0) + 1));

interface Place {
  /** Rows (columns) under a factor, inside the tile. */
  readonly each: number;
  /** Elements of one key have one factor. */
  key(element: OwnedRegister): number;
  /** Where the factor of a key lies: the thread's part of its row, and the constant part. */
  at(key: number): { readonly coord: ThreadCoord; readonly row: number };
}

function placeOf(ctx: Context, mma: Mma, side: "a" | "b", view: View): Place {
  const axis = side === "a" ? 0 : 1;
  const own = ownerOf(bufferOf(ctx.program, mma.acc.buffer));
  const size = mma.acc.extent[axis];
  const each = size / view.extent[0];
  const position = ownedPosition(ctx.values, own);
  const coord = axis === 0 ? position.row : position.col;
  const along = (e: OwnedRegister): number => (axis === 0 ? e.row : e.col);
  if (each === 1) return { each, key: along, at: (key) => ({ coord, row: key }) };
  // A warpgroup's part begins at a multiple of this, and squares at multiples of their side: such runs have one factor.
  const group = commonDivisor(each, size / groupsAlong(axis === 0 ? own.rows : own.cols));
  const at = (key: number): { readonly coord: ThreadCoord; readonly row: number } => {
    if (view.extent[0] === 1) return { coord: ZERO, row: 0 };
    const { values } = ctx;
    if (coord.reg === null) return { coord: ZERO, row: Math.floor(key / each) };
    const from = key === 0 ? coord.reg : values.sum(coord.reg, imm(key));
    return {
      coord: { key: `${coord.key}+${key}/${each}`, reg: values.divide(from, each), bits: null },
      row: 0,
    };
  };
  return { each, key: (e) => Math.floor(along(e) / group) * group, at };
}

const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b));

/** Warpgroups that share an axis of the accumulator. */
const groupsAlong = (factors: readonly OwnershipMode[]): number =>
  factors.reduce((count, f) => (f.tier === "warp" && f.stride >= WARPS ? count * f.extent : count), 1);

interface Source {
  readonly factors: BlockFactors;
  readonly side: "a" | "b";
  readonly view: View;
  readonly run: number;
  /** Of the next chunk of the loop. */
  readonly next: boolean;
}

function load(
  ctx: Context,
  { factors, side, view, run, next }: Source,
  { coord, row }: { readonly coord: ThreadCoord; readonly row: number },
  registers: readonly F32[],
): void {
  const [shared, origin] = tileRow(ctx, view.origin[0]);
  const whole: ThreadCoord =
    shared === null
      ? coord
      : {
          key: `${shared.name}+${coord.key}`,
          reg: coord.reg === null ? shared : ctx.values.sum(shared, coord.reg),
          bits: null,
        };
  const position: ThreadPosition = { row: whole, col: ZERO };
  const placed: View = { ...view, origin: [origin, view.origin[1]] };
  const at = next ? run + view.extent[1] : run;
  const guard = elementGuard(
    ctx,
    placed,
    [leaves(ctx, view, 0), next || leaves(ctx, view, 1)],
    position,
    row,
    at,
  );
  if (guard !== null) for (const register of registers) ctx.emit(null, "mov.f32", register, f32imm(0));
  if (guard === "outside") return;
  const array: GlobalArray = {
    name: `sf${side}`,
    rowStride: BYTES * factors.strides[0],
    colStride: BYTES * factors.strides[1],
    batchStride: BYTES * factors.stride,
  };
  const address = arrayAddress(ctx, array, placed.origin, position, row, at);
  loadRun(ctx, guard, "global", "f32", registers.length, registers, address);
}

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

/** What the variables of tiles and of the open loop can be. */
function rangesOf(ctx: Context): ReadonlyMap<string, Range> {
  const ranges = new Map<string, Range>(sizeRanges(ctx.program.problem));
  for (const [name, tile] of ctx.tileVars) ranges.set(name, [tile.least ?? 0, tile.extent - 1]);
  if (ctx.loop) ranges.set(ctx.loop.var, [ctx.loop.from, ctx.loop.to - 1]);
  return ranges;
}
