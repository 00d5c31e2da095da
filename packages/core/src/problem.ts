/**
 * The problem model: `D = epilogue(alpha * A.B + beta * C)`.
 * A is m x k, B is k x n, C and D are m x n. Everything that any backend may be asked is representable here;
 * a backend that cannot serve a part of it says so in `accepts`.
 */
import type { z } from "zod";
import type { Frozen } from "./ids.ts";
import type { SymbolicSizes } from "./problem/symbolic.ts";
import type { problemSchema } from "./schema/problem.ts";

/** A complete problem. The schema says what each field is, and `tilewright schema problem` prints it. Every size has a number: with `symbolic` those that schedules are chosen for. */
export type Problem = Omit<Frozen<z.output<typeof problemSchema>>, "symbolic"> & {
  /** Sizes, leading dimensions and strides that the launch supplies, with what is known of them; absent where all are fixed. */
  readonly symbolic?: SymbolicSizes | undefined;
};

/** One matrix in device memory: `ld` in elements, at least the extent of the contiguous axis; `align` of its base in bytes, a power of two (wider copies need more). */
export type Operand = Problem["d"];

/** `row`: the last index is contiguous; `col`: the first one is. */
export type MatrixLayout = Operand["layout"];

/** A scalar that is known when the kernel is made, or one that the launch supplies. */
export type Scalar = Problem["alpha"];

/**
 * `strided`: problems of one shape, with elements between consecutive matrices (0 shares one). `grouped`: problems of different shapes, whose sizes, leading dimensions and pointers
 * come from a table in device memory (`launch/groups.ts`), all of them in `symbolic`; the problem's own extents are upper bounds unless ranges there say otherwise. With `rows`
 * only m differs, or, where `axis` says so, k (`problem/expertRows.ts`).
 */
export type Batch = Problem["batch"];

/** The axes of a batch, the innermost last, and how far apart, in elements, neighbours along each are in each matrix: 0 where they share one; `steps` is empty where a step reads nothing. */
export type BatchAxes = NonNullable<Extract<Batch, { readonly kind: "strided" }>["axes"]>;

/** One step of the epilogue chain; steps apply in order to the fp32 (or s32, f64) accumulator value. */
export type EpilogueStep = Problem["epilogue"][number];

/** What is known of runs of rows that follow each other: the rows of the longest, and of all. `outer`: they are rows of A and of what is stored; else of other factors. */
export type Runs = NonNullable<Extract<EpilogueStep, { readonly kind: "factor" }>["runs"]>;

/** Rows in pages of `size`, a power of two: the columns of step `table` are the numbers of those that a problem of a batch has, in their order. */
export type Pages = NonNullable<Runs["pages"]>;

/** Rows of the smallest page: those after which swizzles of bulk copies repeat. */
export const LEAST_PAGE = 8;

/**
 * How the rows of a mixture of experts are told apart, by int32 of device memory, one a group. `offsets`: rows of A and D are sorted by group, and group g ends before row `offsets[g]` of the m
 * that there are. `counts`: each group has m rows, and its first `counts[g]` are used.
 */
export const expertRows = ["offsets", "counts"] as const;
export type ExpertRows = (typeof expertRows)[number];

/** The extent in which experts differ. `m`: rows of A and D. `k`: rows of B and columns of A, over which gradients of weights are summed; each expert then has a D of its own. */
export const expertAxes = ["m", "k"] as const;
export type ExpertAxis = (typeof expertAxes)[number];

/** `gelu` is the exact one (erf). Those `_approx` are evaluated by `tanh.approx` where the target has it. */
export const activationNames = [
  "relu",
  "gelu",
  "gelu_tanh",
  "silu",
  "sigmoid",
  "tanh",
  "gelu_tanh_approx",
  "silu_approx",
  "sigmoid_approx",
  "tanh_approx",
] as const;
export type Activation = (typeof activationNames)[number];

/**
 * How elements are multiplied where their dtype leaves a choice. `3xtf32`: f32 as the sum of two tf32 values, three of whose four products are
 * added; as near as products in f32 are, on tensor cores. `promoted`: of 8-bit floats, whose sums tensor cores of Ada and Hopper keep to 14 bits, every 128
 * of K are summed there and then added in f32.
 */
export const precisions = ["3xtf32", "promoted"] as const;
export type Precision = (typeof precisions)[number];

/**
 * What has a factor in f32 of its own, of 8-bit floats: each row of A (column of B) and run of 128 elements along K, or each square of 128 rows
 * (columns) and 128 along K.
 */
export const blockForms = ["1x128", "128x128"] as const;
export type BlockForm = (typeof blockForms)[number];

/** Forms of the factors of A and of B. */
export type BlockScales = NonNullable<Problem["blockScales"]>;

/**
 * How the columns of the two factors of a gated product lie: in B, `halves`, those of the first one before those of the second one, or `interleaved`, one of each
 * in turn; `matrices`, those of the first one in B, and those of the second one in a matrix of its own, a `factor` of the epilogue.
 */
export const gatedForms = ["halves", "interleaved", "matrices"] as const;

/** Columns of B: of a gated product with one matrix twice those of D; where a further factor follows its rows. */
export function columnsOfB({
  n,
  gated,
  epilogue = [],
}: Pick<Problem, "n" | "gated"> & {
  readonly epilogue?: readonly { readonly kind: string; readonly rows?: number }[] | undefined;
}): number {
  if (gated !== undefined) return gated === "matrices" ? n : 2 * n;
  return epilogue.find(({ kind }) => kind === "factor")?.rows ?? n;
}

/** Columns that are multiplied: of a gated product those of both factors. */
export const productColumns = (problem: Pick<Problem, "n" | "gated" | "epilogue">): number =>
  problem.gated === undefined ? columnsOfB(problem) : 2 * problem.n;

/** The step of the second matrix of a gated product, by its position; null where B has both factors. */
export function upFactor({ gated, epilogue }: Pick<Problem, "gated" | "epilogue">): number | null {
  return gated === "matrices" ? epilogue.findIndex(({ kind }) => kind === "factor") : null;
}

/** The int32 that say where the rows of A, or of D, lie: the step's position, and the rows that memory has; null where they are the problem's own. */
export function rowIndexOf(
  { epilogue }: Pick<Problem, "epilogue">,
  which: "a" | "d",
): { readonly step: number; readonly rows: number } | null {
  const kind = which === "a" ? "gather" : "scatter";
  const step = epilogue.findIndex((each) => each.kind === kind);
  const found = epilogue[step];
  return found !== undefined && "rows" in found ? { step, rows: found.rows } : null;
}

/** Whether a kernel adds to what D holds, in the order in which rows come, and not stores. */
export const addsToD = ({ epilogue }: Pick<Problem, "epilogue">): boolean =>
  epilogue.some((step) => step.kind === "scatter" && step.add === true);

/** Rows x columns of each operand of a problem, as memory has them. */
export function operandShape(problem: Problem, which: "a" | "b" | "c" | "d"): readonly [number, number] {
  switch (which) {
    case "a":
      return [rowIndexOf(problem, "a")?.rows ?? problem.m, problem.k];
    case "b":
      return [problem.k, columnsOfB(problem)];
    case "c":
      return [problem.m, problem.n];
    case "d":
      return [rowIndexOf(problem, "d")?.rows ?? problem.m, problem.n];
  }
}

/** (row stride, column stride) of an operand in elements. */
export function operandStrides(operand: Operand): readonly [number, number] {
  return operand.layout === "row" ? [operand.ld, 1] : [1, operand.ld];
}
