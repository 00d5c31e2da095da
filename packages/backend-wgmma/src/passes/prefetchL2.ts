/** Ask L2 for chunks before their copies are issued. */

import type { Expr, Pass, Stmt } from "@tilewright/ir";
import { asLinear, directed, rewriteStmts, withBody } from "@tilewright/ir";

/**
 * Directive `l2Prefetch chunks=N`: with the bulk copies of a chunk L2 is asked for those of the chunk N further on: more is under way than the ring has slots.
 * Chunks of the same tile only; behind its last lies nothing.
 */
export const prefetchL2: Pass = {
  name: "prefetchL2",
  summary: "Bulk copies ask L2 for a later chunk",
  from: "specialised",
  to: "specialised",
  run: directed("l2Prefetch", (program, { chunks }) => {
    if (chunks < 1) return program;
    const body = rewriteStmts(program.body, (stmt) =>
      stmt.kind === "for" && !stmt.unroll
        ? { ...stmt, body: rewriteStmts(stmt.body, (inner) => ahead(inner, stmt.var, chunks)) }
        : stmt,
    );
    return withBody(program, body);
  }),
};

function ahead(stmt: Stmt, loop: string, chunks: number): Stmt {
  if (stmt.kind !== "copy" || stmt.transport !== "tma" || stmt.l2Prefetch !== undefined) return stmt;
  const step = (e: Expr): number => chunks * (asLinear(e)?.terms.get(loop) ?? 0);
  const [row, col] = stmt.src.origin;
  const by = [step(row), step(col)] as const;
  return by[0] + by[1] > 0 ? { ...stmt, l2Prefetch: by } : stmt;
}
