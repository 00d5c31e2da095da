/** One run of a kernel: every role of every block as a thread, in one schedule, over one sequence of tiles. */

import { freeVars } from "../../expr.ts";
import { boundaryOf } from "../../rewrite.ts";
import type { Stmt } from "../../types.ts";
import { iterationsWithin } from "../../within.ts";
import { boundAt, holds, valueAt } from "./counting.ts";
import { Engines } from "./engines.ts";
import { Execution, type Sequence } from "./execution.ts";
import type { Kernel, KernelRole, Loop, Standing, Tiles } from "./kernel.ts";
import { Broken, Memory } from "./machine.ts";
import { checkEnds, isLeader } from "./reach.ts";
import { zeroSums } from "./registerSums.ts";
import type { Finding } from "./rules.ts";
import { newThread, openEnds, type Thread } from "./thread.ts";
import type { Blocked, Steps } from "./waits.ts";

/** Which thread goes on when several can, and when engines finish. */
export interface Order {
  /** Threads by index: the first that can goes on. */
  readonly threads: readonly number[];
  /** Copies and matrix instructions are done at once, or when nothing else can happen. */
  readonly engines: "early" | "late";
  /** Whether warps do what they may leave out. */
  readonly votes?: boolean;
  /** Row of the first work tile, and the part that the CTA has of a split one. */
  readonly row?: number;
  readonly part?: number;
}

/** The part at hand; its first chunk says where in the matrices copies begin, which is nothing to the protocol. */
function setPart({ values }: Thread, { loop, streamK }: Tiles, ordinal: number, chunks: number): void {
  if (streamK === undefined) return;
  if (loop?.tiles != null) values.set(loop.tiles, ordinal);
  values.set(streamK.first, 0);
  values.set(streamK.count, chunks);
}

/** Threads of a kernel: each role in each block that runs it. Begin and end are the first thread's of each block. */
export function actorsOf(kernel: Kernel): readonly { readonly role: KernelRole; readonly block: number }[] {
  const blocks = kernel.cluster[0] * kernel.cluster[1];
  return Array.from({ length: blocks }, (_, block) =>
    kernel.roles.filter((role) => isLeader(kernel, block, role.leader)).map((role) => ({ role, block })),
  ).flat();
}

/** The first finding; null when the run ends as it should. */
export function run(kernel: Kernel, sequence: Sequence, order: Order): Finding | null {
  try {
    new Run(kernel, sequence, order).go();
    return null;
  } catch (error) {
    if (error instanceof Broken) return error.finding;
    throw error;
  }
}

class Run {
  readonly #kernel: Kernel;
  readonly #sequence: Sequence;
  readonly #order: Order;
  readonly #threads: readonly Thread[];
  readonly #memory: Memory;
  readonly #engines: Engines;
  readonly #execution: Execution;

