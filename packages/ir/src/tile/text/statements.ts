/** One row per statement: how it is written and how it is read back. The statement's keyword is its kind. */

import type { EpilogueStep } from "@tilewright/core";
import { parseProblem, printEpilogue, printProblem } from "@tilewright/core";
import { evaluateExpr, freeVars } from "../expr.ts";
import { printExpr } from "../printExpr.ts";
import { ownSizes } from "../sizes.ts";
import { type Expr, reductionKinds, type StmtKind, tileLoopVars } from "../types.ts";
import {
  type Clause,
  flagClause,
  freeWordClause,
  integerClause,
  optional,
  optionalFlag,
  parseClauses,
  printClauses,
  printNumber,
  scalarClause,
  warpsClause,
  wordClause,
} from "./clause.ts";
import {
  columnsClause,
  distClause,
  exprClause,
  guardClause,
  inputsClause,
  l2PrefetchClause,
  lineOrderClause,
  multicastClause,
  rasterClause,
  scalesClause,
  schedulerClause,
  tileLoopClause,
  transports,
  vectorPairClause,
  viewClause,
  walks,
  whenClause,
  withinClause,
} from "./clauses.ts";
import type { Cursor } from "./cursor.ts";
import { dataSyntax } from "./dataStatements.ts";
import { parseExpr, parseView, printView } from "./expressions.ts";
import {
  clauseOf,
  cond,
  declared,
  expr,
  type Field,
  integer,
  record,
  ring,
  tiles,
  view,
  word,
} from "./fields.ts";
import { frameSyntax } from "./frameStatements.ts";
import { machineSyntax } from "./machineStatements.ts";
import { splitField, streamKField } from "./splits.ts";
import { line, type Of, type StatementSyntax } from "./syntax.ts";

export type { ParseBlock, StatementSyntax } from "./syntax.ts";

const tilesClauses = {
  raster: rasterClause,
  descending: optionalFlag("descending"),
  until: optional(exprClause("until")),
  loop: tileLoopClause,
  scheduler: optional(schedulerClause),
};

/** `twoLevel SUM every N` */
const twoLevelClause = clauseOf<NonNullable<Of<"mma">["twoLevel"]>>(
  "twoLevel",
  "SUM every N",
  record("the sums", "{sum} every {every}", {
    sum: view("the sum"),
    every: integer("the elements of k in a sum", 1),
  }),
  undefined,
);
const mmaClauses = {
  exchanged: optionalFlag("exchanged"),
  beside: optional(viewClause("beside")),
  scales: optional(scalesClause),
  twoLevel: optional(twoLevelClause),
  atom: freeWordClause("atom"),
  walk: wordClause("walk", walks, undefined),
  lines: lineOrderClause("lines"),
  along: lineOrderClause("along"),
  swap: flagClause("swap"),
  columns: optional(columnsClause),
  keep: optional({ ...whenClause, keyword: "keep" }),
};
/** `else zero(%TILE, …)` */
const zerosClause = clauseOf<readonly string[]>(
  "else",
  "zero(%TILE, …)",
  {
    what: tiles.what,
    print: (names, buffers) => `zero${tiles.print(names, buffers)}`,
    parse: (c) => {
      c.expect("zero", "behind 'else'");
      return tiles.parse(c);
    },
  },
  undefined,
);
/** `steps bias(n,f32)|activation(relu)`: the problem's own text for the chain, checked against the problem. */
const stepsClause: Clause<readonly EpilogueStep[]> = {
  keyword: "steps",
  syntax: "STEP|STEP",
  default: [],
  print: printEpilogue,
  parse: (c) => {
    const token = c.peek();
    const text = c.scanner.match(/[^\s{}]+/y) ?? "";
    const rest = c.problem === null ? "m=1 n=1 k=1 " : printProblem({ ...c.problem, epilogue: [] });
    const problem = parseProblem(`${rest.replace(/epilogue=\S*/, "")} epilogue=${text}`);
    if (problem.ok) return problem.value.epilogue;
    const [reason] = problem.error;
    return c.bad(token, reason?.message ?? "malformed steps", reason?.hint ?? null);
  },
};

/** Tiles along an axis: an expression where the launch supplies the size. */
const printCount = (s: Of<"tiles">, axis: 0 | 1): string => {
  const count = s.symbolic?.[axis] ?? null;
  return count === null ? String(s.extents[axis]) : printExpr(count);
};

/** A number, or an expression in sizes of the launch and its value at the problem's own. */
function parseCount(c: Cursor, what: string): readonly [number, Expr | null] {
  const token = c.peek();
  if (token.kind === "number" || c.at("-")) return [c.integer(what, 1), null];
  const count = parseExpr(c);
  if (c.problem === null || freeVars(count).size === 0)
    return c.bad(token, `${what} is a number`, "write it as one");
  return [evaluateExpr(count, ownSizes(c.problem)), count];
}

/** `@ CHUNK` of a ring. */
const ringEvent = { ring, at: expr("the chunk's number") };
const eventForm = "{ring} @ {at}";

const number = (what: string): Field<number> => ({ what, print: printNumber, parse: (c) => c.number(what) });

/** Destination and source. */
const dst = view("the destination");

