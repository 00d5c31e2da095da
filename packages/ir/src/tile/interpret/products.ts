/** Products of dense operands into an accumulator, in the arithmetic of its array. */
import { fmaF32 } from "@tilewright/core";
import type { ValueArray } from "./memory.ts";

/** Rows of A, columns of B, and the elements that they have in common. */
interface Extents {
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** Extents that are multiplied, and those of rows in memory. */
interface Shape extends Extents {
  readonly rowA: number;
  readonly rowB: number;
  /** Distance between neighbouring columns of the accumulator. */
  readonly step: number;
}

type Multiply<T> = (
  out: T,
  rowOf: (i: number) => number,
  a: Float64Array,
  b: Float64Array,
  shape: Shape,
) => void;

/**
 * out += a * b, k ascending for every element; A is row-major m x k, B row-major k x n. Element (i, j) of `out` lies at `rowOf(i) + j * step`. What lies outside
 * the last element that is not zero is left out: tiles reach beyond their matrices, by more than they have of them where these are small.
 */
export function multiplyDense(
  out: ValueArray,
  rowOf: (i: number) => number,
  step: number,
  a: Float64Array,
  b: Float64Array,
  whole: Extents,
): void {
  const changes = hasNegativeZero(out, rowOf, step, whole) ? whole : (extentsThatCount(a, b, whole) ?? whole);
  const shape: Shape = { ...changes, rowA: whole.k, rowB: whole.n, step };
  if (out instanceof Float32Array) multiplyF32(out, rowOf, a, b, shape);
  else if (out instanceof Float64Array) multiplyF64(out, rowOf, a, b, shape);
  else multiplyInt(out, rowOf, a, b, shape);
}

/** Whether adding zero may change an element: -0 + 0 is 0. */
function hasNegativeZero(
  out: ValueArray,
  rowOf: (i: number) => number,
  step: number,
  { m, n }: Extents,
): boolean {
  if (out instanceof Int32Array) return false;
  for (let i = 0; i < m; i++)
    for (let j = 0, d = rowOf(i); j < n; j++, d += step) {
      const x = out[d] ?? 0;
      if (x === 0 && 1 / x < 0) return true;
    }
  return false;
}

/** Up to where A and B have elements other than zero; null where some are no numbers or infinite, times which zero is not zero. */
function extentsThatCount(a: Float64Array, b: Float64Array, { m, n, k }: Extents): Extents | null {
  const inA = lastOf(a, m, k);
  const inB = lastOf(b, k, n);
  return inA && inB && { m: inA.rows, n: inB.columns, k: Math.min(inA.columns, inB.rows) };
}

function lastOf(
  data: Float64Array,
  rows: number,
  columns: number,
): { readonly rows: number; readonly columns: number } | null {
  let [lastRow, lastColumn] = [-1, -1];
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      const x = data[i * columns + j] ?? 0;
      if (x === 0) continue;
      if (!Number.isFinite(x)) return null;
      lastRow = i;
      if (j > lastColumn) lastColumn = j;
    }
  return { rows: lastRow + 1, columns: lastColumn + 1 };
}

// One function per array type, so that each hot loop sees one kind of array.

const multiplyF32: Multiply<Float32Array> = (out, rowOf, a, b, { m, n, k, rowA, rowB, step }) => {
  for (let i = 0; i < m; i++) {
    const first = rowOf(i);
    for (let kk = 0; kk < k; kk++) {
      const x = a[i * rowA + kk] as number;
      for (let j = kk * rowB, last = j + n, d = first; j < last; j++, d += step) {
        const y = b[j] as number;
        const c = out[d] as number;
        const sum = x * y + c;
        const nearest = Math.fround(sum);
        // As in fmaF32: where the sum is an f32, one rounding gives it too. Mostly so of small integers, and here without a call.
        out[d] = sum === nearest ? nearest : fmaF32(x, y, c);
      }
    }
  }
};

const multiplyF64: Multiply<Float64Array> = (out, rowOf, a, b, { m, n, k, rowA, rowB, step }) => {
  for (let i = 0; i < m; i++)
    for (let kk = 0; kk < k; kk++) {
      const x = a[i * rowA + kk] ?? 0;
      let d = rowOf(i);
      for (let j = kk * rowB, last = j + n; j < last; j++, d += step)
        out[d] = (out[d] ?? 0) + x * (b[j] ?? 0);
    }
};

const multiplyInt: Multiply<Int32Array> = (out, rowOf, a, b, { m, n, k, rowA, rowB, step }) => {
  for (let i = 0; i < m; i++)
    for (let kk = 0; kk < k; kk++) {
      const x = a[i * rowA + kk] ?? 0;
      let d = rowOf(i);
      for (let j = kk * rowB, last = j + n; j < last; j++, d += step)
        out[d] = ((out[d] ?? 0) + Math.imul(x, b[j] ?? 0)) | 0;
    }
};
