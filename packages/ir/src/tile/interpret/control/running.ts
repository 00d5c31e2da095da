/** Running what is compiled: threads one step at a time, iterations of loops, and what must have landed where threads end. */
import type { Stmt } from "../../types.ts";
import { iterationsWithin } from "../../within.ts";
import { type CellTable, compileExpr, type Evaluate } from "../compileExpr.ts";
import { InterpretFailure, interpretCodes } from "../failure.ts";
import type { Groups } from "../rings.ts";
import type { Blocked, Steps, Thread } from "./threads.ts";

/** Name of the thread outside of roles. */
export const BLOCK = "block";

/** Runs threads until all have ended; `pick` says which of so many that are ready goes on. */
export function runThreads(
  threads: readonly { readonly thread: Thread; readonly steps: Steps }[],
  pick: (ready: number) => number,
): void {
  const live = threads.map((each) => ({ ...each, blocked: null as Blocked | null }));
  while (live.length > 0) {
    const ready = live.filter(({ blocked }) => blocked === null || blocked.ready());
    const next = ready[pick(ready.length)];
    if (next === undefined)
      throw new InterpretFailure(
        interpretCodes.deadlock,
        live[0]?.blocked?.at ?? BLOCK,
        `deadlock: ${live.map(({ thread, blocked }) => `${thread.name} stands at ${blocked?.why ?? "?"}`).join("; ")}`,
        "commit what is waited for, release what is acquired again",
      );
    const result = next.steps.next();
    if (result.done === true) live.splice(live.indexOf(next), 1);
    else next.blocked = result.value;
  }
}

/** First iteration of a loop, and the end, of those that a thread takes. */
export function iterationsOf(
  { from, to, within }: Extract<Stmt, { kind: "for" }>,
  table: CellTable,
): (thread: Thread) => readonly [number, number] {
  const compile = (pair: readonly (typeof from)[]) =>
    pair.map((e) => compileExpr(e, table)) as [Evaluate, Evaluate];
  const [first, end] = compile([from, to]);
  if (within === undefined) return ({ cells }) => [first(cells), end(cells)];
  const [low, high] = compile(within.bounds);
  return ({ cells }) => iterationsWithin([first(cells), end(cells)], [low(cells), high(cells)], within.take);
}

/** Whether a thread has all chunks of its tile, and leaves a reduction out. */
export function isWhole(
  { unless }: Extract<Stmt, { kind: "reduction" }>,
  table: CellTable,
): (thread: Thread) => boolean {
  if (unless === null) return () => false;
  const [count, chunks] = [compileExpr(unless.lhs, table), compileExpr(unless.rhs, table)];
  // A tile without a chunk has a place of one in the line of shares, as the emission counts it.
  return ({ cells }) => count(cells) === Math.max(1, chunks(cells));
}

/** No group of asynchronous copies is open. */
export function checkCommitted({ open }: Groups, at: string): void {
  if (open.length > 0)
    throw new InterpretFailure(
      interpretCodes.inFlight,
      at,
      `${open.length} asynchronous copies are never committed`,
      "commit them, and wait for them",
    );
}

/** No copy of a thread that ends is in flight. Of a ring its own end judges that; from stage machine on its groups are the thread's. */
export function checkLanded({ groups, name }: Thread): void {
  checkCommitted(groups, name);
  const left = groups.closed
    .flatMap(({ ring, flights }) => (ring === "" ? flights : []))
    .find(({ landed }) => !landed);
  if (left !== undefined)
    throw new InterpretFailure(
      interpretCodes.inFlight,
      left.at ?? name,
      "asynchronous copies are never waited for",
      "cp.async.wait behind their groups, or no copies there",
    );
}
