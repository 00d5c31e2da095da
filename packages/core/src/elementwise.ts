/**
 * Expressions of one element: what `map` and the epilogue compute with values of tiles. The leaves are the caller's: views of tiles in a tile
 * program, names of operands elsewhere. Arithmetic is that of f32, every operation rounded once or approximate as its row says.
 */
import type { DType } from "./dtype.ts";
import { roundingBound } from "./numerics/bounds.ts";
import { roundTo } from "./numerics/storage.ts";
import type { Activation } from "./problem.ts";
import { activations } from "./reference/activations.ts";

/** Half a unit in the last place of f32, relative. */
const ULP = 2 ** -24;
/** Relative error of ex2, rcp, rsqrt and sqrt as the GPU approximates them (PTX ISA: 2^-22 or better). */
const APPROXIMATE = 2 ** -22;

interface FunctionRow {
  readonly arity: 1 | 2;
  readonly value: (x: number, y: number) => number;
  /** Error of the result from errors `e` and `f` of the arguments, before the operation's own. */
  readonly spread: (x: number, e: number, y: number, f: number) => number;
  /** The operation's own relative error. */
  readonly own: number;
}

const slope = (by: number) => (_x: number, e: number) => by * e;

const rows = {
  add: { arity: 2, value: (x, y) => x + y, spread: (_x, e, _y, f) => e + f, own: ULP },
  sub: { arity: 2, value: (x, y) => x - y, spread: (_x, e, _y, f) => e + f, own: ULP },
  mul: {
    arity: 2,
    value: (x, y) => x * y,
    spread: (x, e, y, f) => Math.abs(x) * f + Math.abs(y) * e + e * f,
    own: ULP,
  },
  div: {
    arity: 2,
    value: (x, y) => x / y,
    spread: (x, e, y, f) => (e + (Math.abs(x / y) || 0) * f) / Math.max(Math.abs(y) - f, 0),
    own: 2 * APPROXIMATE,
  },
  max: { arity: 2, value: Math.max, spread: (_x, e, _y, f) => Math.max(e, f), own: 0 },
  min: { arity: 2, value: Math.min, spread: (_x, e, _y, f) => Math.max(e, f), own: 0 },
  neg: { arity: 1, value: (x) => -x, spread: slope(1), own: 0 },
  abs: { arity: 1, value: Math.abs, spread: slope(1), own: 0 },
  // The argument of ex2 is a product that is rounded: its error is in proportion to the argument.
  exp: {
    arity: 1,
    value: Math.exp,
    spread: (x, e) => Math.exp(x) * Math.expm1(e + Math.abs(Number.isFinite(x) ? x : 0) * 2 * ULP),
    own: 2 * APPROXIMATE,
  },
  exp2: {
    arity: 1,
    value: (x) => 2 ** x,
    spread: (x, e) => 2 ** x * Math.expm1(e * Math.LN2),
    own: 2 * APPROXIMATE,
  },
  rsqrt: {
    arity: 1,
    value: (x) => 1 / Math.sqrt(x),
    spread: (x, e) => 1 / Math.sqrt(Math.max(x - e, 0)) - 1 / Math.sqrt(x),
    own: 2 * APPROXIMATE,
  },
  sqrt: {
    arity: 1,
    value: Math.sqrt,
    spread: (x, e) => Math.sqrt(x) - Math.sqrt(Math.max(x - e, 0)),
    own: 2 * APPROXIMATE,
  },
  rcp: {
    arity: 1,
    value: (x) => 1 / x,
    spread: (x, e) => e / (Math.abs(x) * Math.max(Math.abs(x) - e, 0)),
    own: APPROXIMATE,
  },
} as const satisfies Readonly<Record<string, FunctionRow>>;

type Arithmetic = keyof typeof rows;
/** Operators, and functions that are called by name. */
export type ElementFunction = Arithmetic | Activation;

/** Operators that are written between their arguments, with how tightly they bind. */
export const infix = {
  add: { sign: "+", level: 1 },
  sub: { sign: "-", level: 1 },
  mul: { sign: "*", level: 2 },
  div: { sign: "/", level: 2 },
} as const;

export const elementFunctions: readonly ElementFunction[] = [
  ...(Object.keys(rows) as Arithmetic[]),
  ...(Object.keys(activations) as Activation[]),
];

/** An expression over leaves `L`. `select`: of four arguments the third where the first is less than the second, else the fourth. `cast`: rounded to a dtype, and exactly widened again. */
export type Elementwise<L> =
  | { readonly kind: "number"; readonly value: number }
  | { readonly kind: "leaf"; readonly leaf: L }
  | { readonly kind: "call"; readonly fn: ElementFunction; readonly args: readonly Elementwise<L>[] }
  | { readonly kind: "select"; readonly args: readonly Elementwise<L>[] }
  | { readonly kind: "cast"; readonly dtype: DType; readonly of: Elementwise<L> };

