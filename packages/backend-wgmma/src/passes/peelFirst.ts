/** Take the first chunk out of the steady state, whose multiplications then always add to what is there. */

import type { Pass, Stmt } from "@tilewright/ir";
import {
  directed,
  eachStmt,
  freeVars,
  lit,
  type Ranges,
  rangeOf,
  rewriteStmts,
  sizeRanges,
  withBody,
} from "@tilewright/ir";

/**
 * Directive `peel chunks=1`: `for t = 0 .. K` with multiplications becomes `for t = 0 .. 1` and `for t = 1 .. K` over the same body, so that matrix
 * instructions which can overwrite their accumulator do so in the first without asking. Loops of one chunk stay as they are.
 */
export const peelFirst: Pass = {
  name: "peelFirst",
  summary: "The first chunk leaves the steady-state loop, whose multiplications then always accumulate",
  from: "specialised",
  to: "specialised",
  run: directed("peel", (program) => {
    const sizes = sizeRanges(program.problem);
    return withBody(
      program,
      rewriteStmts(program.body, (stmt) => peel(stmt, sizes)),
    );
  }),
};

function peel(stmt: Stmt, sizes: Ranges): Stmt | readonly Stmt[] {
  if (stmt.kind !== "for" || stmt.unroll || stmt.from.kind !== "const") return stmt;
  // A part of a share has a chunk at least, as every launch does; the rest of its loop may have none.
  if (stmt.to.kind !== "const" && stmt.to.kind !== "var") {
    const known = [...freeVars(stmt.to)].every((name) => sizes.has(name));
    if (!known || rangeOf(stmt.to, sizes)[0] <= stmt.from.value) return stmt;
  }
  const chunks = eachStmt(stmt.body);
  if (!chunks.some((s) => s.kind === "mma") || !chunks.some((s) => s.kind === "wait")) return stmt;
  // Around other loops over chunks, each of which begins its sums itself.
  if (chunks.some((s) => s.kind === "for" && !s.unroll && s.body.some(({ kind }) => kind === "wait")))
    return stmt;
  if (stmt.to.kind === "const" && stmt.to.value - stmt.from.value <= 1) return stmt;
  const second = lit(stmt.from.value + 1);
  return [
    { ...stmt, to: second },
    { ...stmt, from: second },
  ];
}
