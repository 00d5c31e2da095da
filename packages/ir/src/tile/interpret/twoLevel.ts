/** Products whose sums along k are promoted: short ones are made apart, scaled, and added to the accumulator. */
import type { Place } from "./memory.ts";
import { markWritten, offsetOf, requireWritten } from "./memory.ts";
import { blockFactor, type Factors, fill, multiply, type Scratch, storeOf } from "./tileOps.ts";

export interface TwoLevelSums {
  readonly acc: Place;
  /** Takes each sum, from 0, of as many columns as it has. */
  readonly part: Place;
  readonly a: Place;
  readonly b: Place;
  readonly scales: { readonly a: Factors; readonly b: Factors } | null;
  /** Elements along k of a sum. */
  readonly every: number;
}

/** acc += factor of the row * factor of the column * (a * b) for each `every` elements of k, each operation rounded to f32. */
export function multiplyInTwoLevels(
  { acc, part, a, b, scales, every }: TwoLevelSums,
  scratch: Scratch,
  at: string,
): void {
  const whole = { row0: 0, row1: acc.rows, col0: 0, col1: acc.cols };
  requireWritten(acc, whole, at);
  for (let k = 0, run = 0; k < a.cols; k += every, run++) {
    const count = Math.min(every, a.cols - k);
    for (let from = 0; from < acc.cols; from += part.cols) {
      const beside = (place: Place): Place => ({ ...place, col: place.col + from, cols: part.cols });
      fill(part, 0, at);
      multiply(
        part,
        { ...a, col: a.col + k, cols: count },
        { ...beside(b), row: b.row + k, rows: count },
        null,
        scratch,
        at,
      );
      addScaled(
        beside(acc),
        part,
        scales && {
          row: (r) => blockFactor(scales.a, acc.rows, r, run),
          column: (c) => blockFactor(scales.b, acc.cols, from + c, run),
        },
        at,
      );
    }
  }
  markWritten(acc, whole);
}

/** acc += factor of the row * factor of the column * part, each operation rounded to f32. */
export function addScaled(
  acc: Place,
  part: Place,
  scales: { readonly row: (r: number) => number; readonly column: (c: number) => number } | null,
  at: string,
): void {
  const [out, sums] = [storeOf(acc.memory, at), storeOf(part.memory, at)];
  for (let r = 0; r < acc.rows; r++) {
    const rowFactor = scales?.row(r) ?? 1;
    for (let c = 0; c < acc.cols; c++) {
      const factor = Math.fround(rowFactor * (scales?.column(c) ?? 1));
      const i = offsetOf(acc, r, c);
      out[i] = Math.fround((out[i] ?? 0) + factor * (sums[offsetOf(part, r, c)] ?? 0));
    }
  }
}
