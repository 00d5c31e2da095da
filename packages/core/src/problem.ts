/**
 * The problem model: `D = epilogue(alpha * A.B + beta * C)`.
 * A is m x k, B is k x n, C and D are m x n. Everything that any backend may be asked is representable here;
 * a backend that cannot serve a part of it says so in `accepts`.
 */
import type { DType } from "./dtype.ts";
import type { SymbolicSizes } from "./problem/symbolic.ts";

/** `row`: the last index is contiguous; `col`: the first one is. */
export type MatrixLayout = "row" | "col";

/** One matrix in device memory. */
export interface Operand {
  readonly dtype: DType;
  readonly layout: MatrixLayout;
  /** Leading dimension in elements: distance between rows (`row`) or columns (`col`); at least the extent of the contiguous axis. */
  readonly ld: number;
  /** Guaranteed alignment of the base pointer in bytes (a power of two); wider copies need more. */
  readonly align: number;
}

/** A scalar that is known when the kernel is made, or one that the launch supplies. */
export type Scalar = number | "runtime";

/** The axes of a batch, the innermost last, and how far apart, in elements, neighbours along each are in each matrix: 0 where they share one. */
export interface BatchAxes {
  readonly extents: readonly number[];
  readonly a: readonly number[];
  readonly b: readonly number[];
  readonly d: readonly number[];
  /** Of what each step of the epilogue reads; empty where it reads nothing. */
  readonly steps: readonly (readonly number[])[];
}

export type Batch =
  | { readonly kind: "none" }
  /** `count` problems of one shape; strides in elements between consecutive matrices (0 shares one matrix). */
  | {
      readonly kind: "strided";
      readonly count: number;
      readonly strideA: number;
      readonly strideB: number;
      readonly strideC: number;
      readonly strideD: number;
      /** A batch over several axes. The strides above are then what all distances of a matrix are multiples of. */
      readonly axes?: BatchAxes | undefined;
    }
  /**
   * Problems of different shapes: sizes, leading dimensions and pointers come from a table in device memory (`launch/groups.ts`), all of them in
   * `symbolic`. The problem's own extents are upper bounds unless ranges there say otherwise. With `rows` only m differs, or, where `axis` says so, k
   * (`problem/expertRows.ts`).
   */
  | {
      readonly kind: "grouped";
      readonly count: number;
      readonly rows?: ExpertRows | undefined;
      readonly axis?: "k" | undefined;
    };

/** What is known of runs of rows that follow each other: the rows of the longest, and of all. `outer`: they are rows of A and of what is stored; else of other factors. */
export interface Runs {
  readonly outer: boolean;
  readonly most: number;
  readonly total: number;
  /** They lie in pages: absent, one behind the other. */
  readonly pages?: Pages | undefined;
}

/** Rows of the smallest page: those after which swizzles of bulk copies repeat. */
export const LEAST_PAGE = 8;

/** Rows in pages of `size`, a power of two: the columns of step `table` are the numbers of those that a problem of a batch has, in their order. */
export interface Pages {
  readonly size: number;
  readonly table: number;
}

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

