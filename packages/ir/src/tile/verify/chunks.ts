/** The same program for another number of K chunks: what the protocol must survive is any count, not the one at hand. */

import { elementSources, isElementStmt } from "../elements.ts";
import { add, asLinear, div, freeVars, lit, mod, mul, sameValue, v } from "../expr.ts";
import { childrenOf, eachStmt } from "../rewrite.ts";
import { streamKOf } from "../streamK.ts";
import type { Cond, Expr, For, Stmt, TileProgram, View } from "../types.ts";
import { withReads, withViews } from "../views.ts";

type RingEvent = "acquire" | "commit" | "wait" | "release";

/** What a statement of the stage machine is to its ring. */
function eventOf(stmt: Stmt): { readonly kind: RingEvent; readonly ring: string } | null {
  switch (stmt.kind) {
    case "mbar.wait":
      return { kind: stmt.barrier.edge === "full" ? "wait" : "acquire", ring: stmt.barrier.ring };
    case "mbar.expect":
      return { kind: "commit", ring: stmt.barrier.ring };
    case "mbar.arrive":
    case "tcgen05.commit":
      return { kind: stmt.barrier.edge === "full" ? "commit" : "release", ring: stmt.barrier.ring };
    default:
      return null;
  }
}

/** Whether a ring statement of one of these kinds inside a loop names a chunk by the loop's variable, or is of the chunk at which a pipeline stands. */
function namesChunks(loop: For, kinds: readonly RingEvent[]): boolean {
  for (const stmt of eachStmt(loop.body)) {
    if ("at" in stmt && kinds.some((kind) => kind === stmt.kind) && freeVars(stmt.at).has(loop.var))
      return true;
    const event = eventOf(stmt);
    if (event !== null && kinds.includes(event.kind)) return true;
  }
  return false;
}

/** Rings for whose data the statements wait. */
const waitedFor = (stmts: readonly Stmt[]): ReadonlySet<string> =>
  new Set(
    eachStmt(stmts).flatMap((s) => {
      if (s.kind === "wait") return [s.ring];
      const event = eventOf(s);
      return event?.kind === "wait" ? [event.ring] : [];
    }),
  );

/** Whether a loop multiplies chunks by the loop's variable out of these tiles of rings. */
function multipliesChunks(loop: For, operands: ReadonlySet<string>): boolean {
  for (const stmt of eachStmt(loop.body))
    if (
      stmt.kind === "mma" &&
      [stmt.a, stmt.b].some(({ buffer, slot }) => operands.has(buffer) && freeVars(slot).has(loop.var))
    )
      return true;
  return false;
}

const consumes = (loop: For): boolean => namesChunks(loop, ["wait", "release"]);
const onlyReleases = (loop: For): boolean => !namesChunks(loop, ["wait", "acquire", "commit"]);
const produces = (loop: For): boolean => namesChunks(loop, ["acquire", "commit"]);

/**
 * The loops over K chunks: those that consume a ring and, in roles that consume none, those that fill one. (Elsewhere a loop
 * that only fills is a prologue, whose length is the ring's.) One list a role, and one for what stands outside roles.
 */
function chunkLoops(program: TileProgram): readonly (readonly For[])[] {
  const lists: For[][] = [];
  const gather = (stmts: readonly Stmt[], into: For[]): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "role") {
        const waited = waitedFor(stmt.body);
        const loops: For[] = [];
        for (const s of eachStmt(stmt.body))
          if (
            s.kind === "for" &&
            (consumes(s) || (produces(s) && !ringsNamed(s).some((ring) => waited.has(ring))))
          )
            loops.push(s);
        lists.push(loops);
      } else {
        if (stmt.kind === "for" && consumes(stmt)) into.push(stmt);
        gather(childrenOf(stmt), into);
      }
    }
  };
  const outside: For[] = [];
  gather(program.body, outside);
  return [outside, ...lists].filter((loops) => loops.length > 0);
}

/**
 * Number of K chunks: where the loops over them end. They may be peeled, as `0 .. N - 1` and `N - 1 .. N`; null when there are none,
 * or their bounds are not constants that follow each other from 0 to the same end in every role.
 */
export function chunkCount(program: TileProgram): number | null {
  const all = chunkLoops(program);
  const filled = new Set(program.rings.flatMap(({ buffers }) => buffers));
  // Parts of an axis are as many as there are. Weights that are made of a slot's codes and scales are a chunk's.
  const ofParts = (stmt: Stmt): boolean =>
    isElementStmt(stmt) && !elementSources(stmt.value).every(({ buffer }) => filled.has(buffer));
  if (all.flat().some(({ body }) => body.some(ofParts))) return null;
  // In the stage machine the last chunks of who reads them may stand one by one: who fills the ring counts them.
  const counting = program.stage === "machine" ? all.filter((loops) => loops.some(produces)) : all;
  const ends = counting.map((loops) =>
    loops.reduce<number | null>((end, loop) => {
      if (constant(loop.from) === end) return constant(loop.to);
      // Slots that are given back late have a loop behind the others, of chunks that those have counted.
      return onlyReleases(loop) ? end : null;
    }, 0),
  );
  const [count, ...others] = new Set(ends);
  return count === undefined || others.length > 0 ? null : count;
}

/** Where loops over K chunks that wait begin, beside 0: behind the chunks that are peeled off, and at those that come apart at the end. */
export interface ChunkCuts {
  readonly first: number;
  readonly last: readonly number[];
}

