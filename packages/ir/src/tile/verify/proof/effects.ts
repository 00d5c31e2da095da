/** What an action of a thread does: to barriers, slots and engines, and to what the thread has come to know. */

import { chunkAt, chunksIn, holds, valueAt } from "./counting.ts";
import type { Engines } from "./engines.ts";
import { type Access, Broken, ended, join, type Memory } from "./machine.ts";
import type { Action, Plan, PlanRing } from "./plan.ts";
import { blocksOf, isLeader } from "./reach.ts";
import { accumulateSums, commitProducts, readSums, waitForProducts, zeroSums } from "./registerSums.ts";
import { stage } from "./staging.ts";
import {
  beginLoading,
  chunkName,
  type Engine,
  fence,
  handOver,
  mark,
  type Thread,
  tensorUse,
  useLoaded,
  within,
} from "./thread.ts";
import { BlockReduction, PingPongOrder, type Steps } from "./waits.ts";

/** K chunks of each tile of a block, in order. */
export type Sequence = readonly number[];

export class Effects {
  readonly #plan: Plan;
  readonly #sequence: Sequence;
  readonly #threads: readonly Thread[];
  readonly #memory: Memory;
  readonly #engines: Engines;
  readonly #turns = new PingPongOrder();
  readonly #meeting: BlockReduction;

  constructor(plan: Plan, sequence: Sequence, threads: readonly Thread[], memory: Memory, engines: Engines) {
    this.#plan = plan;
    this.#sequence = sequence;
    this.#threads = threads;
    this.#memory = memory;
    this.#engines = engines;
    this.#meeting = new BlockReduction(threads.length, memory.clockSize);
  }

  /** At the end of a run: every turn that was handed on has been taken. */
  checkEnd(): void {
    this.#turns.checkEnd();
  }

