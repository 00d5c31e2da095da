/** The rows of what stands before and behind a kernel's tiles and roles. */
import type { FrameKind, SlotRange } from "../types.ts";
import { flagClause, integerClause, optional, optionalFlag } from "./clause.ts";
import { clauseOf, integer, name, oneOf, record, tile, word } from "./fields.ts";
import { bare, line, type Of, type StatementSyntax } from "./syntax.ts";

const any = flagClause("any");
const columns = integer("the columns", 1);

const slotsClause = clauseOf<SlotRange>(
  "slots",
  "A .. B",
  record<SlotRange>("the slots", "{from} .. {to}", {
    from: integer("the first slot", 0),
    to: integer("the slot behind the last", 1),
  }),
  undefined,
);

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
