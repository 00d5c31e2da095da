/** Matrices from files: what they say about the problem, and their values in the memory of an operand. */
import {
  bytesOfStorage,
  type Checked,
  type Diagnostic,
  type DType,
  decodeArray,
  err,
  makeStorage,
  type Operand,
  ok,
  operandSpan,
  operandStrides,
  type Problem,
  type Storage,
  writeElement,
} from "@tilewright/core";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { loadMatrix } from "../files/load.ts";
import type { Matrix } from "../files/tensor.ts";
import type { Known } from "../request/request.ts";

type Which = "a" | "b" | "c";
export type Matrices = Readonly<Partial<Record<Which, Matrix>>>;

/** Paths of --a, --b and --c. */
export type MatrixArgs = Readonly<Partial<Record<Which, string | undefined>>>;

/** Which sizes the rows and columns of each matrix are. */
const extents = { a: ["m", "k"], b: ["k", "n"], c: ["m", "n"] } as const;

/** Load the files that are named; all errors at once. */
export function loadMatrices(context: Context, args: MatrixArgs): Checked<Matrices> {
  const errors: Diagnostic[] = [];
  const matrices: Partial<Record<Which, Matrix>> = {};
  for (const which of ["a", "b", "c"] as const) {
    const path = args[which];
    if (path === undefined) continue;
    const matrix = loadMatrix(context, path);
    if (matrix.ok) matrices[which] = matrix.value;
    else errors.push(...matrix.error);
  }
  return errors.length > 0 ? err(errors) : ok(matrices);
}

/** Sizes that are given beside the files. */
type Sizes = Readonly<Partial<Record<"m" | "n" | "k", number | undefined>>>;

/** Sizes from the shapes of the files. Each must be the same everywhere, flags and an edited tile program included. */
function sizesOf(
  matrices: Matrices,
  given: Sizes,
  by: "flags" | "program",
): Checked<Readonly<Record<string, number>>> {
  const said = new Map<string, { readonly value: number; readonly by: string }>();
  const errors: Diagnostic[] = [];
  const say = (size: "m" | "n" | "k", value: number, by: string, at: string) => {
    const earlier = said.get(size);
    if (earlier === undefined) said.set(size, { value, by });
    else if (earlier.value !== value)
      errors.push(
        problemWith(
          codes.shapeMismatch,
          at,
          `${size} is ${value} by ${by}, but ${earlier.value} by ${earlier.by}`,
          {
            hint: "A is m x k, B is k x n, C and D are m x n",
          },
        ),
      );
  };
  for (const which of ["a", "b", "c"] as const) {
    const matrix = matrices[which];
    if (matrix === undefined) continue;
    const [rows, cols] = extents[which];
    const shape = `(${matrix.rows}, ${matrix.cols})`;
    say(rows, matrix.rows, `the rows of ${matrix.source} ${shape}`, `--${which}`);
    say(cols, matrix.cols, `the columns of ${matrix.source} ${shape}`, `--${which}`);
  }
  for (const size of ["m", "n", "k"] as const) {
    const value = given[size];
    if (value !== undefined) say(size, value, by === "flags" ? `-${size}` : "the tile program", `-${size}`);
  }
  return errors.length > 0
    ? err(errors)
    : ok(Object.fromEntries([...said].map(([size, { value }]) => [size, value])));
}

const narrowFloats = ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"] as const;

