/** Copy into the slot that has just been read, right behind the barrier that says so: one chunk further ahead in as many slots. */

import type { Pass, Stmt } from "@tilewright/ir";
import { add, directed, lit, rewriteStmts, substituteExpr, v, withBody, withExprs } from "@tilewright/ir";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

/**
 * Directive `refill`: in a loop whose last step releases chunk t and waits for t + 1 (`rotateFragments`) the copies of its first step, of chunk t + slots - 1,
 * go behind that wait and are those of chunk t + slots: fragments of chunk t have been loaded there by all threads. The prologue copies one chunk
 * more. Loops whose copies pass through registers, and those of other forms, stay as they are.
 */
export const refillAtBarrier: Pass = {
  name: "refillAtBarrier",
  summary: "Copies of a later chunk go behind the barrier, into the slot that has just been read",
  from: "pipelined",
  to: "pipelined",
  run: directed("refill", (program) =>
    withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "tiles" ? { ...stmt, body: inList(stmt.body) } : stmt,
      ),
    ),
  ),
};

/** A list with its prologue, its first wait and its loop over chunks changed together; itself where one of them is missing. */
function inList(stmts: readonly Stmt[]): readonly Stmt[] {
  const moved = new Map<Stmt, Stmt>();
  for (const loop of stmts) {
    if (loop.kind !== "for" || loop.unroll) continue;
    const refilled = refill(loop);
    if (refilled === null) continue;
    const { ring } = refilled;
    const names = (s: Stmt): boolean => s.kind === "acquire" && s.ring === ring;
    const prologue = stmts.find((s): s is Of<"for"> => s.kind === "for" && s.unroll && s.body.some(names));
    const first = stmts.find((s): s is Of<"wait"> => s.kind === "wait" && s.ring === ring);
    if (prologue === undefined || first === undefined) continue;
    moved.set(prologue, { ...prologue, to: add(prologue.to, lit(1)) });
    // A chunk more has been committed where the first is waited for.
    moved.set(first, { ...first, pending: first.pending + 1 });
    moved.set(loop, refilled.loop);
  }
  return moved.size === 0 ? stmts : stmts.map((stmt) => moved.get(stmt) ?? stmt);
}

/** The loop over chunks with its copies behind the wait of the last step. */
function refill(loop: Of<"for">): { readonly loop: Of<"for">; readonly ring: string } | null {
  const [steps] = loop.body;
  if (loop.body.length !== 1 || steps?.kind !== "for" || !steps.unroll) return null;
  const copies = steps.body.find(
    (s): s is Of<"if"> => s.kind === "if" && s.body.some((inner) => inner.kind === "acquire"),
  );
  const turn = steps.body.find(
    (s): s is Of<"if"> => s.kind === "if" && s.body.some((inner) => inner.kind === "release"),
  );
  if (copies === undefined || turn === undefined || copies === turn) return null;
  const acquire = copies.body.find((s): s is Of<"acquire"> => s.kind === "acquire");
  const waits = turn.body.find(
    (s): s is Of<"if"> => s.kind === "if" && s.body.some((inner) => inner.kind === "wait"),
  );
  const direct = copies.body.some((s) => s.kind === "copy" && s.transport !== "cp.async");
  if (acquire === undefined || waits === undefined || direct) return null;
  const next = new Map([[loop.var, add(v(loop.var), lit(1))]]);
  const later = copies.body.map((s) => withExprs(s, (e) => substituteExpr(e, next)));
  const body = steps.body.flatMap((s): readonly Stmt[] => {
    if (s === copies) return [];
    if (s !== turn) return [s];
    return [
      {
        ...turn,
        body: turn.body.map((inner) =>
          inner === waits ? { ...waits, body: [...waits.body, ...later] } : inner,
        ),
      },
    ];
  });
  return { loop: { ...loop, body: [{ ...steps, body }] }, ring: acquire.ring };
}
