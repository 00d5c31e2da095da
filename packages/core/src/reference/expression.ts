/** Expressions in f64, with how far a kernel that rounds each operation may be from them. */

import {
  type FunctionName,
  isPlain,
  isRounding,
  type PlainFunction,
  plainValues,
} from "../expression/tree.ts";
import { roundingBound } from "../numerics/bounds.ts";
import { roundTo } from "../numerics/storage.ts";
import { activations, EXPONENTIAL_ERROR } from "./activations.ts";

/** A value and the largest error of a kernel's. */
export type Approximate = readonly [value: number, error: number];

/** Error of one rounded operation with this result. */
export type Slip = (result: number) => number;

/** Of f32. */
const LEAST_NORMAL = 2 ** -126;

/** An error times a factor; none stays none, whatever the factor. */
const stretched = (error: number, factor: number): number => (error === 0 ? 0 : error * Math.abs(factor));

/** What arguments' errors make of the result, without its own rounding. */
const plainErrors: Readonly<
  Record<
    PlainFunction,
    (x: Approximate, y: Approximate, result: number, rest: readonly Approximate[]) => number
  >
> = {
  add: ([, e], [, f]) => e + f,
  sub: ([, e], [, f]) => e + f,
  mul: ([x, e], [y, f]) => stretched(e, y) + stretched(f, x) + e * f,
  div: ([, e], [y, f], result) =>
    Math.abs(y) > f ? (e + stretched(f, result)) / (Math.abs(y) - f) : Number.POSITIVE_INFINITY,
  neg: ([, e]) => e,
  abs: ([, e]) => e,
  max: ([, e], [, f]) => Math.max(e, f),
  min: ([, e], [, f]) => Math.max(e, f),
  // The exponent is rounded before ex2.approx takes it.
  floor: ([x, e]) =>
    e === 0 ? 0 : Math.max(Math.floor(x + e) - Math.floor(x), Math.floor(x) - Math.floor(x - e)),
  // lg2.approx: 2^-22, absolute between 1/2 and 2 (PTX ISA, lg2).
  log: ([x, e], _, result) =>
    e >= x && e > 0
      ? Number.POSITIVE_INFINITY
      : Number.isFinite(result)
        ? -Math.log1p(-e / x) + (1 + Math.abs(result)) * 2 ** -21
        : 0,
  sqrt: ([x, e], _, result) => result - Math.sqrt(Math.max(x - e, 0)) + result * EXPONENTIAL_ERROR,
  rsqrt: ([x, e], _, result) => 1 / Math.sqrt(Math.max(x - e, 0)) - result + result * EXPONENTIAL_ERROR,
  fma: ([x, e], [y, f], _, [[, more] = [0, 0]]) => stretched(e, y) + stretched(f, x) + e * f + more,
  // Where the errors leave open which is less it may be either.
  select: ([x, e], [y, f], result, [a = [0, 0], b = [0, 0]]) =>
    Math.abs(x - y) > e + f || e + f === 0
      ? (x < y ? a : b)[1]
      : Math.max(a[1] + Math.abs(a[0] - result), b[1] + Math.abs(b[0] - result)),
  exp: ([x, e], _, result) =>
    result === 0 ? 0 : result * (Math.expm1(e) + Math.abs(x) * 2 ** -22 + EXPONENTIAL_ERROR),
  // What is below the least normal number is flushed to 0.
  exp2: ([, e], _, result) =>
    result === 0 ? 0 : result * (Math.expm1(e * Math.LN2) + EXPONENTIAL_ERROR) + LEAST_NORMAL,
};
const exact: readonly FunctionName[] = ["neg", "abs", "max", "min", "floor", "select"];

/**
 * A cast really rounds, because what follows sees the rounded value (and may turn an overflow into NaN). A kernel whose value is off by
 * `error` may round to another neighbour, at most that error and a unit away, or over the edge of the range.
 */
export function castValue(
  step: { readonly dtype: Parameters<typeof roundTo>[0]; readonly saturate: boolean },
  [value, error]: Approximate,
): Approximate {
  const rounded = roundTo(step.dtype, value, "rn", step.saturate ? "saturate" : "ieee");
  if (error === 0) return [rounded, Number.isFinite(rounded) ? 0 : Number.POSITIVE_INFINITY];
  if (!step.saturate && !Number.isFinite(roundingBound(step.dtype, Math.abs(value) + error)))
    return [rounded, Number.POSITIVE_INFINITY];
  return [rounded, error + 2 * roundingBound(step.dtype, rounded)];
}

/** Sums and products of integers that f32 holds, positions for instance, are exact. */
const isCounted = (fn: FunctionName, [x, e]: Approximate, [y, f]: Approximate, value: number): boolean =>
  (fn === "add" || fn === "sub" || fn === "mul") &&
  e === 0 &&
  f === 0 &&
  Number.isInteger(x) &&
  Number.isInteger(y) &&
  Math.abs(value) <= 2 ** 24;

/** One function of an expression. */
export function applyApproximately(fn: FunctionName, args: readonly Approximate[], slip: Slip): Approximate {
  const [x = [0, 0], y = [0, 0], ...rest] = args;
  if (isRounding(fn)) return castValue({ dtype: fn, saturate: false }, x);
  if (isPlain(fn)) {
    const value = plainValues[fn](x[0], y[0], rest[0]?.[0], rest[1]?.[0]);
    const own = exact.includes(fn) || isCounted(fn, x, y, value) ? 0 : slip(value);
    return [value, plainErrors[fn](x, y, value, rest) + own];
  }
  const { value: of, slope, error } = activations[fn];
  const value = of(x[0]);
  const own = error === null ? 0 : error(x[0], value) + slip(value);
  return [value, x[1] * slope + own];
}