  constructor(kernel: Kernel, sequence: Sequence, order: Order) {
    this.#kernel = kernel;
    this.#sequence = sequence;
    this.#order = order;
    const actors = actorsOf(kernel);
    const blocks = kernel.cluster[0] * kernel.cluster[1];
    this.#memory = new Memory(kernel, actors.length);
    this.#engines = new Engines(kernel, this.#memory, order.engines);
    this.#threads = actors.map(({ role, block }, index) =>
      newThread(
        index,
        block,
        blocks > 1 ? `${role.name} of block ${block}` : role.name,
        role,
        this.#memory.clockSize,
      ),
    );
    this.#execution = new Execution(kernel, sequence, this.#threads, this.#memory, this.#engines);
  }

  go(): void {
    const live = this.#threads.map((thread) => ({
      thread,
      steps: this.#whole(thread),
      blocked: null as Blocked | null,
    }));
    const byOrder = this.#order.threads.map((index) => live[index]).filter((each) => each !== undefined);
    let left = byOrder;
    while (left.length > 0) {
      const next = left.find(({ blocked }) => blocked === null || blocked.ready());
      if (next === undefined) {
        if (!this.#engines.finishOne()) this.#deadlock(left);
        continue;
      }
      const result = resumed(next);
      if (result.done === true) left = left.filter((each) => each !== next);
      else next.blocked = result.value;
    }
    while (this.#engines.finishOne());
    checkEnds(this.#kernel, this.#threads, this.#engines.reached);
    this.#execution.checkEnd();
    this.#checkRead();
  }

  /** Every chunk that was filled has been waited for, where anybody waits for chunks of the ring. */
  #checkRead(): void {
    for (const { name } of this.#kernel.rings) {
      const highest = (side: "fill" | "read"): number =>
        Math.max(-1, ...this.#threads.map(({ places }) => places.get(name)?.highest[side] ?? -1));
      const [filled, read] = [highest("fill"), highest("read")];
      if (read < 0 || filled <= read) continue;
      throw new Broken(
        "phases",
        `%${name}`,
        `chunk ${filled} of %${name} is filled, and nobody waits for it`,
        "let every role go over the same chunks",
      );
    }
  }

  #deadlock(left: readonly { readonly thread: Thread; readonly blocked: Blocked | null }[]): never {
    const why = left.map(({ thread, blocked }) => `${thread.label} ${blocked?.why() ?? "runs"}`).join("; ");
    // Who waits at its end waits for others that stand before it.
    const before = left.filter(({ blocked }) => blocked?.ending !== true);
    const those = before.length === 0 ? left : before;
    const ruleOf = ({ blocked }: (typeof left)[number]) => blocked?.rule() ?? "phases";
    const rules = those.map(ruleOf);
    const rule =
      (["bytes", "arrivals", "phases", "exits"] as const).find((name) => rules.includes(name)) ?? "phases";
    const first = those.find((each) => ruleOf(each) === rule);
    const broken = new Broken(
      rule,
      first?.thread.label ?? "",
      `deadlock: ${why}`,
      "commit what is waited for, release what is acquired again",
    );
    throw broken.at(first?.thread.stmt ?? null);
  }

  /** The first thread of a block begins and ends it; the others meet it there. */
  *#whole(thread: Thread): Steps {
    const { begin, end } = this.#kernel;
    const { role } = thread;
    const first = this.#threads.find(({ block }) => block === thread.block) === thread;
    for (const standing of begin)
      if (first || standing.effect.kind === "meet") yield* this.#do(thread, standing);
    yield* this.#walk(thread, role.begins);
    if (role.tiles === null) {
      this.#place(thread, 0, role.around);
      yield* this.#tile(thread, 0, role.body);
    } else yield* this.#walk(thread, role.body);
    // What a role has left open is its last statement's.
    const { stmt } = thread;
    for (const standing of end)
      if (first || standing.effect.kind === "meet" || standing.effect.kind === "stored")
        yield* this.#do(thread, standing);
    thread.stmt = stmt;
    openEnds(thread);
  }

  *#do(thread: Thread, { stmt, effect }: Standing): Steps {
    thread.stmt = stmt;
    const rest = this.#execution.do(thread, effect);
    if (rest !== null) yield* rest;
  }

  *#effects(thread: Thread, stmt: Stmt): Steps {
    for (const effect of thread.role.effects.get(stmt) ?? []) yield* this.#do(thread, { stmt, effect });
  }

  *#walk(thread: Thread, stmts: readonly Stmt[]): Steps {
    for (const stmt of stmts)
      switch (stmt.kind) {
        case "tiles":
          yield* this.#tiles(thread, stmt);
          break;
        case "boundary":
        case "tensormap.make":
          break;
        case "for":
          yield* this.#loop(thread, stmt);
          break;
        case "if":
          if (holds(this.#kernel, thread, stmt.cond)) yield* this.#walk(thread, stmt.body);
          else for (const tile of stmt.zeros ?? []) zeroSums(thread, tile, false);
          break;
        case "vote":
          if (this.#order.votes === true) yield* this.#walk(thread, stmt.body);
          break;
        case "leader":
          if (isLeader(this.#kernel, thread.block, "cluster")) yield* this.#walk(thread, stmt.body);
          break;
        case "response":
          yield* this.#walk(thread, stmt.body);
          break;
        case "copy":
          if (stmt.when === null || holds(this.#kernel, thread, stmt.when))
            yield* this.#effects(thread, stmt);
          break;
        case "epilogue":
          yield* this.#effects(thread, stmt);
          // What warps store themselves is in order in one of them: `stores` looks at that.
          if (stmt.stores === undefined) yield* this.#walk(thread, stmt.body);
          break;
        case "reduce":
          yield* this.#effects(thread, stmt);
          yield* this.#walk(thread, stmt.body);
          break;
        default:
          yield* this.#effects(thread, stmt);
      }
  }

  *#loop(thread: Thread, loop: Loop): Steps {
    const facts = thread.role.loops.get(loop);
    if (facts === undefined) return;
    const [from, to] = [loop.from, loop.to].map((e) =>
      facts.chunks ? boundAt(this.#kernel, thread, e) : valueAt(thread, e),
    );
    if (facts.chunks && (from ?? 0) >= (to ?? 0)) thread.cut = true;
    const [first, end] = turnsAt(thread, loop, [facts.led ? 1 : (from ?? 0), to ?? 0]);
    for (let i = first; i < end; i++) {
      thread.values.set(loop.var, i);
      yield* this.#walk(thread, loop.body);
    }
  }

  /** The work tiles of a block; what a role that takes turns does at those of the others, and at the bounds of the loop. */
  *#tiles(thread: Thread, tiles: Tiles): Steps {
    const { turn, of } = tiles.loop ?? { turn: 0, of: 1 };
    const sequence = tiles.loop === null ? this.#sequence.slice(0, 1) : this.#sequence;
    yield* this.#walk(thread, boundaryOf(tiles, "first"));
    let before = 0;
    for (const [ordinal, count] of sequence.entries()) {
      thread.ordinal = ordinal;
      this.#place(thread, ordinal, tiles);
      const own = ordinal % of === turn;
      if (tiles.loop !== null)
        thread.values.set(tiles.loop.var, own && tiles.streamK !== undefined ? before : ordinal);
      if (own) {
        thread.before = before;
        if (tiles.streamK !== undefined) setPart(thread, tiles, ordinal, count);
        yield* this.#tile(thread, ordinal, tiles.body);
      } else
        for (const stmt of tiles.body) if (stmt.kind === "response") yield* this.#walk(thread, stmt.body);
      before += count;
    }
    // A turn is left for the role that would have the next tile.
    for (const stmt of boundaryOf(tiles, "last"))
      for (const effect of thread.role.effects.get(stmt) ?? [])
        if (effect.kind !== "turn" || this.#sequence.length % of === turn)
          yield* this.#do(thread, { stmt, effect });
  }

  /** A tile of whatever row: those of a sequence take different turns. */
  #place({ values }: Thread, ordinal: number, tiles: Tiles | null): void {
    if (tiles === null) return;
    const { vars, split } = tiles;
    values.set(vars[0], ordinal + (this.#order.row ?? 0)).set(vars[1], 0);
    if (split !== null) values.set(split.var, this.#order.part ?? 0);
  }

  *#tile(thread: Thread, ordinal: number, body: readonly Stmt[]): Steps {
    thread.count = this.#sequence[ordinal] ?? 0;
    thread.cut = false;
    yield* this.#walk(thread, body);
  }
}

/** On to where the thread stands still; what is found on the way, found at its statement. */
function resumed({
  thread,
  steps,
}: {
  readonly thread: Thread;
  readonly steps: Steps;
}): IteratorResult<Blocked, void> {
  try {
    return steps.next();
  } catch (error) {
    throw error instanceof Broken ? error.at(thread.stmt) : error;
  }
}

/** The turns that a loop takes; where its bounds depend on the block's tile, as if they were its own. */
function turnsAt(
  thread: Thread,
  { within }: Loop,
  own: readonly [number, number],
): readonly [number, number] {
  if (within === undefined) return own;
  const { bounds, take } = within;
  const known = bounds.every((e) => [...freeVars(e)].every((name) => thread.values.has(name)));
  return iterationsWithin(own, known ? [valueAt(thread, bounds[0]), valueAt(thread, bounds[1])] : own, take);
}
