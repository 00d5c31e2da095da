/** Actual against expected values. */

import { type DType, dtypes } from "../dtype.ts";
import { storedType } from "../numerics/scaled.ts";
import { roundTo } from "../numerics/storage.ts";
import { type BatchAxis, batchAxes, batchOffset } from "../problem/batch.ts";
import { type Operand, operandStrides, type Problem } from "../problem.ts";
import type { Expectation } from "./epilogue.ts";
import type { Reference } from "./gemm.ts";
import { type OperandData, valuesOf } from "./multiply.ts";

export interface WorstElement {
  readonly batch: number;
  readonly row: number;
  readonly column: number;
  readonly actual: number;
  readonly expected: number;
  readonly bound: number;
}

export interface Comparison {
  /** Largest |actual - expected|; infinite where one is not finite and the other differs. */
  readonly maxAbs: number;
  /** Largest error over its bound: at most 1 passes. */
  readonly boundRatio: number;
  /** Element of the largest ratio; null when nothing was compared. */
  readonly worst: WorstElement | null;
  /** Elements beyond their bound. */
  readonly failures: number;
  /** Elements that differ from the reference rounded to their dtype, i.e. that are not the best possible value. */
  readonly inexact: number;
}

/** Error over bound. Values that leave the dtype's range may be infinite or the largest finite value. */
function ratioOf(operand: Operand, actual: number, expected: number, bound: number): number {
  if (Object.is(actual, expected) || actual === expected) return 0;
  // An overflow on the way: infinite or NaN, whatever the steps after it make of the one or the other.
  if (!Number.isFinite(bound) && !Number.isFinite(expected))
    return Number.isFinite(actual) ? Number.POSITIVE_INFINITY : 0;
  if (Number.isNaN(expected)) return Number.isNaN(actual) ? 0 : Number.POSITIVE_INFINITY;
  if (!Number.isFinite(bound)) {
    const low = roundTo(operand.dtype, expected, "rz");
    const far = roundTo(operand.dtype, expected, "rn");
    return Object.is(actual, far) ||
      Math.sign(actual) * Math.sign(expected) * Math.abs(actual) >= Math.abs(low)
      ? 0
      : Number.POSITIVE_INFINITY;
  }
  const error = Math.abs(actual - expected);
  if (!Number.isFinite(error)) return Number.POSITIVE_INFINITY;
  return error === 0 ? 0 : error / bound;
}

/** Integers end at the ends of their range, and so does what is expected of them: that makes no error larger. Null where a dtype has no such ends. */
function rangeOf(dtype: DType): { readonly least: number; readonly most: number } | null {
  if (dtypes[dtype].kind !== "int") return null;
  return {
    least: roundTo(dtype, Number.NEGATIVE_INFINITY),
    most: roundTo(dtype, Number.POSITIVE_INFINITY),
  };
}

/** What a conversion to integers makes of it (PTX ISA, cvt: NaN becomes 0). */
const within = ({ least, most }: { readonly least: number; readonly most: number }, x: number): number =>
  Number.isNaN(x) ? 0 : Math.min(most, Math.max(least, x));

/** Compare a matrix in memory with its expected rows. `stride`: elements between the matrices of a batch, or its axes. */
export function compareMatrix(
  operand: Operand,
  data: OperandData,
  expectation: Expectation,
  shape: {
    readonly rows: readonly number[];
    readonly columns: number;
    readonly stride: number | readonly BatchAxis[];
  },
): Comparison {
  const actuals = valuesOf(storedType(operand.dtype), data);
  const [rowStride, columnStride] = operandStrides(operand);
  const { rows, columns, stride } = shape;
  const range = rangeOf(operand.dtype);
  const size = rows.length * columns;
  let maxAbs = 0;
  let boundRatio = 0;
  let worst: WorstElement | null = null;
  let failures = 0;
  let inexact = 0;
  const starts = new Map<number, number>();
  const startOf = (batch: number): number => {
    const start = typeof stride === "number" ? batch * stride : batchOffset(stride, batch);
    starts.set(batch, start);
    return start;
  };
  for (let i = 0; i < expectation.values.length; i++) {
    const batch = Math.floor(i / size);
    const row = rows[Math.floor((i % size) / columns)] ?? 0;
    const column = i % columns;
    const start = starts.get(batch) ?? startOf(batch);
    const actual = actuals[start + row * rowStride + column * columnStride] ?? Number.NaN;
    const exact = expectation.values[i] ?? 0;
    const expected = range === null ? exact : within(range, exact);
    const bound = expectation.bounds[i] ?? 0;
    const ratio = ratioOf(operand, actual, expected, bound);
    const error = ratio === 0 && !Number.isFinite(actual - expected) ? 0 : Math.abs(actual - expected);
    maxAbs = Math.max(maxAbs, Number.isNaN(error) ? Number.POSITIVE_INFINITY : error);
    if (ratio > 1) failures++;
    if (actual !== roundTo(operand.dtype, expected)) inexact++;
    if (worst === null || ratio > boundRatio) {
      worst = { batch, row, column, actual, expected, bound };
      boundRatio = ratio;
    }
  }
  return { maxAbs, boundRatio, worst, failures, inexact };
}

/** Compare D in memory (whole batch) with the reference. */
export function compareWithBound(problem: Problem, d: OperandData, reference: Reference): Comparison {
  const stride = batchAxes(problem, "d");
  return compareMatrix(problem.d, d, reference.d, { rows: reference.places, columns: problem.n, stride });
}