/** One step of the epilogue chain; steps apply in order to the fp32 (or s32, f64) accumulator value. `name`: of the operand in the expression it comes from. */
export type EpilogueStep =
  /** Add a vector indexed by m (one value a row) or n (one a column). */
  | {
      readonly kind: "bias";
      readonly along: "m" | "n";
      readonly dtype: DType;
      readonly name?: string | undefined;
    }
  /** Multiply by a launch-time scalar, a vector along m or n, or one value read from device memory. */
  | {
      readonly kind: "scale";
      readonly by: "scalar" | "m" | "n" | "tensor";
      readonly dtype: DType;
      readonly name?: string | undefined;
    }
  | { readonly kind: "activation"; readonly fn: Activation }
  | { readonly kind: "clamp"; readonly min: number; readonly max: number }
  /** Add an m x n matrix. */
  | { readonly kind: "residual"; readonly operand: Operand; readonly name?: string | undefined }
  /** Multiply by an m x n matrix, elementwise. */
  | { readonly kind: "gate"; readonly operand: Operand; readonly name?: string | undefined }
  /** Load what `scale` would multiply by, or an m x n matrix, for `map` steps after it; the value stays as it is. */
  | {
      readonly kind: "load";
      readonly by: "scalar" | "m" | "n" | "tensor";
      readonly dtype: DType;
      readonly name?: string | undefined;
    }
  | { readonly kind: "source"; readonly operand: Operand; readonly name?: string | undefined }
  /** The second matrix of a gated product; or a further factor of a tile program, of A.B or of the product before, as statements in front of the epilogue have it; the value stays as it is. */
  | {
      readonly kind: "factor";
      readonly operand: Operand;
      readonly rows: number;
      readonly columns: number;
      /** Its elements are those of B, in one buffer: row r has the first ones of B's column r. */
      readonly of?: "b" | undefined;
      /** Its columns, two, or of rows in pages one, tell rows of the problems of a batch apart (`problem/runs.ts`). */
      readonly runs?: Runs | undefined;
      readonly name?: string | undefined;
    }
  /** A further matrix that statements of a tile program in front of the epilogue store; the value stays as it is. */
  | {
      readonly kind: "result";
      readonly operand: Operand;
      readonly rows: number;
      readonly columns: number;
      readonly name?: string | undefined;
    }
  /** Where the rows of A lie, or those of D go: for each row of the problem an int32, its number among the `rows` that memory has (`problem/rowIndex.ts`); the value stays as it is. */
  | { readonly kind: "gather" | "scatter"; readonly rows: number; readonly name?: string | undefined }
  /** An expression of the value (`acc`) and of what step i has loaded (`$i`): `silu(acc*$0+$1)*$1`, without spaces. */
  | { readonly kind: "map"; readonly expression: string }
  /** Round to another dtype; `saturate` clamps to its finite range. */
  | { readonly kind: "cast"; readonly dtype: DType; readonly saturate: boolean }
  /** Store the value at this point as a second output. */
  | { readonly kind: "output"; readonly operand: Operand }
  /** Reduce over n (one value a row), over m (one a column) or over everything. */
  | {
      readonly kind: "reduce";
      readonly op: "sum" | "amax";
      readonly over: "m" | "n" | "all";
      readonly dtype: DType;
    }
  /** Last: `group` columns of a row, which share a scale, are divided by it, so that the largest of them becomes the largest value of D's dtype; scales are stored, a column for each group. */
  | { readonly kind: "quantize"; readonly group: number; readonly operand: Operand };

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
export interface BlockScales {
  readonly a: BlockForm;
  readonly b: BlockForm;
}

/**
 * How the columns of the two factors of a gated product lie: in B, `halves`, those of the first one before those of the second one, or `interleaved`, one of each
 * in turn; `matrices`, those of the first one in B, and those of the second one in a matrix of its own, a `factor` of the epilogue.
 */
export const gatedForms = ["halves", "interleaved", "matrices"] as const;
type GatedForm = (typeof gatedForms)[number];

export interface Problem {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: Operand;
  readonly b: Operand;
  /** Present iff beta is not the constant 0. */
  readonly c: Operand | null;
  readonly d: Operand;
  readonly acc: DType;
  /** Absent: as the dtypes say. */
  readonly precision?: Precision | undefined;
  /**
   * A gated product: B has 2n columns, those of a gate and of an up projection, or n beside a second matrix. An epilogue sees both sums of an element, `acc` and `up`, and its first `map`
   * joins them. Absent: B has n columns.
   */
  readonly gated?: GatedForm | undefined;
  /** B has codes of weights, in the order of `problem/weights.ts`, with factors beside them; absent: B has elements. */
  readonly weights?: Weights | undefined;
  /** A and B have factors beside them (`problem/scales.ts`), which multiply sums of 128 along K; absent: none but those of block-scaled dtypes. */
  readonly blockScales?: BlockScales | undefined;
  readonly alpha: Scalar;
  readonly beta: Scalar;
  readonly batch: Batch;
  readonly epilogue: readonly EpilogueStep[];
  /**
   * Sizes, leading dimensions and strides that the launch supplies, with what is known of them; absent where all are fixed. The numbers above
   * are then those that schedules are chosen for.
   */
  readonly symbolic?: SymbolicSizes | undefined;
}

/** Weights that are stored in few bits: `group` of them along k have a scale, and `zeros`: a zero point. */
interface Weights {
  readonly group: number;
  readonly zeros: boolean;
}

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
