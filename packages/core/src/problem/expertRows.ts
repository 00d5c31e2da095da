/**
 * Groups of a mixture of experts: which rows each has, and where its other operands lie. Experts differ in one extent, m or k. What has that extent has its rows in the order of the groups: along m, A, C, D,
 * matrices and vectors along m of the epilogue; along k, A and B. Everything else is that of one group behind that of the other.
 */
import type { Diagnostic } from "../diagnostics.ts";
import { type DType, dtypes, packedSize, sizeOf } from "../dtype.ts";
import { isScaled, scaledTypes } from "../numerics/scaled.ts";
import {
  addsToD,
  type Batch,
  type ExpertAxis,
  type ExpertRows,
  operandShape,
  operandStrides,
  type Problem,
  rowIndexOf,
} from "../problem.ts";
import type { BatchedOperand } from "./batch.ts";
import { invalid, problemCodes } from "./codes.ts";
import { isIndex } from "./rowIndex.ts";
import { longestRuns } from "./runs.ts";
import { blockFactors, SCALE_ROWS, type ScaleMatrix, scaleMatrix } from "./scales.ts";
import { packedStride } from "./size.ts";
import { stepExtentNames, stepExtents, stepMatrix } from "./stepInputs.ts";
import { extentNames, rangeOfSize, sizeMultiple } from "./symbolic.ts";
import { weightFactors, weightMatrix } from "./weights.ts";

/** What tells the rows of a problem's groups apart; null of other problems, groups with a table among them. */
export const expertRowsOf = ({ batch }: { readonly batch: Batch }): ExpertRows | null =>
  batch.kind === "grouped" ? (batch.rows ?? null) : null;

/** The extent in which a problem's experts differ. */
export const expertAxisOf = ({ batch }: { readonly batch: Batch }): ExpertAxis =>
  (batch.kind === "grouped" ? batch.axis : undefined) ?? "m";

/** The problem that schedules are chosen for: of experts that share rows one with as many as the others, of runs the longest. */
export function evenProblem(problem: Problem): Problem {
  const { batch } = problem;
  const axis = expertAxisOf(problem);
  return batch.kind === "grouped" && batch.rows === "offsets"
    ? { ...problem, [axis]: Math.ceil(problem[axis] / batch.count) }
    : longestRuns(problem);
}

/** Bytes from an operand's first element to that of a group: `row` times the number of the group's first row, or of its first block of rows, and `group` times its own. */
export interface GroupStrides {
  readonly row: number;
  readonly group: number;
  /** Of rows that lie in blocks: a group begins at a block of its own. */
  readonly blocks?: GroupBlocks;
}

/**
 * Group g begins at block `ceil((first + slack * g) / rows)`, where `first` is its first row: no two groups have a block in common, and where a group begins follows from its own offset, not from
 * those of all groups before. `slack` is `rows - 1`, as TensorRT-LLM and FlashInfer have it; 0 where all groups have whole blocks, which then follow each other, as torch and vLLM have them.
 */
export interface GroupBlocks {
  readonly rows: number;
  readonly slack: number;
}

/** Bytes before a group's part. */
export const groupStart = ({ row, group, blocks }: GroupStrides, first: number, g: number): number =>
  row * (blocks === undefined ? first : Math.ceil((first + blocks.slack * g) / blocks.rows)) + group * g;

/** What a mixture of experts has for each of them, or for each row: operands, and the factors of A and B. */
export type ExpertOperandName = BatchedOperand | "sfa" | "sfb";

/** Factors of rows lie as those of one matrix with the rows of all experts; others, and those of counts, are an expert's behind those of the one before. */
function factorStrides(problem: Problem, which: "sfa" | "sfb"): GroupStrides {
  const rows = expertRowsOf(problem);
  const weights = which === "sfb" ? weightFactors(problem) : null;
  if (rows !== null && weights !== null) return { row: 0, group: weights.bytes };
  const operand = which === "sfa" ? "a" : "b";
  const codes = scaleMatrix(problem, operand);
  if (rows !== null && codes !== null)
    return which === "sfa" ? codeStrides(problem, codes) : { row: 0, group: codes.bytes };
  const factors = blockFactors(problem, operand);
  if (rows === null || factors === null) return { row: 0, group: 0 };
  return which === "sfa" && rows === "offsets"
    ? { row: factors.strides[0] * sizeOf("f32"), group: 0 }
    : { row: 0, group: factors.bytes };
}

/** Scales of A in bytes, and of a quantised D, which becomes one: blocks of 128 rows. */
function codeStrides(problem: Problem, codes: ScaleMatrix): GroupStrides {
  if (expertRowsOf(problem) !== "offsets" || expertAxisOf(problem) === "k")
    return { row: 0, group: codes.bytes };
  const slack = sizeMultiple(problem, "m") % SCALE_ROWS === 0 ? 0 : SCALE_ROWS - 1;
  return { row: codes.bytes / codes.blocks[0], group: 0, blocks: { rows: SCALE_ROWS, slack } };
}

