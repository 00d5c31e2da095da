/** Where the matrices of a strided batch lie: in a row, or along several axes of which a matrix may lack some. */

import { commonDivisor } from "../divisors.ts";
import { type Batch, type BatchAxes, operandShape, type Problem } from "../problem.ts";
import { outerRuns } from "./runs.ts";
import { operandSpan, packedStride } from "./size.ts";
import { stepExtents } from "./stepInputs.ts";
import { strideNames } from "./symbolic.ts";

export type BatchedOperand = "a" | "b" | "c" | "d" | `epilogue${number}`;

/** One axis of a batch as a matrix has it: problem p adds `(p / below) % extent * stride` elements. */
export interface BatchAxis {
  readonly extent: number;
  readonly below: number;
  readonly stride: number;
}

/** The axes along which an operand's matrices lie, the innermost last; none where all problems share one. Neighbouring axes that one stride covers are one. */
export function batchAxes(problem: Problem, operand: BatchedOperand): readonly BatchAxis[] {
  const { batch } = problem;
  if (batch.kind !== "strided") return [];
  if (batch.axes === undefined) {
    const stride = strideInRow(problem, batch, operand);
    return stride === 0 ? [] : [{ extent: batch.count, below: 1, stride }];
  }
  const { extents } = batch.axes;
  const strides = axisStrides(batch.axes, operand);
  const found: BatchAxis[] = [];
  let below = 1;
  for (let i = extents.length - 1; i >= 0; i--) {
    const [extent, stride] = [extents[i] ?? 1, strides[i] ?? 0];
    const last = found[0];
    if (extent > 1 && stride !== 0) {
      const joined = last?.below !== undefined && last.below * last.extent === below;
      if (joined && last.stride * last.extent === stride)
        found[0] = { ...last, extent: last.extent * extent };
      else found.unshift({ extent, below, stride });
    }
    below *= extent;
  }
  return found;
}

/** Strides of an operand by axis; none of C, and of steps that read nothing. */
function axisStrides(axes: BatchAxes, operand: BatchedOperand): readonly number[] {
  if (operand === "c") return [];
  return operand.startsWith("epilogue")
    ? (axes.steps[Number(operand.slice("epilogue".length))] ?? [])
    : axes[operand as "a" | "b" | "d"];
}

/** Matrices of steps follow each other; vectors are shared. */
function strideInRow(
  problem: Problem,
  batch: Extract<Batch, { kind: "strided" }>,
  operand: BatchedOperand,
): number {
  if (operand === "a" || operand === "b" || operand === "c" || operand === "d")
    return batch[strideNames[operand]];
  const step = problem.epilogue[Number(operand.slice("epilogue".length))];
  return step !== undefined && "operand" in step
    ? packedStride(step.operand, ...stepExtents(problem, step))
    : 0;
}

/** Elements from the first problem's matrix of an operand to that of problem `index`. */
export const batchOffset = (axes: readonly BatchAxis[], index: number): number =>
  axes.reduce((at, { extent, below, stride }) => at + (Math.floor(index / below) % extent) * stride, 0);

/** Elements from the first to the last matrix of an operand. */
export const batchReach = (axes: readonly BatchAxis[]): number =>
  axes.reduce((at, { extent, stride }) => at + (extent - 1) * stride, 0);

/** A number of elements that all matrices of an operand begin at multiples of; 0 where they are one. */
export const batchGrain = (strides: readonly number[]): number => strides.reduce(commonDivisor, 0);

/** Whether no element of D belongs to two problems of a batch over axes. */
export function outputsApart(problem: Problem): boolean {
  const { d } = problem;
  const [lines, line] = d.layout === "row" ? [problem.m, problem.n] : [problem.n, problem.m];
  const axes = [
    { extent: line, stride: 1 },
    { extent: lines, stride: d.ld },
    ...batchAxes(problem, "d"),
  ].sort((x, y) => x.stride - y.stride);
  let span = 1;
  for (const { extent, stride } of axes) {
    if (extent === 1) continue;
    if (stride < span) return false;
    span = (extent - 1) * stride + span;
  }
  // Runs of one matrix are apart as their offsets ascend.
  return problem.batch.kind !== "strided" || outerRuns(problem) !== null || everyProblem(problem);
}

/** Whether each problem has a D of its own: no axis is left out. */
function everyProblem(problem: Problem): boolean {
  const { batch } = problem;
  const own = batchAxes(problem, "d").reduce((count, { extent }) => count * extent, 1);
  return batch.kind !== "strided" || own === batch.count;
}

/** Elements that the buffer of an operand must hold, the whole batch included; 0 for an absent C. Grouped: one problem at its upper bounds. */
export function operandElements(problem: Problem, which: "a" | "b" | "c" | "d"): number {
  const operand = problem[which];
  if (operand === null) return 0;
  return operandSpan(operand, ...operandShape(problem, which)) + batchReach(batchAxes(problem, which));
}
