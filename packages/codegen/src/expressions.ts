/** Expressions of the epilogue on one element: an instruction a node, rounded as the interpreter rounds it. */
import {
  type Expression,
  type FunctionName,
  foldMap,
  isPlain,
  isRounding,
  type MapLeaf,
  type PlainFunction,
  valueOfFunction,
} from "@tilewright/core";
import { lowerActivation } from "./activations.ts";
import { Arithmetic, type F32 } from "./arithmetic.ts";
import type { Pred } from "./code.ts";
import type { Context } from "./context.ts";
import { cast } from "./formats.ts";

/** A register, or a constant. */
export type Value = F32 | number;

/** A constant that is one instruction's bound: beside 0 a comparison keeps the sign of a 0, and beside NaN the other value, which the instruction does not. */
const isLimit = (y: Value): y is number => typeof y === "number" && Math.abs(y) > 0;

const commutative: readonly FunctionName[] = ["add", "mul"];

const table: Readonly<Record<PlainFunction, (on: Arithmetic, x: F32, y: Value, a: Value, b: Value) => F32>> =
  {
    add: (on, x, y) => on.add(x, y),
    sub: (on, x, y) => on.sub(x, y),
    mul: (on, x, y) => on.mul(x, y),
    div: (on, x, y) => on.div(x, y),
    neg: (on, x) => on.neg(x),
    abs: (on, x) => on.abs(x),
    // By max.NaN and min.NaN beside such a constant, else by comparisons: max.f32 and min.f32 would turn NaN into a bound.
    max: (on, x, y) => (isLimit(y) ? on.atLeast(x, y) : on.selectBelow(x, y, y, x)),
    min: (on, x, y) => (isLimit(y) ? on.atMost(x, y) : on.selectAbove(x, y, y, x)),
    exp: (on, x) => on.exp2(on.mul(x, Math.LOG2E)),
    exp2: (on, x) => on.exp2Ftz(x),
    log: (on, x) => on.mul(on.log2(x), Math.LN2),
    floor: (on, x) => on.floor(x),
    sqrt: (on, x) => on.sqrt(x),
    rsqrt: (on, x) => on.rsqrt(x),
    fma: (on, x, y, a) => on.fma(x, y, a),
    select: (on, x, y, a, b) => on.selectBelow(x, y, a, on.register(b)),
  };

/** The value of a function of constants. */
const constant = (fn: FunctionName, args: readonly number[]): number =>
  Math.fround(valueOfFunction(fn, args));

/** A function of registers and constants under a predicate. */
export function lowerFunction(
  ctx: Context,
  guard: Pred | null,
  fn: FunctionName,
  args: readonly Value[],
): Value {
  if (args.every((arg) => typeof arg === "number")) return constant(fn, args);
  const on = new Arithmetic(ctx, guard);
  const [first = 0, second = 0, a = 0, b = 0] = args;
  const [x, y] = typeof first === "number" && commutative.includes(fn) ? [second, first] : [first, second];
  if (isPlain(fn)) return table[fn](on, on.register(x), y, a, b);
  return isRounding(fn)
    ? cast(ctx, guard, { dtype: fn, saturate: false }, on.register(x))
    : lowerActivation(ctx, guard, fn, on.register(x));
}

/** The value of an expression under a predicate. */
export function lowerExpression(
  ctx: Context,
  guard: Pred | null,
  tree: Expression<MapLeaf>,
  leaves: { readonly acc: F32; readonly up: F32 | null; readonly loaded: (step: number) => F32 },
): F32 {
  const made = foldMap<Value>(tree, {
    ...leaves,
    number: (value) => value,
    apply: (fn, args) => lowerFunction(ctx, guard, fn, args),
  });
  return new Arithmetic(ctx, guard).register(made);
}
