/** Functions of expressions as an interpreter has them: in double, rounded once by who asks. */
import { roundTo } from "../numerics/storage.ts";
import { activations } from "../reference/activations.ts";
import { type FunctionName, isPlain, isRounding, plainValues } from "./tree.ts";

/** A function by its name; its value is not rounded to f32. Of too many arguments it takes the first. */
export function functionNamed(fn: FunctionName): (x: number, y: number, a?: number, b?: number) => number {
  if (isPlain(fn)) return plainValues[fn];
  return isRounding(fn) ? (x) => roundTo(fn, x) : activations[fn].value;
}

/** The value before it is rounded to f32. */
export const valueOfFunction = (fn: FunctionName, [x = 0, y = 0, a, b]: readonly number[]): number =>
  functionNamed(fn)(x, y, a, b);
