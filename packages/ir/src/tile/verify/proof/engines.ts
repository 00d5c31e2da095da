/** What engines do beside the threads of a run: bulk copies, matrix instructions, commits. Threads issue it; it ends at once or late. */
import type { Columns } from "../../types.ts";
import { chunkAt } from "./counting.ts";
import type { Effect } from "./effect.ts";
import type { Kernel, KernelRing } from "./kernel.ts";
import { type Access, Broken, type End, type Memory } from "./machine.ts";
import { blocksOf, type Reached } from "./reach.ts";
import { registersUse } from "./registerSums.ts";
import { chunkName, columnsUse, type Thread, tensorUse, within } from "./thread.ts";

export class Engines {
  /** Blocks that threads of others have touched, and when. */
  readonly reached: Reached[] = [];
  readonly #kernel: Kernel;
  readonly #memory: Memory;
  readonly #when: "early" | "late";
  readonly #rings: ReadonlyMap<string, KernelRing>;
  /** What is still to do, in order. */
  readonly #late: (() => void)[] = [];

  /** `when`: work is done as it is issued, or when `finishOne` asks for it. */
  constructor(kernel: Kernel, memory: Memory, when: "early" | "late") {
    this.#kernel = kernel;
    this.#memory = memory;
    this.#when = when;
    this.#rings = new Map(kernel.rings.map((ring) => [ring.name, ring]));
  }

  /** Does the oldest work that is left; false where none is. */
  finishOne(): boolean {
    const late = this.#late.shift();
    late?.();
    return late !== undefined;
  }

  /** A ring of the kernel. What stands in none is used before its pipeline is declared. */
  ring(name: string): KernelRing {
    const ring = this.#rings.get(name);
    if (ring === undefined)
      throw new Broken(
        "order",
        "pipelines",
        "a pipeline is used before it is declared",
        "declare pipelines where the role begins",
      );
    return ring;
  }

  /** A thread touches something of a block: another's has to be there still. */
  reach(thread: Thread, block: number, step: number): void {
    if (block !== thread.block) this.reached.push({ block, who: thread.label, thread: thread.index, step });
  }

  /** What an engine does comes at once, or when nothing else can happen; a fault of it is found at the statement that issued it. */
  #do({ stmt }: Thread, work: () => void): void {
    const found = (): void => {
      try {
        work();
      } catch (error) {
        throw error instanceof Broken ? error.at(stmt) : error;
      }
    };
    if (this.#when === "early") found();
    else this.#late.push(found);
  }

  /** A bulk copy is issued: it writes its slots, and bytes land at their barriers. */
  copy(thread: Thread, effect: Extract<Effect, { kind: "copy" }>, step: number): void {
    const ring = this.ring(effect.ring);
    const chunk = chunkAt(thread, ring, effect.at);
    const phase = Math.floor(chunk / ring.slots);
    const clock = thread.clock.slice();
    within(thread, ring, chunk, "fill");
    for (const target of blocksOf(this.#kernel, thread.block, effect.reach)) {
      const signal = effect.signal === "leader" && this.#kernel.pair ? target - (target % 2) : target;
      const barrier = this.#memory.barrier(ring, "full", chunk, signal);
      const access: Access = {
        who: thread.label,
        chunk,
        ends: [{ entry: barrier.index, reached: phase + 1 }],
        from: 0,
      };
      for (const slot of this.#memory.slots(ring, chunk, target)) slot.write(access, thread.clock);
      this.reach(thread, target, step);
      this.#do(thread, () => barrier.land(effect.bytes, phase, clock, thread.label, chunkName(chunk, ring)));
    }
  }

  /** A commit is issued: it arrives when all that the tensor core was given before it is done. */
  commit(thread: Thread, effect: Extract<Effect, { kind: "commit" }>): void {
    const ring = this.ring(effect.ring);
    const chunk = chunkAt(thread, ring, effect.at);
    const phase = Math.floor(chunk / ring.slots);
    const clock = thread.clock.slice();
    const targets = blocksOf(this.#kernel, thread.block, effect.reach);
    for (const target of targets) {
      const barrier = this.#memory.barrier(ring, effect.edge, chunk, target);
      thread.commits.push({ entry: barrier.index, reached: phase + 1 });
      this.#do(thread, () =>
        barrier.arrive(effect.count, phase, clock, thread.label, chunkName(chunk, ring)),
      );
    }
  }

  /** Slots that the tensor core reads. `committed`: a commit tells when they have been read; else their warps wait. */
  readOperands(
    thread: Thread,
    { operands }: Extract<Effect, { kind: "multiply" | "factors" }>,
    committed: boolean,
    sums: { readonly tiles: readonly string[]; readonly columns: Columns | null } = {
      tiles: [],
      columns: null,
    },
  ): void {
    const who = thread.label;
    for (const { ring: name, at } of operands) {
      const ring = this.ring(name);
      const chunk = chunkAt(thread, ring, at);
      within(thread, ring, chunk, "read");
      for (const block of blocksOf(this.#kernel, thread.block, "pair")) {
        const slots = this.#memory.slots(ring, chunk, block);
        // A fence of the reader is for its own block.
        if (!(thread.proxied && block === thread.block) && slots.some((slot) => slot.isHidden(thread.clock)))
          throw new Broken(
            "proxies",
            who,
            `multiplies ${chunkName(chunk, ring)}, which threads have ${ring.copied === null ? "computed" : "copied"}, without an async-proxy fence ${ring.computed ? "of theirs, or " : ""}behind its last wait`,
            "fence async between the wait and the matrix instructions, or before the arrival of those that store",
          );
        const own: End[] = [];
        const access: Access = committed
          ? { who, chunk, ends: thread.commits, from: thread.commits.length }
          : { who, chunk, ends: own, from: 0 };
        for (const slot of slots) slot.read(access, thread.clock);
        if (committed) thread.issued.push({ block, access, writes: false });
        else {
          const end = (reached: number): void => void own.push({ entry: thread.index, reached });
          thread.running.push({ group: thread.products + 1, ...sums, end });
        }
      }
    }
  }

  /** Matrix instructions are issued: they read slots of operands and write their sums. */
  multiply(thread: Thread, effect: Extract<Effect, { kind: "multiply" }>, keeps: boolean): void {
    const who = thread.label;
    const both = blocksOf(this.#kernel, thread.block, "pair");
    if (effect.sums !== null) tensorUse(thread, "multiplies");
    else registersUse(thread, effect.tile, thread.cut ? null : keeps, effect.columns);
    const { columns, tile, held } = effect;
    this.readOperands(thread, effect, effect.sums !== null, { tiles: [tile, ...held], columns });
    if (effect.sums === null) return;
    const ring = this.ring(effect.sums.ring);
    const chunk = chunkAt(thread, ring, effect.sums.at);
    within(thread, ring, chunk, "fill");
    // Sums that are carried on begin with the work tile.
    if (!thread.cut) columnsUse(thread, effect.tile, ring.carried ? thread.ordinal : chunk, keeps);
    for (const block of both) {
      const access: Access = { who, chunk, ends: thread.commits, from: thread.commits.length };
      for (const slot of this.#memory.slots(ring, chunk, block)) slot.write(access, thread.clock);
      thread.issued.push({ block, access, writes: true });
    }
  }
}
