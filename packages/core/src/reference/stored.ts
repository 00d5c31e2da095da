/** What steps of the epilogue have stored, as matrices to be compared. */
import type { Storage } from "../numerics/storage.ts";
import { type BatchAxis, batchAxes } from "../problem/batch.ts";
import { scaleMatrix, unpackScales } from "../problem/scales.ts";
import { stepExtents, storesMatrix } from "../problem/stepInputs.ts";
import type { Operand, Problem } from "../problem.ts";

export interface StoredMatrix {
  readonly operand: Operand;
  readonly data: Storage;
  readonly columns: number;
  /** Elements between the matrices of a batch, or its axes. */
  readonly stride: number | readonly BatchAxis[];
}

/** The matrix that a step has stored in memory: of scales in bytes their codes, a row for each row of D. Null of steps that store none. */
export function storedMatrix(problem: Problem, index: number, data: Storage): StoredMatrix | null {
  const step = problem.epilogue[index];
  if (!storesMatrix(step)) return null;
  const { operand } = step;
  const codes = step.kind === "quantize" ? scaleMatrix(problem, "d") : null;
  if (codes === null)
    return {
      ...{ operand, data, columns: stepExtents(problem, step)[1] },
      stride: batchAxes(problem, `epilogue${index}`),
    };
  const { rows, factors } = codes;
  return {
    operand: { ...operand, ld: factors },
    data: unpackScales(codes, data),
    columns: factors,
    stride: rows * factors,
  };
}
