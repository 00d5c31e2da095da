/** One row per statement: how it is written and how it is read back. The statement's keyword is its kind. */

import type { EpilogueStep } from "@tilewright/core";
import { parseProblem, printEpilogue, printProblem } from "@tilewright/core";
import { evaluateExpr, freeVars } from "../expr.ts";
import { printCond, printExpr } from "../printExpr.ts";
import { ownSizes } from "../sizes.ts";
import { type Expr, reductionKinds, type StmtKind, tileLoopVars } from "../types.ts";
import {
  type Clause,
  flagClause,
  freeWordClause,
  integerClause,
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
  guardClause,
  inputsClause,
  l2PrefetchClause,
  lineOrderClause,
  multicastClause,
  rasterClause,
  schedulerClause,
  tileLoopClause,
  transports,
  vectorPairClause,
  viewClause,
  walks,
  whenClause,
} from "./clauses.ts";
import { type Cursor, parseCodes } from "./cursor.ts";
import { dataSyntax } from "./dataStatements.ts";
import { parseCond, parseExpr, parseScales, parseView, printScales, printView } from "./expressions.ts";
import { frameSyntax } from "./frameStatements.ts";
import { machineSyntax } from "./machineStatements.ts";
import { parseSplit, parseStreamK, printSplit, printStreamK } from "./splits.ts";
import type { Of, StatementSyntax } from "./syntax.ts";

export type { ParseBlock, StatementSyntax } from "./syntax.ts";

const tilesClauses = { raster: rasterClause, loop: tileLoopClause, scheduler: schedulerClause };
const forClauses = { unroll: flagClause("unroll"), apart: integerClause("apart", 1, 0) };
const leaders = ["pair", "cluster"] as const;
const roleClauses = {
  first: integerClause("first", 0, undefined, 31),
  warps: integerClause("warps", 1, undefined, 32),
  registers: {
    ...integerClause("registers", 1, 0, 256),
    default: null,
  } as Clause<number | null>,
  leader: {
    keyword: "leader",
    syntax: leaders.join("|"),
    default: null,
    print: (of) => of ?? "",
    parse: (c) => c.oneOf(leaders, "leader"),
  } as Clause<"pair" | "cluster" | null>,
  one: flagClause("elected"),
};
const copyClauses = {
  transport: wordClause("transport", transports, "direct"),
  guard: guardClause,
  when: whenClause,
  dist: distClause,
  vector: vectorPairClause,
  multicast: multicastClause,
  prefetch: l2PrefetchClause,
};
const mmaClauses = {
  atom: freeWordClause("atom"),
  walk: wordClause("walk", walks, undefined),
  lines: lineOrderClause("lines"),
  along: lineOrderClause("along"),
  swap: flagClause("swap"),
  columns: columnsClause,
  keep: { ...whenClause, keyword: "keep" },
};
const fillClauses = { once: flagClause("once") };
const ifClauses = {
  zeros: {
    keyword: "else",
    syntax: "zero(%TILE, …)",
    default: [],
    print: (names) => `zero(${names.map((name) => `%${name}`).join(", ")})`,
    parse: (c) => {
      c.expect("zero", "behind 'else'");
      return c.list("the tiles", () => c.buffer().name);
    },
  } as Clause<readonly string[]>,
};
const barrierClauses = {
  threads: integerClause("threads", 32, 0),
  arrive: flagClause("arrive"),
  ahead: warpsClause("ahead"),
  groups: integerClause("groups", 1, 0),
};
const combineClauses = { by: wordClause("by", reductionKinds, "last"), into: viewClause("into") };
const waitClauses = { pending: integerClause("pending", 0, undefined) };
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
    return c.fail(token, parseCodes.badValue, reason?.message ?? "malformed steps", reason?.hint ?? null);
  },
};
const epilogueClauses = {
  gated: flagClause("gated"),
  c: viewClause("c"),
  alpha: scalarClause("alpha"),
  beta: scalarClause("beta"),
  steps: stepsClause,
  guard: guardClause,
  vector: integerClause("vector", 1, 1),
  via: viewClause("via"),
  stores: { ...integerClause("stores", 1, 0), default: null } as Clause<number | null>,
  inputs: inputsClause,
  columns: columnsClause,
};

/** acquire, commit, release: `keyword %ring @ chunk`. */
const printRingEvent = (s: { readonly kind: string; readonly ring: string; readonly at: Expr }): string =>
  `${s.kind} %${s.ring} @ ${printExpr(s.at)}`;

function parseRingEvent(c: Cursor) {
  const ring = c.ring().name;
  c.expect("@", "before the chunk's number");
  return { ring, at: parseExpr(c) };
}

