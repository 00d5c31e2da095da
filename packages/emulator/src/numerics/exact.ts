/**
 * Correct rounding where a double is not wide enough: directed modes, and everything that rounds to f64.
 *
 * Two tools. *Round to odd*: a double that is inexact gets its last bit set; rounding it again to at most 51 bits is then
 * right in every mode (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008). *Big integers*: an
 * exact value `mantissa * 2^exponent`, plus a sticky flag for what lies below it; slow, and right for every format.
 */
import { f64Bits, f64FromBits, type Rounding, roundToFormat, signBit } from "@tilewright/core";

/** An exact number: (-1)^negative * mantissa * 2^exponent, plus a positive amount below one unit when `sticky`. */
export interface Exact {
  readonly negative: boolean;
  readonly mantissa: bigint;
  readonly exponent: number;
  readonly sticky: boolean;
}

/** Binary interchange formats that results round to. */
interface Target {
  /** Bits of the significand, the implicit one included. */
  readonly precision: number;
  /** Exponent of the smallest normal value's leading bit. */
  readonly minExponent: number;
  readonly maxExponent: number;
}
const f32Target: Target = { precision: 24, minExponent: -126, maxExponent: 127 };
const f64Target: Target = { precision: 53, minExponent: -1022, maxExponent: 1023 };

const bitLength = (value: bigint): number => (value === 0n ? 0 : value.toString(2).length);

/** The exact value of a finite double. */
export function exactOf(x: number): Exact {
  const bits = f64Bits(x);
  const field = Number((bits >> 52n) & 0x7ffn);
  const fraction = bits & 0xfffffffffffffn;
  return {
    negative: bits >> 63n === 1n,
    mantissa: field === 0 ? fraction : fraction | 0x10000000000000n,
    exponent: Math.max(field, 1) - 1075,
    sticky: false,
  };
}

/** Whether a discarded rest rounds the magnitude up. */
function roundsUp(
  rounding: Rounding,
  negative: boolean,
  odd: boolean,
  half: -1 | 0 | 1,
  rest: boolean,
): boolean {
  switch (rounding) {
    case "rn":
      return half > 0 || (half === 0 && odd);
    case "rna":
      return half >= 0;
    case "rz":
      return false;
    case "rm":
      return negative && rest;
    case "rp":
      return !negative && rest;
  }
}

function roundTo(target: Target, value: Exact, rounding: Rounding): number {
  const { negative, sticky } = value;
  const length = bitLength(value.mantissa);
  if (length === 0 && !sticky) return negative ? -0 : 0;
  // Exponent of one unit of the result's last place.
  const lead = value.exponent + length - 1;
  const unit = Math.max(lead, target.minExponent) - target.precision + 1;
  const drop = unit - value.exponent;
  let kept: bigint;
  let half: -1 | 0 | 1 = -1;
  let rest = sticky;
  if (drop <= 0) kept = value.mantissa << BigInt(-drop);
  else {
    kept = value.mantissa >> BigInt(drop);
    const tail = value.mantissa - (kept << BigInt(drop));
    const middle = 1n << BigInt(drop - 1);
    half = tail > middle || (tail === middle && sticky) ? 1 : tail === middle ? 0 : -1;
    rest = sticky || tail !== 0n;
  }
  if (roundsUp(rounding, negative, (kept & 1n) === 1n, half, rest)) kept += 1n;
  // Number(kept) is exact: at most precision + 1 bits, the top one alone when it carried. Scaling in two steps keeps
  // the intermediate in range; both steps are exact because the result is representable or overflows.
  const top = bitLength(kept) - 1 + unit;
  const sign = negative ? -1 : 1;
  if (top > target.maxExponent) {
    const away =
      rounding === "rn" ||
      rounding === "rna" ||
      (rounding === "rp" && !negative) ||
      (rounding === "rm" && negative);
    const largest = (2 - 2 ** (1 - target.precision)) * 2 ** target.maxExponent;
    return sign * (away ? Number.POSITIVE_INFINITY : largest);
  }
  const step = Math.trunc(unit / 2);
  return sign * (Number(kept) * 2 ** step * 2 ** (unit - step));
}

