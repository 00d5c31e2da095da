/** Forms of mma: shapes, element types, and which go together. */
import type { Operand, Register } from "../load/types.ts";
import { type Coordinates, type Fragments, fragmentIndex } from "./fragments.ts";
import type { Sparsity } from "./sparse.ts";

export const shapes = [
  "m8n8k4",
  "m8n8k16",
  "m8n8k32",
  "m8n8k128",
  "m16n8k4",
  "m16n8k8",
  "m16n8k16",
  "m16n8k32",
  "m16n8k64",
  "m16n8k128",
  "m16n8k256",
] as const;

/** Element types, by the arithmetic that multiplies them. */
export const elementTypes = {
  f16: { bits: 16, kind: "float" },
  bf16: { bits: 16, kind: "float" },
  tf32: { bits: 32, kind: "float" },
  e4m3: { bits: 8, kind: "float" },
  e5m2: { bits: 8, kind: "float" },
  // Below 8 bits an element takes a byte, but where two of 4 bits share one (mxf4).
  e3m2: { bits: 8, kind: "float" },
  e2m3: { bits: 8, kind: "float" },
  e2m1: { bits: 8, kind: "float" },
  f64: { bits: 64, kind: "double" },
  s8: { bits: 8, kind: "integer" },
  u8: { bits: 8, kind: "integer" },
  s4: { bits: 4, kind: "integer" },
  u4: { bits: 4, kind: "integer" },
  b1: { bits: 1, kind: "integer" },
} as const;

export type ElementType = keyof typeof elementTypes;

export const elementNames = Object.keys(elementTypes) as readonly ElementType[];

export const accumulatorBits = { f16: 16, f32: 32, f64: 64, s32: 32 } as const;

export type AccumulatorType = keyof typeof accumulatorBits;

export const accumulatorNames = Object.keys(accumulatorBits) as readonly AccumulatorType[];

export interface Form {
  readonly fragments: Fragments;
  readonly aType: ElementType;
  readonly bType: ElementType;
  readonly cType: AccumulatorType;
  readonly dType: AccumulatorType;
  readonly rounding: "rn" | "rz" | "rm" | "rp";
  readonly saturate: boolean;
  readonly combine: "multiply" | "xor" | "and";
  readonly a: readonly Register[];
  readonly b: readonly Register[];
  readonly c: readonly Register[];
  readonly d: readonly Register[];
  readonly sparsity: Sparsity | null;
  /** Two elements of 4 bits in a byte. */
  readonly packed: boolean;
  readonly scales: BlockScales | null;
}

/** Scale factors of a block-scaled product. */
export interface BlockScales {
  readonly format: "ue8m0" | "ue4m3";
  /** Factors of a row of A, and of a column of B. */
  readonly count: 1 | 2 | 4;
  readonly a: ScaleOperand;
  readonly b: ScaleOperand;
}

/** A register of factors, and the first byte and the lane of four (of two for A) that are read. */
export interface ScaleOperand {
  readonly register: Register;
  readonly byte: Operand;
  readonly thread: Operand;
}

/** Element numbers of the operands in row-major A[m][depth], B[n][k], C[m][n], tiles behind one another. */
interface Indices {
  readonly a: Int32Array;
  readonly b: Int32Array;
  readonly c: Int32Array;
  readonly d: Int32Array;
}

export function indicesOf(
  { m, n, k, depth, a, b, c, d }: Fragments,
  place: (k: number) => number = (at) => at,
  bPlace = place,
): Indices {
  const accumulator = (at: Coordinates): number => (at.t * m + at.m) * n + at.n;
  return {
    a: fragmentIndex(a, (at) => (at.t * m + at.m) * depth + place(at.k)),
    b: fragmentIndex(b, (at) => (at.t * n + at.n) * k + bPlace(at.k)),
    c: fragmentIndex(c, accumulator),
    d: fragmentIndex(d, accumulator),
  };
}
