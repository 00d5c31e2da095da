/** A role in one block: where it stands, and the rules that it can keep or break by itself. */
import type { Stmt } from "../../types.ts";
import type { Effect, FenceName, Loaded } from "./effect.ts";
import type { KernelRing, KernelRole } from "./kernel.ts";
import { type Access, type Actor, Broken, type End } from "./machine.ts";
import { addsToStale, newSums, overwritesUnread, type RegisterSums } from "./registerSums.ts";
import { fenceStaged, newStaging, type Staging, unstored } from "./staging.ts";

/** What a matrix instruction reads or writes, in one block. */
export interface Engine {
  readonly block: number;
  readonly access: Access;
  readonly writes: boolean;
}

/** Where a role stands in a ring, as producer and as consumer. */
interface Place {
  readonly filling: Set<number>;
  readonly reading: Set<number>;
  /** Of the chunks being read, those that have been. */
  readonly seen: Set<number>;
  readonly highest: { fill: number; read: number };
  last: number;
  /** Of a ring whose chunks share columns: the chunk released last, whose other columns may be read until the next is. */
  kept: number;
}

export interface Thread extends Actor, RegisterSums, Staging {
  readonly role: KernelRole;
  /** K chunks of the tile at hand, and of those before it. */
  count: number;
  before: number;
  /** Since the last wait a fence has made tensor memory usable. */
  fencedAfter: boolean;
  /** Loads from tensor memory since the last fence before. */
  unfenced: boolean;
  /** Chunks of each ring between acquire and commit, and between wait and release; the last one opened. */
  readonly places: Map<string, Place>;
  /** Chunks at which pipelines stand, and those of slots with names. */
  readonly pipelines: Map<string, number>;
  /** The statement that it has come to. */
  stmt: Stmt | null;
  /** Number of the tile at hand in the sequence. */
  ordinal: number;
  /** Reads whose end is still to come, by what ends them. */
  loads: { readonly ends: End[] }[];
  /** A loop over chunks had no turn for the number at hand, and what stands behind it in the text may then be first. */
  cut: boolean;
  /** Whose products tiles of sums in tensor memory hold: the number of the tile's chunk of its ring. */
  readonly multiplied: Map<string, number>;
  /** Loads from slots that bulk copies fill, since the last fence that ends them: columns of registers that have not been used, by tile; by lanes that have not met since. */
  readonly loading: Map<string, ReadonlySet<number>>;
  apart: boolean;
  /** Every matrix instruction that accumulates in tensor memory, and the commits, each of which tracks all before it. */
  readonly issued: Engine[];
  readonly commits: End[];
  /** Of what the role has written into slots of rings since its last async-proxy fence: where that comes. */
  unshown: End[][];
  /** An answer was read, and no async-proxy fence followed. */
  unproxied: boolean;
  /** What the last wait has shown is visible to the async proxy. */
  proxied: boolean;
  /** Bytes that the role has copied by its threads since it last told of them. */
  copied: number;
  /** Whether the block has tensor memory. */
  allocated: boolean;
}

/** A role that has done nothing yet. */
export const newThread = (
  index: number,
  block: number,
  label: string,
  role: KernelRole,
  clockSize: number,
): Thread => ({
  index,
  block,
  role,
  clock: new Int32Array(clockSize),
  count: 0,
  before: 0,
  fencedAfter: true,
  unfenced: false,
  places: new Map(),
  pipelines: new Map(),
  ordinal: 0,
  stmt: null,
  loads: [],
  ...newStaging(label),
  ...newSums(label),
  cut: false,
  multiplied: new Map(),
  loading: new Map(),
  apart: false,
  issued: [],
  commits: [],
  unshown: [],
  unproxied: false,
  proxied: true,
  copied: 0,
  allocated: false,
});

/** A chunk as messages say it. */
export function chunkName(chunk: number, ring: KernelRing): string {
  return `chunk ${chunk} of %${ring.name}`;
}

/** The role comes to a statement of a ring. */
export function mark(
  thread: Thread,
  ring: KernelRing,
  chunk: number,
  event: Extract<Effect, { kind: "mark" }>["event"],
): void {
  const place = thread.places.get(ring.name) ?? {
    filling: new Set(),
    reading: new Set(),
    seen: new Set(),
    highest: { fill: -1, read: -1 },
    last: -1,
    kept: -1,
  };
  thread.places.set(ring.name, place);
  const name = chunkName(chunk, ring);
  const broken = (what: string): never => {
    throw new Broken(
      "order",
      thread.label,
      what,
      "each chunk once, in order: acquire, fill, commit; wait, read, release",
    );
  };
  const side = event === "acquire" || event === "commit" ? "fill" : "read";
  const open = side === "fill" ? place.filling : place.reading;
  if (event === "acquire" || event === "wait") {
    if (chunk <= place.highest[side]) broken(`comes to ${event} ${name} behind chunk ${place.highest[side]}`);
    place.highest[side] = chunk;
    open.add(chunk);
    place.last = chunk;
    return;
  }
  if (!open.delete(chunk))
    broken(`${event}s ${name}, which it did not ${event === "commit" ? "acquire" : "wait for"}`);
  // Where chunks are carried on, whoever has nothing to change lets one go by.
  if (event === "release" && !place.seen.delete(chunk) && !ring.carried)
    broken(`releases ${name} without having read it`);
  if (event === "release" && ring.lap !== null) place.kept = chunk;
}

