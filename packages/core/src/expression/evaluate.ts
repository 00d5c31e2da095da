/** Functions of expressions as an interpreter has them: in double, rounded once by who asks. */
import { roundTo } from "../numerics/storage.ts";
import { activations } from "../reference/activations.ts";
import { type FunctionName, isPlain, isRounding, plainValues } from "./tree.ts";

/** The value before it is rounded to f32. */
export function valueOfFunction(fn: FunctionName, [x = 0, y = 0, a, b]: readonly number[]): number {
  if (isPlain(fn)) return plainValues[fn](x, y, a, b);
  return isRounding(fn) ? roundTo(fn, x) : activations[fn].value(x);
}
