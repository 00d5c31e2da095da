/**
 * Barriers, slots and what is known to have happened: the hardware's part of the protocol, for one run of one cluster.
 *
 * A clock has an entry for each thread (how far it is known to have come) and for each barrier (phases known to be complete); clocks travel with
 * arrivals and waits. Two accesses are ordered in every interleaving iff the clock of the later one says so. Threads do not choose: a wait
 * has one outcome. So one run orders what all runs order, and the schedules tried differ only in whether waits meet the phase that
 * they mean.
 */
import type { Stmt } from "../../types.ts";
import type { EdgeName } from "./effect.ts";
import type { Kernel, KernelRing } from "./kernel.ts";
import type { Finding, RuleName } from "./rules.ts";

/** Thrown at the first finding of a run. */
export class Broken extends Error {
  readonly finding: Finding;
  constructor(rule: RuleName, at: string, message: string, hint: string, stmt: Stmt | null = null) {
    super(message);
    this.finding = { rule, at, message, hint, stmt };
  }

  /** The same at a statement, unless it has one. */
  at(stmt: Stmt | null): Broken {
    const { rule, at, message, hint, stmt: known } = this.finding;
    return known ? this : new Broken(rule, at, message, hint, stmt);
  }
}

export type Clock = Int32Array;

export interface Actor {
  readonly index: number;
  /** Rank of its block in the cluster. */
  readonly block: number;
  /** `producer of block 1`. */
  readonly label: string;
  readonly clock: Clock;
}

export function join(into: Clock, from: Clock): void {
  for (let i = 0; i < into.length; i++) if ((from[i] ?? 0) > (into[i] ?? 0)) into[i] = from[i] ?? 0;
}

/** An mbarrier: slot `slot` of one edge of a ring in one block. */
export class Barrier {
  /** Its entry in clocks. */
  readonly index: number;
  readonly label: string;
  readonly #count: number;
  pending: number;
  bytes = 0;
  /** Phases completed. */
  phase = 0;
  #gathered: Clock;
  readonly #clocks: Clock[] = [];

  constructor(index: number, label: string, count: number, size: number) {
    this.index = index;
    this.label = label;
    this.#count = count;
    this.pending = count;
    this.#gathered = new Int32Array(size);
  }

  get count(): number {
    return this.#count;
  }

  clockOf(phase: number): Clock {
    return this.#clocks[phase] ?? this.#gathered;
  }

  arrive(count: number, phase: number, clock: Clock, who: string, chunk: string): void {
    if (this.phase !== phase || count > this.pending)
      throw new Broken(
        "arrivals",
        who,
        this.phase === phase
          ? `${count} arrivals for ${chunk} at ${this.label}, which waits for ${this.pending} more of ${this.#count}`
          : `arrives for ${chunk} at ${this.label} in its phase ${this.phase}, and the chunk's is ${phase}: ${this.phase > phase ? "others had completed it" : "an earlier one is open still"}`,
        `initialise the edge with what really arrives: ${this.#count} is not it`,
      );
    join(this.#gathered, clock);
    this.pending -= count;
    this.#turn();
  }

  expect(bytes: number, phase: number, who: string, chunk: string): void {
    if (this.phase !== phase)
      throw new Broken(
        "expected",
        who,
        `expects ${bytes} bytes for ${chunk} at ${this.label} in its phase ${this.phase}, and the chunk's is ${phase}`,
        "expect bytes after the slot was acquired and before its phase can end",
      );
    this.bytes += bytes;
  }

  land(bytes: number, phase: number, clock: Clock, who: string, chunk: string): void {
    if (this.phase !== phase)
      throw new Broken(
        "bytes",
        who,
        `${bytes} bytes of ${chunk} come to ${this.label} in its phase ${this.phase}, and the chunk's is ${phase}`,
        "expect as many bytes as all copies of a chunk bring",
      );
    join(this.#gathered, clock);
    this.bytes -= bytes;
    this.#turn();
  }

  #turn(): void {
    if (this.pending > 0 || this.bytes !== 0) return;
    this.#gathered[this.index] = this.phase + 1;
    this.#clocks.push(this.#gathered);
    this.#gathered = new Int32Array(this.#gathered.length);
    this.phase++;
    this.pending = this.#count;
  }
}

/** What tells that an access has ended: an entry of a clock (a thread's step, a barrier's completed phases) that has come to `reached`. */
export interface End {
  readonly entry: number;
  readonly reached: number;
}

export interface Access {
  readonly who: string;
  readonly chunk: number;
  /** Each of them from `from` on is enough; none: under way still. Matrix instructions share the list of their thread's commits. */
  readonly ends: readonly End[];
  readonly from: number;
  /** Of a write of threads: fences of its writers that make it visible to the async proxy. Without one whoever reads it there fences, behind the wait. */
  readonly shown?: readonly End[];
}

export function ended({ ends, from }: Pick<Access, "ends" | "from">, clock: Clock): boolean {
  for (let i = from; i < ends.length; i++) {
    const end = ends[i];
    if (end !== undefined && (clock[end.entry] ?? 0) >= end.reached) return true;
  }
  return false;
}

/** One slot of a ring in one block. */
export class Slot {
  readonly label: string;
  writes: Access[] = [];
  reads: Access[] = [];

