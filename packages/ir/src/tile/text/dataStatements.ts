/** Statements that compute with elements of tiles: `map` and `reduce.row`, and the expressions in them. */
import {
  type Expression,
  elementCalls,
  type FunctionName,
  printExpression,
  weightTypes,
} from "@tilewright/core";
import { printExpr } from "../printExpr.ts";
import { type ElementExpr, type ElementLeaf, rowReductions } from "../types.ts";
import { type Clause, integerClause, optional, wordClause } from "./clause.ts";
import { viewClause } from "./clauses.ts";
import { type Cursor, describe, MOST_DEEP, parseCodes } from "./cursor.ts";
import { parseExpr, parseView, printView } from "./expressions.ts";
import { type Field, oneOf, view } from "./fields.ts";
import { nearestHint } from "./nearest.ts";
import { line, type Of, type StatementSyntax } from "./syntax.ts";

/** Reads a leaf at the cursor, or null where none begins. */
export type LeafParser<L> = (c: Cursor) => L | null;

/** Operators that are written between their arguments, by how tightly they bind. */
const infix = [
  { "+": "add", "-": "sub" },
  { "*": "mul", "/": "div" },
] as const satisfies readonly Readonly<Record<string, FunctionName>>[];

/** sum := product (('+' | '-') product)*, and so on down to functions, casts and leaves. */
export function parseElement<L>(c: Cursor, leaf: LeafParser<L>, level = 0): Expression<L> {
  const signs = infix[level];
  if (signs === undefined) return parseUnary(c, leaf);
  let lhs = parseElement(c, leaf, level + 1);
  for (let terms = 1; ; terms++) {
    const found = Object.entries(signs).find(([sign]) => !c.peek().startsLine && c.at(sign));
    if (found === undefined) return lhs;
    if (terms > MOST_DEEP) c.bad(c.peek(), `an expression has at most ${MOST_DEEP} terms`, "write fewer");
    c.next();
    lhs = { kind: "apply", fn: found[1], args: [lhs, parseElement(c, leaf, level + 1)] };
  }
}

function parseUnary<L>(c: Cursor, leaf: LeafParser<L>): Expression<L> {
  const token = c.peek();
  if (token.kind === "number" || c.at("inf")) return { kind: "number", value: c.number("a constant") };
  if (c.eat("-")) {
    const of = c.within("signs", () => parseUnary(c, leaf));
    return of.kind === "number"
      ? { kind: "number", value: -of.value }
      : { kind: "apply", fn: "neg", args: [of] };
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

/** Signs between the first two arguments of `select`; a comma is `<`. */
const comparisons = ["<=", ">=", "<", ">"] as const;

/** `exp(x)`, `max(x, y)`, `clamp(x, low, high)`, `select(x < y, a, b)`, `f16(x)`. */
function parseCall<L>(c: Cursor, leaf: LeafParser<L>): Expression<L> {
  const token = c.peek();
  const arity =
    token.kind === "word" && Object.hasOwn(elementCalls, token.text) ? elementCalls[token.text] : undefined;
  const names = Object.keys(elementCalls);
  const hint = `a number, a tile, (…) or one of: ${names.join(", ")}`;
  if (token.kind !== "word")
    c.fail(token, parseCodes.syntax, `expected an element, found ${describe(token)}`, hint);
  if (arity === undefined)
    c.fail(
      token,
      parseCodes.unknownWord,
      `'${token.text}' is no function of elements`,
      nearestHint(token.text, names) ?? hint,
    );
  c.next();
  let not = false;
  const args = c
    .list(`the arguments of '${token.text}'`, (): readonly Expression<L>[] => {
      const lhs = parseElement(c, leaf);
      const sign = token.text === "select" ? comparisons.find((each) => c.eat(each)) : undefined;
      if (sign === undefined) return [lhs];
      const rhs = parseElement(c, leaf);
      not = sign.endsWith("=");
      return sign === "<" || sign === ">=" ? [lhs, rhs] : [rhs, lhs];
    })
    .flat();
  if (args.length !== arity)
    c.bad(token, `'${token.text}' takes ${arity}, found ${args.length}`, `write ${arity}`);
  const [x, low, high, other] = args;
  // `a <= b` is that b < a does not hold.
  if (not && x && low && high && other) return { kind: "apply", fn: "select", args: [x, low, other, high] };
  if (token.text === "clamp" && x && low && high)
    return { kind: "apply", fn: "min", args: [{ kind: "apply", fn: "max", args: [x, low] }, high] };
  return { kind: "apply", fn: token.text as FunctionName, args };
}

/** `%tile`, a part of one, `codes %words` of s4 (`codes:e2m1 %words`), or the element's own `row` or `col`, `row[%mt * 64]` where rows are counted from there. */
const elementLeaf: LeafParser<ElementLeaf> = (c) => {
  if (c.eat("codes")) {
    const codes = c.eat(":") ? c.oneOf(weightTypes, "dtypes of weights") : "s4";
    return { kind: "view", view: parseView(c), codes };
  }
  if (c.peek().kind === "name") return { kind: "view", view: parseView(c) };
  const kind = (["row", "col"] as const).find((axis) => c.eat(axis));
  if (kind === undefined) return null;
  if (!c.eat("[")) return { kind };
  const from = parseExpr(c);
  c.expect("]", "behind where the tile begins");
  return { kind, from };
};

/** What elements become. */
const value: Field<ElementExpr> = {
  what: "the expression",
  print: (e, buffers) =>
    printExpression(e, (leaf) =>
      leaf.kind === "view"
        ? `${leaf.codes === undefined ? "" : leaf.codes === "s4" ? "codes " : `codes:${leaf.codes} `}${printView(leaf.view, buffers)}`
        : leaf.from === undefined
          ? leaf.kind
          : `${leaf.kind}[${printExpr(leaf.from)}]`,
    ),
  parse: (c) => parseElement(c, elementLeaf),
};

/** `+=` where what the row was takes part, `=` elsewhere. */
const adds: Field<boolean> = {
  what: "'=' or '+='",
  print: (also) => (also ? "+=" : "="),
  parse: (c) => {
    const also = c.eat("+=");
    if (!also) c.expect("=", "before what is reduced");
    return also;
  },
};

const dst = view("the tile");

export const dataSyntax: {
  readonly [K in "map" | "reduce.row"]: StatementSyntax<Of<K>>;
} = {
  map: line(
    "map",
    "{dst} = {value}",
    { dst, value },
    { unless: optional(wordClause<"one">("unless", ["one"], undefined)) },
  ),
  "reduce.row": line(
    "reduce.row",
    "{dst} {adds} {op}({value})",
    { dst, adds, op: oneOf(rowReductions, "reduction of rows"), value },
    {
      below: { ...integerClause("below", 1, 0), default: null } as Clause<number | null>,
      via: viewClause("via"),
      runs: optional(integerClause("runs", 1, undefined)),
    },
  ),
};
