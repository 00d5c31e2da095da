/** Ask L2 for chunks before their copies are issued. */

import type { Expr, Pass, Stmt } from "@tilewright/ir";
import { asLinear, rewriteStmts, takeDirective, withBody } from "@tilewright/ir";

/**
 * Directive `l2Prefetch chunks=N`: with the bulk copies of a chunk L2 is asked for those of the chunk N further on: more is under way than the ring has slots.
 * Chunks of the same tile only; behind its last lies nothing.
 */
export const prefetchL2: Pass = {
  name: "prefetchL2",
  summary: "Bulk copies ask L2 for a later chunk",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "l2Prefetch");
    if (!taken) return program;
    const chunks = taken.args.chunks;
    if (chunks < 1) return taken.program;
    const body = rewriteStmts(taken.program.body, (stmt) =>
      stmt.kind === "for" && !stmt.unroll
        ? { ...stmt, body: rewriteStmts(stmt.body, (inner) => ahead(inner, stmt.var, chunks)) }
        : stmt,
    );
    return withBody(taken.program, body);
  },
};

function ahead(stmt: Stmt, loop: string, chunks: number): Stmt {
  if (stmt.kind !== "copy" || stmt.transport !== "tma" || stmt.l2Prefetch !== undefined) return stmt;
  const step = (e: Expr): number => chunks * (asLinear(e)?.terms.get(loop) ?? 0);
  const [row, col] = stmt.src.origin;
  const by = [step(row), step(col)] as const;
  return by[0] + by[1] > 0 ? { ...stmt, l2Prefetch: by } : stmt;
}
