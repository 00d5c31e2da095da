/** Matrix products in f64. */
import { type DType, dtypes } from "../dtype.ts";
import { decodeArray, type Storage } from "../numerics/storage.ts";
import { type Operand, operandStrides } from "../problem.ts";

/** Elements of a matrix in device memory, or their values already decoded (the only form for block-scaled dtypes, whose scales lie elsewhere). */
export type OperandData = Storage;

/** Values of an operand's buffer, in its own order. Throws (a bug) for the raw bytes of a block-scaled dtype. */
export function valuesOf(dtype: DType, data: OperandData): Float64Array {
  if (data instanceof Float64Array) return data;
  if (dtypes[dtype].kind === "scaled")
    throw new TypeError(`${dtype} needs its scales: pass decoded values (decodeScaled)`);
  return decodeArray(dtype, data);
}

/** Throws (a bug): what a problem reads was not given. */
export function missing(what: string): never {
  throw new TypeError(`the reference needs ${what}`);
}

/** Rows `rows` of a matrix, dense and row-major. `offset`: element of its first one. Throws (a bug) when the buffer is too short. */
export function gather(
  operand: Operand,
  values: Float64Array,
  rows: readonly number[],
  columns: number,
  offset: number,
): Float64Array {
  const [rowStride, columnStride] = operandStrides(operand);
  const dense = new Float64Array(rows.length * columns);
  const last =
    offset + rows.reduce((most, row) => Math.max(most, row), 0) * rowStride + (columns - 1) * columnStride;
  if (dense.length > 0 && last >= values.length)
    throw new RangeError(`element ${last} of a matrix whose buffer has ${values.length}`);
  for (let i = 0; i < rows.length; i++) {
    let from = offset + (rows[i] ?? 0) * rowStride;
    for (let j = 0; j < columns; j++, from += columnStride) dense[i * columns + j] = values[from] ?? 0;
  }
  return dense;
}

export interface Product {
  /** sum over k of a*b, rows x n, row-major. */
  readonly sum: Float64Array;
  /** sum over k of |a*b|: the scale of rounding errors. */
  readonly sumAbs: Float64Array;
}

// `as number`: all indices are in range, and `?? 0` costs a third of the speed in this loop.
// Rows of B that are added at once: the row of results is then loaded and stored once for four multiply-adds.
const unroll = 4;

/** A (rows x k) times B (k x n), both dense and row-major. */
export function multiply(a: Float64Array, b: Float64Array, rows: number, n: number, k: number): Product {
  const sum = new Float64Array(rows * n);
  const sumAbs = new Float64Array(rows * n);
  const absB = b.map(Math.abs);
  const out = new Float64Array(n);
  const outAbs = new Float64Array(n);
  for (let i = 0; i < rows; i++) {
    out.fill(0);
    outAbs.fill(0);
    let p = 0;
    for (; p + unroll <= k; p += unroll) {
      const at = i * k + p;
      const a0 = a[at] ?? 0;
      const a1 = a[at + 1] ?? 0;
      const a2 = a[at + 2] ?? 0;
      const a3 = a[at + 3] ?? 0;
      const b0 = p * n;
      const b1 = b0 + n;
      const b2 = b1 + n;
      const b3 = b2 + n;
      for (let j = 0; j < n; j++)
        out[j] =
          (out[j] as number) +
          a0 * (b[b0 + j] as number) +
          a1 * (b[b1 + j] as number) +
          a2 * (b[b2 + j] as number) +
          a3 * (b[b3 + j] as number);
      const m0 = Math.abs(a0);
      const m1 = Math.abs(a1);
      const m2 = Math.abs(a2);
      const m3 = Math.abs(a3);
      for (let j = 0; j < n; j++)
        outAbs[j] =
          (outAbs[j] as number) +
          m0 * (absB[b0 + j] as number) +
          m1 * (absB[b1 + j] as number) +
          m2 * (absB[b2 + j] as number) +
          m3 * (absB[b3 + j] as number);
    }
    for (; p < k; p++) {
      const value = a[i * k + p] ?? 0;
      const magnitude = Math.abs(value);
      for (let j = 0; j < n; j++) {
        out[j] = (out[j] ?? 0) + value * (b[p * n + j] ?? 0);
        outAbs[j] = (outAbs[j] ?? 0) + magnitude * (absB[p * n + j] ?? 0);
      }
    }
    sum.set(out, i * n);
    sumAbs.set(outAbs, i * n);
  }
  return { sum, sumAbs };
}
