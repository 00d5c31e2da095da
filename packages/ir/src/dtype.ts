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

/** tf32 is fp32 in memory, rounded to 10 mantissa bits on use; the mx* and nvf4 types carry a block scale beside the data. */
export const dtypes = {
  f32: { bits: 32, kind: "float", acc: "f32", out: "f32" },
  f16: { bits: 16, kind: "float", acc: "f32", out: "f16" },
  bf16: { bits: 16, kind: "float", acc: "f32", out: "bf16" },
  tf32: { bits: 32, kind: "float", acc: "f32", out: "f32" },
  f64: { bits: 64, kind: "float", acc: "f64", out: "f64" },
  s8: { bits: 8, kind: "int", acc: "s32", out: "s32" },
  u8: { bits: 8, kind: "int", acc: "s32", out: "s32" },
  s32: { bits: 32, kind: "int", acc: "s32", out: "s32" },
  e4m3: { bits: 8, kind: "float", acc: "f32", out: "bf16" },
  e5m2: { bits: 8, kind: "float", acc: "f32", out: "bf16" },
  mxf8: { bits: 8, kind: "scaled", acc: "f32", out: "bf16" },
  mxf4: { bits: 4, kind: "scaled", acc: "f32", out: "bf16" },
  nvf4: { bits: 4, kind: "scaled", acc: "f32", out: "bf16" },
} as const satisfies Record<string, DTypeRow>;

export type DType = keyof typeof dtypes;

export const dtypeNames = Object.keys(dtypes) as readonly DType[];

export const isDType = (text: string): text is DType => Object.hasOwn(dtypes, text);

/** Bytes of one element; types under 8 bits count the byte that holds them. */
export const sizeOf = (dtype: DType): Bytes => Math.ceil(dtypes[dtype].bits / 8) as Bytes;
