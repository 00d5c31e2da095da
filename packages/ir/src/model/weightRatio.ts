/** What weights in few bits take of what as many elements would. */
import { dtypes, type Problem } from "@tilewright/core";

/** Bytes of weights, with their factors, over those of as many elements of A's dtype; 1 of elements. */
export function weightRatio({ a, b, weights }: Pick<Problem, "a" | "b" | "weights">): number {
  if (weights === undefined) return 1;
  const { bits } = dtypes[a.dtype];
  return dtypes[b.dtype].bits / bits + (weights.zeros ? 2 : 1) / weights.group;
}

/** Instructions that make a weight of its code: fifteen make eight. */
const INSTRUCTIONS = 15 / 8;
/** Lanes that an SM issues for in a cycle. */
const ISSUED = 128;

/** Cycles of an SM that issues what makes so many weights of their codes; none of elements. */
export const madeCycles = ({ weights }: Pick<Problem, "weights">, count: number): number =>
  weights === undefined ? 0 : (INSTRUCTIONS * count) / ISSUED;