  #tick(thread: Thread): number {
    const step = (thread.clock[thread.index] ?? 0) + 1;
    thread.clock[thread.index] = step;
    return step;
  }

  /** What an action does; what is still to come where it has to wait for others, which few do. */
  act(thread: Thread, action: Action): Steps | null {
    const { block } = thread;
    if (!isLeader(this.#plan, block, action.leader)) return null;
    const step = this.#tick(thread);
    const who = thread.label;
    switch (action.kind) {
      case "mark": {
        const ring = this.#engines.ring(action.ring);
        mark(thread, ring, chunkAt(thread, ring, action.at), action.event);
        return null;
      }
      case "wait":
        return this.#waitFor(thread, action);
      case "expect": {
        const ring = this.#engines.ring(action.ring);
        const chunk = chunkAt(thread, ring, action.at);
        const name = chunkName(chunk, ring);
        for (const target of blocksOf(this.#plan, thread.block, action.reach)) {
          const barrier = this.#memory.barrier(ring, "full", chunk, target);
          this.#engines.reach(thread, target, step);
          barrier.expect(action.bytes, Math.floor(chunk / ring.slots), who, name);
          barrier.arrive(1, Math.floor(chunk / ring.slots), thread.clock.slice(), who, name);
        }
        return null;
      }
      case "copy":
        this.#engines.copy(thread, action, step);
        return null;
      case "put": {
        const ring = this.#engines.ring(action.ring);
        const chunk = chunkAt(thread, ring, action.at);
        within(thread, ring, chunk, "fill");
        thread.copied += action.bytes ?? 0;
        const access: Access = { who, chunk, ends: [{ entry: thread.index, reached: step }], from: 0 };
        for (const target of blocksOf(this.#plan, block, action.reach)) {
          this.#engines.reach(thread, target, step);
          for (const slot of this.#memory.slots(ring, chunk, target)) slot.write(access, thread.clock);
        }
        return null;
      }
      case "arrive": {
        const ring = this.#engines.ring(action.ring);
        const chunk = chunkAt(thread, ring, action.at);
        handOver(thread, ring, action.grouped, chunkName(chunk, ring));
        if (action.edge === "full") tellCopied(thread, ring, chunk);
        for (const target of blocksOf(this.#plan, thread.block, action.reach)) {
          this.#engines.reach(thread, target, step);
          this.#memory
            .barrier(ring, action.edge, chunk, target)
            .arrive(
              action.count,
              Math.floor(chunk / ring.slots),
              thread.clock.slice(),
              who,
              chunkName(chunk, ring),
            );
        }
        return null;
      }
      case "commit":
        this.#engines.commit(thread, action);
        return null;
      case "read": {
        const ring = this.#engines.ring(action.ring);
        const chunk = chunkAt(thread, ring, action.at);
        within(thread, ring, chunk, "read");
        if (action.proxy === "tensor") {
          tensorUse(thread, `loads ${chunkName(chunk, ring)}`);
          // Only groups whose k is 0 have no K chunks; nothing is multiplied for them, and nothing loaded.
          if (thread.count === 0) return null;
        }
        const ends = action.pending ? [] : [{ entry: thread.index, reached: step }];
        const access: Access = { who, chunk, ends, from: 0 };
        const columns = action.columns && {
          from: valueAt(thread, action.columns.from),
          count: action.columns.count,
        };
        for (const slot of this.#memory.slots(ring, chunk, block, columns)) slot.read(access, thread.clock);
        if (action.pending) thread.loads.push({ ends });
        thread.apart = true;
        if (action.proxy === "generic" && ring.bulk) beginLoading(thread, action.into);
        if (action.proxy === "tensor") thread.unfenced = true;
        else if (ring.responses) thread.unproxied = true;
        return null;
      }
      case "multiply":
        this.#engines.multiply(
          thread,
          action,
          typeof action.keep === "boolean" ? action.keep : holds(this.#plan, thread, action.keep),
        );
        return null;
      case "factors":
        tensorUse(thread, "copies factors");
        this.#engines.readOperands(thread, action, true);
        return null;
      case "loaded":
        for (const { ends } of thread.loads.splice(0)) ends.push({ entry: thread.index, reached: step });
        return null;
      case "use":
        useLoaded(thread, action.loaded ?? []);
        return null;
      case "sums":
        readSums(thread, action.tile, action.columns);
        return null;
      case "zero":
        zeroSums(thread, action.tile, action.once);
        return null;
      case "group":
        commitProducts(thread);
        return null;
      case "accumulate":
        accumulateSums(thread, action.tile, action.part, action.columns);
        return null;
      case "drain":
        waitForProducts(thread, action.pending, step);
        return null;
      case "sync":
        // Loads that a lane has not fenced may still be under way behind the meeting.
        if (thread.loading.size === 0 && !thread.unfenced) thread.apart = false;
        return null;
      case "begin":
        thread.pipelines.set(action.at, this.#begins(thread, action));
        return null;
      case "advance": {
        const ring = this.#engines.ring(action.ring);
        thread.pipelines.set(
          action.at,
          chunkAt(thread, ring, action.at) + this.#chunksBy(thread, ring, action),
        );
        return null;
      }
      case "hold":
        thread.pipelines.set(action.at, chunkAt(thread, this.#engines.ring(action.ring), action.of));
        return null;
      case "turn":
        return this.#turns.take(thread, action.to);
      case "last turn":
        return this.#sequence.length % action.of === action.turn ? this.#turns.take(thread, action.to) : null;
      case "pass":
        this.#turns.pass(thread, action.to);
        return null;
      case "fence":
        fence(thread, action.what);
        return null;
      case "stage":
      case "store":
      case "stores":
      case "stored":
      case "gather":
        stage(thread, action);
        return null;
      case "meet":
        return this.#meeting.join(thread);
      case "init":
      case "relinquish":
        return null;
      case "alloc":
        for (const other of this.#threads)
          if (other.block === block) other.columns = { columns: action.columns, group: action.group };
        return null;
      case "dealloc":
        for (const { block: where, access, writes } of this.#issued())
          if (writes && where === block && !ended(access, thread.clock))
            throw new Broken(
              "tensorMemory",
              who,
              `frees tensor memory that ${access.who} may still use for chunk ${access.chunk}`,
              "let all roles of all blocks meet first",
            );
        for (const other of this.#threads) if (other.block === block) other.columns = null;
        return null;
    }
  }

  /** Where a pipeline begins: behind the chunks of the roles whose turn comes before, as the run has them. */
  #begins(thread: Thread, { ring: name, from }: Extract<Action, { kind: "begin" }>): number {
    const tiles = thread.role.body.find((step) => step.kind === "tiles");
    if (tiles?.kind !== "tiles" || tiles.turn === 0 || tiles.ring === name) return from;
    const ring = this.#engines.ring(name);
    const { now, text } = chunksIn(this.#plan, ring, this.#sequence.slice(0, tiles.turn), tiles.turn);
    // Stage and phase say it up to two rounds of the ring.
    const round = 2 * ring.slots;
    const off = (((from - text) % round) + round) % round;
    return now + (off < ring.slots ? off : off - round);
  }

  /** Chunks by which a pipeline goes on: of the tiles of others those that the run has. */
  #chunksBy(thread: Thread, ring: PlanRing, { by, skips }: Extract<Action, { kind: "advance" }>): number {
    const tiles = thread.role.body.find((step) => step.kind === "tiles");
    if (!skips || !ring.chunked || tiles?.kind !== "tiles") return by;
    const others = this.#sequence.slice(thread.ordinal + 1, thread.ordinal + tiles.of);
    const { now, text } = chunksIn(this.#plan, ring, others, tiles.of - 1);
    return now + by - text;
  }

  #issued(): readonly Engine[] {
    return this.#threads.flatMap((thread) => thread.issued);
  }

  *#waitFor(thread: Thread, action: Extract<Action, { kind: "wait" }>): Steps {
    const ring = this.#engines.ring(action.ring);
    const chunk = chunkAt(thread, ring, action.at);
    yield* this.#wait(thread, ring, action.edge, chunk, Math.floor(chunk / ring.slots) - action.lag);
    thread.fencedAfter = false;
    if (action.edge === "full") thread.proxied = false;
  }

  *#wait(thread: Thread, ring: PlanRing, edge: "full" | "empty", chunk: number, phase: number): Steps {
    if (phase < 0) return;
    const barrier = this.#memory.barrier(ring, edge, chunk, thread.block);
    const name = chunkName(chunk, ring);
    if (barrier.phase < phase)
      throw new Broken(
        "phases",
        thread.label,
        `waits at ${barrier.label} for ${name} in phase ${phase} while phase ${barrier.phase} is open: their parities are equal, so the wait ends at once`,
        "let a role come to a phase only when the phase before it is complete: order the ping-pong roles",
      );
    if (barrier.phase === phase)
      yield {
        ready: () => barrier.phase > phase,
        why: () =>
          `waits at ${barrier.label} for ${name}: ${barrier.pending} of ${barrier.count} arrivals and ${barrier.bytes} bytes are missing`,
        rule: () => (barrier.bytes !== 0 ? "bytes" : barrier.pending < barrier.count ? "arrivals" : "phases"),
      };
    if (barrier.phase > phase + 1)
      throw new Broken(
        "phases",
        thread.label,
        `waits at ${barrier.label} for ${name} in phase ${phase}, and phase ${phase + 1} is complete too: a wait on parity does not end`,
        "let nobody complete a phase before all who wait for the one before have seen it",
      );
    join(thread.clock, barrier.clockOf(phase));
  }
}

/** What threads have copied is all of the chunk. */
function tellCopied(thread: Thread, ring: PlanRing, chunk: number): void {
  const { copied } = thread;
  thread.copied = 0;
  if (ring.copied !== null && copied !== ring.copied)
    throw new Broken(
      "bytes",
      thread.label,
      `tells of ${chunkName(chunk, ring)} with ${copied} bytes copied, and its slot has ${ring.copied}`,
      "copy every tile of the chunk once",
    );
}