  constructor(label: string) {
    this.label = label;
  }

  write(access: Access, clock: Clock): void {
    const before = [...this.reads, ...this.writes.filter(({ chunk }) => chunk !== access.chunk)];
    for (const other of before)
      if (other.chunk !== access.chunk && !ended(other, clock))
        throw new Broken(
          "freed",
          access.who,
          `writes chunk ${access.chunk} into ${this.label}, where ${other.who} may still be busy with chunk ${other.chunk}`,
          "wait for the empty edge, and give the slot back only when it has been read",
        );
    if (this.reads.some((other) => other.chunk === access.chunk && !ended(other, clock)))
      throw new Broken(
        "order",
        access.who,
        `writes chunk ${access.chunk} into ${this.label} while it is being read`,
        "fill the slot before its commit",
      );
    this.reads = this.reads.filter(({ chunk }) => chunk === access.chunk);
    this.writes = [...this.writes.filter(({ chunk }) => chunk === access.chunk), access];
  }

  /** Whoever reads a chunk writes it again: the products that made it have been waited for, and nobody else reads it. */
  change(access: Access, clock: Clock): void {
    if (this.reads.some((other) => !ended(other, clock)))
      throw new Broken(
        "order",
        access.who,
        `changes chunk ${access.chunk} in ${this.label} while it is being read`,
        "wait for the loads before the stores",
      );
    this.read(access, clock);
    this.writes.push(access);
  }

  /** Whether the async proxy may still see what stood there before a write of threads, as far as a clock knows. */
  isHidden(clock: Clock): boolean {
    return this.writes.some(({ shown }) => shown !== undefined && !ended({ ends: shown, from: 0 }, clock));
  }

  read(access: Access, clock: Clock): void {
    const held = this.writes.at(-1)?.chunk;
    if (held !== access.chunk)
      throw new Broken(
        "phases",
        access.who,
        `reads chunk ${access.chunk} from ${this.label}, which ${held === undefined ? "nobody has filled" : `holds chunk ${held}`}`,
        "number the chunks of a ring through, over tiles too",
      );
    for (const write of this.writes)
      if (!ended(write, clock))
        throw new Broken(
          "phases",
          access.who,
          `reads chunk ${access.chunk} from ${this.label} without having waited for what ${write.who} writes there`,
          "wait for the full edge of the chunk first",
        );
    this.reads.push(access);
  }
}

/** Of accumulators that share columns: those of the first place, of both, of the second. */
const lapParts = ["of the first place alone", "of both places", "of the second place alone"] as const;

const mod = (n: number, by: number): number => ((n % by) + by) % by;

function slotAt(slots: readonly Slot[], index: number, ring: KernelRing): Slot {
  const slot = slots[index];
  if (slot === undefined) throw new RangeError(`no slot of %${ring.name}`);
  return slot;
}

/** Barriers and slots of all rings in all blocks. */
export class Memory {
  readonly clockSize: number;
  readonly #barriers: readonly Barrier[];
  /** By ring, block and slot. */
  readonly #slots: readonly (readonly (readonly Slot[])[])[];
  readonly #rings: ReadonlyMap<string, number>;
  readonly #firsts = new Map<string, number>();
  readonly #blocks: number;

