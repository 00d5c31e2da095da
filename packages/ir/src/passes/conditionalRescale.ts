/** Sums that each turn of a loop scales by a factor of their row, where that is 1 most of the time. */
import { factorOf } from "../tile/elements.ts";
import { bufferOf, directed, eachStmt, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { Stmt } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `conditionalRescale by=warp`: in loops, `map %t = %t * %z` of sums by a tile of one column stands in a `vote`, so that a warp all of whose factors are 1
 * leaves it out. Nothing changes but the time.
 */
export const conditionalRescale: Pass = {
  name: "conditionalRescale",
  summary: "Warps whose sums would be scaled by 1 leave it out",
  from: "specialised",
  to: "specialised",
  run: directed("conditionalRescale", (program) => {
    const { body } = program;
    const sums = new Set(eachStmt(body).flatMap((s) => (s.kind === "mma" ? [s.acc.buffer] : [])));
    const voted = (stmt: Stmt): Stmt => {
      const factor = stmt.kind === "map" && sums.has(stmt.dst.buffer) ? factorOf(stmt) : null;
      return factor?.extent[1] === 1 && bufferOf(program, factor.buffer).space === "register"
        ? { kind: "vote", factor, body: [stmt] }
        : stmt;
    };
    return withBody(
      program,
      rewriteStmts(body, (stmt) => (stmt.kind === "for" ? { ...stmt, body: stmt.body.map(voted) } : stmt)),
    );
  }),
};