/** dtypes whose values all are values of the key's type as well. */
const holds: Readonly<Record<DType, readonly DType[]>> = {
  f64: ["f32", "tf32", "f16", "bf16", ...narrowFloats, "s8", "u8", "s32"],
  f32: ["tf32", "f16", "bf16", ...narrowFloats, "s8", "u8"],
  // fp32 in memory; that a tensor core drops the low bits is what asking for tf32 means.
  tf32: ["f32", "f16", "bf16", ...narrowFloats, "s8", "u8"],
  f16: [...narrowFloats, "s8", "u8"],
  bf16: [...narrowFloats, "s8", "u8"],
  s32: ["s8", "u8"],
  s8: [],
  u8: [],
  // Weights lie in an order of their own, with scales beside them.
  s4: [],
  e4m3: ["e2m3", "e2m1"],
  e5m2: ["e3m2", "e2m1"],
  e2m3: ["e2m1"],
  e3m2: ["e2m1"],
  e2m1: [],
  // Elements by themselves: their factors come from a file of their own.
  mxf8: ["e4m3"],
  mxf8e5m2: ["e5m2"],
  mxf6e2m3: ["e2m3"],
  mxf6e3m2: ["e3m2"],
  mxf4: ["e2m1"],
  nvf4: ["e2m1"],
};

const canHold = (dtype: DType, from: DType): boolean => dtype === from || holds[dtype].includes(from);

/** The dtype of A and B that holds the values of both files; null without files or where neither holds the other's. */
export function commonDType(matrices: Matrices): DType | null {
  const found = [matrices.a?.dtype, matrices.b?.dtype].filter((dtype) => dtype !== undefined);
  return found.find((dtype) => found.every((other) => canHold(dtype, other))) ?? null;
}

/** Whether f32 holds every value of these files: then fp32 kernels multiply them without rounding. */
export const fitsF32 = (matrices: Matrices): boolean =>
  Object.values(matrices).every((matrix) => canHold("f32", matrix.dtype));

/** What files say about a problem: sizes and layouts. Flags override the layouts. */
export function knownFrom(matrices: Matrices, given: Sizes, by: "flags" | "program"): Checked<Known> {
  const sizes = sizesOf(matrices, given, by);
  if (!sizes.ok) return sizes;
  const layouts = Object.entries(matrices).map(
    ([which, matrix]) => [which, { layout: matrix.layout }] as const,
  );
  return ok({ ...sizes.value, ...Object.fromEntries(layouts) });
}

/** A matrix whose values the problem would have to round, and a batch that a file cannot hold. */
export function checkMatrices(problem: Problem, matrices: Matrices): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  for (const which of ["a", "b", "c"] as const) {
    const [matrix, operand] = [matrices[which], problem[which]];
    if (matrix === undefined) continue;
    if (operand !== null && !canHold(operand.dtype, matrix.dtype)) {
      const message = `${matrix.source} holds ${matrix.dtype}, and as ${operand.dtype} its values would be rounded`;
      found.push(
        problemWith(codes.lossyInput, `--${which}`, message, {
          hint: `store it as ${operand.dtype} first, so that the rounding is yours`,
        }),
      );
    }
    if (operand === null)
      found.push(
        problemWith(codes.conflict, `--${which}`, "C is read only if --beta is not 0", {
          hint: "add --beta 1",
        }),
      );
  }
  if (problem.batch.kind !== "none" && Object.keys(matrices).length > 0)
    found.push(
      problemWith(codes.conflict, "--batch", "a file holds one matrix, not a batch", {
        hint: "leave --batch out",
      }),
    );
  return found;
}

/** The bytes of an operand with the values of a file. Gaps of the leading dimension are NaN (or -1), so that reading them shows. */
export function packMatrix(matrix: Matrix, operand: Operand): Storage {
  const { rows, cols, dtype, data } = matrix;
  const span = operandSpan(operand, rows, cols);
  if (dtype === operand.dtype && matrix.layout === operand.layout && span === rows * cols) return data;
  const packed = makeStorage(operand.dtype, span);
  bytesOfStorage(packed).fill(0xff);
  const values = decodeArray(dtype, data, rows * cols);
  const [fromRow, fromCol] = matrix.layout === "row" ? [cols, 1] : [1, rows];
  const [toRow, toCol] = operandStrides(operand);
  for (let row = 0; row < rows; row++)
    for (let col = 0; col < cols; col++)
      writeElement(
        operand.dtype,
        packed,
        row * toRow + col * toCol,
        values[row * fromRow + col * fromCol] ?? 0,
      );
  return packed;
}