  constructor(kernel: Kernel, threads: number) {
    const blocks = kernel.cluster[0] * kernel.cluster[1];
    this.#blocks = blocks;
    let slots = 0;
    for (const ring of kernel.rings) {
      this.#firsts.set(ring.name, slots);
      slots += ring.slots;
    }
    this.clockSize = threads + 2 * slots * blocks;
    const edges: readonly EdgeName[] = ["full", "empty"];
    const where = (ring: KernelRing, slot: number, block: number): string =>
      `slot ${slot} of %${ring.name}${blocks > 1 ? ` in block ${block}` : ""}`;
    this.#barriers = kernel.rings.flatMap((ring) =>
      Array.from({ length: ring.slots }, (_, slot) =>
        Array.from({ length: blocks }, (_, block) =>
          edges.map((edge, e) => {
            const index = threads + 2 * (((this.#firsts.get(ring.name) ?? 0) + slot) * blocks + block) + e;
            return new Barrier(
              index,
              `the ${edge} edge of ${where(ring, slot, block)}`,
              ring.arrivals[edge],
              this.clockSize,
            );
          }),
        ).flat(),
      ).flat(),
    );
    this.#slots = kernel.rings.map((ring) =>
      Array.from({ length: blocks }, (_, block) =>
        ring.lap === null
          ? Array.from({ length: ring.slots }, (_, slot) => new Slot(where(ring, slot, block)))
          : lapParts.map((part) => new Slot(`the columns ${part} of ${where(ring, 0, block)}`)),
      ),
    );
    this.#rings = new Map(kernel.rings.map((ring, i) => [ring.name, i]));
  }

  barrier(ring: KernelRing, edge: EdgeName, chunk: number, block: number): Barrier {
    const found = this.#barriers[2 * this.#at(ring, chunk, block) + (edge === "full" ? 0 : 1)];
    if (found === undefined) throw new RangeError(`no barrier of %${ring.name}`);
    return found;
  }

  /**
   * What a chunk has in one block: a slot; of chunks that share columns those of its place alone, and those that both places have, of which `columns` may meet
   * one or both.
   */
  slots(
    ring: KernelRing,
    chunk: number,
    block: number,
    columns: { readonly from: number; readonly count: number } | null = null,
  ): readonly Slot[] {
    const own = this.#slots[this.#rings.get(ring.name) ?? -1]?.[block] ?? [];
    const { lap } = ring;
    if (lap === null) return [slotAt(own, mod(chunk, ring.slots), ring)];
    const second = mod(chunk, 2) === 1;
    const { from, count } = columns ?? { from: 0, count: lap.columns };
    // Shared are the last columns of the first place, and the first of the second.
    const alone = second ? [lap.shared, lap.columns] : [0, lap.columns - lap.shared];
    const shared = second ? [0, lap.shared] : [lap.columns - lap.shared, lap.columns];
    const meets = ([low = 0, high = 0]: readonly number[]): boolean => from < high && from + count > low;
    return [
      ...(meets(alone) ? [slotAt(own, second ? 2 : 0, ring)] : []),
      ...(meets(shared) ? [slotAt(own, 1, ring)] : []),
    ];
  }

  #at(ring: KernelRing, chunk: number, block: number): number {
    const slot = mod(chunk, ring.slots);
    return ((this.#firsts.get(ring.name) ?? 0) + slot) * this.#blocks + block;
  }
}
