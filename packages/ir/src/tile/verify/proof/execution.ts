/** What the effects of statements do in a run: to barriers, slots and engines, and to what the thread has come to know. */

import { chunkAt, chunksIn, holds, valueAt } from "./counting.ts";
import type { Effect } from "./effect.ts";
import type { Engines } from "./engines.ts";
import type { Kernel, KernelRing } from "./kernel.ts";
import { type Access, Broken, type End, ended, join, type Memory } from "./machine.ts";
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

export class Execution {
  readonly #kernel: Kernel;
  readonly #sequence: Sequence;
  readonly #threads: readonly Thread[];
  readonly #memory: Memory;
  readonly #engines: Engines;
  readonly #turns = new PingPongOrder();
  readonly #meeting: BlockReduction;

  constructor(
    kernel: Kernel,
    sequence: Sequence,
    threads: readonly Thread[],
    memory: Memory,
    engines: Engines,
  ) {
    this.#kernel = kernel;
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

  /** One effect; what is still to come where it has to wait for others, which few do. */
  do(thread: Thread, effect: Effect): Steps | null {
    const { block } = thread;
    const step = this.#tick(thread);
    const who = thread.label;
    switch (effect.kind) {
      case "mark": {
        const ring = this.#engines.ring(effect.ring);
        mark(thread, ring, chunkAt(thread, ring, effect.at), effect.event);
        return null;
      }
      case "wait":
        return this.#waitFor(thread, effect);
      case "vacated":
        return this.#waitForSlots(thread, effect);
      case "expect": {
        if (effect.leader && !isLeader(this.#kernel, block, "pair")) return null;
        const ring = this.#engines.ring(effect.ring);
        const chunk = chunkAt(thread, ring, effect.at);
        const name = chunkName(chunk, ring);
        for (const target of blocksOf(this.#kernel, thread.block, effect.reach)) {
          const barrier = this.#memory.barrier(ring, "full", chunk, target);
          this.#engines.reach(thread, target, step);
          barrier.expect(effect.bytes, Math.floor(chunk / ring.slots), who, name);
          barrier.arrive(1, Math.floor(chunk / ring.slots), thread.clock.slice(), who, name);
        }
        return null;
      }
      case "copy":
        this.#engines.copy(thread, effect, step);
        return null;
      case "put": {
        const ring = this.#engines.ring(effect.ring);
        const chunk = chunkAt(thread, ring, effect.at);
        within(thread, ring, chunk, effect.changes === true ? "read" : "fill");
        if (effect.tensor === true) {
          tensorUse(thread, `stores ${chunkName(chunk, ring)}`);
          thread.unfenced = true;
          thread.apart = true;
        }
        thread.copied += effect.bytes ?? 0;
        const ends = [{ entry: thread.index, reached: step }];
        const shown: End[] = [];
        const access: Access = {
          ...{ who, chunk, ends, from: 0 },
          ...(ring.computed || ring.copied !== null ? { shown } : {}),
        };
        for (const target of blocksOf(this.#kernel, block, effect.reach)) {
          this.#engines.reach(thread, target, step);
          for (const slot of this.#memory.slots(ring, chunk, target))
            if (effect.changes === true) slot.change(access, thread.clock);
            else slot.write(access, thread.clock);
        }
        // Copies by cp.async end when their arrival comes: no fence in front of it covers them.
        if (ring.computed) {
          thread.apart = true;
          thread.unshown.push(shown);
        }
        return null;
      }
      case "arrive": {
        const ring = this.#engines.ring(effect.ring);
        const chunk = chunkAt(thread, ring, effect.at);
        handOver(thread, ring, effect.grouped, chunkName(chunk, ring));
        if (effect.edge === "full") tellCopied(thread, ring, chunk);
        for (const target of blocksOf(this.#kernel, thread.block, effect.reach)) {
          this.#engines.reach(thread, target, step);
          this.#memory
            .barrier(ring, effect.edge, chunk, target)
            .arrive(
              effect.count,
              Math.floor(chunk / ring.slots),
              thread.clock.slice(),
              who,
              chunkName(chunk, ring),
            );
        }
        return null;
      }
      case "commit":
        this.#engines.commit(thread, effect);
        return null;
      case "read": {
        const ring = this.#engines.ring(effect.ring);
        const chunk = chunkAt(thread, ring, effect.at);
        within(thread, ring, chunk, "read");
        if (effect.proxy === "tensor") {
          tensorUse(thread, `loads ${chunkName(chunk, ring)}`);
          // Only groups whose k is 0 have no K chunks; nothing is multiplied for them, and nothing loaded.
          if (thread.count === 0) return null;
        }
        const ends = effect.pending ? [] : [{ entry: thread.index, reached: step }];
        const access: Access = { who, chunk, ends, from: 0 };
        const columns = effect.columns && {
          from: valueAt(thread, effect.columns.from),
          count: effect.columns.count,
        };
        for (const slot of this.#memory.slots(ring, chunk, block, columns)) slot.read(access, thread.clock);
        if (effect.pending) thread.loads.push({ ends });
        thread.apart = true;
        if (effect.proxy === "generic" && ring.bulk) beginLoading(thread, effect.into);
        if (effect.proxy === "tensor") thread.unfenced = true;
        else if (ring.responses) thread.unproxied = true;
        return null;
      }
      case "multiply":
        this.#engines.multiply(
          thread,
          effect,
          typeof effect.keep === "boolean" ? effect.keep : holds(this.#kernel, thread, effect.keep),
        );
        return null;
      case "factors":
        tensorUse(thread, "copies factors");
        this.#engines.readOperands(thread, effect, true);
        return null;
      case "loaded":
        for (const { ends } of thread.loads.splice(0)) ends.push({ entry: thread.index, reached: step });
        return null;
      case "use":
        useLoaded(thread, effect.loaded ?? []);
        return null;
      case "sums":
        readSums(thread, effect.tile, effect.columns);
        return null;
      case "zero":
        zeroSums(thread, effect.tile, effect.once);
        return null;
      case "group":
        commitProducts(thread);
        return null;
      case "accumulate":
        accumulateSums(thread, effect.tile, effect.part, effect.columns);
        return null;
      case "drain":
        waitForProducts(thread, effect.pending, step);
        return null;
      case "sync":
        // Loads that a lane has not fenced may still be under way behind the meeting.
        if (thread.loading.size === 0 && !thread.unfenced) thread.apart = false;
        return null;
      case "begin":
        thread.pipelines.set(effect.at, this.#begins(thread, effect));
        return null;
      case "advance": {
        const ring = this.#engines.ring(effect.ring);
        thread.pipelines.set(
          effect.at,
          chunkAt(thread, ring, effect.at) + this.#chunksBy(thread, ring, effect),
        );
        return null;
      }
      case "hold":
        thread.pipelines.set(effect.at, chunkAt(thread, this.#engines.ring(effect.ring), effect.of));
        return null;
      case "turn":
        return this.#turns.take(thread, effect.to);
      case "pass":
        this.#turns.pass(thread, effect.to);
        return null;
      case "fence":
        fence(thread, effect.what);
        return null;
      case "stage":
      case "store":
      case "stores":
      case "stored":
      case "gather":
        stage(thread, effect);
        return null;
      case "meet":
        return this.#meeting.join(thread, effect.orders);
      case "init":
      case "relinquish":
        return null;
      case "alloc":
        for (const other of this.#threads) if (other.block === block) other.allocated = true;
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
        for (const other of this.#threads) if (other.block === block) other.allocated = false;
        return null;
    }
  }

  /** Where a pipeline begins: behind the chunks of the roles whose turn comes before, as the run has them. */
  #begins(thread: Thread, { ring: name, from }: Extract<Effect, { kind: "begin" }>): number {
    const { turn, ring: own } = thread.role.tiles?.loop ?? { turn: 0, ring: null };
    if (turn === 0 || own === name) return from;
    const ring = this.#engines.ring(name);
    const { now, text } = chunksIn(this.#kernel, ring, this.#sequence.slice(0, turn), turn);
    // Stage and phase say it up to two rounds of the ring.
    const round = 2 * ring.slots;
    const off = (((from - text) % round) + round) % round;
    return now + (off < ring.slots ? off : off - round);
  }

  /** Chunks by which a pipeline goes on: of the tiles of others those that the run has. */
  #chunksBy(thread: Thread, ring: KernelRing, { by, skips }: Extract<Effect, { kind: "advance" }>): number {
    const { of } = thread.role.tiles?.loop ?? { of: 1 };
    if (!skips || !ring.chunked) return by;
    const others = this.#sequence.slice(thread.ordinal + 1, thread.ordinal + of);
    const { now, text } = chunksIn(this.#kernel, ring, others, of - 1);
    return now + by - text;
  }

  #issued(): readonly Engine[] {
    return this.#threads.flatMap((thread) => thread.issued);
  }

  *#waitFor(thread: Thread, effect: Extract<Effect, { kind: "wait" }>): Steps {
    const ring = this.#engines.ring(effect.ring);
    const chunk = chunkAt(thread, ring, effect.at);
    yield* this.#wait(thread, ring, effect.edge, chunk, Math.floor(chunk / ring.slots) - effect.lag);
    thread.fencedAfter = false;
    if (effect.edge === "full") thread.proxied = false;
  }

  *#waitForSlots(thread: Thread, effect: Extract<Effect, { kind: "vacated" }>): Steps {
    const ring = this.#engines.ring(effect.ring);
    const from = chunkAt(thread, ring, effect.at);
    for (let chunk = from; chunk < from + ring.slots; chunk++)
      for (const blocked of this.#wait(thread, ring, "empty", chunk, Math.floor(chunk / ring.slots) - 1))
        yield { ...blocked, ending: true };
  }

  *#wait(thread: Thread, ring: KernelRing, edge: "full" | "empty", chunk: number, phase: number): Steps {
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
function tellCopied(thread: Thread, ring: KernelRing, chunk: number): void {
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
