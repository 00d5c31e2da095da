/** Floating-point operations of generated code: rounding modes, flushing, small formats, approximate functions. */
import {
  decode,
  encode,
  type FloatFormat,
  type Overflow,
  type Rounding,
  roundToFormat,
} from "@tilewright/core";
import * as exact from "./exact.ts";
import { HI } from "./integers.ts";

const smallestNormalF32 = 2 ** -126;
const smallestNormalF16 = 2 ** -14;

/** `.ftz`: subnormals become zero of their sign. */
export const flush = (x: number): number => (x < smallestNormalF32 && x > -smallestNormalF32 ? x * 0 : x);
export const flushHalf = (x: number): number => (x < smallestNormalF16 && x > -smallestNormalF16 ? x * 0 : x);
export const flushHalfBits = (bits: number): number => ((bits & 0x7c00) === 0 ? bits & 0x8000 : bits);
/** `.sat`: to [0, 1], NaN to +0. */
export const saturate = (x: number): number => (x > 0 ? (x < 1 ? x : 1) : 0);
/** `.relu`: negative values become 0; NaN stays. */
export const reluHalf = (x: number): number => (x < 0 ? 0 : x === 0 ? 0 : x);

/** min and max: a NaN loses against a number; -0 is below +0. */
export const min2 = (a: number, b: number): number =>
  Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.min(a, b);
export const max2 = (a: number, b: number): number =>
  Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.max(a, b);

export const addF32 = exact.add32;
export const subF32 = (a: number, b: number, rounding: Rounding): number => exact.add32(a, -b, rounding);
export const mulF32 = exact.mul32;
export const fmaF32 = exact.fma32;
export const divF32 = exact.div32;
export const sqrtF32 = exact.sqrt32;
export const addF64 = exact.add64;
export const subF64 = (a: number, b: number, rounding: Rounding): number => exact.add64(a, -b, rounding);
export const mulF64 = exact.mul64;
export const fmaF64 = exact.fma64;
export const divF64 = exact.div64;
export const sqrtF64 = exact.sqrt64;
export const { fmaOdd, roundInteger } = exact;

export function testp(x: number, op: string, smallestNormal: number): boolean {
  switch (op) {
    case "finite":
      return Number.isFinite(x);
    case "infinite":
      return !Number.isFinite(x) && !Number.isNaN(x);
    case "number":
      return !Number.isNaN(x);
    case "notanumber":
      return Number.isNaN(x);
    case "normal":
      return Number.isFinite(x) && Math.abs(x) >= smallestNormal;
    default:
      return x !== 0 && Math.abs(x) < smallestNormal;
  }
}

const negative = (x: number): boolean => x < 0 || Object.is(x, -0);
/** Magnitude of b with the sign of a. */
export const copysign = (a: number, b: number): number => (negative(a) ? -Math.abs(b) : Math.abs(b));
export const xorsign = (x: number, a: number, b: number): number =>
  negative(a) !== negative(b) ? -Math.abs(x) : Math.abs(x);

// ---------------------------------------------------------------- small formats

/** Values of all f16 codes; filled on first use. */
const f16Values = new Float64Array(65536);
let f16Ready = false;
export function fromF16(bits: number): number {
  if (!f16Ready) {
    for (let code = 0; code < 65536; code++) f16Values[code] = decode("f16", code);
    f16Ready = true;
  }
  return f16Values[bits & 0xffff] as number;
}

const scratch = new Float64Array(1);
const words = new Int32Array(scratch.buffer);
const single = new Float32Array(1);
const singleWord = new Int32Array(single.buffer);

export function fromBf16(bits: number): number {
  singleWord[0] = bits << 16;
  return single[0] as number;
}

/** f16 code of a double, to nearest even: normal results from the double's own bits, the rest by the general routine. */
export function toF16(x: number): number {
  scratch[0] = x;
  const high = words[1] as number;
  const exponent = ((high >>> 20) & 0x7ff) - 1023;
  if (exponent < -14 || exponent > 15) return encode("f16", x);
  const rest = (high & 0x3ff) | (words[0] === 0 ? 0 : 1);
  const code = ((exponent + 15) << 10) | ((high >>> 10) & 0x3ff);
  // 0x200 is half a unit; the sticky bit stands at bit 0, which is far enough below it.
  const up =
    (high & 0x3ff) > 0x200 || ((high & 0x3ff) === 0x200 && (words[0] !== 0 || (code & 1) === 1)) ? 1 : 0;
  return rest === 0 ? code | ((high >>> 16) & 0x8000) : (code + up) | ((high >>> 16) & 0x8000);
}

export function toBf16(x: number): number {
  scratch[0] = x;
  const high = words[1] as number;
  const exponent = ((high >>> 20) & 0x7ff) - 1023;
  if (exponent < -126 || exponent > 127) return encode("bf16", x);
  const tail = high & 0x1fff;
  const code = ((exponent + 127) << 7) | ((high >>> 13) & 0x7f);
  const up = tail > 0x1000 || (tail === 0x1000 && (words[0] !== 0 || (code & 1) === 1)) ? 1 : 0;
  return (code + up) | ((high >>> 16) & 0x8000);
}

/** Scale factors: see `@tilewright/ir`. */
export { decodeUe8m0, encodeUe8m0 } from "@tilewright/core";
export const encodeFloat = (format: FloatFormat, x: number, rounding: Rounding, overflow: Overflow): number =>
  encode(format, x, rounding, overflow);
export const decodeFloat = (format: FloatFormat, code: number): number => decode(format, code);
/** A double rounded to f32 in a directed mode. */
export const encodeDecode32 = (x: number, rounding: Rounding): number => roundToFormat("f32", x, rounding);

// ---------------------------------------------------------------- to and from integers

export const roundEven = (x: number): number => exact.roundInteger(x, "rni");
/** Clamp; NaN becomes 0. */
export const clampNumber = (x: number, least: number, most: number): number =>
  Number.isNaN(x) ? 0 : x < least ? least : x > most ? most : x;

export function integer64(
  l: number,
  h: number,
  signed: number,
  format: "f32" | "f64",
  rounding: Rounding,
): number {
  const low = BigInt(l >>> 0);
  const value = signed === 1 ? (BigInt(h) << 32n) | low : (BigInt(h >>> 0) << 32n) | low;
  return exact.integerToFloat(value, format, rounding);
}

export function float64ToInteger(x: number, rounding: "rni" | "rzi" | "rmi" | "rpi", signed: number): number {
  let value = 0n;
  if (!Number.isNaN(x)) {
    const least = signed === 1 ? -(2n ** 63n) : 0n;
    const most = signed === 1 ? 2n ** 63n - 1n : 2n ** 64n - 1n;
    const whole = exact.roundInteger(x, rounding);
    value = whole >= 2 ** 64 ? most : whole <= -(2 ** 63) ? least : BigInt(whole);
    if (value > most) value = most;
    if (value < least) value = least;
  }
  HI[0] = Number(BigInt.asIntN(32, value >> 32n));
  return Number(BigInt.asIntN(32, value));
}
