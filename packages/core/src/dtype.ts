/** Element types, named as PTX names them, with their width. One row per dtype. */
import type { Bytes } from "./ids.ts";

interface DTypeRow {
  /** Width of one stored element in bits. */
  readonly bits: number;
  readonly kind: "float" | "int" | "scaled";
  /** Accumulator that a GEMM on this dtype takes unless told otherwise. */
  readonly acc: "f32" | "f64" | "s32";
  /** D's dtype unless told otherwise. */
  readonly out: "f32" | "f16" | "bf16" | "f64" | "s32";
}

/**
 * tf32 is fp32 in memory, rounded to 10 mantissa bits on use. Elements of 4 and 6 bits lie packed, the first in the lowest bits. The mx* and nvf4
 * types carry a block scale beside the data (`numerics/scaled.ts`): mxf8 is e4m3, mxf4 and nvf4 are e2m1. s4 is of weights alone (`problem/weights.ts`): its code is the
 * value plus 8.
 */
export const dtypes = {
  f32: { bits: 32, kind: "float", acc: "f32", out: "f32" },
  f16: { bits: 16, kind: "float", acc: "f32", out: "f16" },
  bf16: { bits: 16, kind: "float", acc: "f32", out: "bf16" },
  tf32: { bits: 32, kind: "float", acc: "f32", out: "f32" },
  f64: { bits: 64, kind: "float", acc: "f64", out: "f64" },
  s8: { bits: 8, kind: "int", acc: "s32", out: "s32" },
  u8: { bits: 8, kind: "int", acc: "s32", out: "s32" },
  s4: { bits: 4, kind: "int", acc: "f32", out: "bf16" },
  s32: { bits: 32, kind: "int", acc: "s32", out: "s32" },
  e4m3: { bits: 8, kind: "float", acc: "f32", out: "bf16" },
  e5m2: { bits: 8, kind: "float", acc: "f32", out: "bf16" },
  e2m3: { bits: 6, kind: "float", acc: "f32", out: "bf16" },
  e3m2: { bits: 6, kind: "float", acc: "f32", out: "bf16" },
  e2m1: { bits: 4, kind: "float", acc: "f32", out: "bf16" },
  mxf8: { bits: 8, kind: "scaled", acc: "f32", out: "bf16" },
  mxf8e5m2: { bits: 8, kind: "scaled", acc: "f32", out: "bf16" },
  mxf6e2m3: { bits: 6, kind: "scaled", acc: "f32", out: "bf16" },
  mxf6e3m2: { bits: 6, kind: "scaled", acc: "f32", out: "bf16" },
  mxf4: { bits: 4, kind: "scaled", acc: "f32", out: "bf16" },
  nvf4: { bits: 4, kind: "scaled", acc: "f32", out: "bf16" },
} as const satisfies Record<string, DTypeRow>;

/** Sets of dtypes of which A may have one and B another. */
export const mixable = [
  ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"],
  ["mxf8", "mxf8e5m2", "mxf6e2m3", "mxf6e3m2", "mxf4"],
  ["s8", "u8"],
] as const satisfies readonly (readonly (keyof typeof dtypes)[])[];

/** dtypes of 8 bits whose elements, widened to 16 without loss, are multiplied with elements of 16. */
export const widened = {
  narrow: ["s8", "u8", "e4m3", "e5m2"],
  wide: ["f16", "bf16"],
} as const satisfies Record<string, readonly (keyof typeof dtypes)[]>;

/** dtypes of weights, which have a scale for each group along k; without one they are not widened. */
export const weightTypes = ["s4", "s8", "e2m1", "e4m3"] as const satisfies readonly (keyof typeof dtypes)[];

export type WeightType = (typeof weightTypes)[number];

/** Whether elements of one dtype are widened to be multiplied with those of the other. */
export const widensTo = (narrow: DType, wide: DType): boolean =>
  ([...widened.narrow, ...weightTypes] as readonly DType[]).includes(narrow) &&
  (widened.wide as readonly DType[]).includes(wide);

/** The dtype in which elements of A and B meet: the wider one's where the other is widened, else A's. */
export const productDType = (a: DType, b: DType): DType => (widensTo(a, b) ? b : a);

/** Whether A of one dtype and B of the other are multiplied by anything. */
export const mixes = (a: DType, b: DType): boolean =>
  a === b ||
  widensTo(a, b) ||
  widensTo(b, a) ||
  mixable.some((set: readonly DType[]) => set.includes(a) && set.includes(b));

export type DType = keyof typeof dtypes;

export const dtypeNames = Object.keys(dtypes) as readonly DType[];

export const isDType = (text: string): text is DType => Object.hasOwn(dtypes, text);

/** Bytes of one element in memory that packs them: a fraction of types under 8 bits. */
export const packedSize = (dtype: DType): number => dtypes[dtype].bits / 8;

/** Bytes of one element; types under 8 bits count the byte that holds them. */
export const sizeOf = (dtype: DType): Bytes => Math.ceil(dtypes[dtype].bits / 8) as Bytes;

/** What memory holds of a dtype: tf32 is f32 there. */
export const memoryType = (dtype: DType): DType => (dtype === "tf32" ? "f32" : dtype);
