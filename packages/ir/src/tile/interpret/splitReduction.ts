/** Sums of the parts of one tile that several blocks have computed. */
import {
  clip,
  makeValues,
  markWritten,
  offsetOf,
  type Place,
  requireWritten,
  type ValueArray,
} from "./memory.ts";
import { storeOf } from "./tileOps.ts";

const unguarded = [false, false] as const;

/** The elements of a place, row by row. */
export function takeOut(place: Place, at: string): ValueArray {
  requireWritten(place, clip(place, unguarded, at), at);
  const out = makeValues(place.memory.buffer.dtype, place.rows * place.cols);
  for (let r = 0; r < place.rows; r++)
    for (let c = 0; c < place.cols; c++)
      out[r * place.cols + c] = place.memory.data[offsetOf(place, r, c)] ?? 0;
  return out;
}

/** place <- parts[0] + parts[1] + …, each sum rounded to the tile's type. */
export function putSum(place: Place, parts: readonly ValueArray[], at: string): void {
  const [sum, ...rest] = parts;
  if (sum === undefined) return;
  for (const part of rest) for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] ?? 0) + (part[i] ?? 0);
  const out = storeOf(place.memory, at);
  for (let r = 0; r < place.rows; r++)
    for (let c = 0; c < place.cols; c++) out[offsetOf(place, r, c)] = sum[r * place.cols + c] ?? 0;
  markWritten(place, clip(place, unguarded, at));
}

/** place <- slice number `own` along `axis` of a sum with so many columns. */
export function putSlice(
  place: Place,
  sum: ValueArray,
  { axis, columns, own }: { readonly axis: 0 | 1; readonly columns: number; readonly own: number },
  at: string,
): void {
  const out = storeOf(place.memory, at);
  const [row, col] = axis === 0 ? [own * place.rows, 0] : [0, own * place.cols];
  for (let r = 0; r < place.rows; r++)
    for (let c = 0; c < place.cols; c++) out[offsetOf(place, r, c)] = sum[(row + r) * columns + col + c] ?? 0;
  markWritten(place, clip(place, unguarded, at));
}