/** `twoLevel PART every N`, the keyword read already. */
function parsePromotion(c: Cursor): NonNullable<Of<"mma">["twoLevel"]> {
  const part = parseView(c);
  c.expect("every", "before the elements of k in a sum");
  return { part, every: c.integer("the elements of k in a sum", 1) };
}

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
    return c.fail(token, parseCodes.badValue, `${what} is a number`, "write it as one");
  return [evaluateExpr(count, ownSizes(c.problem)), count];
}

/** A row of nothing but the ring and the chunk. */
const ringEvent = <K extends "acquire" | "commit" | "release" | "request" | "next">(
  kind: K,
): StatementSyntax<Of<K>> => ({
  syntax: `${kind} %ring @ CHUNK`,
  print: printRingEvent,
  parse: (c) => ({ kind, ...parseRingEvent(c) }) as Of<K>,
});

export const statementSyntax: { readonly [K in StmtKind]: StatementSyntax<Of<K>> } = {
  tiles: {
    syntax:
      "tiles %mt < ROWS, %nt < COLS, split %st < BLOCKS | streamk %k0, %kn < CHUNKS by EACH tiles TILES on BLOCKS among BLOCKS chunks E raster R persistent %v by stride|ring %ring|streamk tiles %p chunks E scheduler(unit U, below N, groups G, shares C whole, late, counts) { … }",
    print: (s, b) =>
      `tiles %${s.vars[0]} < ${printCount(s, 0)}, %${s.vars[1]} < ${printCount(s, 1)}${printSplit(s.split)}${printStreamK(s.streamK)}${printClauses(tilesClauses, { ...s, scheduler: s.scheduler ?? null }, b)}`,
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
      const share = shared && c.at("streamk") ? parseStreamK(c) : null;
      const split = shared && share === null ? parseSplit(c) : null;
      const { scheduler, ...clauses } = parseClauses(c, tilesClauses, "tiles");
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
        ...(scheduler === null ? {} : { scheduler }),
        body: block(vars),
      };
    },
  },
  for: {
    syntax: "for %i = FROM .. TO unroll apart N { … }",
    print: (s, b) =>
      `for %${s.var} = ${printExpr(s.from)} .. ${printExpr(s.to)}${printClauses(forClauses, { ...s, apart: s.apart ?? 0 }, b)}`,
    parse: (c, block) => {
      const name = c.name("the loop variable");
      c.expect("=", "before the first value");
      const from = parseExpr(c);
      c.expect("..", "between the bounds of the loop");
      const to = parseExpr(c);
      const { apart, ...clauses } = parseClauses(c, forClauses, "for");
      return {
        kind: "for",
        var: name,
        from,
        to,
        ...clauses,
        ...(apart > 0 ? { apart } : {}),
        body: block([name]),
      };
    },
  },
  if: {
    syntax: "if CONDITION else zero(%TILE, …) { … }",
    print: (s, b) => `if ${printCond(s.cond)}${printClauses(ifClauses, { zeros: s.zeros ?? [] }, b)}`,
    parse: (c, block) => {
      const cond = parseCond(c);
      const { zeros } = parseClauses(c, ifClauses, "if");
      return { kind: "if", cond, ...(zeros.length > 0 ? { zeros } : {}), body: block([]) };
    },
  },
  role: {
    syntax: "role NAME first WARP warps COUNT registers N leader pair|cluster elected { … }",
    print: (s, b) =>
      `role ${s.name}${printClauses(roleClauses, { ...s, leader: s.leader ?? null, one: s.elected ?? false }, b)}`,
    parse: (c, block) => {
      const name = c.word("the role's name");
      const { leader, one, ...clauses } = parseClauses(c, roleClauses, "role");
      return {
        kind: "role",
        name,
        ...clauses,
        ...(leader === null ? {} : { leader }),
        ...(one ? { elected: one } : {}),
        body: block([]),
      };
    },
  },
  fill: {
    syntax: "fill VIEW = NUMBER once",
    print: (s, b) =>
      `fill ${printView(s.dst, b)} = ${printNumber(s.value)}${printClauses(fillClauses, { once: s.once ?? false }, b)}`,
    parse: (c) => {
      const dst = parseView(c);
      c.expect("=", "before the value");
      const value = c.number("the value");
      const { once } = parseClauses(c, fillClauses, "fill");
      return { kind: "fill", dst, value, ...(once ? { once } : {}) };
    },
  },
  copy: {
    syntax: "copy VIEW <- VIEW …",
    print: (s, b) =>
      `copy ${printView(s.dst, b)} <- ${printView(s.src, b)}${printClauses(copyClauses, { ...s, prefetch: s.l2Prefetch ?? null }, b)}`,
    parse: (c) => {
      const dst = parseView(c);
      c.expect("<-", "between destination and source");
      const src = parseView(c);
      const { prefetch, ...clauses } = parseClauses(c, copyClauses, "copy");
      return { kind: "copy", dst, src, ...clauses, ...(prefetch === null ? {} : { l2Prefetch: prefetch }) };
    },
  },
  mma: {
    syntax:
      "mma ACC +=|= A * B [beside B] [scaled SFA, SFB] [twoLevel PART every N] atom NAME walk W keep CONDITION …",
    print: (s, b) =>
      `mma ${printView(s.acc, b)} ${s.keep === false ? "=" : "+="} ${printView(s.a, b)} * ${printView(s.b, b)}${s.beside === undefined ? "" : ` beside ${printView(s.beside, b)}`}${printScales(s.scales, b)}${s.twoLevel === undefined ? "" : ` twoLevel ${printView(s.twoLevel.part, b)} every ${s.twoLevel.every}`}${printClauses(mmaClauses, { ...s, keep: s.keep || null, columns: s.columns ?? null }, b)}`,
    parse: (c) => {
      const acc = parseView(c);
      const sign = c.peek();
      const overwrites = c.eat("=");
      if (!overwrites) c.expect("+=", "after the accumulator");
      const a = parseView(c);
      c.expect("*", "between A and B");
      const b = parseView(c);
      const beside = c.eat("beside") ? { beside: parseView(c) } : {};
      const scales = parseScales(c);
      const promote = c.eat("twoLevel") ? { twoLevel: parsePromotion(c) } : {};
      const { columns, keep, ...clauses } = parseClauses(c, mmaClauses, "mma");
      if (overwrites && keep !== null)
        c.fail(sign, parseCodes.badValue, "'=' keeps nothing of the accumulator", "write '+=', or no 'keep'");
      const kept = overwrites ? false : (keep ?? undefined);
      return {
        kind: "mma",
        acc,
        a,
        b,
        ...beside,
        ...scales,
        ...promote,
        ...clauses,
        ...(columns === null ? {} : { columns }),
        ...(kept === undefined ? {} : { keep: kept }),
      };
    },
  },
  acquire: ringEvent("acquire"),
  commit: ringEvent("commit"),
  wait: {
    syntax: "wait %ring @ CHUNK pending N",
    print: (s, b) => `${printRingEvent(s)}${printClauses(waitClauses, s, b)}`,
    parse: (c) => ({ kind: "wait", ...parseRingEvent(c), ...parseClauses(c, waitClauses, "wait") }),
  },
  release: ringEvent("release"),
  request: ringEvent("request"),
  next: ringEvent("next"),
  reduce: {
    syntax: "reduce ACC by last|atomics|kernel|cluster|slices|bulk into VIEW { … }",
    print: (s, b) => `reduce ${printView(s.acc, b)}${printClauses(combineClauses, s, b)}`,
    parse: (c, block) => {
      const acc = parseView(c);
      const clauses = parseClauses(c, combineClauses, "reduce");
      return { kind: "reduce", acc, ...clauses, body: block([]) };
    },
  },
  barrier: {
    syntax: "barrier ID threads N arrive ahead FIRST .. END groups N",
    print: (s, b) =>
      `barrier ${s.id}${printClauses(barrierClauses, { threads: s.threads ?? 0, arrive: s.arrive ?? false, ahead: s.ahead ?? null, groups: s.groups ?? 0 }, b)}`,
    parse: (c) => {
      const id = c.integer("the barrier's number", 0);
      const { threads, arrive, ahead, groups } = parseClauses(c, barrierClauses, "barrier");
      return {
        kind: "barrier",
        id,
        ...(threads > 0 ? { threads } : {}),
        ...(arrive ? { arrive } : {}),
        ...(ahead === null ? {} : { ahead }),
        ...(groups > 0 ? { groups } : {}),
      };
    },
  },
  ...dataSyntax,
  ...machineSyntax,
  ...frameSyntax,
  epilogue: {
    syntax: "epilogue VIEW <- ACC gated c VIEW alpha X beta X … [{ … }]",
    print: (s, b) =>
      `epilogue ${printView(s.dst, b)} <- ${printView(s.acc, b)}${printClauses(epilogueClauses, { ...s, stores: s.stores ?? null, gated: s.gated ?? false, inputs: s.inputs ?? [], columns: s.columns ?? null }, b)}`,
    parse: (c, block) => {
      const dst = parseView(c);
      c.expect("<-", "between destination and accumulator");
      const acc = parseView(c);
      const { stores, gated, inputs, columns, ...clauses } = parseClauses(c, epilogueClauses, "epilogue");
      return {
        kind: "epilogue",
        dst,
        acc,
        ...clauses,
        ...(stores === null ? {} : { stores }),
        ...(gated ? { gated } : {}),
        ...(inputs.length === 0 ? {} : { inputs }),
        ...(columns === null ? {} : { columns }),
        body: c.at("{") ? block([]) : [],
      };
    },
  },
};

export const statementKinds = Object.keys(statementSyntax) as readonly StmtKind[];
