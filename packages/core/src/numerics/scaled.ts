/** Block-scaled types: runs of elements along K that share one scale. */
import type { DType } from "../dtype.ts";
import { exponentOf } from "./bits.ts";
import { decode, decodeUe8m0, encode, encodeUe8m0, type FloatFormat, maxFinite } from "./formats.ts";
import { decodeArray, encodeArray, type Storage, type Values } from "./storage.ts";

/** A dtype whose elements come with block scales. */
export type ScaledDType = Extract<DType, "mxf8" | "mxf8e5m2" | "mxf6e2m3" | "mxf6e3m2" | "mxf4" | "nvf4">;

/** What a block's scale is: a power of two, or an e4m3 without a sign (whose code is that of the e4m3). */
export type ScaleFormat = "ue8m0" | "ue4m3";

interface ScaledRow {
  /** Consecutive elements along K under one scale. */
  readonly block: number;
  readonly element: FloatFormat;
  readonly scale: ScaleFormat;
}

/** OCP Microscaling 1.0 (mx*: 32 elements, a power-of-two scale) and NVIDIA's NVFP4 (16 elements, a ue4m3 scale). */
export const scaledTypes = {
  mxf8: { block: 32, element: "e4m3", scale: "ue8m0" },
  mxf8e5m2: { block: 32, element: "e5m2", scale: "ue8m0" },
  mxf6e2m3: { block: 32, element: "e2m3", scale: "ue8m0" },
  mxf6e3m2: { block: 32, element: "e3m2", scale: "ue8m0" },
  mxf4: { block: 32, element: "e2m1", scale: "ue8m0" },
  nvf4: { block: 16, element: "e2m1", scale: "ue4m3" },
} as const satisfies Record<ScaledDType, ScaledRow>;

/** dtypes that D may be quantised to, with the codes of its scales: those whose elements fill bytes alone or in pairs. */
export const quantizedScaledTypes = ["mxf8", "mxf8e5m2", "mxf4", "nvf4"] as const satisfies ScaledDType[];

/** What memory has of an element: of block-scaled dtypes the element without its scale. */
export const storedType = (dtype: DType): DType => (isScaled(dtype) ? scaledTypes[dtype].element : dtype);

export const isScaled = (dtype: DType): dtype is ScaledDType => Object.hasOwn(scaledTypes, dtype);

/** Elements and their scales: scale i belongs to elements i*block … (i+1)*block - 1. */
export interface ScaledArray {
  readonly data: Storage;
  /** One byte per block: ue8m0 or ue4m3 codes. */
  readonly scales: Uint8Array;
}

/** Code of the scale for a block whose largest magnitude is `amax`. */
function scaleCode(row: ScaledRow, amax: number): number {
  if (amax === 0) return row.scale === "ue8m0" ? encodeUe8m0(1) : encode("e4m3", 1);
  if (row.scale === "ue4m3") {
    // Never 0, which would erase the block: the smallest scale instead.
    return Math.max(1, encode("e4m3", amax / maxFinite(row.element), "rn", "saturate"));
  }
  // OCP 6.3: floor(log2 amax) - the exponent of the element's largest value.
  return encodeUe8m0(2 ** Math.max(-127, exponentOf(amax) - exponentOf(maxFinite(row.element))), "rz");
}

/** The value of a scale's code; the sign bit of a ue4m3 counts for nothing. */
export const decodeScale = (format: ScaleFormat, code: number): number =>
  format === "ue8m0" ? decodeUe8m0(code) : decode("e4m3", code & 0x7f);

/** Quantise values that lie along K, in blocks; the last block may be short. Finite input; elements saturate. */
export function encodeScaled(dtype: ScaledDType, values: Values): ScaledArray {
  const row: ScaledRow = scaledTypes[dtype];
  const blocks = Math.ceil(values.length / row.block);
  const scales = new Uint8Array(blocks);
  const scaled = new Float64Array(values.length);
  for (let block = 0; block < blocks; block++) {
    const from = block * row.block;
    const to = Math.min(values.length, from + row.block);
    let amax = 0;
    for (let i = from; i < to; i++) amax = Math.max(amax, Math.abs(values[i] ?? 0));
    const code = scaleCode(row, amax);
    scales[block] = code;
    const scale = decodeScale(row.scale, code);
    for (let i = from; i < to; i++) scaled[i] = (values[i] ?? 0) / scale;
  }
  return { data: encodeArray(dtype, scaled, "saturate"), scales };
}

/** The values of a scaled array: element times scale. `count` defaults to all that the data holds. */
export function decodeScaled(dtype: ScaledDType, array: ScaledArray, count?: number): Float64Array {
  const row: ScaledRow = scaledTypes[dtype];
  const values = decodeArray(dtype, array.data, count);
  for (let i = 0; i < values.length; i++) {
    values[i] = (values[i] ?? 0) * decodeScale(row.scale, array.scales[Math.floor(i / row.block)] ?? 0);
  }
  return values;
}
