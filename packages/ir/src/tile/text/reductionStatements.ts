/** The rows of the statements by which CTAs of one work tile add up their partial tiles. */
import type { ReductionStmt } from "../types.ts";
import { type Clause, integerClause, wordClause } from "./clause.ts";
import { whenClause } from "./clauses.ts";
import { clauseOf, expr, integer, tiles, view } from "./fields.ts";
import { bare, line, type Of, type StatementSyntax } from "./syntax.ts";

type Rows = { readonly [K in ReductionStmt["kind"]]: StatementSyntax<Of<K>> };

const acc = view("the accumulators");
const into = view("the tile of a slice");
const id = integerClause("barrier", 0, undefined, 15);
const unless = { ...whenClause, keyword: "unless" };
/** Null: as many as the CTAs that have chunks of the tile. */
const partials = { ...integerClause("partials", 1, 0), default: null } as Clause<number | null>;

/** Some registers of each thread, and a slot of the warp's room. */
const run = {
  acc,
  from: expr("the first of the registers"),
  count: integer("the registers", 1),
  slot: expr("the slot of the warp's room"),
};
const runForm = "{acc} registers {from} : {count} slot {slot}";

const tilesClause = (keyword: string): Clause<readonly string[]> =>
  clauseOf<readonly string[]>(keyword, "(%TILE, …)", tiles, undefined);

export const reductionSyntax: Rows = {
  reduction: line("reduction", "", {}, { unless }, "braces"),
  "partial.store": line("partial.store", "{acc}", { acc }, {}),
  "partial.load": line("partial.load", "{acc}", { acc }, {}),
  "partial.clear": line("partial.clear", "{acc}", { acc }, {}),
  "partial.reduce": line(
    "partial.reduce",
    "{acc}",
    { acc },
    { by: wordClause<"atomics" | "bulk">("by", ["atomics", "bulk"], undefined) },
    "optional",
  ),
  "partial.stage": line("partial.stage", runForm, run, {}),
  "bulk.reduce": line("bulk.reduce", runForm, run, {}),
  "partial.add": line("partial.add", "{acc}", { acc }, { partials }),
  merge: line(
    "merge",
    "",
    {},
    { of: tilesClause("of"), from: tilesClause("from"), partials: integerClause("partials", 1, undefined) },
    "braces",
  ),
  "counter.add": line("counter.add", "{by}", { by: expr("what is added") }, {}),
  "counter.leave": line(
    "counter.leave",
    "unless {unless}",
    { unless: expr("the number of the last") },
    { id },
  ),
  "counter.clear": bare("counter.clear"),
  slices: line("slices", "", {}, { id }, "braces"),
  "dsmem.send": line("dsmem.send", "{acc} into {into}", { acc, into }, {}),
  "dsmem.leave": line("dsmem.leave", "", {}, { slices: integerClause("slices", 1, undefined) }),
  "dsmem.expect": line("dsmem.expect", "{bytes}", { bytes: integer("the bytes", 0) }, {}),
  "dsmem.wait": bare("dsmem.wait"),
  "dsmem.add": line("dsmem.add", "{into}", { into }, { partials: integerClause("partials", 1, undefined) }),
};
