/** Inputs of a case, its float64 reference, and the verdict on a result. */
import {
  type Comparison,
  compareWithBound,
  type InputDistribution,
  operandElements,
  type Problem,
  type Reference,
  randomStorage,
  referenceGemm,
} from "@tilewright/core";

export interface CaseData {
  readonly a: Float32Array;
  readonly b: Float32Array;
  readonly c: Float32Array | null;
  /** Elements of D's memory, gaps of the leading dimension included. */
  readonly elements: number;
  readonly alpha: number;
  readonly beta: number;
  readonly reference: Reference;
}

/** Values that `runtime` scalars take in tests: neither is 0 or 1. */
const RUNTIME = { alpha: 0.5, beta: -2 };

/** `rows`: compute the reference of these rows of D only. */
export function caseData(
  problem: Problem,
  distribution: InputDistribution,
  seed: number,
  rows?: readonly number[],
): CaseData {
  const matrix = (which: "a" | "b" | "c", offset: number): Float32Array => {
    const data = randomStorage("f32", operandElements(problem, which), distribution, seed * 4 + offset);
    if (!(data instanceof Float32Array)) throw new Error("f32 storage is a Float32Array");
    return data;
  };
  const a = matrix("a", 0);
  const b = matrix("b", 1);
  const c = problem.c ? matrix("c", 2) : null;
  const scalars = {
    alpha: problem.alpha === "runtime" ? RUNTIME.alpha : problem.alpha,
    beta: problem.beta === "runtime" ? RUNTIME.beta : problem.beta,
  };
  const reference = referenceGemm(problem, { a, b, c, ...scalars }, rows ? { rows } : {});
  return { a, b, c, elements: operandElements(problem, "d"), ...scalars, reference };
}

export const judge = (problem: Problem, data: CaseData, d: Float32Array): Comparison =>
  compareWithBound(problem, d, data.reference);
