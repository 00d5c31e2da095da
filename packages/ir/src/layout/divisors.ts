/** The greatest divisor of `n` (at least 1) that is no greater than `most`; 1 where `most` is less. */
export function largestDivisor(n: number, most: number): number {
  let d = Math.max(1, Math.min(n, most));
  while (n % d !== 0) d--;
  return d;
}
