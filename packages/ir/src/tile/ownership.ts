/**
 * Who holds and who moves which element: arithmetic on `Ownership` (register tiles) and `Distribution` (shared copies).
 * Every consumer (layout choice, verifiers, address generation, planner) asks here.
 */
import type { Distribution, Ownership, OwnershipMode, Tier } from "./types.ts";

/** Position of a thread and a register in the tiers of a block; missing tiers are 0. */
export type TierIndex = Partial<Readonly<Record<Tier, number>>>;

/** A factor with the weight of its coordinate along the axis: the product of the extents inside it. */
export interface WeightedMode extends OwnershipMode {
  readonly weight: number;
}

/** Factors, outermost first, with their weights. */
export function weighted(factors: readonly OwnershipMode[]): readonly WeightedMode[] {
  let weight = 1;
  const out: WeightedMode[] = [];
  for (const factor of [...factors].reverse()) {
    out.unshift({ ...factor, weight });
    weight *= factor.extent;
  }
  return out;
}

/** Coordinate along one axis of what the given tier indices hold. */
export function modeCoordinate(factors: readonly OwnershipMode[], at: TierIndex): number {
  let [sum, weight] = [0, 1];
  for (let i = factors.length - 1; i >= 0; i--) {
    const factor = factors[i];
    if (factor === undefined) continue;
    sum += (Math.floor((at[factor.tier] ?? 0) / factor.stride) % factor.extent) * weight;
    weight *= factor.extent;
  }
  return sum;
}

/** Register, thread of the role and, of a pair, CTA (`block`): those that have an element are the sums of what its row and its column say. */
interface Owner {
  readonly register: number;
  readonly thread: number;
  readonly block: number;
}

/** What each coordinate along an axis says of the owner; of several owners it is the first. */
export function ownersAlong(factors: readonly OwnershipMode[], extent: number): readonly Owner[] {
  const all = weighted(factors);
  return Array.from({ length: extent }, (_, at) => {
    const index = (tier: Tier): number =>
      all.reduce(
        (sum, f) => (f.tier === tier ? sum + (Math.floor(at / f.weight) % f.extent) * f.stride : sum),
        0,
      );
    return {
      register: index("register"),
      thread: 128 * index("warpgroup") + 32 * index("warp") + index("thread"),
      block: index("cluster"),
    };
  });
}

/**
 * The column factors of a register tile in two: those within groups of `group` columns, and those that number the groups; null where no factors make up a group. Where
 * a group lies in several warps: null as well.
 */
export function groupedColumns(
  { cols }: Ownership,
  group: number,
): { readonly inner: readonly OwnershipMode[]; readonly outer: readonly OwnershipMode[] } | null {
  const [inner, outer]: [OwnershipMode[], OwnershipMode[]] = [[], []];
  let left = group;
  for (const factor of [...cols].reverse()) {
    const { extent, stride, tier } = factor;
    const [large, small] = extent > left ? [extent, left] : [left, extent];
    if (large % small !== 0) return null;
    const within = Math.min(extent, left);
    if (within > 1 && tier !== "register" && tier !== "thread") return null;
    if (within > 1) inner.unshift({ ...factor, extent: within });
    if (extent > within) outer.unshift({ ...factor, extent: extent / within, stride: stride * within });
    left /= within;
  }
  return left === 1 ? { inner, outer } : null;
}

/** One register of a tile: its number and the constant part of its coordinates. */
export interface OwnedRegister {
  readonly register: number;
  readonly row: number;
  readonly col: number;
}

/** The registers that one thread holds, rows outermost, in ascending coordinate order. */
export function ownedRegisters(own: Ownership): readonly OwnedRegister[] {
  const rows = registerSteps(own.rows);
  const cols = registerSteps(own.cols);
  return rows.flatMap((r) =>
    cols.map((c) => ({ register: r.register + c.register, row: r.offset, col: c.offset })),
  );
}

/** Every combination of an axis's register factors: (register number contribution, coordinate offset), ascending by offset. */
export function registerSteps(
  factors: readonly OwnershipMode[],
): readonly { readonly register: number; readonly offset: number }[] {
  let steps = [{ register: 0, offset: 0 }];
  for (const f of weighted(factors)) {
    if (f.tier !== "register") continue;
    steps = steps.flatMap((s) =>
      Array.from({ length: f.extent }, (_, i) => ({
        register: s.register + i * f.stride,
        offset: s.offset + i * f.weight,
      })),
    );
  }
  return steps;
}

/** Registers of a tile that one thread holds. */
export const registersPerThread = (own: Ownership): number =>
  [...own.rows, ...own.cols].reduce((n, f) => (f.tier === "register" ? n * f.extent : n), 1);

/** Elements that are neighbours along the axis and in consecutive positions of one thread: the innermost register run. */
export function registerRun(factors: readonly OwnershipMode[]): number {
  let run = 1;
  for (const f of [...factors].reverse()) {
    if (f.extent === 1) continue;
    if (f.tier !== "register") break;
    run *= f.extent;
  }
  return run;
}

