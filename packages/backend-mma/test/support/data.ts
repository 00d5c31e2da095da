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
  type Storage,
} from "@tilewright/ir";

export interface CaseData {
  readonly a: Storage;
  readonly b: Storage;
  readonly c: Storage | null;
  /** Elements of D's memory, gaps of the leading dimension included. */
  readonly elements: number;
  readonly alpha: number;
  readonly beta: number;
  readonly reference: Reference;
}

/** Values that `runtime` scalars take in tests: neither is 0 or 1. */
const RUNTIME = { alpha: 0.5, beta: -2 };

export function caseData(problem: Problem, distribution: InputDistribution, seed: number): CaseData {
  const matrix = (which: "a" | "b" | "c", offset: number): Storage => {
    const operand = problem[which];
    if (operand === null) throw new Error("no such operand");
    return randomStorage(operand.dtype, operandElements(problem, which), distribution, seed * 4 + offset);
  };
  const a = matrix("a", 0);
  const b = matrix("b", 1);
  const c = problem.c ? matrix("c", 2) : null;
  const scalars = {
    alpha: problem.alpha === "runtime" ? RUNTIME.alpha : problem.alpha,
    beta: problem.beta === "runtime" ? RUNTIME.beta : problem.beta,
  };
  const reference = referenceGemm(problem, { a, b, c, ...scalars });
  return { a, b, c, elements: operandElements(problem, "d"), ...scalars, reference };
}

export const judge = (problem: Problem, data: CaseData, d: Storage): Comparison =>
  compareWithBound(problem, d, data.reference);
