/** Matrix products of whole tiles of integers, exact. */
import { columnsAtOnce } from "./dot-code.ts";
import { dotUnit, largestTile, places } from "./dot-unit.ts";

export interface IntegerShape {
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/**
 * D = A * B + C for integers of 8 bits, exact; beyond 32 bits the result wraps, or stops at the ends with `saturate`.
 *
 * @param a values [m][k], sign- or zero-extended.
 * @param b values [n][k].
 */
export function tileDotInt(
  shape: IntegerShape,
  a: Int16Array,
  b: Int16Array,
  accumulators: Int32Array,
  saturate: boolean,
): void {
  const unit = dotUnit();
  const { m, n, k } = shape;
  const fits = m <= largestTile.m && n <= largestTile.n && k <= largestTile.k && k % 2 === 0;
  const code = unit?.integer(k, saturate) ?? null;
  if (unit === null || code === null || !fits || n % columnsAtOnce !== 0) {
    plainDotInt(shape, a, b, accumulators, saturate);
    return;
  }
  const { words, shorts } = unit;
  shorts.set(a.length === m * k ? a : a.subarray(0, m * k), places.a >> 1);
  const bAt = places.b >> 1;
  for (let column = 0; column < n; column++)
    for (let i = 0; i < k; i++)
      shorts[bAt + ((i >> 1) * n + column) * 2 + (i & 1)] = b[column * k + i] as number;
  const cAt = places.c >> 2;
  words.set(accumulators.length === m * n ? accumulators : accumulators.subarray(0, m * n), cAt);
  code(places.a, 2 * k, places.b, places.c, places.c + 4 * m * n, 4 * n);
  accumulators.set(words.subarray(cAt, cAt + m * n));
}

const largest = 2 ** 31 - 1;
const smallest = -(2 ** 31);

/** The form of `tileDotInt` for any extents and any host. */
export function plainDotInt(
  { m, n, k }: IntegerShape,
  a: Int16Array,
  b: Int16Array,
  accumulators: Int32Array,
  saturate: boolean,
): void {
  for (let row = 0; row < m; row++)
    for (let column = 0; column < n; column++) {
      let dot = 0;
      for (let i = 0; i < k; i++) dot += (a[row * k + i] as number) * (b[column * k + i] as number);
      const at = row * n + column;
      const sum = (accumulators[at] as number) + dot;
      accumulators[at] = saturate ? Math.min(largest, Math.max(smallest, sum)) : sum | 0;
    }
}
