/** Products whose sums along k are promoted: short ones are made apart, scaled, and added to the accumulator. */
import type { Place } from "./memory.ts";
import { markWritten, offsetOf, requireWritten } from "./memory.ts";
import { blockFactor, fill, multiply, type Scratch, storeOf } from "./tileOps.ts";

export interface TwoLevelSums {
  readonly acc: Place;
  /** Takes each sum, from 0. */
  readonly part: Place;
  readonly a: Place;
  readonly b: Place;
  readonly scales: { readonly a: Place; readonly b: Place } | null;
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
    fill(part, 0, at);
    multiply(
      part,
      { ...a, col: a.col + k, cols: count },
      { ...b, row: b.row + k, rows: count },
      null,
      scratch,
      at,
    );
    addScaled(acc, part, scales, run, at);
  }
  markWritten(acc, whole);
}

/** acc += factor of the row * factor of the column * part, by the factors of a run along k, each operation rounded to f32. */
export function addScaled(
  acc: Place,
  part: Place,
  scales: TwoLevelSums["scales"],
  run: number,
  at: string,
): void {
  const [out, sums] = [storeOf(acc.memory, at), storeOf(part.memory, at)];
  for (let r = 0; r < acc.rows; r++) {
    const rowFactor = scales === null ? 1 : blockFactor(scales.a, acc.rows, r, run);
    for (let c = 0; c < acc.cols; c++) {
      const factor = scales === null ? 1 : Math.fround(rowFactor * blockFactor(scales.b, acc.cols, c, run));
      const i = offsetOf(acc, r, c);
      out[i] = Math.fround((out[i] ?? 0) + factor * (sums[offsetOf(part, r, c)] ?? 0));
    }
  }
}