export const statementSyntax: { readonly [K in StmtKind]: StatementSyntax<Of<K>> } = {
  // tiles %mt < ROWS, %nt < COLS, split … | streamk … raster R persistent … scheduler(…) { … }
  tiles: {
    print: (s, b) =>
      `tiles %${s.vars[0]} < ${printCount(s, 0)}, %${s.vars[1]} < ${printCount(s, 1)}${s.split === null ? "" : `, ${splitField.print(s.split, b)}`}${s.streamK === undefined ? "" : `, ${streamKField.print(s.streamK, b)}`}${printClauses(tilesClauses, s, b)}`,
    parse: (c, block) => {
      const axis = (what: string): readonly [string, number, Expr | null] => {
        const name = c.name(`the variable of the tile's ${what}`);
        c.expect("<", `before the number of tile ${what}s`);
        return [name, ...parseCount(c, `the number of tile ${what}s`)];
      };
      const [row, rows, rowsOf] = axis("row");
      c.expect(",", "between tile rows and columns");
      const [col, cols, colsOf] = axis("column");
      const shared = c.at(",");
      if (shared) c.next();
      const share = shared && c.at("streamk") ? streamKField.parse(c) : null;
      const split = shared && share === null ? splitField.parse(c) : null;
      const clauses = parseClauses(c, tilesClauses, "tiles");
      const vars = [
        row,
        col,
        ...(split ? [split.var] : []),
        ...(share ? [share.first, share.count] : []),
        ...tileLoopVars(clauses.loop),
      ];
      return {
        kind: "tiles",
        vars: [row, col],
        extents: [rows, cols],
        ...(rowsOf === null && colsOf === null ? {} : { symbolic: [rowsOf, colsOf] as const }),
        split,
        ...(share ? { streamK: share } : {}),
        ...clauses,
        body: block(vars),
      };
    },
  },
  for: line(
    "for",
    "{var} = {from} .. {to}",
    { var: declared("the loop variable"), from: expr("the first value"), to: expr("the end of the loop") },
    {
      within: optional(withinClause),
      unroll: flagClause("unroll"),
      apart: optional(integerClause("apart", 1, undefined)),
    },
    "braces",
  ),
  if: line("if", "{cond}", { cond }, { zeros: optional(zerosClause) }, "braces"),
  vote: line("vote", "{factor} unless one", { factor: view("the factor") }, {}, "braces"),
  role: line(
    "role",
    "{name}",
    { name: word("the role's name") },
    {
      first: integerClause("first", 0, undefined, 31),
      warps: integerClause("warps", 1, undefined, 32),
      registers: { ...integerClause("registers", 1, 0, 256), default: null } as Clause<number | null>,
      leader: optional(wordClause<"pair" | "cluster">("leader", ["pair", "cluster"], undefined)),
      elected: optionalFlag("elected"),
      gathers: optionalFlag("gathers"),
    },
    "braces",
  ),
  fill: line("fill", "{dst} = {value}", { dst, value: number("the value") }, { once: optionalFlag("once") }),
  copy: line(
    "copy",
    "{dst} <- {src}",
    { dst, src: view("the source") },
    {
      transport: wordClause("transport", transports, "direct"),
      guard: guardClause,
      when: whenClause,
      dist: distClause,
      vector: vectorPairClause,
      multicast: multicastClause,
      l2Prefetch: optional(l2PrefetchClause),
    },
  ),
  // mma ACC +=|= A * B exchanged beside B scaled SFA, SFB beside SFB twoLevel PART every N atom NAME walk W … keep CONDITION
  mma: {
    print: ({ keep, ...s }, b) => {
      const clauses = typeof keep === "object" ? { ...s, keep } : s;
      return `mma ${printView(s.acc, b)} ${keep === false ? "=" : "+="} ${printView(s.a, b)} * ${printView(s.b, b)}${printClauses(mmaClauses, clauses, b)}`;
    },
    parse: (c) => {
      const acc = parseView(c);
      const sign = c.peek();
      const overwrites = c.eat("=");
      if (!overwrites) c.expect("+=", "after the accumulator");
      const a = parseView(c);
      c.expect("*", "between A and B");
      const b = parseView(c);
      const clauses = parseClauses(c, mmaClauses, "mma");
      if (!overwrites) return { kind: "mma", acc, a, b, ...clauses };
      if (clauses.keep !== undefined)
        c.bad(sign, "'=' keeps nothing of the accumulator", "write '+=', or no 'keep'");
      return { kind: "mma", acc, a, b, ...clauses, keep: false };
    },
  },
  acquire: line("acquire", eventForm, ringEvent, {}),
  commit: line("commit", eventForm, ringEvent, {}),
  wait: line("wait", eventForm, ringEvent, { pending: integerClause("pending", 0, undefined) }),
  release: line("release", eventForm, ringEvent, {}),
  request: line("request", eventForm, ringEvent, {}),
  next: line("next", eventForm, ringEvent, {}),
  reduce: line(
    "reduce",
    "{acc}",
    { acc: view("the accumulators") },
    { by: wordClause("by", reductionKinds, "last"), into: viewClause("into") },
    "braces",
  ),
  barrier: line(
    "barrier",
    "{id}",
    { id: integer("the barrier's number", 0) },
    {
      threads: optional(integerClause("threads", 32, undefined)),
      arrive: optionalFlag("arrive"),
      ahead: optional(warpsClause("ahead")),
      groups: optional(integerClause("groups", 1, undefined)),
    },
  ),
  ...dataSyntax,
  ...machineSyntax,
  ...frameSyntax,
  epilogue: line(
    "epilogue",
    "{dst} <- {acc}",
    { dst, acc: view("the accumulator") },
    {
      adds: optionalFlag("adds"),
      gated: optionalFlag("gated"),
      c: viewClause("c"),
      alpha: scalarClause("alpha"),
      beta: scalarClause("beta"),
      steps: stepsClause,
      guard: guardClause,
      vector: integerClause("vector", 1, 1),
      via: viewClause("via"),
      stores: optional(integerClause("stores", 1, undefined)),
      inputs: optional(inputsClause),
      columns: optional(columnsClause),
    },
    "optional",
  ),
};

export const statementKinds = Object.keys(statementSyntax) as readonly StmtKind[];