export function chunkCuts(program: TileProgram, now: number): ChunkCuts {
  const starts = chunkLoops(program).flatMap((loops) =>
    loops.flatMap((loop) => (namesChunks(loop, ["wait"]) ? (constant(loop.from) ?? []) : [])),
  );
  return {
    first: Math.max(0, ...starts.filter((at) => at * 2 <= now)),
    last: starts.filter((at) => at * 2 > now),
  };
}

/**
 * A bound that counts `now` chunks, for `count` of them: in the upper half it keeps its distance from the end. Of few chunks those at the end take what is left
 * behind the first.
 */
export function scaledBound(value: number, now: number, count: number, cuts: ChunkCuts): number {
  if (value * 2 <= now) return Math.min(value, count);
  return Math.max(cuts.last.includes(value) ? Math.min(cuts.first, count) : 0, value - now + count);
}

/** Of blocks that have shares: whether the loops over K chunks, peeled or not, run from 0 to the number of a part's chunks in every role. */
export function runsOverPartialTiles(program: TileProgram): boolean {
  const count = streamKOf(program)?.count;
  return chunkLoops(program).every((loops) => {
    const own = loops.filter((loop) => !onlyReleases(loop));
    const ends = own.map(({ from, to }, i) =>
      sameValue(from, i === 0 ? lit(0) : (own[i - 1]?.to ?? lit(0))) ? to : null,
    );
    const last = ends.at(-1);
    return ends.every((end) => end !== null) && last?.kind === "var" && last.name === count;
  });
}

/**
 * The program with `count` chunks: in the loops over chunks, and wherever `… < N` compares a variable or the first chunk with their number. Bounds in the
 * upper half of a peeled loop keep their distance from the end; chunk numbers of persistent CTAs count `count` a tile. Null when the program does not say its number of chunks in
 * that form. Statements keep their order and nesting.
 */
export function withChunkCount(program: TileProgram, count: number): TileProgram | null {
  const now = chunkCount(program);
  if (now === null) return null;
  const loops = new Set(chunkLoops(program).flat());
  const operands = new Set(program.rings.flatMap((ring) => ring.buffers));
  const cuts = chunkCuts(program, now);
  const bound = (e: Expr): Expr => lit(scaledBound(constant(e) ?? 0, now, count, cuts));
  const inCond = (cond: Cond): Cond =>
    cond.op === "<" && constant(cond.rhs) === now && (freeVars(cond.lhs).size > 0 || constant(cond.lhs) === 0)
      ? { ...cond, rhs: { kind: "const", value: count } }
      : cond;
  // Persistent CTAs number their chunks through: visit * chunks + chunk.
  const ordinals = new Set<string>();
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "tiles" && stmt.loop !== null) ordinals.add(stmt.loop.var);
  const renumbered = (e: Expr): Expr => {
    if (ordinals.size === 0) return e;
    if (e.kind === "mod") return mod(renumbered(e.lhs), e.divisor);
    if (e.kind === "div") return div(renumbered(e.lhs), e.divisor);
    const linear = asLinear(e);
    if (linear === null) return e.kind === "add" ? add(renumbered(e.lhs), renumbered(e.rhs)) : e;
    return [...linear.terms].reduce<Expr>(
      (sum, [name, factor]) =>
        add(sum, mul(v(name), ordinals.has(name) && factor % now === 0 ? (factor / now) * count : factor)),
      lit(linear.constant),
    );
  };
  // Other rings (of accumulators, of tiles) have one chunk a visit whatever the number of K chunks.
  const chunked = new Set([...loops].flatMap(ringsNamed));
  const slotted = new Map(
    program.rings.flatMap((r) => (chunked.has(r.name) ? r.buffers.map((b) => [b, r.slots] as const) : [])),
  );
  const inView = (view: View): View => {
    const slots = slotted.get(view.buffer);
    if (slots === undefined) return view;
    // Where a tile's chunks go round the ring a whole number of times, (visit * chunks + c) % slots was written as c % slots.
    const [ordinal] = ordinals;
    return view.slot.kind === "const" && ordinal !== undefined
      ? { ...view, slot: mod(add(mul(v(ordinal), count), view.slot), slots) }
      : { ...view, slot: renumbered(view.slot) };
  };
  const rebuild = (stmt: Stmt): Stmt => {
    switch (stmt.kind) {
      case "tiles":
      case "reduce":
      case "role":
        return { ...stmt, body: stmt.body.map(rebuild) };
      case "acquire":
      case "commit":
      case "wait":
      case "release":
        return chunked.has(stmt.ring) ? { ...stmt, at: renumbered(stmt.at) } : stmt;
      case "mma":
        return withReads(stmt, inView);
      case "for": {
        const body = stmt.body.map(rebuild);
        return loops.has(stmt) || multipliesChunks(stmt, operands)
          ? { ...stmt, from: bound(stmt.from), to: bound(stmt.to), body }
          : { ...stmt, body };
      }
      case "if":
        return { ...stmt, cond: inCond(stmt.cond), body: stmt.body.map(rebuild) };
      case "copy":
        return { ...withViews(stmt, inView), when: stmt.when && inCond(stmt.when) };
      default:
        return isElementStmt(stmt) ? withViews(stmt, inView) : stmt;
    }
  };
  return { ...program, body: program.body.map(rebuild) };
}

/** Rings whose chunks a loop numbers by its variable. */
const ringsNamed = (loop: For): string[] =>
  eachStmt(loop.body).flatMap((s) => {
    if ("at" in s && freeVars(s.at).has(loop.var)) return [s.ring];
    return eventOf(s)?.ring ?? [];
  });

const constant = (e: Expr): number | null => (e.kind === "const" ? e.value : null);
