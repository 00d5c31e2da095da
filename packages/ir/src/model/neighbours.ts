/**
 * What kernels that were timed at near problems say of a candidate: each has a residual, the logarithm of its time over its prediction, and a candidate's is the mean of a Gaussian process through them.
 * Covariance falls with the squared distance of problems (octaves of m, n and k) and of kernels (octaves of tile, stages and split, and what else a schedule decides).
 */
import { dtypes, type Problem } from "@tilewright/core";
import type { ModelKernel } from "./kernel.ts";
import { solved } from "./linearSystem.ts";

export interface Neighbour {
  /** Kernels of another way of multiplying say nothing. */
  readonly way: string;
  readonly sizes: readonly number[];
  readonly shape: readonly number[];
  readonly residual: number;
}

/** Of neighbours of one way the weight of each, so that a candidate's residual is their sum by covariance. */
export interface Neighbourhood {
  readonly sizes: readonly number[];
  readonly ways: ReadonlyMap<string, readonly (Neighbour & { readonly weight: number })[]>;
}

/** Octaves of a size, and of a tile's side, over which what is seen says 1/e^0.5; residuals between like kernels, and what is left of one's own where it is timed again and where sizes fill tiles otherwise [kernels of 262 problems, each left out: docs/perf/model.md]. */
const SIZES = 0.7;
const SHAPES = 0.7;
const SPREAD = 0.06;
const NOISE = 0.06;
/** Least and most of what neighbours add to the logarithm. */
const neighbourRange = { least: -0.2, most: 0.2 } as const;

const sizesOf = ({ m, n, k }: Problem): readonly number[] => [m, n, k].map(Math.log2);

/** Which kernels compare, and by what they differ. */
const wayOf = ({ engine, copyVector, through, swapped }: ModelKernel): string =>
  `${engine} ${copyVector !== null} ${through} ${swapped}`;
const shapeOf = (
  { a }: Problem,
  { tile, stages, split, multicast, sched, residents }: ModelKernel,
): readonly number[] => [
  Math.log2(tile[0]),
  Math.log2(tile[1]),
  Math.log2((tile[2] * dtypes[a.dtype].bits) / 8),
  Math.log2(stages),
  Math.log2(split),
  multicast[0] * multicast[1] - 1,
  sched === "tiles" ? 0 : 1,
  residents / 2,
];

export const neighbourOf = (problem: Problem, kernel: ModelKernel, residual: number): Neighbour => ({
  ...{ way: wayOf(kernel), sizes: sizesOf(problem), shape: shapeOf(problem, kernel), residual },
});

function squares(x: readonly number[], y: readonly number[], scale: number): number {
  return x.reduce((sum, value, i) => sum + ((value - (y[i] ?? 0)) / scale) ** 2, 0);
}

/** Between one place and another, at most 1. */
const covariance = (x: Pick<Neighbour, "sizes" | "shape">, y: Pick<Neighbour, "sizes" | "shape">): number =>
  Math.exp(-0.5 * (squares(x.sizes, y.sizes, SIZES) + squares(x.shape, y.shape, SHAPES)));

/** Weights of some neighbours of a problem. */
export function neighbourhood(problem: Problem, all: readonly Neighbour[]): Neighbourhood {
  const ways = new Map<string, (Neighbour & { weight: number })[]>();
  for (const one of all) {
    const own = ways.get(one.way) ?? [];
    own.push({ ...one, weight: 0 });
    ways.set(one.way, own);
  }
  for (const own of ways.values()) {
    const noise = (NOISE / SPREAD) ** 2;
    const rows = own.map((x, i) => own.map((y, j) => covariance(x, y) + (i === j ? noise : 0)));
    const weights = solved(
      rows,
      own.map(({ residual }) => residual),
    );
    for (const [i, one] of own.entries()) one.weight = weights[i] ?? 0;
  }
  return { sizes: sizesOf(problem), ways };
}

/** What neighbours add to the logarithm of a candidate's predicted time; 0 without any of its way. */
export function residualBy({ sizes, ways }: Neighbourhood, problem: Problem, kernel: ModelKernel): number {
  const own = ways.get(wayOf(kernel));
  if (own === undefined) return 0;
  const place = { sizes, shape: shapeOf(problem, kernel) };
  const sum = own.reduce((total, one) => total + one.weight * covariance(place, one), 0);
  return Math.min(neighbourRange.most, Math.max(neighbourRange.least, sum));
}
