/** The ring protocol and barriers, by running the control flow of a block without its data. */
import { type CellTable, compileCond, compileExpr } from "../interpret/compileExpr.ts";
import { Control, type DataStmt, type Hooks, type Thread } from "../interpret/control.ts";
import { InterpretFailure } from "../interpret/failure.ts";
import { type Consumers, RingState } from "../interpret/rings.ts";
import { consumersOf, ringsByBuffer } from "../interpret/ringUse.ts";
import { isPersistentStreamK, partialTileProgram, streamKOf, withStreamK } from "../streamK.ts";
import type { Ring, Stmt, TileProgram, View } from "../types.ts";
import { readsOf } from "./bounds.ts";
import { chunkCount, withChunkCount } from "./chunks.ts";
import {
  bufferAt,
  type Fault,
  MOST_ITERATIONS,
  type Site,
  type Subject,
  subjectOf,
  type Verifier,
} from "./verifier.ts";

/** Chunks beyond which a longer loop repeats: the ring's state depends on the last `slots` chunks only; and some to spare. */
const longest = (slots: number): number => 2 * slots + 8;

export const ringProtocol: Verifier = {
  name: "ringProtocol",
  code: "TW3117",
  property:
    "chunks are acquired, committed, waited for and released in order, each once; slots are read and written only in between; implied edges are ordered by a barrier; nothing deadlocks or stays in flight",
  from: "pipelined",
  waivable: true,
  until: "bound",
  *check(subject) {
    if (subject.program.rings.length === 0) return;
    yield* dryRun(subject, "rings");
  },
};

export const sharedBarriers: Verifier = {
  name: "sharedBarriers",
  code: "TW3121",
  property: "between a write and a read of a shared tile outside rings stands a barrier",
  from: "specialised",
  waivable: true,
  until: "bound",
  *check(subject) {
    const managed = ringsByBuffer(subject.program);
    if (subject.program.buffers.some((b) => b.space === "shared" && !managed.has(b.name)))
      yield* dryRun(subject, "barriers");
  },
};

export const blockBarriers: Verifier = {
  name: "blockBarriers",
  code: "TW3138",
  property:
    "of rings whose block meets at barriers: between a write and a read of a slot stands a barrier, and what is copied asynchronously has been waited for before it",
  from: "machine",
  waivable: true,
  given: true,
  *check(subject) {
    const { rings } = subject.program;
    if (rings.length > 0 && rings.every(({ full }) => full?.kind !== "mbarrier"))
      yield* dryRun(subject, "barriers");
  },
};

/** Tiles whose slots a ring orders: all that are in one; from machine on, where a ring is what its statements say, those with mbarriers between roles. */
function managedBuffers(program: TileProgram): ReadonlyMap<string, string> {
  const all = ringsByBuffer(program);
  if (program.stage !== "machine") return all;
  const counted = new Set(
    program.rings.flatMap(({ name, full }) => (full?.kind === "mbarrier" ? [name] : [])),
  );
  return new Map([...all].filter(([, ring]) => counted.has(ring)));
}

type Check = "rings" | "barriers";

/** A fault whose place is the index of a site. */
type IndexedFault = Omit<Fault, "at"> & { readonly at: number | string };

const siteAt = (subject: Subject, index: number): Fault["at"] => subject.sites[index] ?? "body";

function* dryRun(given: Subject, what: Check): Iterable<Fault> {
  const share = streamKOf(given.program);
  const most = longest(Math.max(1, ...given.program.rings.map((ring) => ring.slots)));
  // Roles carry rings from part to part: parts of all lengths, after each other.
  if (isPersistentStreamK(given.program)) {
    const fault = new DryRun(subjectOf(sharedOut(given.program, most), null), what).run();
    if (fault !== null)
      yield { ...fault, at: typeof fault.at === "number" ? siteAt(given, fault.at) : fault.at };
    return;
  }
  // Elsewhere parts are blocks of their own to a ring: of several lengths, those up to the tile's.
  if (share !== null) {
    for (let count = 1; count <= Math.min(share.chunks, most); count++) {
      const part = subjectOf(partialTileProgram(given.program, count), null);
      for (const fault of dryRun(part, what)) {
        const index = part.sites.indexOf(fault.at as Site);
        yield {
          ...fault,
          at: index < 0 ? fault.at : siteAt(given, index),
          message: `in a part of ${count} chunks: ${fault.message}`,
        };
        return;
      }
    }
    return;
  }
  const subject = given;
  const { program } = subject;
  const count = chunkCount(program);
  const short = count !== null && count > most ? withChunkCount(program, most) : null;
  const fault = new DryRun(short === null ? subject : subjectOf(short, null), what).run();
  // The shorter program has the same statements in the same places.
  if (fault !== null)
    yield { ...fault, at: typeof fault.at === "number" ? siteAt(subject, fault.at) : fault.at };
}

/**
 * The first fault of the protocol when the program has `count` K chunks instead of its own number; null when there is none,
 * or when the program does not say its number of chunks in a form that can be replaced.
 */
export function protocolFault(subject: Subject, count: number): Fault | null {
  const other = withChunks(subject.program, count);
  if (other === null) return null;
  const fault = new DryRun(subjectOf(other, null), "rings").run();
  if (fault === null) return null;
  return { ...fault, at: typeof fault.at === "number" ? siteAt(subject, fault.at) : fault.at };
}

function withChunks(program: TileProgram, count: number): TileProgram | null {
  if (streamKOf(program) === null) return withChunkCount(program, count);
  if (!isPersistentStreamK(program)) return partialTileProgram(program, count);
  return count === 0 ? null : sharedOut(program, count);
}

