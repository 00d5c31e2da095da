/** Sums that each turn of a loop scales by a factor of their row, where that is 1 most of the time. */
import { factorOf } from "../tile/elements.ts";
import { bufferOf, directed, eachStmt, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { Stmt } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `conditionalRescale by=warp|thread`: in loops, `map %t = %t * %z` of sums by a tile of one column stands in a `vote`, so that a warp all of whose factors are 1
 * leaves it out; by threads, each leaves out multiplications by a factor of 1 (`unless one`), without a branch. Nothing changes but the time, and the power.
 */
export const conditionalRescale: Pass = {
  name: "conditionalRescale",
  summary: "Warps, or threads, whose sums would be scaled by 1 leave it out",
  from: "specialised",
  to: "specialised",
  run: directed("conditionalRescale", (program, { by }) => {
    const { body } = program;
    const sums = new Set(eachStmt(body).flatMap((s) => (s.kind === "mma" ? [s.acc.buffer] : [])));
    const voted = (stmt: Stmt): Stmt => {
      const factor = stmt.kind === "map" && sums.has(stmt.dst.buffer) ? factorOf(stmt) : null;
      if (stmt.kind !== "map" || factor?.extent[1] !== 1) return stmt;
      if (bufferOf(program, factor.buffer).space !== "register") return stmt;
      return by === "thread" ? { ...stmt, unless: "one" } : { kind: "vote", factor, body: [stmt] };
    };
    return withBody(
      program,
      rewriteStmts(body, (stmt) => (stmt.kind === "for" ? { ...stmt, body: stmt.body.map(voted) } : stmt)),
    );
  }),
};
