/** The rows of what stands before and behind a kernel's tiles and roles. */
import type { FrameKind } from "../types.ts";
import { flagClause, integerClause, parseClauses, printClauses } from "./clause.ts";
import type { Cursor } from "./cursor.ts";
import type { Of, StatementSyntax } from "./syntax.ts";

const arriveClauses = { release: flagClause("release"), any: flagClause("any") };
const waitClauses = { any: flagClause("any") };
const bulkClauses = { pending: integerClause("pending", 0, undefined), complete: flagClause("complete") };

/** A statement of one word. */
const bare = <K extends "pdl.wait" | "pdl.launch" | "tmem.relinquish" | "tmem.base">(
  kind: K,
): StatementSyntax<Of<K>> => ({
  syntax: kind,
  print: () => kind,
  parse: () => ({ kind }) as Of<K>,
});

const columns = (c: Cursor): number => c.integer("the columns", 1);

export const frameSyntax: { readonly [K in FrameKind]: StatementSyntax<Of<K>> } = {
  only: {
    syntax: "only thread|warp N { … }",
    print: (s) => `only ${s.unit} ${s.number}`,
    parse: (c, block) => ({
      kind: "only",
      unit: c.oneOf(["thread", "warp"] as const, "part of a block"),
      number: c.integer("its number in the block", 0),
      body: block([]),
    }),
  },
  "tensormap.prefetch": {
    syntax: "tensormap.prefetch %MATRIX",
    print: (s) => `tensormap.prefetch %${s.buffer}`,
    parse: (c) => ({ kind: "tensormap.prefetch", buffer: c.buffer().name }),
  },
  "mbar.init": {
    syntax: "mbar.init %NAME [slots A .. B]",
    print: (s) => `mbar.init %${s.barriers}${s.slots ? ` slots ${s.slots.from} .. ${s.slots.to}` : ""}`,
    parse: (c) => {
      const barriers = c.name("the declared mbarriers");
      if (!c.at("slots")) return { kind: "mbar.init", barriers };
      c.next();
      const from = c.integer("the first slot", 0);
      c.expect("..", "slots A .. B");
      return { kind: "mbar.init", barriers, slots: { from, to: c.integer("the slot behind the last", 1) } };
    },
  },
  "prologue.at": {
    syntax: "prologue.at ROLE",
    print: (s) => `prologue.at ${s.role}`,
    parse: (c) => ({ kind: "prologue.at", role: c.word("the role's name") }),
  },
  "cluster.arrive": {
    syntax: "cluster.arrive release any",
    print: (s, b) => `cluster.arrive${printClauses(arriveClauses, s, b)}`,
    parse: (c) => ({ kind: "cluster.arrive", ...parseClauses(c, arriveClauses, "cluster.arrive") }),
  },
  "cluster.wait": {
    syntax: "cluster.wait any",
    print: (s, b) => `cluster.wait${printClauses(waitClauses, s, b)}`,
    parse: (c) => ({ kind: "cluster.wait", ...parseClauses(c, waitClauses, "cluster.wait") }),
  },
  "pdl.wait": bare("pdl.wait"),
  "pdl.launch": bare("pdl.launch"),
  "bulk.wait": {
    syntax: "bulk.wait pending N complete",
    print: (s, b) => `bulk.wait${printClauses(bulkClauses, { ...s, complete: s.complete ?? false }, b)}`,
    parse: (c) => {
      const { pending, complete } = parseClauses(c, bulkClauses, "bulk.wait");
      return { kind: "bulk.wait", pending, ...(complete ? { complete } : {}) };
    },
  },
  "tmem.alloc": {
    syntax: "tmem.alloc COLUMNS",
    print: (s) => `tmem.alloc ${s.columns}`,
    parse: (c) => ({ kind: "tmem.alloc", columns: columns(c) }),
  },
  "tmem.relinquish": bare("tmem.relinquish"),
  "tmem.base": bare("tmem.base"),
  "tmem.dealloc": {
    syntax: "tmem.dealloc COLUMNS",
    print: (s) => `tmem.dealloc ${s.columns}`,
    parse: (c) => ({ kind: "tmem.dealloc", columns: columns(c) }),
  },
};
