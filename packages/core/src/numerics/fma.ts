/** Fused multiply-add with one rounding, on numbers that are exact in f32. */

// Halfway between the largest f32, 2^128 - 2^104, and 2^128: what rounds to nearest even from here on is infinite.
const overflowTie = 2 ** 128 - 2 ** 103;
const maxF32 = 2 ** 128 - 2 ** 104;

/**
 * `fma.rn.f32`: a*b+c rounded once to f32, ties to even. Inputs must be f32 values; subnormals are kept (no `.ftz`).
 *
 * The product of two f32 is exact in f64, so only the sum and its conversion can round: twice, where hardware rounds once. The
 * two differ only where the f64 sum lands exactly halfway between two f32 although the true sum does not; the error of the sum
 * (Knuth's TwoSum, exact) then tells the side.
 */
export function fmaF32(a: number, b: number, c: number): number {
  const product = a * b;
  const sum = product + c;
  const nearest = Math.fround(sum);
  const distance = sum - nearest;
  if (distance === 0) return nearest;
  const mirror = nearest + 2 * distance;
  // True when `sum` is a tie between two finite f32; false for NaN and infinities.
  const tie = Math.fround(mirror) === mirror;
  if (!tie && Math.abs(sum) !== overflowTie) return nearest;
  const part = sum - product;
  const error = product - (sum - part) + (c - part);
  if (tie) return error * distance > 0 ? mirror : nearest;
  return error * sum < 0 ? Math.sign(sum) * maxF32 : nearest;
}
