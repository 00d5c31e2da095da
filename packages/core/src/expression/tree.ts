/** Elementwise expressions over values of f32: what epilogues and tile programs compute of each element. */
import type { Activation } from "../problem.ts";
import { activations } from "../reference/activations.ts";

/** `Leaf`: what a name stands for, which who builds the tree knows. */
export type Expression<Leaf = string> =
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "leaf"; readonly leaf: Leaf }
  | { readonly kind: "apply"; readonly fn: FunctionName; readonly args: readonly Expression<Leaf>[] };

/** Rounded once each (nearest even), but for `max`, `min`, `abs`, `neg`, `floor` and `select`, which are exact. `select(x, y, a, b)` is a where x < y, else b. */
const plain = [
  "add",
  "sub",
  "mul",
  "div",
  "neg",
  "abs",
  "max",
  "min",
  "exp",
  "exp2",
  "log",
  "floor",
  "sqrt",
  "rsqrt",
  "fma",
  "select",
] as const;
/** Rounding to a dtype and back; what is too large overflows as IEEE 754 has it. */
const roundings = ["f16", "bf16", "e4m3", "e5m2"] as const;
export type PlainFunction = (typeof plain)[number];
export type Rounding = (typeof roundings)[number];
export type FunctionName = PlainFunction | Activation | Rounding;

/** The functions that texts call by name, with their number of arguments; `clamp(x, low, high)` is `min(max(x, low), high)`. */
export const calls: Readonly<Record<string, number>> = {
  ...Object.fromEntries([...Object.keys(activations), ...roundings, "abs", "exp"].map((name) => [name, 1])),
  max: 2,
  min: 2,
  clamp: 3,
};

/** Those of tile programs: of epilogues, and those whose names only tile programs know. */
export const elementCalls: Readonly<Record<string, number>> = {
  ...calls,
  exp2: 1,
  log: 1,
  floor: 1,
  sqrt: 1,
  rsqrt: 1,
  fma: 3,
  select: 4,
};

/** One value of each node, from those below it. Numbers are given as f32 holds them. */
export interface Fold<Leaf, T> {
  number(value: number): T;
  leaf(leaf: Leaf): T;
  apply(fn: FunctionName, args: readonly T[]): T;
}

export function foldExpression<Leaf, T>(expression: Expression<Leaf>, fold: Fold<Leaf, T>): T {
  switch (expression.kind) {
    case "number":
      return fold.number(Math.fround(expression.value));
    case "leaf":
      return fold.leaf(expression.leaf);
    case "apply":
      return fold.apply(
        expression.fn,
        expression.args.map((arg) => foldExpression(arg, fold)),
      );
  }
}

/** Every node, the root first. */
export function nodesOf<Leaf>(expression: Expression<Leaf>): readonly Expression<Leaf>[] {
  return [expression, ...(expression.kind === "apply" ? expression.args.flatMap(nodesOf) : [])];
}

/** The values that stand for names, from left to right. */
export const leavesOf = <Leaf>(expression: Expression<Leaf>): readonly Leaf[] =>
  nodesOf(expression).flatMap((node) => (node.kind === "leaf" ? [node.leaf] : []));

/** The same expression of other leaves. */
export const mapLeaves = <Leaf, Other>(
  expression: Expression<Leaf>,
  leaf: (leaf: Leaf) => Other,
): Expression<Other> => {
  switch (expression.kind) {
    case "number":
      return expression;
    case "leaf":
      return { kind: "leaf", leaf: leaf(expression.leaf) };
    case "apply":
      return { ...expression, args: expression.args.map((arg) => mapLeaves(arg, leaf)) };
  }
};

/** The values of the functions that are neither activations nor roundings, in double. `max` and `min` keep the first argument where either is NaN. */
export const plainValues: Readonly<
  Record<PlainFunction, (x: number, y: number, a?: number, b?: number) => number>
> = {
  add: (x, y) => x + y,
  sub: (x, y) => x - y,
  mul: (x, y) => x * y,
  div: (x, y) => x / y,
  neg: (x) => -x,
  abs: (x) => Math.abs(x),
  max: (x, y) => (x < y ? y : x),
  min: (x, y) => (x > y ? y : x),
  exp: (x) => Math.exp(x),
  exp2: (x) => 2 ** x,
  log: (x) => Math.log(x),
  floor: (x) => Math.floor(x),
  sqrt: (x) => Math.sqrt(x),
  rsqrt: (x) => 1 / Math.sqrt(x),
  fma: (x, y, a = 0) => x * y + a,
  select: (x, y, a = 0, b = 0) => (x < y ? a : b),
};

const plainNames: ReadonlySet<string> = new Set(plain);
const roundingNames: ReadonlySet<string> = new Set(roundings);
export const isPlain = (fn: FunctionName): fn is PlainFunction => plainNames.has(fn);
export const isRounding = (fn: FunctionName): fn is Rounding => roundingNames.has(fn);

/** Whether kernels evaluate a function with approximate instructions, so that bits may differ from the interpreter's. */
export const isApproximate = (fn: FunctionName): boolean =>
  fn === "exp" ||
  fn === "exp2" ||
  fn === "log" ||
  fn === "sqrt" ||
  fn === "rsqrt" ||
  (!isPlain(fn) && !isRounding(fn) && activations[fn].error !== null);

const infix: Readonly<Partial<Record<FunctionName, readonly [sign: string, level: number]>>> = {
  add: ["+", 1],
  sub: ["-", 1],
  mul: ["*", 2],
  div: ["/", 2],
};

/** Canonical text without spaces; `parseExpression` is its inverse. */
export function printExpression<Leaf>(expression: Expression<Leaf>, leaf: (leaf: Leaf) => string): string {
  /** Text, in parentheses where what stands around it binds tighter than `level`. */
  const print = (node: Expression<Leaf>, level: number): string => {
    if (node.kind === "leaf") return leaf(node.leaf);
    if (node.kind === "number")
      return node.value < 0 || Object.is(node.value, -0)
        ? `(${node.value === 0 ? "-0" : node.value})`.replace("Infinity", "inf")
        : String(node.value).replace("Infinity", "inf");
    const [first, second] = node.args;
    const sign = infix[node.fn];
    if (node.fn === "neg" && first) return wrapped(`-${print(first, 3)}`, 2.5, level);
    if (sign === undefined || !first || !second)
      return `${node.fn}(${node.args.map((arg) => print(arg, 0)).join(",")})`;
    return wrapped(`${print(first, sign[1])}${sign[0]}${print(second, sign[1] + 0.5)}`, sign[1], level);
  };
  return print(expression, 0);
}

const wrapped = (text: string, own: number, level: number): string => (own < level ? `(${text})` : text);
