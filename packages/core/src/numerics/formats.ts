/**
 * Small floating-point formats: one row per format, one rounding routine for all.
 *
 * Codes are unsigned integers. A value that a code can hold is always exact in a JavaScript number, and rounding starts
 * from the exact JavaScript number (f64), so there is no double rounding through f32.
 */
import { exponentOf, powerOfTwo, signBit } from "./bits.ts";

/**
 * Rounding modes under their PTX names: `rn` to nearest, ties to even; `rna` to nearest, ties away from zero;
 * `rz` toward zero; `rm` toward -infinity; `rp` toward +infinity.
 */
export type Rounding = "rn" | "rna" | "rz" | "rm" | "rp";

/** What happens beyond the largest finite value. `saturate`: it becomes that value (`.satfinite`); NaN stays NaN where the format has one. */
export type Overflow = "ieee" | "saturate";

interface FormatRow {
  /** Explicit mantissa bits. */
  readonly mantissa: number;
  /** Exponent of the smallest normal value; subnormals share it. */
  readonly minExponent: number;
  /** Code of the largest finite magnitude. */
  readonly maxCode: number;
  /** Code of +infinity, null where the format has none (overflow then gives NaN, or the largest value). */
  readonly infinity: number | null;
  /** Canonical NaN as the hardware produces it, null where the format has none (NaN then gives the largest value). */
  readonly nan: number | null;
  /** Weight of the sign bit in the code; 0 for unsigned formats. */
  readonly sign: number;
  /** Code bits to the right of the mantissa that are always 0: a tf32 lives in the top 19 bits of an f32. */
  readonly shift: number;
}

/**
 * Sources: IEEE 754 (f32, f16), the PTX ISA's "Alternate Floating-Point Data Formats" (bf16, tf32, e4m3, e5m2) and the OCP
 * Microscaling specification 1.0 (e3m2, e2m3, e2m1, ue8m0). NaN codes are those `cvt` returns.
 */
export const formats = {
  f32: {
    mantissa: 23,
    minExponent: -126,
    maxCode: 0x7f7fffff,
    infinity: 0x7f800000,
    nan: 0x7fffffff,
    sign: 0x80000000,
    shift: 0,
  },
  tf32: {
    mantissa: 10,
    minExponent: -126,
    maxCode: 0x3fbff,
    infinity: 0x3fc00,
    nan: 0x3ffff,
    sign: 0x40000,
    shift: 13,
  },
  f16: {
    mantissa: 10,
    minExponent: -14,
    maxCode: 0x7bff,
    infinity: 0x7c00,
    nan: 0x7fff,
    sign: 0x8000,
    shift: 0,
  },
  bf16: {
    mantissa: 7,
    minExponent: -126,
    maxCode: 0x7f7f,
    infinity: 0x7f80,
    nan: 0x7fff,
    sign: 0x8000,
    shift: 0,
  },
  // e4m3 spends the codes of infinity on values: S.1111.110 is 448, only S.1111.111 is NaN.
  e4m3: { mantissa: 3, minExponent: -6, maxCode: 0x7e, infinity: null, nan: 0x7f, sign: 0x80, shift: 0 },
  e5m2: { mantissa: 2, minExponent: -14, maxCode: 0x7b, infinity: 0x7c, nan: 0x7f, sign: 0x80, shift: 0 },
  e3m2: { mantissa: 2, minExponent: -2, maxCode: 0x1f, infinity: null, nan: null, sign: 0x20, shift: 0 },
  e2m3: { mantissa: 3, minExponent: 0, maxCode: 0x1f, infinity: null, nan: null, sign: 0x20, shift: 0 },
  e2m1: { mantissa: 1, minExponent: 0, maxCode: 0x7, infinity: null, nan: null, sign: 0x8, shift: 0 },
} as const satisfies Record<string, FormatRow>;

/** A signed floating-point format with a code per value. The scale format ue8m0 is apart: see `encodeUe8m0`. */
export type FloatFormat = keyof typeof formats;

/** Round a non-negative magnitude in units of the last place to an integer. */
function roundUnits(units: number, rounding: Rounding, negative: boolean): number {
  const down = Math.floor(units);
  const rest = units - down;
  switch (rounding) {
    case "rn":
      return rest > 0.5 || (rest === 0.5 && down % 2 === 1) ? down + 1 : down;
    case "rna":
      return rest >= 0.5 ? down + 1 : down;
    case "rz":
      return down;
    case "rm":
      return rest > 0 && negative ? down + 1 : down;
    case "rp":
      return rest > 0 && !negative ? down + 1 : down;
  }
}

/** Whether a magnitude beyond the largest finite value becomes infinity (true) or that value (false). */
function overflowsAway(rounding: Rounding, negative: boolean): boolean {
  if (rounding === "rz") return false;
  if (rounding === "rm") return negative;
  if (rounding === "rp") return !negative;
  return true;
}

