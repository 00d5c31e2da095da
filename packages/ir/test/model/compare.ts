/** Predictions beside figures: ratios and rank correlation. */
import { type DType, defineProblem } from "@tilewright/core";
import { predict } from "../../src/index.ts";
import { type ModelKernel, machines, type Prediction } from "../../src/model/index.ts";
import type { Ladder } from "./ladders.ts";
import type { Measured } from "./measured.ts";

export interface Point {
  readonly name: string;
  /** TFLOP/s. */
  readonly figure: number;
  readonly prediction: Prediction;
}

export const ratioOf = ({ figure, prediction }: Point): number => prediction.tflops / figure;

/** Ranks from 1; equal values share the mean of theirs. Values within a thousandth are equal. */
function ranks(values: readonly number[]): readonly number[] {
  const equal = (x: number, y: number): boolean => Math.abs(x - y) <= 1e-3 * Math.max(x, y);
  return values.map((x) => {
    const below = values.filter((y) => y < x && !equal(x, y)).length;
    return below + (values.filter((y) => equal(x, y)).length + 1) / 2;
  });
}

/** Spearman's rank correlation of figures and predictions; null where either has no two different values. */
export function rankCorrelation(points: readonly Point[]): number | null {
  const x = ranks(points.map(({ figure }) => figure));
  const y = ranks(points.map(({ prediction }) => prediction.tflops));
  const mean = (points.length + 1) / 2;
  const sum = (u: readonly number[], v: readonly number[]): number =>
    u.reduce((total, value, i) => total + (value - mean) * ((v[i] ?? 0) - mean), 0);
  const spread = Math.sqrt(sum(x, x) * sum(y, y));
  return spread === 0 ? null : sum(x, y) / spread;
}

/** Middle of the sorted values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((x, y) => x - y);
  return ((sorted[(sorted.length - 1) >> 1] ?? 0) + (sorted[sorted.length >> 1] ?? 0)) / 2;
}

/** How far off, as a factor of at least 1. */
export const factorOf = (point: Point): number => Math.max(ratioOf(point), 1 / ratioOf(point));

function predicted(
  gpu: string,
  [m, n, k]: readonly [number, number, number],
  dtype: DType,
  dDtype: DType | null,
  kernel: ModelKernel,
): Prediction {
  const machine = machines.find((each) => each.gpu === gpu);
  if (machine === undefined) throw new RangeError(`no machine ${gpu}`);
  const d = dDtype === null ? {} : { d: { dtype: dDtype } };
  const problem = defineProblem({ m, n, k, a: { dtype }, b: { dtype, layout: "col" }, ...d });
  if (!problem.ok) throw new TypeError(problem.error.map(({ message }) => message).join("; "));
  return predict(problem.value, kernel, machine);
}

export const pointsOf = ({ gpu, dtype, steps }: Ladder): readonly Point[] =>
  steps.map(({ name, size, published, kernel }) => ({
    name,
    figure: published,
    prediction: predicted(gpu, size, dtype, null, kernel),
  }));

/** Points of one size of a table, row by row; rows without a figure are left out. */
export const columnOf = ({ rows, sizes, cublas, dtype }: Measured, column: number): readonly Point[] =>
  rows.flatMap(([name, ratios, kernel]) => {
    const [size, ratio, peer] = [sizes[column], ratios[column], cublas[column]];
    if (size === undefined || peer === undefined || ratio === undefined || ratio === null) return [];
    return [{ name, figure: ratio * peer, prediction: predicted("H200", size, dtype, dtype, kernel) }];
  });
