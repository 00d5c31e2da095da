/** The rows of what stands before and behind a kernel's tiles and roles. */
import type { FrameKind, SlotRange } from "../types.ts";
import { type Clause, flagClause, integerClause, optional, optionalFlag } from "./clause.ts";
import { bare, integer, line, name, type Of, oneOf, type StatementSyntax, tile, word } from "./syntax.ts";

const any = flagClause("any");
const columns = integer("the columns", 1);

const slotsClause: Clause<SlotRange> = {
  keyword: "slots",
  syntax: "A .. B",
  default: undefined,
  print: ({ from, to }) => `${from} .. ${to}`,
  parse: (c) => {
    const from = c.integer("the first slot", 0);
    c.expect("..", "slots A .. B");
    return { from, to: c.integer("the slot behind the last", 1) };
  },
};

export const frameSyntax: { readonly [K in FrameKind]: StatementSyntax<Of<K>> } = {
  only: line(
    "only",
    "{unit} {number}",
    { unit: oneOf(["thread", "warp"], "part of a block"), number: integer("its number in the block", 0) },
    {},
    "braces",
  ),
  "tensormap.prefetch": line("tensormap.prefetch", "{buffer}", { buffer: tile }, {}),
  "mbar.init": line(
    "mbar.init",
    "{barriers}",
    { barriers: name("the declared mbarriers") },
    { slots: optional(slotsClause) },
  ),
  "prologue.at": line("prologue.at", "{role}", { role: word("the role's name") }, {}),
  "cluster.arrive": line("cluster.arrive", "", {}, { release: flagClause("release"), any }),
  "cluster.wait": line("cluster.wait", "", {}, { any }),
  "pdl.wait": bare("pdl.wait"),
  "pdl.launch": bare("pdl.launch"),
  "bulk.wait": line(
    "bulk.wait",
    "",
    {},
    { pending: integerClause("pending", 0, undefined), complete: optionalFlag("complete") },
  ),
  "tmem.alloc": line("tmem.alloc", "{columns}", { columns }, {}),
  "tmem.relinquish": bare("tmem.relinquish"),
  "tmem.base": bare("tmem.base"),
  "tmem.dealloc": line("tmem.dealloc", "{columns}", { columns }, {}),
};
