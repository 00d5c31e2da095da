/** Take the last chunks out of the steady state, so that its loop runs without asking whether there is a next one. */
import { isElementStmt } from "../tile/elements.ts";
import { lit } from "../tile/expr.ts";
import { directed, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { Stmt } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `drain chunks=N`: `for t = 0 .. K` with ring statements becomes `for t = 0 .. K - N` and `for t = K - N .. K` over the same body.
 * In the first, conditions such as `t + 1 < K` hold for every t and vanish; the second is the drain. Loops of N chunks or fewer stay as they are.
 * With `loop=1` the loop only says that its last N turns are made apart: one more loop, whether its end is known or not.
 */
export const peelDrain: Pass = {
  name: "peelDrain",
  summary: "The last chunks leave the steady-state loop, whose conditions then always hold",
  from: "pipelined",
  to: "pipelined",
  run: directed("drain", (program, { chunks, loop }) =>
    withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "for" && !stmt.unroll && usesRing(stmt.body) && loop === 1
          ? { ...stmt, apart: chunks }
          : peelLast(stmt, chunks),
      ),
    ),
  ),
};

/** A loop over chunks that waits for them as two: all but the last `chunks`, and those. */
export function peelLast(stmt: Stmt, chunks: number): Stmt | readonly Stmt[] {
  if (stmt.kind !== "for" || stmt.unroll || stmt.from.kind !== "const" || stmt.to.kind !== "const")
    return stmt;
  const split = stmt.to.value - chunks;
  if (split <= stmt.from.value || !usesRing(stmt.body)) return stmt;
  // Parts of an axis have chunks that begin and end by themselves.
  if (stmt.within !== undefined || stmt.body.some(isElementStmt)) return stmt;
  // Around other loops over chunks, each of which ends by itself.
  if (stmt.body.some((s) => s.kind === "for" && !s.unroll && usesRing(s.body))) return stmt;
  return [
    { ...stmt, to: lit(split) },
    { ...stmt, from: lit(split) },
  ];
}

/** Whether a list, or a list nested in it, waits for a ring. */
const usesRing = (stmts: readonly Stmt[]): boolean =>
  stmts.some(
    (s) =>
      s.kind === "wait" || ((s.kind === "for" || s.kind === "if" || s.kind === "role") && usesRing(s.body)),
  );