/** Int32 of rows follow each other as the rows do. */
function indexStrides(problem: Problem): GroupStrides {
  const rows = expertRowsOf(problem);
  const unit = sizeOf("s32");
  return { row: rows === "offsets" ? unit : 0, group: rows === "counts" ? problem.m * unit : 0 };
}

/** The axis of an operand along which an expert has as many places as rows; -1 where it has all of them. A vector has one of its two axes. */
function axisOfRows(problem: Problem, which: BatchedOperand): number {
  const index = Number(/^epilogue(\d+)$/.exec(which)?.[1] ?? -1);
  const step = problem.epilogue[index];
  const names =
    which === "a" || which === "b" || which === "c" || which === "d"
      ? extentNames[which]
      : step !== undefined
        ? stepExtentNames(problem, step)
        : [];
  const across = stepMatrix(problem, index)?.across;
  return names.findIndex((name, i) => name === expertAxisOf(problem) && across !== i);
}

/** Whether each expert has all of an operand, one behind the other: bulk copies then take it through one map, in which the expert's number is a coordinate. */
export function isPerExpert(problem: Problem, which: ExpertOperandName): boolean {
  const whole = which === "sfa" || which === "sfb" || axisOfRows(problem, which) < 0;
  return whole && groupStrides(problem, which).group > 0;
}

/** The strides of an operand of a mixture of experts; zeros of other problems, and of what all groups share. */
export function groupStrides(problem: Problem, which: ExpertOperandName): GroupStrides {
  if (which === "sfa" || which === "sfb") return factorStrides(problem, which);
  const rows = expertRowsOf(problem);
  const index = Number(/^epilogue(\d+)$/.exec(which)?.[1] ?? -1);
  const step = problem.epilogue[index];
  if (isIndex(step)) return indexStrides(problem);
  const vector = stepMatrix(problem, index);
  const matrix =
    which === "a" || which === "b" || which === "c" || which === "d"
      ? problem[which]
      : step !== undefined && "operand" in step
        ? step.operand
        : null;
  const value = step !== undefined && "by" in step && step.by === "tensor" ? step : null;
  const dtype = (matrix ?? vector ?? value)?.dtype;
  // All experts have their rows of one matrix where an index says which.
  const shared = (which === "a" || which === "d") && rowIndexOf(problem, which) !== null;
  if (rows === null || dtype === undefined || shared) return { row: 0, group: 0 };
  const codes = step?.kind === "quantize" ? scaleMatrix(problem, "d") : null;
  if (codes !== null) return codeStrides(problem, codes);
  const unit = packedSize(dtype);
  if (value !== null) return { row: 0, group: unit };
  const shape =
    step !== undefined
      ? stepExtents(problem, step)
      : operandShape(problem, which === "a" || which === "b" ? which : "d");
  const words = which === "b" ? weightMatrix(problem) : null;
  if (words !== null) return { row: 0, group: words[0] * words[1] * sizeOf("s32") };
  const whole = matrix === null ? Math.max(...(vector?.shape ?? [])) : packedStride(matrix, ...shape);
  const axis = axisOfRows(problem, which);
  if (axis < 0 || rows === "counts") return { row: 0, group: whole * unit };
  return { row: (matrix === null ? 1 : (operandStrides(matrix)[axis] ?? 0)) * unit, group: 0 };
}

/** What device memory says of groups with so many rows each: where each ends, or the counts themselves. */
export function expertRowsData(rows: ExpertRows, counts: readonly number[]): Int32Array {
  let end = 0;
  return Int32Array.from(counts, (count) => {
    end += count;
    return rows === "counts" ? count : end;
  });
}

/**
 * The rows of each group that such numbers say. Errors, all at once, TW1020: not as many as there are groups, offsets that decrease, rows that the problem does not have, and no multiples of
 * the divisor that it promises. A kernel, which reads them when it runs, takes each within 0 and m (or k), rounded down to that divisor, and a group that ends before it begins as empty.
 */
export function checkExpertRows(problem: Problem, given: ArrayLike<number>): readonly Diagnostic[] {
  const { batch } = problem;
  const rows = expertRowsOf(problem);
  if (batch.kind !== "grouped" || rows === null) return [];
  const axis = expertAxisOf(problem);
  const most = problem[axis];
  const multiple = sizeMultiple(problem, axis);
  const found: Diagnostic[] = [];
  const fault = (at: string, message: string, hint: string): void => {
    found.push(invalid(problemCodes.expertRows, at, message, hint));
  };
  if (given.length !== batch.count)
    fault(rows, `${given.length} ${rows} for ${batch.count} experts`, "give one for each expert");
  let before = 0;
  for (const [g, value] of Array.from(given).entries()) {
    const at = `${rows}[${g}]`;
    if (!Number.isInteger(value) || value < 0 || value > most)
      fault(
        at,
        `${value} is no number of rows from 0 to ${most}`,
        `${axis} is ${most}: the rows that there are`,
      );
    else if (value % multiple !== 0)
      fault(
        at,
        `${value} is no multiple of ${multiple}`,
        `the problem promises ${axis}%${multiple} of every expert`,
      );
    else if (rows === "offsets" && value < before)
      fault(
        at,
        `${value} is less than the offset before it, ${before}`,
        "offsets are where groups end, ascending",
      );
    before = value;
  }
  return found;
}