/** Factors of a register tile from an axis of the nest: no grid or block factors, registers renumbered to a dense `scale`-strided run. */
export function ownedAxis(factors: readonly OwnershipMode[], scale: number): readonly OwnershipMode[] {
  const inside = factors.filter((f) => f.tier !== "grid" && f.tier !== "block" && f.tier !== "cluster");
  let stride = scale;
  const out: OwnershipMode[] = [];
  for (const f of [...inside].reverse()) {
    if (f.tier !== "register") out.unshift(f);
    else {
      out.unshift({ ...f, stride });
      stride *= f.extent;
    }
  }
  return out;
}

/**
 * The owner of one of `slices` equal groups of rows (axis 0) or columns (1): threads hold of it what they held of the whole, in registers without gaps.
 * Throws (a bug) where elements of a slice would be other threads': the outermost factors of the axis are not registers'.
 */
export function sliceOwner(own: Ownership, axis: 0 | 1, slices: number): Ownership {
  let left = slices;
  const fewer = (axis === 0 ? own.rows : own.cols).map((f): OwnershipMode => {
    if (left === 1 || f.extent === 1) return f;
    if (f.tier !== "register") throw new TypeError(`${slices} slices lie in different threads`);
    const cut = f.extent % left === 0 ? left : f.extent;
    if (left % cut !== 0) throw new TypeError(`${slices} slices cut ${f.extent} groups of registers`);
    left /= cut;
    return { ...f, extent: f.extent / cut };
  });
  const [rows, cols] = axis === 0 ? [fewer, own.cols] : [own.rows, fewer];
  // Registers are numbered anew, in the order of the old numbers.
  const strides = new Map<number, number>();
  let next = 1;
  const registers = [...rows, ...cols].filter((f) => f.tier === "register" && f.extent > 1);
  for (const { stride, extent } of registers.sort((a, b) => a.stride - b.stride)) {
    strides.set(stride, next);
    next *= extent;
  }
  const renumbered = (f: OwnershipMode): OwnershipMode =>
    f.tier === "register" ? { ...f, stride: strides.get(f.stride) ?? 1 } : f;
  const whole = (f: OwnershipMode): boolean => f.extent > 1;
  return { rows: rows.filter(whole).map(renumbered), cols: cols.filter(whole).map(renumbered) };
}

/** A distribution over a tile: the grid of vectors, and how often the grid of threads is laid over it. */
export interface DistributionGrid {
  /** Vectors along the fastest axis and across it. */
  readonly inner: number;
  readonly outer: number;
  /** Steps of a thread along each; their product is the number of vectors that a thread moves at most. */
  readonly innerSteps: number;
  readonly outerSteps: number;
}

export function distributionGrid(dist: Distribution, extent: readonly [number, number]): DistributionGrid {
  const inner = extent[dist.fastest] / dist.vector;
  const outer = extent[dist.fastest === 0 ? 1 : 0];
  return {
    inner,
    outer,
    innerSteps: Math.ceil(inner / dist.along),
    outerSteps: Math.ceil(outer / (dist.threads / dist.along)),
  };
}

/** Vectors that one thread moves at most. */
export function vectorsPerThread(dist: Distribution, extent: readonly [number, number]): number {
  const { innerSteps, outerSteps } = distributionGrid(dist, extent);
  return innerSteps * outerSteps;
}

/** First element of the vector that a thread moves in step (i, o); null when it lies outside the tile. */
export function distributedVector(
  dist: Distribution,
  extent: readonly [number, number],
  thread: number,
  step: readonly [i: number, o: number],
): readonly [row: number, col: number] | null {
  const { inner, outer } = distributionGrid(dist, extent);
  const x = (thread % dist.along) + dist.along * step[0];
  const y = Math.floor(thread / dist.along) + (dist.threads / dist.along) * step[1];
  if (x >= inner || y >= outer) return null;
  return dist.fastest === 1 ? [y, x * dist.vector] : [x * dist.vector, y];
}

/** A sector of global memory is 32 bytes; rows of threads shorter than that would fetch it more than once. */
const SECTOR_BYTES = 32;

/** Vectors of a row of `rowBytes` that a thread may move, of `pieces` asked: what its neighbours move is whole sectors still. */
export const vectorsOf = (pieces: number, rowBytes: number): number =>
  Math.max(1, Math.min(pieces, Math.floor(rowBytes / SECTOR_BYTES)));

/**
 * Threads to put side by side along the fastest axis: whole sectors at least, then the fewest steps, then the longest row.
 * Any number that divides the threads works for any tile, at worst with some of them idle in the last step. With `pieces` above 1 shorter rows are better,
 * down to where a thread moves so many vectors of a row.
 */
export function distribute(
  threads: number,
  extent: readonly [number, number],
  fastest: 0 | 1,
  vector: number,
  elementBytes: number,
  pieces = 1,
): Distribution {
  const inner = extent[fastest] / vector;
  const sector = Math.min(inner, SECTOR_BYTES / (vector * elementBytes));
  let best: Distribution = { threads, along: threads, vector, fastest };
  const together = ({ along }: Distribution): number => Math.min(pieces, Math.ceil(inner / along));
  for (let along = threads; along >= 1; along--) {
    if (threads % along !== 0 || along < sector) continue;
    const candidate: Distribution = { threads, along, vector, fastest };
    const [steps, least] = [vectorsPerThread(candidate, extent), vectorsPerThread(best, extent)];
    if (steps < least || (steps === least && together(candidate) > together(best))) best = candidate;
  }
  return best;
}
