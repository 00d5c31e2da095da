/** The rows of the statements by which CTAs of one work tile add up their partial tiles. */
import { printCond, printExpr } from "../printExpr.ts";
import type { ReductionStmt, View } from "../types.ts";
import {
  type Buffers,
  type Clause,
  integerClause,
  parseClauses,
  printClauses,
  wordClause,
} from "./clause.ts";
import type { Cursor } from "./cursor.ts";
import { parseCond, parseExpr, parseView, printView } from "./expressions.ts";
import type { Of, StatementSyntax } from "./syntax.ts";

type Rows = { readonly [K in ReductionStmt["kind"]]: StatementSyntax<Of<K>> };

const byClauses = { by: wordClause("by", ["atomics", "bulk"], undefined) };
const partsClauses = {
  parts: { ...integerClause("parts", 1, 0), default: null } as Clause<number | null>,
};
const leaveClauses = { id: integerClause("barrier", 0, undefined, 15) };
const slicesClauses = { slices: integerClause("slices", 1, undefined) };
const sumClauses = { parts: integerClause("parts", 1, undefined) };

/** A statement that is its keyword and a view. */
const ofView = <K extends string>(kind: K) => ({
  syntax: `${kind} VIEW`,
  print: ({ acc }: { readonly acc: View }, b: Buffers) => `${kind} ${printView(acc, b)}`,
  parse: (c: Cursor) => ({ kind, acc: parseView(c) }),
});

/** Some registers of each thread, and a slot. */
const ofRegisters = <K extends "partial.stage" | "bulk.reduce">(kind: K) => ({
  syntax: `${kind} VIEW registers EXPR : N slot EXPR`,
  print: ({ acc, from, count, slot }: Omit<Of<"partial.stage">, "kind">, b: Buffers) =>
    `${kind} ${printView(acc, b)} registers ${printExpr(from)} : ${count} slot ${printExpr(slot)}`,
  parse: (c: Cursor) => {
    const acc = parseView(c);
    c.expect("registers", "before the first of them");
    const from = parseExpr(c);
    c.expect(":", "before how many they are");
    const count = c.integer("the registers", 1);
    c.expect("slot", "before the slot of the warp's room");
    return { kind, acc, from, count, slot: parseExpr(c) };
  },
});

export const reductionSyntax: Rows = {
  reduction: {
    syntax: "reduction unless CONDITION { … }",
    print: (s) => `reduction${s.unless === null ? "" : ` unless ${printCond(s.unless)}`}`,
    parse: (c, block) => ({
      kind: "reduction",
      unless: c.eat("unless") ? parseCond(c) : null,
      body: block([]),
    }),
  },
  "partial.store": ofView("partial.store"),
  "partial.load": ofView("partial.load"),
  "partial.clear": ofView("partial.clear"),
  "partial.reduce": {
    syntax: "partial.reduce VIEW by atomics|bulk [{ … }]",
    print: (s, b) => `partial.reduce ${printView(s.acc, b)}${printClauses(byClauses, s, b)}`,
    parse: (c, block) => ({
      kind: "partial.reduce",
      acc: parseView(c),
      ...parseClauses(c, byClauses, "partial.reduce"),
      body: c.at("{") ? block([]) : [],
    }),
  },
  "partial.stage": ofRegisters("partial.stage"),
  "bulk.reduce": ofRegisters("bulk.reduce"),
  "partial.add": {
    syntax: "partial.add VIEW parts N",
    print: (s, b) => `partial.add ${printView(s.acc, b)}${printClauses(partsClauses, s, b)}`,
    parse: (c) => ({
      kind: "partial.add",
      acc: parseView(c),
      ...parseClauses(c, partsClauses, "partial.add"),
    }),
  },
  "counter.add": {
    syntax: "counter.add EXPR",
    print: (s) => `counter.add ${printExpr(s.by)}`,
    parse: (c) => ({ kind: "counter.add", by: parseExpr(c) }),
  },
  "counter.leave": {
    syntax: "counter.leave unless EXPR barrier ID",
    print: (s, b) => `counter.leave unless ${printExpr(s.unless)}${printClauses(leaveClauses, s, b)}`,
    parse: (c) => {
      c.expect("unless", "before the number of the last");
      const unless = parseExpr(c);
      return { kind: "counter.leave", unless, ...parseClauses(c, leaveClauses, "counter.leave") };
    },
  },
  "counter.clear": {
    syntax: "counter.clear",
    print: () => "counter.clear",
    parse: () => ({ kind: "counter.clear" }),
  },
  slices: {
    syntax: "slices barrier ID { … }",
    print: (s, b) => `slices${printClauses(leaveClauses, s, b)}`,
    parse: (c, block) => ({ kind: "slices", ...parseClauses(c, leaveClauses, "slices"), body: block([]) }),
  },
  "dsmem.send": {
    syntax: "dsmem.send VIEW into VIEW",
    print: (s, b) => `dsmem.send ${printView(s.acc, b)} into ${printView(s.into, b)}`,
    parse: (c) => {
      const acc = parseView(c);
      c.expect("into", "before the tile of a slice");
      return { kind: "dsmem.send", acc, into: parseView(c) };
    },
  },
  "dsmem.leave": {
    syntax: "dsmem.leave slices N",
    print: (s, b) => `dsmem.leave${printClauses(slicesClauses, s, b)}`,
    parse: (c) => ({ kind: "dsmem.leave", ...parseClauses(c, slicesClauses, "dsmem.leave") }),
  },
  "dsmem.expect": {
    syntax: "dsmem.expect BYTES",
    print: (s) => `dsmem.expect ${s.bytes}`,
    parse: (c) => ({ kind: "dsmem.expect", bytes: c.integer("the bytes", 0) }),
  },
  "dsmem.wait": {
    syntax: "dsmem.wait",
    print: () => "dsmem.wait",
    parse: () => ({ kind: "dsmem.wait" }),
  },
  "dsmem.add": {
    syntax: "dsmem.add VIEW parts N",
    print: (s, b) => `dsmem.add ${printView(s.into, b)}${printClauses(sumClauses, s, b)}`,
    parse: (c) => ({
      kind: "dsmem.add",
      into: parseView(c),
      ...parseClauses(c, sumClauses, "dsmem.add"),
    }),
  },
};
