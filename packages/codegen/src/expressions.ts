/** Expressions of the epilogue on one element: an instruction a node, rounded as the interpreter rounds it. */
import {
  activations,
  type Expression,
  type FunctionName,
  foldMap,
  isPlain,
  isRounding,
  type MapLeaf,
  type PlainFunction,
  plainValues,
  roundTo,
} from "@tilewright/core";
import { lowerActivation } from "./activations.ts";
import { Arithmetic, type F32 } from "./arithmetic.ts";
import type { Pred } from "./code.ts";
import type { Context } from "./context.ts";
import { cast } from "./formats.ts";

type Value = F32 | number;

const commutative: readonly FunctionName[] = ["add", "mul"];

const table: Readonly<Record<PlainFunction, (on: Arithmetic, x: F32, y: Value) => F32>> = {
  add: (on, x, y) => on.add(x, y),
  sub: (on, x, y) => on.sub(x, y),
  mul: (on, x, y) => on.mul(x, y),
  div: (on, x, y) => on.div(x, y),
  neg: (on, x) => on.neg(x),
  abs: (on, x) => on.abs(x),
  // By comparisons: max.f32 and min.f32 would turn NaN into a bound.
  max: (on, x, y) => on.selectBelow(x, y, y, x),
  min: (on, x, y) => on.selectAbove(x, y, y, x),
  exp: (on, x) => on.exp2(on.mul(x, Math.LOG2E)),
};

/** The value of a function of constants. */
function constant(fn: FunctionName, [x = 0, y = 0]: readonly number[]): number {
  if (isPlain(fn)) return Math.fround(plainValues[fn](x, y));
  return isRounding(fn) ? roundTo(fn, x) : Math.fround(activations[fn].value(x));
}

/** The value of an expression under a predicate. */
export function lowerExpression(
  ctx: Context,
  guard: Pred | null,
  tree: Expression<MapLeaf>,
  leaves: { readonly acc: F32; readonly up: F32 | null; readonly loaded: (step: number) => F32 },
): F32 {
  const on = new Arithmetic(ctx, guard);
  const register = (value: Value): F32 => (typeof value === "number" ? on.constant(value) : value);
  const made = foldMap<Value>(tree, {
    ...leaves,
    number: (value) => value,
    apply(fn, args) {
      if (args.every((arg) => typeof arg === "number")) return constant(fn, args);
      const [first = 0, second = 0] = args;
      const [x, y] =
        typeof first === "number" && commutative.includes(fn) ? [second, first] : [first, second];
      if (isPlain(fn)) return table[fn](on, register(x), y);
      return isRounding(fn)
        ? cast(ctx, guard, { dtype: fn, saturate: false }, register(x))
        : lowerActivation(ctx, guard, fn, register(x));
    },
  });
  return register(made);
}