/** `value * 2^exponent` rounded to f64. */
export const f64Of = (value: bigint, exponent: number): number =>
  roundTo(
    f64Target,
    { negative: value < 0n, mantissa: value < 0n ? -value : value, exponent, sticky: false },
    "rn",
  );

/** Exact a*b. */
const product = (a: Exact, b: Exact): Exact => ({
  negative: a.negative !== b.negative,
  mantissa: a.mantissa * b.mantissa,
  exponent: a.exponent + b.exponent,
  sticky: false,
});

/** Exact a+b of two exact values; a zero result takes the sign that `rounding` gives x-x. */
function sum(a: Exact, b: Exact, rounding: Rounding): Exact {
  const exponent = Math.min(a.exponent, b.exponent);
  const left = (a.negative ? -a.mantissa : a.mantissa) << BigInt(a.exponent - exponent);
  const right = (b.negative ? -b.mantissa : b.mantissa) << BigInt(b.exponent - exponent);
  const total = left + right;
  const zeroSign = a.negative === b.negative ? a.negative : rounding === "rm";
  return {
    negative: total === 0n ? zeroSign : total < 0n,
    mantissa: total < 0n ? -total : total,
    exponent,
    sticky: false,
  };
}

function quotient(a: Exact, b: Exact): Exact {
  // 64 bits more than the divisor's keep the quotient's leading 64 bits; what is left is the sticky flag.
  const shift = BigInt(Math.max(0, bitLength(b.mantissa) - bitLength(a.mantissa) + 64));
  const scaled = a.mantissa << shift;
  const mantissa = scaled / b.mantissa;
  return {
    negative: a.negative !== b.negative,
    mantissa,
    exponent: a.exponent - Number(shift) - b.exponent,
    sticky: mantissa * b.mantissa !== scaled,
  };
}

function squareRoot(a: Exact): Exact {
  // An even exponent, and 128 bits so that the root has 64.
  let shift = Math.max(0, 130 - bitLength(a.mantissa));
  if ((a.exponent - shift) % 2 !== 0) shift += 1;
  const radicand = a.mantissa << BigInt(shift);
  let root = BigInt(Math.floor(Math.sqrt(Number(radicand))));
  // Newton from a start within 2^-52 relative; then the last unit by comparison.
  for (let k = 0; k < 3; k++) root = (root + radicand / root) >> 1n;
  while (root * root > radicand) root -= 1n;
  while ((root + 1n) * (root + 1n) <= radicand) root += 1n;
  return {
    negative: false,
    mantissa: root,
    exponent: (a.exponent - shift) / 2,
    sticky: root * root !== radicand,
  };
}

const special = (...values: readonly number[]): boolean => values.some((v) => !Number.isFinite(v));

/** `a + b` rounded once to f64. */
export const add64 = (a: number, b: number, rounding: Rounding): number =>
  rounding === "rn" || special(a, b)
    ? a + b
    : roundTo(f64Target, sum(exactOf(a), exactOf(b), rounding), rounding);

/** `a * b` rounded once to f64. */
export const mul64 = (a: number, b: number, rounding: Rounding): number =>
  rounding === "rn" || special(a, b) ? a * b : roundTo(f64Target, product(exactOf(a), exactOf(b)), rounding);

/** `fma.rnd.f64`. */
export function fma64(a: number, b: number, c: number, rounding: Rounding): number {
  if (special(a, b)) return a * b + c;
  // Not a * b + c: the double product of finite factors may overflow to an infinity that the exact one is far from.
  if (special(c)) return c;
  return roundTo(f64Target, sum(product(exactOf(a), exactOf(b)), exactOf(c), rounding), rounding);
}

/** `a / b` rounded once to f64. */
export const div64 = (a: number, b: number, rounding: Rounding): number =>
  rounding === "rn" || special(a, b) || b === 0 || a === 0
    ? a / b
    : roundTo(f64Target, quotient(exactOf(a), exactOf(b)), rounding);

