/** Where vectors of the epilogue begin. */
import { sizeOf } from "../dtype.ts";
import type { Problem } from "../problem.ts";
import { batchAxes } from "./batch.ts";
import { groupStrides } from "./expertRows.ts";
import { stepMatrix } from "./stepInputs.ts";
import { sizeMultiple } from "./symbolic.ts";

/** Bytes that a step's vector begins at a multiple of, in each problem: two elements where it is made of pairs, which threads load at once, else one; one of single values and indices, too. */
export function vectorAlign(problem: Problem, index: number): number {
  const name = `epilogue${index}` as const;
  const step = problem.epilogue[index];
  const size = step !== undefined && "dtype" in step ? sizeOf(step.dtype) : 1;
  const matrix = stepMatrix(problem, index);
  if (matrix === null) return size;
  const { row, group } = groupStrides(problem, name);
  const apart = [row / size, group / size, ...batchAxes(problem, name).map(({ stride }) => stride)];
  const pairs = [sizeMultiple(problem, matrix.across === 0 ? "n" : "m"), ...apart].every((n) => n % 2 === 0);
  return pairs ? 2 * size : size;
}
