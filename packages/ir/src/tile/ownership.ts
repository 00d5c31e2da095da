/**
 * Who holds and who moves which element: arithmetic on `Ownership` (register tiles) and `Distribution` (shared copies).
 * Every consumer (layout choice, verifiers, address generation, planner) asks here.
 */
import type { Distribution, Factor, Ownership, Tier } from "./types.ts";

/** Position of a thread and a register in the tiers of a block; missing tiers are 0. */
export type TierIndex = Partial<Readonly<Record<Tier, number>>>;

/** A factor with the weight of its coordinate along the axis: the product of the extents inside it. */
export interface WeightedFactor extends Factor {
  readonly weight: number;
}

/** Factors, outermost first, with their weights. */
export function weighted(factors: readonly Factor[]): readonly WeightedFactor[] {
  let weight = 1;
  const out: WeightedFactor[] = [];
  for (const factor of [...factors].reverse()) {
    out.unshift({ ...factor, weight });
    weight *= factor.extent;
  }
  return out;
}

/** Coordinate along one axis of what the given tier indices hold. */
export const factorCoordinate = (factors: readonly Factor[], at: TierIndex): number =>
  weighted(factors).reduce(
    (sum, f) => sum + (Math.floor((at[f.tier] ?? 0) / f.stride) % f.extent) * f.weight,
    0,
  );

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
  factors: readonly Factor[],
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
export function registerRun(factors: readonly Factor[]): number {
  let run = 1;
  for (const f of [...factors].reverse()) {
    if (f.extent === 1) continue;
    if (f.tier !== "register") break;
    run *= f.extent;
  }
  return run;
}

/** Factors of a register tile from an axis of the nest: no grid or block factors, registers renumbered to a dense `scale`-strided run. */
export function ownedAxis(factors: readonly Factor[], scale: number): readonly Factor[] {
  const inside = factors.filter((f) => f.tier !== "grid" && f.tier !== "block" && f.tier !== "cluster");
  let stride = scale;
  const out: Factor[] = [];
  for (const f of [...inside].reverse()) {
    if (f.tier !== "register") out.unshift(f);
    else {
      out.unshift({ ...f, stride });
      stride *= f.extent;
    }
  }
  return out;
}

/** Vectors of a copy in all, and the most that one thread moves. */
export function distributionCounts(
  dist: Distribution,
  extent: readonly [number, number],
): { readonly total: number; readonly perThread: number } {
  const total = (extent[0] * extent[1]) / dist.vector;
  return { total, perThread: Math.ceil(total / dist.threads) };
}

/** First element of vector `index` of a copy. */
export function distributedVector(
  dist: Distribution,
  extent: readonly [number, number],
  index: number,
): readonly [row: number, col: number] {
  const along = extent[dist.fastest] / dist.vector;
  const inner = (index % along) * dist.vector;
  const outer = Math.floor(index / along);
  return dist.fastest === 1 ? [outer, inner] : [inner, outer];
}
