/** What weights in few bits take of what as many elements would. */
import { dtypes, isWeightType, type Problem, type WeightType } from "@tilewright/core";

/** Bytes of weights, with their factors, over those of as many elements of A's dtype; 1 of elements. */
export function weightRatio({ a, b, weights }: Pick<Problem, "a" | "b" | "weights">): number {
  if (weights === undefined) return 1;
  const { bits } = dtypes[a.dtype];
  return dtypes[b.dtype].bits / bits + (weights.zeros ? 2 : 1) / weights.group;
}

/** Instructions that make eight weights of a word of codes, as codegen has them: shifts, lop3 and multiply-adds; a float's sign goes apart. */
const INSTRUCTIONS: Readonly<Record<WeightType, number>> = { s4: 15, s8: 18, e2m1: 23, e4m3: 22 };
/** Lanes that an SM issues for in a cycle. */
const ISSUED = 128;

/** Cycles of an SM that issues what makes so many weights of their codes; none of elements. */
export const madeCycles = ({ b, weights }: Pick<Problem, "b" | "weights">, count: number): number =>
  weights === undefined || !isWeightType(b.dtype) ? 0 : ((INSTRUCTIONS[b.dtype] / 8) * count) / ISSUED;
