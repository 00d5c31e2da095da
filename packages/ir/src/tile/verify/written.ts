/** Accumulators begin with something. */
import { childrenOf } from "../rewrite.ts";
import type { Stmt } from "../types.ts";
import type { Verifier } from "./verifier.ts";

export const written: Verifier = {
  name: "written",
  code: "TW3158",
  property: "every work tile fills the accumulator before the first product is added to it",
  from: "nest",
  waivable: true,
  given: true,
  *check({ program, sites }) {
    const stale = new Set<Stmt>();
    walk(program.body, new Set(), stale);
    for (const site of sites)
      if (site.stmt.kind === "mma" && stale.has(site.stmt))
        yield {
          at: site,
          message: `adds to %${site.stmt.acc.buffer}, which nothing has filled in this tile`,
          hint: `write fill %${site.stmt.acc.buffer} = 0 before it`,
        };
  },
};

/** Collects in `stale` the products that add to an accumulator outside `filled`. A loop over tiles and a role begin with nothing filled. */
function walk(stmts: readonly Stmt[], filled: Set<string>, stale: Set<Stmt>): void {
  for (const stmt of stmts) {
    if (stmt.kind === "fill") filled.add(stmt.dst.buffer);
    if (stmt.kind === "mma" && !filled.has(stmt.acc.buffer)) stale.add(stmt);
    walk(childrenOf(stmt), stmt.kind === "tiles" || stmt.kind === "role" ? new Set() : filled, stale);
  }
}
