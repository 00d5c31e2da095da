/** Text to expressions, conditions and views. The tree is kept as written (printExpr.ts is the inverse). */
import { condOps } from "../cond.ts";
import { lit, v } from "../expr.ts";
import { printExpr } from "../printExpr.ts";
import { wholeView } from "../rewrite.ts";
import type { Buffer, Cond, Expr, View } from "../types.ts";
import { type Cursor, describe, MOST_DEEP, parseCodes } from "./cursor.ts";
import { nearestHint } from "./nearest.ts";

/** sum := product (('+' | '-') product)* */
export function parseExpr(c: Cursor): Expr {
  let lhs = parseProduct(c);
  for (let terms = 1; ; terms++) {
    bounded(c, terms);
    if (c.eat("+")) lhs = { kind: "add", lhs, rhs: parseProduct(c) };
    else if (c.eat("-")) lhs = { kind: "sub", lhs, rhs: parseProduct(c) };
    else return lhs;
  }
}

/** A sum or product of so many parts is as deep as it is long. */
function bounded(c: Cursor, parts: number): void {
  if (parts > MOST_DEEP)
    c.bad(c.peek(), `an expression has at most ${MOST_DEEP} terms, and as many factors`, "write fewer");
}

/** product := leaf (('*' | '/' | '%') constant)*; a constant may also stand on the left of '*'. */
function parseProduct(c: Cursor): Expr {
  let lhs = parseLeaf(c);
  for (let factors = 1; ; factors++) {
    bounded(c, factors);
    if (c.eat("*")) lhs = parseFactor(c, lhs);
    else if (c.eat("/")) lhs = { kind: "div", lhs, divisor: c.integer("the divisor", 1) };
    else if (c.eat("%")) lhs = { kind: "mod", lhs, divisor: c.integer("the modulus", 1) };
    else return lhs;
  }
}

function parseFactor(c: Cursor, lhs: Expr): Expr {
  const token = c.peek();
  if (token.kind === "number" || c.at("-")) return { kind: "mul", lhs, factor: c.integer("the factor") };
  const rhs = parseLeaf(c);
  if (lhs.kind === "const") return { kind: "mul", lhs: rhs, factor: lhs.value };
  return c.bad(token, "one side of '*' must be a constant", "indices are affine: write variable * constant");
}

function parseLeaf(c: Cursor): Expr {
  const token = c.peek();
  if (c.eat("(")) {
    const inner = c.within("parentheses", () => parseExpr(c));
    c.expect(")", "to close the parenthesis");
    return inner;
  }
  if (token.kind === "name") {
    c.next();
    if (!c.vars.includes(token.text))
      c.fail(
        token,
        parseCodes.unknownName,
        `no loop variable %${token.text} is in scope`,
        nearestHint(token.text, c.vars, "%") ??
          (c.vars.length > 0 ? `in scope: ${c.vars.map((n) => `%${n}`).join(", ")}` : null),
      );
    return v(token.text);
  }
  if (token.kind === "number" || c.at("-")) return lit(c.integer("an index"));
  return c.fail(
    token,
    parseCodes.syntax,
    `expected an expression, found ${describe(token)}`,
    "write a number, a %variable or (…)",
  );
}

export function parseCond(c: Cursor): Cond {
  const lhs = parseExpr(c);
  const token = c.peek();
  const op = token.kind === "punct" ? condOps.find((o) => o === token.text) : undefined;
  if (op === undefined)
    c.fail(
      token,
      parseCodes.syntax,
      `expected a comparison, found ${describe(token)}`,
      `one of: ${condOps.join(" ")}`,
    );
  c.next();
  return { lhs, op, rhs: parseExpr(c) };
}

const isZero = (e: Expr): boolean => e.kind === "const" && e.value === 0;

/** `%As`, `%As[slot %kt % 2]` or `%As[slot %kt % 2; 0 : 128, %kk : 1]`: row and column as origin : extent. */
export function printView(view: View, buffers: ReadonlyMap<string, Buffer>): string {
  const shape = buffers.get(view.buffer)?.shape;
  const whole =
    shape !== undefined &&
    view.origin.every(isZero) &&
    view.extent[0] === shape[0] &&
    view.extent[1] === shape[1];
  const slot = isZero(view.slot) ? [] : [`slot ${printExpr(view.slot)}`];
  const [r, c] = view.origin;
  const box = whole ? [] : [`${printExpr(r)} : ${view.extent[0]}, ${printExpr(c)} : ${view.extent[1]}`];
  const inside = [...slot, ...box].join("; ");
  return inside === "" ? `%${view.buffer}` : `%${view.buffer}[${inside}]`;
}

export function parseView(c: Cursor): View {
  const buffer = c.buffer();
  const whole = wholeView(buffer);
  if (!c.eat("[")) return whole;
  let slot = whole.slot;
  if (c.eat("slot")) {
    slot = parseExpr(c);
    if (c.eat("]")) return { ...whole, slot };
    c.expect(";", "between the slot and the rectangle");
  }
  const [row, rows] = parseSpan(c, "rows");
  c.expect(",", "between rows and columns");
  const [col, cols] = parseSpan(c, "columns");
  c.expect("]", "to close the rectangle");
  return { buffer: buffer.name, slot, origin: [row, col], extent: [rows, cols] };
}

function parseSpan(c: Cursor, what: string): readonly [Expr, number] {
  const origin = parseExpr(c);
  c.expect(":", `between the origin and the number of ${what}`);
  return [origin, c.integer(`the number of ${what}`, 1)];
}