/** Every reason why a mixture of experts cannot be: TW1020. */
export function checkExperts(problem: Problem): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  const fault = (at: string, message: string, hint: string): void => {
    found.push(invalid(problemCodes.expertRows, at, message, hint));
  };
  const { symbolic = {} } = problem;
  const axis = expertAxisOf(problem);
  const { min, max, multiple } = symbolic[axis] ?? { min: 0, max: 0, multiple: 1 };
  const usual = rangeOfSize(axis, { max: problem[axis], multiple });
  const others = Object.keys(symbolic).filter((name) => name !== axis);
  if (others.length > 0 || min !== usual.min || max !== usual.max)
    fault(
      "symbolic",
      `the rows of each expert are the one size that the launch supplies, 0 to ${axis}`,
      `leave symbolic out, or say what divides the rows of every expert: ${axis}%128`,
    );
  if (axis === "k") for (const [at, message, hint] of sumFaults(problem)) fault(at, message, hint);
  for (const which of axis === "m" ? (["a", "c", "d"] as const) : [])
    if (problem[which]?.layout === "col")
      fault(`${which}.layout`, "rows of experts follow each other, each contiguous", "use row");
  problem.epilogue.forEach((step, i) => {
    const apart = step.kind === "factor" || step.kind === "quantize" || axis === "k";
    if ("operand" in step && !apart && step.operand.layout === "col")
      fault(`epilogue[${i}].operand.layout`, "rows of experts follow each other, each contiguous", "use row");
    if (step.kind === "reduce" || (step.kind === "factor" && problem.gated !== "matrices"))
      fault(`epilogue[${i}]`, `${step.kind} has no place for each expert`, "leave it out");
  });
  for (const kind of ["gather", "scatter"] as const) {
    const [, again] = problem.epilogue.flatMap((step, i) => (step.kind === kind ? [i] : []));
    if (again !== undefined)
      fault(
        `epilogue[${again}]`,
        "rows of a matrix lie where one index says",
        `leave the second ${kind} out`,
      );
  }
  if (rowIndexOf(problem, "a") !== null) {
    if (problem.blockScales !== undefined)
      fault(
        "gather",
        "factors of rows of A lie in the order of the experts",
        "leave blockScales, or gather, out",
      );
    if (isScaled(problem.a.dtype))
      fault(
        "gather",
        "scales of A lie in blocks of 128 rows, in the order of the experts",
        "gather in the product that makes A, which stores codes and scales in that order, or gather rows of bf16",
      );
  }
  if (problem.epilogue.at(-1)?.kind === "quantize" && rowIndexOf(problem, "d") !== null)
    fault(
      "scatter",
      "scales lie in the order of the experts, and D would not",
      "leave quantize, or scatter, out",
    );
  if (addsToD(problem) && !addedDTypes.some((dtype) => dtype === problem.d.dtype))
    fault("d.dtype", `memory adds no ${problem.d.dtype}`, `use ${addedDTypes.join(", ")}`);
  if (problem.gated === "interleaved") fault("gated", "columns of experts lie side by side", "use halves");
  if (problem.blockScales?.a === "128x128")
    fault("blockScales.a", "an expert's rows begin inside of squares of 128", "use 1x128 for A");
  return found;
}

/** What `red` of PTX adds in memory. */
const addedDTypes = ["f32", "f64", "s32", "f16", "bf16"] as const satisfies readonly DType[];

/** A dtype of a D that rows are added to. */
export type AddedDType = (typeof addedDTypes)[number];

/** What sums over the rows of each expert do not have: parts that follow from a k that all experts have in common, and rows of A and D that an index names. */
function sumFaults(problem: Problem): readonly (readonly [at: string, message: string, hint: string])[] {
  const { gated, blockScales, epilogue } = problem;
  const part = (at: string, what: string) =>
    [at, `sums over an expert's rows have no ${what}`, `leave ${at} out`] as const;
  return [
    ...(gated === undefined ? [] : [part("gated", "two factors side by side")]),
    ...(blockScales === undefined
      ? []
      : [part("blockScales", "factors of 128 along k, which begin inside of an expert's rows")]),
    ...(isScaled(problem.a.dtype)
      ? [
          [
            "a.dtype",
            `${scaledTypes[problem.a.dtype].block} elements along k share a scale, and an expert's rows begin inside of them`,
            "use bf16, or e4m3 without scales",
          ] as const,
        ]
      : []),
    ...(["a", "b"] as const)
      .filter((which) => dtypes[problem[which].dtype].bits < 8)
      .map(
        (which) =>
          [
            `${which}.dtype`,
            "an expert's rows begin at whole bytes",
            "use a dtype of 8 bits or more",
          ] as const,
      ),
    ...epilogue
      .filter(isIndex)
      .map(
        ({ kind }) =>
          [
            kind,
            "an index names rows of A or D along m, and experts differ in k",
            `leave ${kind} out, or expertAxis`,
          ] as const,
      ),
  ];
}
