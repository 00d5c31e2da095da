/** The greatest common divisor of two whole numbers, at least 0; the magnitude of one where the other is 0. */
export const commonDivisor = (a: number, b: number): number =>
  b === 0 ? Math.abs(a) : commonDivisor(b, a % b);

/** The greatest divisor of `n` (at least 1) that is no greater than `most`; 1 where `most` is less. */
export function largestDivisor(n: number, most: number): number {
  let d = Math.max(1, Math.min(n, most));
  while (n % d !== 0) d--;
  return d;
}

/** The least multiple of `unit` that is no less than `value`. */
export const roundUp = (value: number, unit: number): number => Math.ceil(value / unit) * unit;

export const isPowerOfTwo = (n: number): boolean => Number.isInteger(Math.log2(n));