/**
 * The code of `x` in `format`, correctly rounded from the full f64 value.
 *
 * Overflow: `ieee` gives infinity (NaN in e4m3, which has no infinity) where the mode rounds away from zero, else the largest
 * finite value; `saturate` always gives the largest finite value, also for infinities. Formats without infinity and NaN saturate
 * in either case. The result is unsigned; a tf32 comes as the 32 bits of the f32 that holds it.
 */
export function encode(
  format: FloatFormat,
  x: number,
  rounding: Rounding = "rn",
  overflow: Overflow = "ieee",
): number {
  const row: FormatRow = formats[format];
  const code = encodeUnshifted(row, x, rounding, overflow);
  return row.shift === 0 ? code : (code << row.shift) >>> 0;
}

function encodeUnshifted(row: FormatRow, x: number, rounding: Rounding, overflow: Overflow): number {
  if (Number.isNaN(x)) return row.nan ?? row.maxCode;
  const negative = signBit(x);
  const sign = negative ? row.sign : 0;
  const magnitude = Math.abs(x);
  if (magnitude === 0) return sign;
  const beyond = sign + (overflow === "saturate" ? row.maxCode : (row.infinity ?? row.nan ?? row.maxCode));
  if (magnitude === Number.POSITIVE_INFINITY) return beyond;
  const exponent = Math.max(exponentOf(magnitude), row.minExponent);
  // Powers of two: both the scaling and the split into integer and rest are exact.
  const units = roundUnits(magnitude * powerOfTwo(row.mantissa - exponent), rounding, negative);
  // The implicit bit of a normal value carries into the exponent field, so subnormals, normals and round-up to the next
  // binade need one formula.
  const code = (exponent - row.minExponent) * powerOfTwo(row.mantissa) + units;
  if (code > row.maxCode) return overflowsAway(rounding, negative) ? beyond : sign + row.maxCode;
  return sign + code;
}

/** The value of a code; bits above the format's width must be 0. Infinities and NaN decode to themselves, -0 keeps its sign. */
export function decode(format: FloatFormat, code: number): number {
  const row: FormatRow = formats[format];
  const shifted = row.shift === 0 ? code : code >>> row.shift;
  const negative = shifted >= row.sign;
  const bits = negative ? shifted - row.sign : shifted;
  if (bits > row.maxCode)
    return bits === row.infinity
      ? negative
        ? Number.NEGATIVE_INFINITY
        : Number.POSITIVE_INFINITY
      : Number.NaN;
  const implicit = powerOfTwo(row.mantissa);
  const field = Math.floor(bits / implicit);
  const fraction = bits % implicit;
  const magnitude =
    field === 0
      ? fraction * powerOfTwo(row.minExponent - row.mantissa)
      : (implicit + fraction) * powerOfTwo(row.minExponent + field - 1 - row.mantissa);
  return negative ? -magnitude : magnitude;
}

/** The value of `format` nearest to `x` under the rounding mode: `decode(encode(x))`. */
export function roundToFormat(
  format: FloatFormat,
  x: number,
  rounding: Rounding = "rn",
  overflow: Overflow = "ieee",
): number {
  // The host's own conversion is this one; a NaN comes out as one either way.
  if (format === "f32" && rounding === "rn" && overflow === "ieee") return Math.fround(x);
  return decode(format, encode(format, x, rounding, overflow));
}

/** Largest finite value of a format. */
export const maxFinite = (format: FloatFormat): number =>
  decode(format, formats[format].maxCode * 2 ** formats[format].shift);

/** Distance from 1 to the next larger value: twice the largest relative error of `rn` on normal results. */
export const epsilonOf = (format: FloatFormat): number => 2 ** -formats[format].mantissa;

/**
 * Code of a block scale in ue8m0 (OCP: 8 exponent bits, bias 127, value 2^(code-127), no sign, no zero, 255 is NaN).
 * The sign of `x` is dropped. `rp` rounds up to the next power of two, `rz` down. Below 2^-127 the code is 0; beyond 2^127 it is
 * 254, as `cvt.satfinite` gives it.
 */
export function encodeUe8m0(x: number, rounding: "rp" | "rz" = "rp"): number {
  if (Number.isNaN(x)) return 0xff;
  const magnitude = Math.abs(x);
  if (magnitude === Number.POSITIVE_INFINITY) return 254;
  if (magnitude <= 2 ** -127) return 0;
  const exponent = exponentOf(magnitude);
  const up = rounding === "rp" && magnitude > 2 ** exponent ? 1 : 0;
  return Math.min(254, exponent + up + 127);
}

/** The value of a ue8m0 code: 2^(code-127), NaN for 255. */
export const decodeUe8m0 = (code: number): number => (code === 0xff ? Number.NaN : 2 ** (code - 127));
