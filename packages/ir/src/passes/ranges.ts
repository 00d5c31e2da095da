/** What a uniform condition says about the range of a loop variable. */
import { asLinear, sub } from "../tile/expr.ts";
import type { Cond } from "../tile/types.ts";

/** Least and greatest value of each loop variable. */
export type Ranges = ReadonlyMap<string, readonly [low: number, high: number]>;

/** Ranges inside `if cond`: narrowed when the condition bounds one variable from above (`x + c < limit`), as chunk conditions do. */
export function condLimits(cond: Cond, ranges: Ranges): Ranges {
  const linear = asLinear(sub(cond.lhs, cond.rhs));
  if (linear?.terms.size !== 1 || (cond.op !== "<" && cond.op !== "<=")) return ranges;
  for (const [name, coefficient] of linear.terms) {
    const range = ranges.get(name);
    if (coefficient !== 1 || !range) return ranges;
    const high = -linear.constant - (cond.op === "<" ? 1 : 0);
    return new Map(ranges).set(name, [range[0], Math.min(range[1], high)]);
  }
  return ranges;
}