const rowOf = (fn: ElementFunction): FunctionRow => {
  if (Object.hasOwn(rows, fn)) return rows[fn as Arithmetic];
  const row = activations[fn as Activation];
  return { arity: 1, value: row.value, spread: slope(row.slope), own: 8 * APPROXIMATE };
};

/** Arguments that a function takes. */
export const arityOf = (fn: ElementFunction): 1 | 2 => rowOf(fn).arity;

/** The expressions inside an expression. */
export function argumentsOf<L>(e: Elementwise<L>): readonly Elementwise<L>[] {
  switch (e.kind) {
    case "number":
    case "leaf":
      return [];
    case "call":
    case "select":
      return e.args;
    case "cast":
      return [e.of];
  }
}

/** Every leaf, from left to right. */
export const leavesOf = <L>(e: Elementwise<L>): readonly L[] =>
  e.kind === "leaf" ? [e.leaf] : argumentsOf(e).flatMap((arg) => leavesOf(arg));

/** The same expression over other leaves. */
export function mapLeaves<L, M>(e: Elementwise<L>, leaf: (leaf: L) => Elementwise<M>): Elementwise<M> {
  switch (e.kind) {
    case "number":
      return e;
    case "leaf":
      return leaf(e.leaf);
    case "call":
    case "select":
      return { ...e, args: e.args.map((arg) => mapLeaves(arg, leaf)) };
    case "cast":
      return { ...e, of: mapLeaves(e.of, leaf) };
  }
}

/** The value in f32 arithmetic. */
export function evaluateElement<L>(e: Elementwise<L>, leaf: (leaf: L) => number): number {
  const value = (x: Elementwise<L> | undefined): number => (x === undefined ? 0 : evaluateElement(x, leaf));
  switch (e.kind) {
    case "number":
      return Math.fround(e.value);
    case "leaf":
      return leaf(e.leaf);
    case "call":
      return Math.fround(rowOf(e.fn).value(value(e.args[0]), value(e.args[1])));
    case "select":
      return value(e.args[0]) < value(e.args[1]) ? value(e.args[2]) : value(e.args[3]);
    case "cast":
      return roundTo(e.dtype, value(e.of));
  }
}

/** A number with the largest error that a correct kernel may have made. */
export interface Measured {
  readonly value: number;
  readonly error: number;
}

/** The value in f64, and how far f32 arithmetic on leaves with their own errors may be from it. */
export function measureElement<L>(e: Elementwise<L>, leaf: (leaf: L) => Measured): Measured {
  const zero: Measured = { value: 0, error: 0 };
  const measure = (x: Elementwise<L> | undefined): Measured =>
    x === undefined ? zero : measureElement(x, leaf);
  switch (e.kind) {
    case "number":
      return { value: e.value, error: Math.abs(e.value) * ULP };
    case "leaf":
      return leaf(e.leaf);
    case "call": {
      const row = rowOf(e.fn);
      const [x, y] = [measure(e.args[0]), measure(e.args[1])];
      const value = row.value(x.value, y.value);
      const spread = row.spread(x.value, x.error, y.value, y.error);
      const error = spread + (Math.abs(value) + spread) * row.own;
      return { value, error: Number.isNaN(error) ? 0 : error };
    }
    case "select": {
      const [lhs, rhs] = [measure(e.args[0]), measure(e.args[1])];
      const [less, otherwise] = [measure(e.args[2]), measure(e.args[3])];
      const taken = lhs.value < rhs.value ? less : otherwise;
      const unsure = Math.abs(lhs.value - rhs.value) < lhs.error + rhs.error;
      if (!unsure) return taken;
      return {
        value: taken.value,
        error: Math.abs(less.value - otherwise.value) + Math.max(less.error, otherwise.error),
      };
    }
    case "cast": {
      const { value, error } = measure(e.of);
      return { value, error: error + roundingBound(e.dtype, Math.abs(value) + error) };
    }
  }
}

/** Text of an expression; `leaf` writes its leaves. Reads back to the same tree. */
export function printElement<L>(e: Elementwise<L>, leaf: (leaf: L) => string, level = 0): string {
  const inner = (x: Elementwise<L> | undefined, at = 0): string =>
    x === undefined ? "" : printElement(x, leaf, at);
  switch (e.kind) {
    case "number":
      return Object.is(e.value, -0) ? "-0" : String(e.value).replace("Infinity", "inf");
    case "leaf":
      return leaf(e.leaf);
    case "call": {
      if (!Object.hasOwn(infix, e.fn)) return `${e.fn}(${e.args.map((arg) => inner(arg)).join(", ")})`;
      const { sign, level: own } = infix[e.fn as keyof typeof infix];
      const text = `${inner(e.args[0], own)} ${sign} ${inner(e.args[1], own + 1)}`;
      return own < level ? `(${text})` : text;
    }
    case "select":
      return `select(${inner(e.args[0])} < ${inner(e.args[1])}, ${inner(e.args[2])}, ${inner(e.args[3])})`;
    case "cast":
      return `${e.dtype}(${inner(e.of)})`;
  }
}