/** Square root rounded once to f64. */
export const sqrt64 = (a: number, rounding: Rounding): number =>
  rounding === "rn" || special(a) || a <= 0
    ? Math.sqrt(a)
    : roundTo(f64Target, squareRoot(exactOf(a)), rounding);

/** Set the last bit of `value` when `error` (the exact value minus `value`) is not zero: round to odd. */
function toOdd(value: number, error: number): number {
  if (error === 0 || !Number.isFinite(value)) return value;
  const bits = f64Bits(value);
  if ((bits & 1n) === 1n) return value;
  // Even and inexact: the odd neighbour on the side of the error. Magnitude grows when error and value agree in sign.
  if (value === 0) return error > 0 ? Number.MIN_VALUE : -Number.MIN_VALUE;
  return f64FromBits(error > 0 === value > 0 ? bits + 1n : bits - 1n);
}

/** Exact error of the double sum s = a + b (Knuth's TwoSum). */
function sumError(a: number, b: number, s: number): number {
  const part = s - a;
  return a - (s - part) + (b - part);
}

/** `a + b` of f32 values, rounded once to f32. */
export function add32(a: number, b: number, rounding: Rounding): number {
  const s = a + b;
  if (special(s)) return s;
  // x - x and (+0) + (-0) are +0, but -0 in the mode that rounds down.
  if (s === 0) return rounding === "rm" && signBit(a) !== signBit(b) ? -0 : s;
  return roundToFormat("f32", toOdd(s, sumError(a, b, s)), rounding);
}

/** `a * b` of f32 values (exact in a double), rounded once to f32. */
export const mul32 = (a: number, b: number, rounding: Rounding): number =>
  roundToFormat("f32", a * b, rounding);

/** `fma.rnd.f32`. */
export function fma32(a: number, b: number, c: number, rounding: Rounding): number {
  return roundToFormat("f32", fmaOdd(a, b, c, rounding), rounding);
}

/**
 * a*b+c of values whose product is exact in a double (f32 and narrower), rounded to odd: any narrower format follows by one
 * further rounding.
 */
export function fmaOdd(a: number, b: number, c: number, rounding: Rounding): number {
  const p = a * b;
  const s = p + c;
  if (special(s)) return s;
  if (s === 0) return rounding === "rm" && signBit(p) !== signBit(c) ? -0 : s;
  return toOdd(s, sumError(p, c, s));
}

/** `a / b` of f32 values, rounded once to f32. */
export const div32 = (a: number, b: number, rounding: Rounding): number =>
  rounding === "rn" || special(a, b) || b === 0 || a === 0
    ? Math.fround(a / b)
    : roundTo(f32Target, quotient(exactOf(a), exactOf(b)), rounding);

/** Square root of an f32 value, rounded once to f32. */
export const sqrt32 = (a: number, rounding: Rounding): number =>
  rounding === "rn" || special(a) || a <= 0
    ? Math.fround(Math.sqrt(a))
    : roundTo(f32Target, squareRoot(exactOf(a)), rounding);

/** Round a double to an integer value in the double, by PTX's `.rni`, `.rzi`, `.rmi`, `.rpi`. */
export function roundInteger(x: number, mode: "rni" | "rzi" | "rmi" | "rpi"): number {
  switch (mode) {
    case "rzi":
      return Math.trunc(x);
    case "rmi":
      return Math.floor(x);
    case "rpi":
      return Math.ceil(x);
    case "rni": {
      const down = Math.floor(x);
      const rest = x - down;
      if (rest < 0.5) return x < 0 && down === 0 ? -0 : down;
      if (rest > 0.5) return down + 1 === 0 ? -0 : down + 1;
      const even = down % 2 === 0 ? down : down + 1;
      return even === 0 && signBit(x) ? -0 : even;
    }
  }
}

/** A signed 64-bit integer rounded to f64 or f32 once. */
export function integerToFloat(value: bigint, format: "f32" | "f64", rounding: Rounding): number {
  const exact: Exact = {
    negative: value < 0n,
    mantissa: value < 0n ? -value : value,
    exponent: 0,
    sticky: false,
  };
  return value === 0n ? 0 : roundTo(format === "f32" ? f32Target : f64Target, exact, rounding);
}
