/** Give slots back one chunk late, so that products of the next chunk are under way when those of the last one are waited for. */

import type { Pass, Stmt } from "@tilewright/ir";
import { directed, eachStmt, freeVars, lit, rewriteStmts, sub, withBody } from "@tilewright/ir";

type For = Extract<Stmt, { kind: "for" }>;
type Release = Extract<Stmt, { kind: "release" }>;

/** Loops of fewer chunks stay as they are: there is nothing for the next chunk to hide behind. */
const LEAST_CHUNKS = 3;

/**
 * Directive `delayedRelease chunks=1`: of a loop over chunks that waits, multiplies and releases (with its first chunk peeled or not) chunk t is released behind the
 * products of chunk t + 1, and the last one behind the loop. Needs one slot more than the loop as it was.
 */
export const delayRelease: Pass = {
  name: "delayRelease",
  summary: "Slots are given back one chunk late: products of two chunks are under way",
  from: "specialised",
  to: "specialised",
  run: directed("delayedRelease", (program) =>
    withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "tiles" || stmt.kind === "role" ? { ...stmt, body: inList(stmt.body) } : stmt,
      ),
    ),
  ),
};

/** The release of a loop whose chunks are multiplied; null for others. */
function releaseOf(loop: For): Release | null {
  const all = eachStmt(loop.body);
  const last = loop.body.at(-1);
  const whole = !loop.unroll && loop.from.kind === "const" && loop.to.kind === "const";
  if (!whole || last?.kind !== "release" || !freeVars(last.at).has(loop.var)) return null;
  return all.some((s) => s.kind === "mma") && all.some((s) => s.kind === "wait") ? last : null;
}

function inList(stmts: readonly Stmt[]): readonly Stmt[] {
  const ends = stmts.map((s) =>
    s.kind === "for" && s.to.kind === "const" && releaseOf(s) !== null ? s.to.value : 0,
  );
  return Math.max(0, ...ends) < LEAST_CHUNKS ? stmts : stmts.flatMap(delay);
}

function delay(stmt: Stmt): Stmt | readonly Stmt[] {
  if (stmt.kind !== "for" || stmt.from.kind !== "const" || stmt.to.kind !== "const") return stmt;
  const release = releaseOf(stmt);
  const [from, to] = [stmt.from.value, stmt.to.value];
  // A chunk that was peeled off is released with the next one.
  if (release === null) return stmt;
  const without = stmt.body.slice(0, -1);
  if (from === 0 && to === 1) return { ...stmt, body: without };
  const before: Release = { ...release, at: sub(release.at, lit(1)) };
  const steady: For = { ...stmt, from: lit(Math.max(1, from)), body: [...without, before] };
  const last: For = { ...stmt, from: lit(to - 1), body: [release] };
  return from === 0 ? [{ ...stmt, to: lit(1), body: without }, steady, last] : [steady, last];
}
