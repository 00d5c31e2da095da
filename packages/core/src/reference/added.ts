/** What D holds where a launch adds rows of several problems to it. */
import { roundingBound } from "../numerics/bounds.ts";
import type { Problem } from "../problem.ts";
import type { Expectation } from "./epilogue.ts";
import type { Reference } from "./gemm.ts";

/** What has been added to a row: values, their bounds, sums of magnitudes, and how many there are. */
interface Row {
  readonly values: Float64Array;
  readonly bounds: Float64Array;
  readonly sizes: Float64Array;
  readonly sumAbs: Float64Array;
  count: number;
}

/**
 * References of problems whose rows are added to one D, zeroed before: each row as D has it afterwards, the sum of all that go to its place. Each addition but the first, which meets 0, rounds
 * to D's dtype, whatever their order: no sum on the way is larger than all magnitudes together.
 */
export function addedRows({ d, n }: Problem, references: readonly Reference[]): readonly Reference[] {
  const rows = new Map<number, Row>();
  const eachRow = (
    { places, d: own, sumAbs }: Reference,
    use: (row: Row, at: number, own: Expectation, sumAbs: Float64Array) => void,
  ): void => {
    for (const [i, place] of places.entries()) {
      const fresh = (): Float64Array => new Float64Array(n);
      const row = rows.get(place) ?? {
        ...{ values: fresh(), bounds: fresh(), sizes: fresh(), sumAbs: fresh(), count: 0 },
      };
      rows.set(place, row);
      use(row, i * n, own, sumAbs);
    }
  };
  for (const reference of references)
    eachRow(reference, (row, at, own, sumAbs) => {
      row.count++;
      for (let j = 0; j < n; j++) {
        const [value, bound] = [own.values[at + j] ?? 0, own.bounds[at + j] ?? 0];
        row.values[j] = (row.values[j] ?? 0) + value;
        row.bounds[j] = (row.bounds[j] ?? 0) + bound;
        row.sizes[j] = (row.sizes[j] ?? 0) + Math.abs(value) + bound;
        row.sumAbs[j] = (row.sumAbs[j] ?? 0) + (sumAbs[at + j] ?? 0);
      }
    });
  // Integers add exactly.
  const rounding = (row: Row, j: number): number =>
    d.dtype === "s32" || row.count < 2 ? 0 : (row.count - 1) * roundingBound(d.dtype, row.sizes[j] ?? 0);
  return references.map((reference) => {
    const made = {
      values: Float64Array.from(reference.d.values),
      bounds: Float64Array.from(reference.d.bounds),
    };
    const sumAbs = Float64Array.from(reference.sumAbs);
    eachRow(reference, (row, at) => {
      for (let j = 0; j < n; j++) {
        made.values[at + j] = row.values[j] ?? 0;
        made.bounds[at + j] = (row.bounds[j] ?? 0) + rounding(row, j);
        sumAbs[at + j] = row.sumAbs[j] ?? 0;
      }
    });
    return { ...reference, d: made, sumAbs };
  });
}