/** As many tiles as they have chunks, in shares of one chunk less: the parts have every length up to a tile's. */
const sharedOut = (program: TileProgram, chunks: number): TileProgram =>
  withStreamK(program, { chunks, each: Math.max(1, chunks - 1), tiles: chunks });

interface Access {
  readonly thread: string;
  written: number;
  read: number;
  /** Asynchronous copies into it that have not been waited for. */
  flying: number;
}

class DryRun implements Hooks {
  readonly tiles = "ends";
  readonly turns = MOST_ITERATIONS;
  readonly #subject: Subject;
  readonly #what: Check;
  readonly #indices: ReadonlyMap<Stmt, number>;
  readonly #ringOfBuffer: ReadonlyMap<string, string>;
  readonly #consumers: ReadonlyMap<string, Consumers>;
  readonly #control: Control;
  #accesses = new Map<string, Access>();

  constructor(subject: Subject, what: Check) {
    const { program } = subject;
    this.#subject = subject;
    this.#what = what;
    this.#indices = new Map(subject.sites.map((site, i) => [site.stmt, i]));
    this.#ringOfBuffer = managedBuffers(program);
    this.#consumers = new Map(program.rings.map((r) => [r.name, consumersOf(program, r.name)]));
    this.#control = new Control(program, this);
  }

  run(): IndexedFault | null {
    try {
      this.#control.run();
      return null;
    } catch (failure) {
      if (!(failure instanceof InterpretFailure)) throw failure;
      const { at, message, hint = "" } = failure.diagnostic;
      const index = /^#(\d+)$/.exec(at)?.[1];
      return { at: index === undefined ? at : Number(index), message, hint };
    }
  }

  at(stmt: Stmt): string {
    return `#${this.#indices.get(stmt) ?? 0}`;
  }

  pick(): number {
    return 0;
  }

  zero(): () => void {
    return () => {};
  }

  newBlock(): void {
    this.#accesses = new Map();
  }

  combine(): () => readonly (() => void)[] {
    return () => [() => {}];
  }

  ring(ring: Ring): RingState {
    return new RingState(ring, [], this.#consumers.get(ring.name) ?? { names: [], turns: false });
  }

  data(stmt: DataStmt, table: CellTable, at: string): ((thread: Thread) => void) | null {
    const writes = stmt.kind === "copy" || stmt.kind === "fill" ? [stmt.dst] : [];
    const checks = [
      ...writes.flatMap((view) => this.#check(view, "write", table, at) ?? []),
      ...readsOf(stmt).flatMap((view) => this.#check(view, "read", table, at) ?? []),
    ];
    const flies =
      this.#what === "rings" &&
      stmt.kind === "copy" &&
      stmt.transport !== "direct" &&
      this.#ringOfBuffer.has(stmt.dst.buffer);
    if (checks.length === 0) return null;
    const later =
      this.#what === "barriers" && stmt.kind === "copy" && stmt.transport === "cp.async"
        ? this.#landing(stmt.dst, table)
        : null;
    const when = stmt.kind === "copy" && stmt.when !== null ? compileCond(stmt.when, table) : null;
    return (thread) => {
      if (when !== null && !when(thread.cells)) return;
      for (const check of checks) check(thread);
      if (flies) thread.groups.open.push({ land: () => {}, landed: false });
      later?.(thread);
    };
  }

  #check(
    view: View,
    kind: "read" | "write",
    table: CellTable,
    at: string,
  ): ((thread: Thread) => void) | null {
    const ring = this.#ringOfBuffer.get(view.buffer);
    if (ring !== undefined) {
      if (this.#what !== "rings") return null;
      const slot = compileExpr(view.slot, table);
      return (thread) => {
        const state = this.#control.rings.get(ring);
        if (kind === "write") state?.checkWrite(slot(thread.cells), at);
        else state?.checkRead(slot(thread.cells), thread.name, at);
      };
    }
    if (this.#what !== "barriers" || bufferAt(this.#subject, view.buffer).space !== "shared") return null;
    const slot = compileExpr(view.slot, table);
    return (thread) => this.#access(view.buffer, slot(thread.cells), kind, thread, at);
  }

  /** A copy by cp.async writes when its group is waited for. */
  #landing(view: View, table: CellTable): ((thread: Thread) => void) | null {
    if (this.#ringOfBuffer.has(view.buffer)) return null;
    const slot = compileExpr(view.slot, table);
    return (thread) => {
      const access = this.#accesses.get(`${view.buffer} ${slot(thread.cells)}`);
      if (access === undefined) return;
      access.flying++;
      const land = (): void => {
        access.flying--;
        access.written = thread.epoch;
      };
      thread.groups.open.push({ land, landed: false });
    };
  }

  /** Accesses by different roles are ordered by more than barriers of one role; they are not judged here. */
  #access(buffer: string, slot: number, kind: "read" | "write", thread: Thread, at: string): void {
    const key = `${buffer} ${slot}`;
    const access = this.#accesses.get(key) ?? { thread: thread.name, written: -1, read: -1, flying: 0 };
    this.#accesses.set(key, access);
    if (access.thread !== thread.name) return;
    if (kind === "read" && access.flying > 0)
      throw new InterpretFailure(
        blockBarriers.code,
        at,
        `%${buffer} is read while copies into it are under way`,
        "commit the group of copies, and wait for it first",
      );
    // Two writes are not judged: they may fill different parts of the tile.
    if ((kind === "read" ? access.written : access.read) === thread.epoch)
      throw new InterpretFailure(
        sharedBarriers.code,
        at,
        kind === "read"
          ? `%${buffer} is read after it was written without a barrier in between`
          : `%${buffer} is written after it was read without a barrier in between`,
        "write barrier 0 between them, or manage the tile with a ring",
      );
    if (kind === "write") access.written = thread.epoch;
    else access.read = thread.epoch;
  }
}
