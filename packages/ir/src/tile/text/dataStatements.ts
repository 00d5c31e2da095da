/** Statements that compute with elements of tiles: `map` and `reduce.row`, and the expressions in them. */
import {
  arityOf,
  dtypeNames,
  type ElementFunction,
  type Elementwise,
  elementFunctions,
  infix,
  isDType,
  printElement,
} from "@tilewright/core";
import { type ElementExpr, type ElementLeaf, rowReductions } from "../types.ts";
import { type Buffers, type Clause, integerClause, parseClauses, printClauses } from "./clause.ts";
import { viewClause } from "./clauses.ts";
import { type Cursor, describe, parseCodes } from "./cursor.ts";
import { parseView, printView } from "./expressions.ts";
import { nearestHint } from "./nearest.ts";
import type { Of, StatementSyntax } from "./syntax.ts";

/** Reads a leaf at the cursor, or null where none begins. */
export type LeafParser<L> = (c: Cursor) => L | null;

/** sum := product (('+' | '-') product)*, and so on up to functions, casts and leaves. */
export function parseElement<L>(c: Cursor, leaf: LeafParser<L>, level = 1): Elementwise<L> {
  if (level > 2) return parseUnary(c, leaf);
  let lhs = parseElement(c, leaf, level + 1);
  for (;;) {
    const fn = (Object.keys(infix) as (keyof typeof infix)[]).find(
      (name) => infix[name].level === level && !c.peek().startsLine && c.at(infix[name].sign),
    );
    if (fn === undefined) return lhs;
    c.next();
    const left = lhs;
    lhs = { kind: "call", fn, args: [left, c.within("operators", () => parseElement(c, leaf, level + 1))] };
  }
}

function parseUnary<L>(c: Cursor, leaf: LeafParser<L>): Elementwise<L> {
  const token = c.peek();
  if (token.kind === "number" || c.at("inf")) return { kind: "number", value: c.number("a constant") };
  if (c.eat("-")) {
    const of = c.within("signs", () => parseUnary(c, leaf));
    return of.kind === "number"
      ? { kind: "number", value: -of.value }
      : { kind: "call", fn: "neg", args: [of] };
  }
  if (c.eat("(")) {
    const inner = c.within("parentheses", () => parseElement(c, leaf));
    c.expect(")", "to close the parenthesis");
    return inner;
  }
  const found = leaf(c);
  if (found !== null) return { kind: "leaf", leaf: found };
  return c.within("functions", () => parseCall(c, leaf));
}

const functionNames = elementFunctions.filter((name) => !Object.hasOwn(infix, name));

/** `exp(x)`, `max(x, y)`, `select(x < y, a, b)`, `f16(x)`. */
function parseCall<L>(c: Cursor, leaf: LeafParser<L>): Elementwise<L> {
  const token = c.peek();
  const name = token.kind === "word" ? token.text : "";
  const fn = functionNames.find((each) => each === name);
  if (fn === undefined && name !== "select" && !isDType(name))
    c.fail(
      token,
      token.kind === "word" ? parseCodes.unknownWord : parseCodes.syntax,
      token.kind === "word"
        ? `'${name}' is no function of elements`
        : `expected an element, found ${describe(token)}`,
      (name === "" ? null : nearestHint(name, [...functionNames, "select", ...dtypeNames])) ??
        `a number, a tile, (…) or one of: ${[...functionNames, "select"].join(", ")}, and a dtype to round to`,
    );
  c.next();
  c.expect("(", `behind '${name}'`);
  const inner = (): Elementwise<L> => parseElement(c, leaf);
  if (name === "select") {
    const lhs = inner();
    c.expect("<", "between what is compared");
    const rhs = inner();
    c.expect(",", "behind the comparison");
    const less = inner();
    c.expect(",", "between the two values");
    const otherwise = inner();
    c.expect(")", "behind the values");
    return { kind: "select", args: [lhs, rhs, less, otherwise] };
  }
  const args = [inner()];
  while (c.eat(",")) args.push(inner());
  c.expect(")", `behind the arguments of '${name}'`);
  const arity = fn === undefined ? 1 : arityOf(fn);
  if (args.length !== arity)
    c.fail(token, parseCodes.badValue, `'${name}' takes ${arity}, found ${args.length}`, `write ${arity}`);
  const [of] = args;
  if (isDType(name) && of !== undefined) return { kind: "cast", dtype: name, of };
  return { kind: "call", fn: fn as ElementFunction, args };
}

/** `%tile`, a part of one, or the element's own `row` or `col`. */
const elementLeaf: LeafParser<ElementLeaf> = (c) => {
  if (c.peek().kind === "name") return { kind: "view", view: parseView(c) };
  if (c.eat("row")) return { kind: "row" };
  return c.eat("col") ? { kind: "col" } : null;
};

const printValue = (e: ElementExpr, buffers: Buffers): string =>
  printElement(e, (leaf) => (leaf.kind === "view" ? printView(leaf.view, buffers) : leaf.kind));

const rowClauses = {
  below: { ...integerClause("below", 1, 0), default: null } as Clause<number | null>,
  via: viewClause("via"),
};

export const dataSyntax: {
  readonly [K in "map" | "reduce.row"]: StatementSyntax<Of<K>>;
} = {
  map: {
    syntax: "map VIEW = EXPRESSION",
    print: (s, b) => `map ${printView(s.dst, b)} = ${printValue(s.value, b)}`,
    parse: (c) => {
      const dst = parseView(c);
      c.expect("=", "before the expression");
      return { kind: "map", dst, value: parseElement(c, elementLeaf) };
    },
  },
  "reduce.row": {
    syntax: "reduce.row VIEW =|+= sum|max(EXPRESSION) below COLUMN via VIEW",
    print: (s, b) =>
      `reduce.row ${printView(s.dst, b)} ${s.adds ? "+=" : "="} ${s.op}(${printValue(s.value, b)})${printClauses(rowClauses, s, b)}`,
    parse: (c) => {
      const dst = parseView(c);
      const adds = c.eat("+=");
      if (!adds) c.expect("=", "before what is reduced");
      const op = c.oneOf(rowReductions, "reduction of rows");
      c.expect("(", "before the expression");
      const value = parseElement(c, elementLeaf);
      c.expect(")", "behind the expression");
      return { kind: "reduce.row", dst, op, value, adds, ...parseClauses(c, rowClauses, "reduce.row") };
    },
  },
};
