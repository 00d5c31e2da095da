/** Rings at run time: sequence numbers enforced, asynchronous copies landed as late (or as early) as the protocol allows. */
import { type Edge, placesOf, type Ring } from "../types.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import type { Memory } from "./memory.ts";

/** An asynchronous copy that has been issued. */
export interface Flight {
  /** Moves the data; called once. */
  readonly land: () => void;
  /** The statement that has issued it, as faults name it; where it matters. */
  readonly at?: string;
  landed: boolean;
}

/** What one thread of control (a role, or the whole block) has issued and not waited for; the order of cp.async groups. */
export interface Groups {
  /** Copies since the last commit. */
  open: Flight[];
  readonly closed: { readonly ring: string; readonly chunk: number; readonly flights: readonly Flight[] }[];
}

export const newGroups = (): Groups => ({ open: [], closed: [] });

export function land(flights: readonly Flight[]): void {
  for (const flight of flights) {
    if (!flight.landed) flight.land();
    flight.landed = true;
  }
}

/** The columns that the last of two places shares with the first, and the first with the last, hold another chunk now. */
function forgetShared(
  { buffer, written, count, rowStride, colStride, slotStride }: Memory,
  slot: number,
  lap: number,
): void {
  const across = 1 - (buffer.lanes ?? 0);
  const [lanes, columns] = [buffer.shape[1 - across] ?? 0, buffer.shape[across] ?? 0];
  const [laneStride, columnStride] = across === 1 ? [rowStride, colStride] : [colStride, rowStride];
  const from = slot === 0 ? columns - lap : 0;
  for (let lane = 0; lane < lanes; lane++)
    for (let c = from; c < from + lap; c++)
      if (written !== null) written[slot * slotStride + lane * laneStride + c * columnStride] = 0;
  count[slot] = 0;
}

/** What a slot held is gone. */
export function emptySlot(memory: Memory, slot: number, lap?: number): void {
  const { written, count, slotStride } = memory;
  written?.fill(0, slot * slotStride, (slot + 1) * slotStride);
  count[slot] = 0;
  if (lap !== undefined) forgetShared(memory, 1 - slot, lap);
}

interface Consumer {
  waited: number;
  released: number;
  /** Chunks between wait and release. */
  readonly open: Set<number>;
}

/** Roles that wait for a ring, and whether they take turns: then each chunk is for one of them. */
export interface Consumers {
  readonly names: readonly string[];
  readonly turns: boolean;
}

/** Who did something last to a chunk, and how many barriers it had passed. */
export interface Actor {
  readonly name: string;
  readonly groups: Groups;
  epoch: number;
}

interface Moment {
  readonly name: string;
  readonly epoch: number;
}

/** Progress of one ring within one block. All numbers are those of the last chunk, -1 before the first. */
export class RingState {
  readonly ring: Ring;
  readonly #memories: readonly Memory[];
  readonly #consumers = new Map<string, Consumer>();
  /** Flights by chunk, for transports whose completion the ring itself carries (tma, or cp.async across roles). */
  readonly #flights = new Map<number, Flight[]>();
  /** Commits and releases by chunk: what an implied edge must come after. */
  readonly #commits = new Map<number, Moment>();
  readonly #releases = new Map<number, Moment[]>();
  /** Releases that were left when the chunks began anew. */
  #earlier: readonly Moment[] = [];
  /** Consumers take turns: each chunk is one's of them, and goes by as it is waited for and released. */
  readonly #turns: boolean;
  readonly #given = new Set<number>();
  readonly #back = new Set<number>();
  acquired = -1;
  committed = -1;
  /** Chunks that were acquired, in order, where loops skip turns: numbers of others are left out. */
  readonly #taken: number[] | null;

  /** `gaps`: loops skip turns. */
  constructor(ring: Ring, memories: readonly Memory[], { names, turns }: Consumers, gaps: boolean) {
    this.ring = ring;
    this.#taken = gaps ? [] : null;
    this.#memories = memories;
    this.#turns = turns;
    for (const name of names) this.#consumers.set(name, { waited: -1, released: -1, open: new Set() });
  }

