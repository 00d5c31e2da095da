/** Launch expressions as source text of C and Rust. */
import type { Constraint, LaunchExpr } from "@tilewright/core";

type Operation = Exclude<LaunchExpr, number | string>[0];

export type Kind = "integer" | "real";

/** How a language writes numbers, names, and what is no infix operator there. */
export interface ExpressionStyle {
  /** A signed 64-bit integer. */
  integer(value: number): string;
  /** A 64-bit float. */
  real(value: number): string;
  name(name: string): string;
  /** An integer expression as a float. */
  toReal(text: string): string;
  /** Name of a function of two arguments. Divisions exist for integers only. */
  call(name: "floor_div" | "ceil_div" | "floor_mod" | "min" | "max", kind: Kind): string;
}

/** Factors and launch-time scalars are floats; everything else of a launch is an integer. */
const kindOfName = (name: string): Kind => (/^(?:alpha|beta|epilogue\d+)$/.test(name) ? "real" : "integer");

function kindOf(expr: LaunchExpr): Kind {
  if (typeof expr === "number") return Number.isInteger(expr) ? "integer" : "real";
  if (typeof expr === "string") return kindOfName(expr);
  if (divisions.has(expr[0])) return "integer";
  return kindOf(expr[1]) === "real" || kindOf(expr[2]) === "real" ? "real" : "integer";
}

const divisions: ReadonlySet<Operation> = new Set(["div", "ceilDiv", "mod"]);
const infix = { add: "+", sub: "-", mul: "*" } as const;
const calls = { div: "floor_div", ceilDiv: "ceil_div", mod: "floor_mod", min: "min", max: "max" } as const;

/** An expression as text, of the wanted kind; a float where an integer is wanted is a bug of the manifest. */
export function writeExpr(expr: LaunchExpr, style: ExpressionStyle, wanted: Kind = kindOf(expr)): string {
  if (typeof expr === "number") return wanted === "integer" ? style.integer(expr) : style.real(expr);
  const kind = kindOf(expr);
  const text = typeof expr === "string" ? style.name(expr) : writeOperation(expr, style, kind);
  return kind === "integer" && wanted === "real" ? style.toReal(text) : text;
}

function writeOperation(
  [op, left, right]: Exclude<LaunchExpr, number | string>,
  style: ExpressionStyle,
  kind: Kind,
): string {
  const [a, b] = [writeExpr(left, style, kind), writeExpr(right, style, kind)];
  switch (op) {
    case "add":
    case "sub":
    case "mul":
      return `(${a} ${infix[op]} ${b})`;
    case "div":
    case "ceilDiv":
    case "mod":
    case "min":
    case "max":
      return `${style.call(calls[op], kind)}(${a}, ${b})`;
  }
}

const comparisons: Readonly<Record<Constraint[0], string>> = {
  eq: "==",
  ne: "!=",
  lt: "<",
  le: "<=",
  gt: ">",
  ge: ">=",
};

/** A condition as text. */
export function writeConstraint([op, left, right]: Constraint, style: ExpressionStyle): string {
  const kind = kindOf(left) === "real" || kindOf(right) === "real" ? "real" : "integer";
  return `${writeExpr(left, style, kind)} ${comparisons[op]} ${writeExpr(right, style, kind)}`;
}

const words: Readonly<Record<Operation, string>> = {
  ...{ ...infix, div: "//", mod: "%" },
  ...{ ceilDiv: "ceilDiv", min: "min", max: "max" },
};

function exprText(expr: LaunchExpr): string {
  if (typeof expr !== "object") return String(expr);
  const [op, left, right] = expr;
  const [word, a, b] = [words[op], exprText(left), exprText(right)];
  return /^\w/.test(word) ? `${word}(${a}, ${b})` : `${a} ${word} ${b}`;
}

/** A condition for people: `k % 8 == 0`. */
export const constraintText = ([op, left, right]: Constraint): string =>
  `${exprText(left)} ${comparisons[op]} ${exprText(right)}`;

/** The names in a condition, from the left. */
export function namesOf([, left, right]: Constraint): readonly string[] {
  const names = (expr: LaunchExpr): readonly string[] =>
    typeof expr === "string" ? [expr] : typeof expr === "number" ? [] : [expr[1], expr[2]].flatMap(names);
  return [...new Set([left, right].flatMap(names))];
}
