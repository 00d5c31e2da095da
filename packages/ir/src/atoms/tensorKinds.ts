/**
 * Matrix instructions that accumulate in tensor memory, as data (PTX ISA 9.0, tcgen05.mma kinds): what they multiply. One instruction takes a whole
 * tile of rows and columns, so that a kind has no shape but its K; which M and N are legal is said by the tables of `@tilewright/ptx`.
 */

import type { Feature } from "@tilewright/core";
import { type DType, mixable } from "@tilewright/core";

export interface TensorKind {
  /** Its name in a program's text: `tcgen05.f16`. */
  readonly name: string;
  /** As the instruction spells it: `kind::f16`. */
  readonly kind: "f16" | "tf32" | "f8f6f4" | "i8" | "mxf8f6f4" | "mxf4" | "mxf4nvf4";
  readonly a: readonly DType[];
  readonly b: readonly DType[];
  readonly acc: readonly DType[];
  /** Elements of K in one instruction: 32 bytes. What scale factors there are follows from the dtypes. */
  readonly k: number;
  readonly feature: Feature;
  /** A and B are of the same type. */
  readonly same: boolean;
  /** Operands whose rows (of A) or columns (of B) are contiguous are taken as they are. */
  readonly eitherMajor: boolean;
  /** Elements under 8 bits share bytes in shared memory, too; in other kinds each takes one. */
  readonly packed?: true;
  /** Operands are block-scaled. */
  readonly scaled?: true;
}

const narrow: readonly DType[] = mixable[0];
const microscaled: readonly DType[] = mixable[1];
const int8: readonly DType[] = ["s8", "u8"];
const halves: readonly DType[] = ["f16", "bf16"];

export const tensorKinds: readonly TensorKind[] = [
  {
    name: "tcgen05.f16",
    kind: "f16",
    a: halves,
    b: halves,
    acc: ["f32"],
    k: 16,
    feature: "tcgen05",
    same: true,
    eitherMajor: true,
  },
  {
    name: "tcgen05.tf32",
    kind: "tf32",
    a: ["tf32"],
    b: ["tf32"],
    acc: ["f32"],
    k: 8,
    feature: "tcgen05",
    same: true,
    eitherMajor: true,
  },
  {
    name: "tcgen05.f8f6f4",
    kind: "f8f6f4",
    a: narrow,
    b: narrow,
    acc: ["f32"],
    k: 32,
    feature: "tcgen05",
    same: false,
    eitherMajor: true,
  },
  {
    name: "tcgen05.i8",
    kind: "i8",
    a: int8,
    b: int8,
    acc: ["s32"],
    k: 32,
    feature: "tcgen05.i8",
    same: false,
    eitherMajor: true,
  },
  // Before the next one, which multiplies two mxf4 at half the rate.
  {
    name: "tcgen05.mxf4",
    kind: "mxf4",
    scaled: true,
    a: ["mxf4"],
    b: ["mxf4"],
    acc: ["f32"],
    k: 64,
    feature: "tcgen05",
    same: true,
    eitherMajor: false,
    packed: true,
  },
  {
    name: "tcgen05.mxf8f6f4",
    kind: "mxf8f6f4",
    scaled: true,
    a: microscaled,
    b: microscaled,
    acc: ["f32"],
    k: 32,
    feature: "tcgen05",
    same: false,
    eitherMajor: true,
  },
  // Takes mxf4 as well: a program may name it, and gets the same numbers.
  {
    name: "tcgen05.mxf4nvf4",
    kind: "mxf4nvf4",
    scaled: true,
    a: ["nvf4", "mxf4"],
    b: ["nvf4", "mxf4"],
    acc: ["f32"],
    k: 64,
    feature: "tcgen05",
    same: true,
    eitherMajor: false,
    packed: true,
  },
];

/** The kind of a program's atom; null for instructions of other engines. */
export const findTensorKind = (name: string): TensorKind | null =>
  tensorKinds.find((row) => row.name === name) ?? null;

/** The kind that multiplies these types; null where there is none. */
export const tensorKindFor = (a: DType, b: DType, acc: DType): TensorKind | null =>
  tensorKinds.find(
    (row) => row.a.includes(a) && row.b.includes(b) && row.acc.includes(acc) && (!row.same || a === b),
  ) ?? null;