  /** Whether the slot of `chunk` is free. */
  free(chunk: number): boolean {
    const before = this.#inSlotBefore(chunk);
    if (this.#turns) return before < 0 || this.#back.has(before);
    return [...this.#consumers.values()].every((c) => c.released >= before);
  }

  /** The chunk that was in the slot of a chunk before it; negative for none. */
  #inSlotBefore(chunk: number): number {
    const { slots } = this.ring;
    if (this.#taken === null) return chunk - slots;
    return this.#taken.findLast((other) => other < chunk && (chunk - other) % slots === 0) ?? -1;
  }

  /** The chunk that follows one. */
  #after(chunk: number): number {
    if (this.#taken === null) return chunk + 1;
    return this.#taken.find((other) => other > chunk) ?? Number.POSITIVE_INFINITY;
  }

  /** Take the slot; what the slot held is gone. */
  acquire(chunk: number, actor: Actor, at: string): void {
    if (chunk === 0 && this.acquired >= 0) this.#beginAnew();
    const next = this.acquired + 1;
    this.#inOrder("acquire", chunk, this.#taken === null ? next : Math.max(chunk, next), at);
    const before = this.#inSlotBefore(chunk);
    this.#taken?.push(chunk);
    const moments = before < 0 ? this.#earlier : (this.#releases.get(before) ?? []);
    this.#pass(this.ring.empty, actor, moments, `release of chunk ${before < 0 ? "before" : before}`, at);
    this.#releases.delete(before);
    this.acquired = chunk;
    const slot = chunk % placesOf(this.ring);
    if (this.ring.carried !== true)
      for (const memory of this.#memories) emptySlot(memory, slot, this.ring.overlapped);
  }

  /** Rings of a block's barriers, in a loop around the one over chunks, begin again with chunk 0 where nothing of the turn before is copied or read any more. */
  #beginAnew(): void {
    const consumers = [...this.#consumers.values()];
    const busy =
      this.acquired > this.committed ||
      consumers.some(({ open }) => open.size > 0) ||
      [...this.#flights.values()].some((flights) => flights.length > 0);
    // Barriers that count have the phase of the last chunk.
    if (busy || this.#turns || this.ring.full?.kind === "mbarrier") return;
    this.#earlier = [...this.#releases.values()].flat();
    for (const consumer of consumers) [consumer.waited, consumer.released] = [-1, -1];
    for (const chunks of [this.#flights, this.#commits, this.#releases]) chunks.clear();
    this.#taken?.splice(0);
    [this.acquired, this.committed] = [-1, -1];
  }

  commit(chunk: number, actor: Actor, at: string): void {
    const { groups } = actor;
    if (this.#taken === null || chunk <= this.acquired)
      this.#inOrder("commit", chunk, this.#after(this.committed), at);
    if (chunk > this.acquired)
      this.#fail(
        at,
        `commits chunk ${chunk} of %${this.ring.name}, which was not acquired`,
        "acquire it first",
      );
    this.committed = chunk;
    this.#commits.set(chunk, { name: actor.name, epoch: actor.epoch });
    const flights = groups.open;
    groups.open = [];
    this.#flights.set(chunk, flights);
    if (this.ring.transport === "cp.async") groups.closed.push({ ring: this.ring.name, chunk, flights });
  }

  /**
   * Let chunk arrive. With cp.async groups of this thread all but the last `pending` land, and the chunk must be among them;
   * otherwise (tma, or copies of another role) the chunk's own copies land.
   */
  wait(chunk: number, pending: number, actor: Actor, at: string): void {
    const { groups } = actor;
    const state = this.#consumer(actor.name, "waits for", at);
    this.#inTurn("wait", chunk, state.waited, this.#given, at);
    state.waited = chunk;
    state.open.add(chunk);
    const committed = this.#commits.get(chunk);
    this.#pass(this.ring.full, actor, committed ? [committed] : [], `commit of chunk ${chunk}`, at);
    const flights = this.#flights.get(chunk) ?? [];
    const mine = groups.closed.some((g) => g.ring === this.ring.name && g.chunk === chunk);
    if (mine) {
      for (const group of groups.closed.splice(0, Math.max(0, groups.closed.length - pending)))
        land(group.flights);
      if (
        flights.some((f) => !f.landed) ||
        groups.closed.some((g) => g.ring === this.ring.name && g.chunk === chunk)
      )
        this.#fail(
          at,
          `waits for chunk ${chunk} of %${this.ring.name} with pending ${pending}, which lets it be still in flight`,
          `pending ${groups.closed.length - 1 - groups.closed.findIndex((g) => g.chunk === chunk)} or less covers it`,
        );
    } else land(flights);
    this.#flights.delete(chunk);
  }

  release(chunk: number, actor: Actor, at: string): void {
    const state = this.#consumer(actor.name, "releases", at);
    this.#inTurn("release", chunk, state.released, this.#back, at);
    if (!state.open.delete(chunk))
      this.#fail(
        at,
        `releases chunk ${chunk} of %${this.ring.name}, which it did not wait for`,
        "wait for it first",
      );
    state.released = chunk;
    const moments = this.#releases.get(chunk) ?? [];
    this.#releases.set(chunk, [...moments, { name: actor.name, epoch: actor.epoch }]);
  }

  /** Cross an edge: a barrier begins a new epoch; an implied edge needs one since every moment that it follows. */
  #pass(edge: Edge | null, actor: Actor, moments: readonly Moment[], what: string, at: string): void {
    if (edge?.kind === "barrier") actor.epoch++;
    if (edge?.kind !== "implied") return;
    for (const { name, epoch } of moments)
      if (name !== actor.name || epoch >= actor.epoch)
        this.#fail(
          at,
          name === actor.name
            ? `no barrier stands between this and the ${what} of %${this.ring.name}, whose edge is implied`
            : `the ${what} of %${this.ring.name} is in role ${name}, and the edge to it is implied`,
          "make the edge barrier:ID or mbarrier:N, or move the statement behind the next wait",
        );
  }

  /** Writes go to chunks between acquire and commit; those of a consumer, where chunks are carried on, to one that it has waited for. */
  checkWrite(slot: number, writer: string, at: string): void {
    if (this.ring.carried === true && this.#consumers.has(writer)) {
      this.checkRead(slot, writer, at);
      return;
    }
    for (let t = this.committed + 1; t <= this.acquired; t++) if (t % placesOf(this.ring) === slot) return;
    this.#fail(
      at,
      `writes slot ${slot} of ring %${this.ring.name} outside acquire and commit (acquired up to ${this.acquired}, committed up to ${this.committed})`,
      "acquire the chunk before the copy and commit it after",
    );
  }

  /** Reads come from chunks between wait and release of the reading thread. */
  checkRead(slot: number, consumer: string, at: string): void {
    const state = this.#consumer(consumer, "reads", at);
    for (const t of state.open) if (t % placesOf(this.ring) === slot) return;
    // What a chunk shares with none may be read until the next is released.
    if (
      this.ring.overlapped !== undefined &&
      state.released >= 0 &&
      state.released % placesOf(this.ring) === slot
    )
      return;
    this.#fail(
      at,
      `reads slot ${slot} of ring %${this.ring.name} outside wait and release (waited up to ${state.waited}, released up to ${state.released})`,
      "wait for the chunk before the read and release it after",
    );
  }

  /** At the end of the block: everything acquired is committed, and nothing is in flight. */
  checkEnd(): void {
    if (this.acquired > this.committed)
      this.#fail(
        `%${this.ring.name}`,
        `chunk ${this.acquired} of %${this.ring.name} is acquired and never committed`,
        "commit it",
      );
    for (const [chunk, flights] of this.#flights)
      if (flights.length > 0)
        throw new InterpretFailure(
          interpretCodes.inFlight,
          `%${this.ring.name}`,
          `chunk ${chunk} of %${this.ring.name} is still in flight when the block ends`,
          "wait for every chunk that is copied",
        );
  }

  #consumer(name: string, verb: string, at: string): Consumer {
    const state = this.#consumers.get(name);
    if (state !== undefined) return state;
    return this.#fail(
      at,
      `${name} ${verb} ring %${this.ring.name} without being one of its consumers`,
      "wait first",
    );
  }

  /** The next chunk of a consumer; of those that take turns a later one than its last, which no other has had. */
  #inTurn(event: string, chunk: number, last: number, had: Set<number>, at: string): void {
    if (!this.#turns) this.#inOrder(event, chunk, this.#after(last), at);
    else if (chunk <= last || had.has(chunk))
      this.#fail(
        at,
        `${event} of chunk ${chunk} of %${this.ring.name} ${had.has(chunk) ? "for a second time" : `behind chunk ${last}`}`,
        `every chunk has one ${event}, in order`,
      );
    had.add(chunk);
  }

  #inOrder(event: string, chunk: number, expected: number, at: string): void {
    if (chunk !== expected)
      this.#fail(
        at,
        `${event} of chunk ${chunk} of %${this.ring.name} where ${Number.isFinite(expected) ? `chunk ${expected}` : "none"} is next`,
        `every chunk has one ${event}, in order`,
      );
  }

  #fail(at: string, message: string, hint: string): never {
    throw new InterpretFailure(interpretCodes.protocol, at, message, hint);
  }
}
