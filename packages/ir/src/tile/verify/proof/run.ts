/** One run of a plan: every role of every block as a thread, in one schedule, over one sequence of tiles. */

import { freeVars } from "../../expr.ts";
import { iterationsWithin } from "../../within.ts";
import { boundAt, holds, valueAt } from "./counting.ts";
import { Effects, type Sequence } from "./effects.ts";
import { Engines } from "./engines.ts";
import { Broken, Memory } from "./machine.ts";
import type { Plan, PlanRole, Step, StreamKNames } from "./plan.ts";
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
  /** Row of the first work tile. */
  readonly row?: number;
}

/** The part at hand; its first chunk says where in the matrices copies begin, which is nothing to the protocol. */
function setPart(
  { values }: Thread,
  { parts, first, count }: StreamKNames,
  ordinal: number,
  chunks: number,
): void {
  if (parts !== null) values.set(parts, ordinal);
  values.set(first, 0);
  values.set(count, chunks);
}

/** Threads of a plan: each role in each block that runs it. Begin and end are the first thread's of each block. */
export function actorsOf(plan: Plan): readonly { readonly role: PlanRole; readonly block: number }[] {
  const blocks = plan.cluster[0] * plan.cluster[1];
  return Array.from({ length: blocks }, (_, block) =>
    plan.roles.filter((role) => isLeader(plan, block, role.leader)).map((role) => ({ role, block })),
  ).flat();
}

/** The first finding; null when the run ends as it should. */
export function run(plan: Plan, sequence: Sequence, order: Order): Finding | null {
  try {
    new Run(plan, sequence, order).go();
    return null;
  } catch (error) {
    if (error instanceof Broken) return error.finding;
    throw error;
  }
}

class Run {
  readonly #plan: Plan;
  readonly #sequence: Sequence;
  readonly #order: Order;
  readonly #threads: readonly Thread[];
  readonly #memory: Memory;
  readonly #engines: Engines;
  readonly #effects: Effects;

  constructor(plan: Plan, sequence: Sequence, order: Order) {
    this.#plan = plan;
    this.#sequence = sequence;
    this.#order = order;
    const actors = actorsOf(plan);
    const blocks = plan.cluster[0] * plan.cluster[1];
    this.#memory = new Memory(plan, actors.length);
    this.#engines = new Engines(plan, this.#memory, order.engines);
    this.#threads = actors.map(({ role, block }, index) =>
      newThread(
        index,
        block,
        blocks > 1 ? `${role.name} of block ${block}` : role.name,
        role,
        this.#memory.clockSize,
      ),
    );
    this.#effects = new Effects(plan, sequence, this.#threads, this.#memory, this.#engines);
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
    checkEnds(this.#plan, this.#threads, this.#engines.reached);
    this.#effects.checkEnd();
    this.#checkRead();
  }

  /** Every chunk that was filled has been waited for, where anybody waits for chunks of the ring. */
  #checkRead(): void {
    for (const { name } of this.#plan.rings) {
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
    const [first] = left;
    const why = left.map(({ thread, blocked }) => `${thread.label} ${blocked?.why() ?? "runs"}`).join("; ");
    const rules = left.map(({ blocked }) => blocked?.rule() ?? "phases");
    const rule =
      (["bytes", "arrivals", "phases", "exits"] as const).find((name) => rules.includes(name)) ?? "phases";
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
    const { begin, end } = this.#plan;
    const first = this.#threads.find(({ block }) => block === thread.block) === thread;
    yield* this.#steps(thread, [
      { kind: "do", actions: begin.filter(({ kind }) => first || kind === "meet") },
      ...thread.role.body,
    ]);
    // What a role has left open is its last statement's.
    const { stmt } = thread;
    yield* this.#steps(thread, [
      { kind: "do", actions: end.filter(({ kind }) => first || kind === "meet" || kind === "stored") },
    ]);
    thread.stmt = stmt;
    openEnds(thread);
  }

  *#steps(thread: Thread, steps: readonly Step[]): Steps {
    for (const step of steps)
      switch (step.kind) {
        case "do":
          for (const action of step.actions) {
            thread.stmt = action.stmt ?? thread.stmt;
            const rest = this.#effects.act(thread, action);
            if (rest !== null) yield* rest;
          }
          break;
        case "if":
          if (holds(this.#plan, thread, step.cond)) yield* this.#steps(thread, step.body);
          else for (const tile of step.zeros ?? []) zeroSums(thread, tile, false);
          break;
        case "for": {
          const [from, to] = [step.from, step.to].map((e) =>
            step.chunks ? boundAt(this.#plan, thread, e) : valueAt(thread, e),
          );
          if (step.chunks && (from ?? 0) >= (to ?? 0)) thread.cut = true;
          const [first, end] = turnsAt(thread, step, [step.led ? 1 : (from ?? 0), to ?? 0]);
          for (let i = first; i < end; i++) {
            thread.values.set(step.variable, i);
            yield* this.#steps(thread, step.body);
          }
          break;
        }
        case "vote":
          if (this.#order.votes === true) yield* this.#steps(thread, step.body);
          break;
        case "tiles":
          yield* this.#tiles(thread, step);
      }
  }

  *#tiles(thread: Thread, step: Extract<Step, { kind: "tiles" }>): Steps {
    let before = 0;
    for (const [ordinal, count] of (step.ordinal === null
      ? this.#sequence.slice(0, 1)
      : this.#sequence
    ).entries()) {
      thread.ordinal = ordinal;
      // Tiles of whatever row: those of a sequence take different turns.
      if (step.vars !== null)
        thread.values.set(step.vars[0], ordinal + (this.#order.row ?? 0)).set(step.vars[1], 0);
      if (ordinal % step.of === step.turn) {
        thread.count = count;
        thread.cut = false;
        thread.before = before;
        if (step.ordinal !== null) thread.values.set(step.ordinal, step.share === null ? ordinal : before);
        if (step.share !== null) setPart(thread, step.share, ordinal, count);
        yield* this.#steps(thread, step.body);
      } else if (step.others.length > 0) {
        if (step.ordinal !== null) thread.values.set(step.ordinal, ordinal);
        yield* this.#steps(thread, step.others);
      }
      before += count;
    }
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
  { within }: Extract<Step, { kind: "for" }>,
  own: readonly [number, number],
): readonly [number, number] {
  if (within === null) return own;
  const { bounds, take } = within;
  const known = bounds.every((e) => [...freeVars(e)].every((name) => thread.values.has(name)));
  return iterationsWithin(own, known ? [valueAt(thread, bounds[0]), valueAt(thread, bounds[1])] : own, take);
}
