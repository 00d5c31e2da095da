/** How far a correct kernel may be from the float64 reference. */
import type { DType } from "../dtype.ts";
import { epsilonOf, formats, maxFinite } from "./formats.ts";
import { scaledTypes } from "./scaled.ts";

/**
 * Largest error of one dot product of length `k` accumulated in f32: (K/16 + 8) * 2^-23 * sum |a*b|.
 *
 * The worst case of sequential summation is K * 2^-24 * sum; tensor cores truncate each partial sum at about 2^-23 but add 8 to 16
 * products at a time, and rounding errors of a sequential sum cancel far below K/8 of the worst case. The constant 8 covers short K,
 * the final rounding and the epilogue. For another accumulator pass its distance from 1 to the next value as `unit`
 * (f64: 2^-52, s32: 0).
 */
export const gemmBound = (k: number, sumAbs: number, unit = 2 ** -23): number => (k / 16 + 8) * unit * sumAbs;

/**
 * Largest error that storing `value` as `dtype` adds: half a unit in the last place (a unit for the hardware that truncates is
 * not needed, stores round to nearest), and half the smallest subnormal near 0. Integers: one half, as `cvt.rni` rounds.
 * Values that overflow the dtype have no bound (Infinity).
 */
export function roundingBound(dtype: DType, value: number): number {
  switch (dtype) {
    case "f64":
      return Math.abs(value) * 2 ** -53;
    case "s8":
    case "u8":
    case "s4":
    case "s32":
      return 0.5;
    case "f32":
    case "f16":
    case "bf16":
    case "e4m3":
    case "e5m2":
    case "e2m3":
    case "e3m2":
    case "e2m1": {
      if (Math.abs(value) > maxFinite(dtype)) return Number.POSITIVE_INFINITY;
      const row = formats[dtype];
      return Math.max((Math.abs(value) * epsilonOf(dtype)) / 2, 2 ** (row.minExponent - row.mantissa - 1));
    }
    case "tf32":
      return roundingBound("f32", value);
    case "mxf8":
    case "mxf8e5m2":
    case "mxf6e2m3":
    case "mxf6e3m2":
    case "mxf4":
    case "nvf4":
      // The element's own half unit at the block's scale, which depends on the block: relative bound of the largest element.
      return (Math.abs(value) * epsilonOf(scaledTypes[dtype].element)) / 2;
  }
}