/** Slots are filled between acquire and commit, and read between wait and release. */
export function within(thread: Thread, ring: KernelRing, chunk: number, what: "fill" | "read"): void {
  const place = thread.places.get(ring.name);
  const open = what === "fill" ? place?.filling : place?.reading;
  if (open?.has(chunk) !== true && !(what === "read" && place?.kept === chunk))
    throw new Broken(
      "order",
      thread.label,
      `${what}s ${chunkName(chunk, ring)} outside ${what === "fill" ? "acquire and commit" : "wait and release"}`,
      "each chunk once, in order: acquire, fill, commit; wait, read, release",
    );
  if (what === "read") place?.seen.add(chunk);
}

export function fence(thread: Thread, what: FenceName): void {
  switch (what) {
    case "registers":
      thread.ordered = true;
      return;
    case "tensor after":
      thread.fencedAfter = true;
      return;
    case "tensor before":
      thread.unfenced = false;
      return;
    case "async":
      thread.unproxied = false;
      for (const shown of thread.unshown.splice(0))
        shown.push({ entry: thread.index, reached: thread.clock[thread.index] ?? 0 });
      thread.proxied = true;
      thread.loading.clear();
      fenceStaged(thread);
      return;
    case "cta":
      thread.loading.clear();
      return;
    case "init":
  }
}

/** Products go to a slot of sums in tensor memory, for the work tile of `chunk`: the first overwrite what lies there, the others add. */
export function columnsUse(thread: Thread, tile: string, chunk: number, keeps: boolean): void {
  const first = thread.multiplied.get(tile) !== chunk;
  if (first && keeps) addsToStale(thread, tile, thread.multiplied.has(tile));
  if (!first && !keeps) overwritesUnread(thread, tile);
  thread.multiplied.set(tile, chunk);
}

export function tensorUse(thread: Thread, what: string): void {
  if (!thread.fencedAfter)
    throw new Broken(
      "tensorFences",
      thread.label,
      `${what} without tcgen05.fence::after_thread_sync behind its last wait`,
      "fence between the wait and tensor memory",
    );
  if (!thread.allocated)
    throw new Broken(
      "tensorMemory",
      thread.label,
      `${what} without tensor memory`,
      "allocate it before the roles begin",
    );
}

/** A role that ends has waited for its own loads and stores, and leaves no chunk open. */
export function openEnds(thread: Thread): void {
  for (const [name, { filling, reading }] of thread.places)
    for (const [open, verb] of [
      [filling, "commit"],
      [reading, "release"],
    ] as const)
      for (const chunk of open)
        throw new Broken(
          "order",
          thread.label,
          `ends without having ${verb === "commit" ? "committed" : "released"} chunk ${chunk} of %${name}`,
          `${verb} every chunk once`,
        );
  if (thread.loads.length > 0)
    throw new Broken(
      "tensorFences",
      thread.label,
      "ends while its loads from tensor memory are under way",
      "wait for the loads",
    );
  for (const [name, { stored, read }] of thread.staging)
    if (stored === null) unstored(thread, name);
    else if (!read)
      throw new Broken(
        "proxies",
        thread.label,
        `ends while a store may still read ${name}`,
        "wait until the stores have read before the block ends",
      );
}

/** Nothing of the role is under way that whoever waits for its arrival could meet. */
export function handOver(thread: Thread, ring: KernelRing, grouped: boolean, what: string): void {
  if (thread.loading.size > 0 && ring.bulk)
    throw new Broken(
      "proxies",
      thread.label,
      `gives back ${what} while its loads may be under way: an arrival does not wait for them, and a bulk copy writes past them`,
      "fence async (or cta, where nothing of it goes to the other proxy) before the arrival",
    );
  if (thread.apart && grouped)
    throw new Broken(
      "convergence",
      thread.label,
      `arrives for ${what} by one thread, and the others may still ${ring.computed ? "write" : "use"} it`,
      "warp.sync before the arrival",
    );
  if (thread.unfenced)
    throw new Broken(
      "tensorFences",
      thread.label,
      `arrives for ${what} without tcgen05.fence::before_thread_sync behind its loads from tensor memory`,
      "fence before the arrival",
    );
  if (thread.loads.length > 0)
    throw new Broken(
      "tensorFences",
      thread.label,
      `arrives for ${what} while its loads from tensor memory are under way`,
      "wait for the loads before the arrival",
    );
  if (thread.unproxied)
    throw new Broken(
      "proxies",
      thread.label,
      `gives back ${what}, whose slot it has read, without an async-proxy fence: the next answer may overtake the read`,
      "fence.proxy.async before the arrival",
    );
}

/** Threads load from a slot: until they have used what they loaded, or a fence ends it where nobody says what takes it. */
export function beginLoading({ loading }: Thread, into: Loaded | undefined): void {
  const { tile, from, to } = into ?? { tile: "", from: 0, to: 1 };
  const columns = Array.from({ length: to - from }, (_, i) => from + i);
  loading.set(tile, new Set([...(loading.get(tile) ?? []), ...columns]));
}

/** Registers are read: what was loaded into them is there. */
export function useLoaded(thread: Thread, loaded: readonly Loaded[]): void {
  for (const { tile, from, to } of loaded) {
    const left = [...(thread.loading.get(tile) ?? [])].filter((column) => column < from || column >= to);
    if (left.length > 0) thread.loading.set(tile, new Set(left));
    else thread.loading.delete(tile);
  }
  if (thread.loads.length > 0)
    throw new Broken(
      "tensorFences",
      thread.label,
      "uses registers while the loads into them are under way",
      "wait for the loads first",
    );
}
