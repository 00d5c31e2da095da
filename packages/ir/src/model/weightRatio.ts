/** What weights in few bits take of what as many elements would. */
import { dtypes, type Problem } from "@tilewright/core";

/** Bytes of weights, with their factors, over those of as many elements of A's dtype; 1 of elements. */
export function weightRatio({ a, b, weights }: Pick<Problem, "a" | "b" | "weights">): number {
  if (weights === undefined) return 1;
  const { bits } = dtypes[a.dtype];
  return dtypes[b.dtype].bits / bits + (weights.zeros ? 2 : 1) / weights.group;
}
