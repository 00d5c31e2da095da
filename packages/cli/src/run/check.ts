/** Results against the float64 reference: every element of D and of what the epilogue stores. */
import {
  type Comparison,
  compareMatrix,
  compareWithBound,
  type Operand,
  type Problem,
  packedSize,
  type Reference,
  storageFromBytes,
  storedMatrix,
  storesMatrix,
  type WorstElement,
} from "@tilewright/core";
import type { GemmResult } from "@tilewright/runtime";

/** What a run stored. */
type Results = Pick<GemmResult, "d" | "steps">;

export interface Check {
  readonly maxAbs: number;
  /** Largest error over its bound: at most 1 passes. */
  readonly boundRatio: number;
  readonly failures: number;
  /** Elements of D, and those of them that are NaN by the reference: of these no error can be measured. */
  readonly elements: number;
  readonly nan: number;
  /** Where the largest ratio is, and in which output. */
  readonly worst: (WorstElement & { readonly output: string }) | null;
}

const storageOf = (operand: Operand, bytes: Uint8Array) =>
  storageFromBytes(operand.dtype, bytes, Math.floor(bytes.byteLength / packedSize(operand.dtype)));

/** The outputs of a run, each compared with its reference. */
function* comparisons(
  problem: Problem,
  result: Results,
  reference: Reference,
): Generator<readonly [string, Comparison]> {
  yield ["D", compareWithBound(problem, storageOf(problem.d, result.d), reference)];
  for (const [index, step] of problem.epilogue.entries()) {
    const expectation = reference.steps.get(index);
    const bytes = result.steps.get(index);
    if (expectation === undefined || bytes === undefined) continue;
    const name = `epilogue step ${index} (${step.kind})`;
    if (storesMatrix(step)) {
      const matrix = storedMatrix(problem, index, storageOf(step.operand, bytes));
      if (matrix === null) continue;
      const place = { rows: reference.rows, columns: matrix.columns, stride: matrix.stride };
      yield [name, compareMatrix(matrix.operand, matrix.data, expectation, place)];
    } else if (step.kind === "reduce") {
      // A vector is a matrix of one row.
      const columns = expectation.values.length;
      const vector: Operand = { dtype: step.dtype, layout: "row", ld: columns, align: 16 };
      yield [
        name,
        compareMatrix(vector, storageOf(vector, bytes), expectation, { rows: [0], columns, stride: 0 }),
      ];
    }
  }
}

/** Compare all outputs; the worst of them decides. */
export function checkResult(problem: Problem, result: Results, reference: Reference): Check {
  const elements = reference.d.values.length;
  const nan = reference.d.values.reduce((sum, value) => sum + Number(Number.isNaN(value)), 0);
  let check: Check = { maxAbs: 0, boundRatio: 0, failures: 0, elements, nan, worst: null };
  for (const [output, found] of comparisons(problem, result, reference)) {
    const worse = check.worst === null || found.boundRatio > check.boundRatio;
    check = {
      ...check,
      maxAbs: Math.max(check.maxAbs, found.maxAbs),
      boundRatio: Math.max(check.boundRatio, found.boundRatio),
      failures: check.failures + found.failures,
      worst: worse && found.worst !== null ? { ...found.worst, output } : check.worst,
    };
  }
  return check;
}
