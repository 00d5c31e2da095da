/** A block's control flow without its data: who writes, reads and multiplies what, and whether barriers, groups and fences order it. */
import { type CellTable, compileCond, compileExpr } from "../interpret/compileExpr.ts";
import type { DataStmt, Hooks, OrderingStmt, Thread } from "../interpret/control/threads.ts";
import { Control } from "../interpret/control.ts";
import { InterpretFailure, interpretCodes } from "../interpret/failure.ts";
import { type Consumers, RingState } from "../interpret/rings.ts";
import { consumersOf, ringsByBuffer } from "../interpret/ringUse.ts";
import type { Of, Ring, Space, Stmt, TileProgram, View } from "../types.ts";
import { readsOf, viewsOf } from "../views.ts";
import { skipsIterations } from "../within.ts";
import { Broken } from "./proof/machine.ts";
import {
  accumulateSums,
  commitProducts,
  newSums,
  readSums,
  registersUse,
  summedColumns,
  waitForProducts,
  zeroSums,
} from "./proof/registerSums.ts";
import { bufferAt, type Fault, MOST_ITERATIONS, type Subject } from "./verifier.ts";

/** Tiles whose slots a ring orders: all that are in one; from machine on, where a ring is what its statements say, those with mbarriers between roles. */
function managedBuffers(program: TileProgram): ReadonlyMap<string, string> {
  const all = ringsByBuffer(program);
  if (program.stage !== "machine") return all;
  const counted = new Set(
    program.rings.flatMap(({ name, full }) => (full?.kind === "mbarrier" ? [name] : [])),
  );
  return new Map([...all].filter(([, ring]) => counted.has(ring)));
}

type Combine = Of<"reduce">;

/** What a run judges: the protocol of rings, or accesses to what no ring orders. */
export type Check = "rings" | "barriers";

/** A fault whose place is the index of a site. */
type IndexedFault = Omit<Fault, "at"> & { readonly at: number | string };

interface Access {
  readonly thread: string;
  written: number;
  read: number;
  /** Asynchronous copies into it, and products that read it, that have not been waited for. */
  flying: number;
  multiplied: number;
  /** The async proxy sees what threads have written: fences of those who write it, before they meet, or of those who multiply, behind. */
  fenced: boolean;
}

export class DryRun implements Hooks {
  readonly tiles = "ends";
  readonly turns = MOST_ITERATIONS;
  readonly #subject: Subject;
  readonly #what: Check;
  readonly #indices: ReadonlyMap<Stmt, number>;
  readonly #ringOfBuffer: ReadonlyMap<string, string>;
  readonly #consumers: ReadonlyMap<string, Consumers>;
  readonly #control: Control;
  #accesses = new Map<string, Access>();
  #sums = newSums("");
  /** An epilogue has put D where the rings are. */
  #overlaid = false;

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
    this.#sums = newSums("");
    this.#overlaid = false;
  }

  combine({ acc }: Combine, _last: unknown, _table: CellTable, at: string): () => readonly (() => void)[] {
    return () => {
      proved(at, () => readSums(this.#sums, acc.buffer, null));
      return [() => {}];
    };
  }

  ordering(stmt: OrderingStmt, at: string): (thread: Thread) => void {
    return (thread) => {
      switch (stmt.kind) {
        case "fence":
          if (stmt.what === "async") for (const access of this.#accesses.values()) access.fenced = true;
          return;
        case "wgmma.fence":
          this.#sums.ordered = true;
          return;
        case "wgmma.commit":
          commitProducts(this.#sums);
          return;
        case "pin":
          proved(at, () => readSums(this.#sums, stmt.tile, null));
          return;
        case "wgmma.wait":
          proved(at, () => waitForProducts(this.#sums, stmt.pending, thread.epoch));
      }
    };
  }

  ring(ring: Ring): RingState {
    const consumers = this.#consumers.get(ring.name) ?? { names: [], turns: false };
    return new RingState(ring, [], consumers, skipsIterations(this.#subject.program));
  }

  data(stmt: DataStmt, table: CellTable, at: string): ((thread: Thread) => void) | null {
    const writes =
      stmt.kind === "copy" || stmt.kind === "fill" || stmt.kind === "map"
        ? [stmt.dst]
        : stmt.kind === "mma" && this.#ringOfBuffer.has(stmt.acc.buffer)
          ? [stmt.acc]
          : [];
    const checks = [
      ...writes.flatMap((view) => this.#check(view, "write", table, at) ?? []),
      ...readsOf(stmt).flatMap((view) => this.#check(view, "read", table, at) ?? []),
    ];
    const flies =
      this.#what === "rings" &&
      stmt.kind === "copy" &&
      stmt.transport !== "direct" &&
      this.#subject.program.rings.some(
        ({ buffers, carried }) => buffers.includes(stmt.dst.buffer) && carried !== true,
      );
    const issues = this.#what === "barriers" && this.#subject.program.stage === "machine";
    const sums = issues ? this.#registers(stmt, table, at) : null;
    // Warps that have parts of a row meet.
    if (stmt.kind === "reduce.row" && stmt.via !== null)
      return (thread) => {
        for (const check of checks) check(thread);
        sums?.(thread);
        thread.epoch++;
      };
    if (checks.length === 0) return sums;
    const later =
      this.#what === "barriers" && stmt.kind === "copy" && stmt.transport === "cp.async"
        ? this.#landing(stmt.dst, table, at)
        : null;
    const when = stmt.kind === "copy" && stmt.when !== null ? compileCond(stmt.when, table) : null;
    return (thread) => {
      if (when !== null && !when(thread.cells)) return;
      for (const check of checks) check(thread);
      sums?.(thread);
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
        if (kind === "write") state?.checkWrite(slot(thread.cells), thread.name, at);
        else state?.checkRead(slot(thread.cells), thread.name, at);
      };
    }
    if (this.#what !== "barriers" || bufferAt(this.#subject, view.buffer).space !== "shared") return null;
    const slot = compileExpr(view.slot, table);
    return (thread) => this.#access(view.buffer, slot(thread.cells), kind, thread, at);
  }

  /** What a statement does with sums in registers, into which warpgroups multiply from shared memory while their threads go on. */
  #registers(stmt: DataStmt, table: CellTable, at: string): ((thread: Thread) => void) | null {
    const space = ({ buffer }: View): Space => bufferAt(this.#subject, buffer).space;
    switch (stmt.kind) {
      case "copy":
        return null;
      case "accumulate": {
        const columns = summedColumns(this.#subject.program, stmt);
        return () => proved(at, () => accumulateSums(this.#sums, stmt.acc.buffer, stmt.sum.buffer, columns));
      }
      case "fill": {
        const { buffer } = stmt.dst;
        return () => proved(at, () => zeroSums(this.#sums, buffer, stmt.once === true));
      }
      case "map":
      case "reduce.row": {
        const tiles = new Set(viewsOf(stmt).map(({ buffer }) => buffer));
        return () =>
          proved(at, () => {
            for (const tile of tiles) readSums(this.#sums, tile, null);
            // What a map makes of sums more products may be added to.
            if (stmt.kind === "map" && this.#sums.tiles.has(stmt.dst.buffer))
              this.#sums.tiles.set(stmt.dst.buffer, "zeros");
          });
      }
      case "epilogue": {
        const overlays = stmt.via !== null && bufferAt(this.#subject, stmt.via.buffer).aliased === true;
        return () => {
          proved(at, () => readSums(this.#sums, stmt.acc.buffer, stmt.columns ?? null));
          this.#overlaid ||= overlays;
        };
      }
      case "mma": {
        const shared = readsOf(stmt).filter((view) => space(view) === "shared");
        if (shared.length === 0 || space(stmt.acc) !== "register") return null;
        const slots = shared.map((view) => ({ ...view, number: compileExpr(view.slot, table) }));
        return (thread) =>
          proved(at, () =>
            this.#multiply(
              stmt,
              slots.map(({ buffer, number }) => slotKey(buffer, number(thread.cells))),
            ),
          );
      }
    }
  }

  #multiply({ acc, a, columns, keep }: Of<"mma">, slots: readonly string[]): void {
    const sums = this.#sums;
    registersUse(sums, acc.buffer, keep ? null : keep !== false, columns ?? null);
    for (const slot of slots) {
      const access = this.#accesses.get(slot);
      if (access === undefined) continue;
      if (access.written >= 0 && !access.fenced)
        throw new Broken(
          "proxies",
          slot,
          `multiplies from %${slot}, which threads have written, without an async-proxy fence behind that`,
          "fence async between the copies and the products",
        );
      access.multiplied++;
      const end = (epoch: number): void => {
        access.multiplied--;
        access.read = epoch;
      };
      sums.running.push({
        group: sums.products + 1,
        tiles: [acc.buffer, a.buffer],
        columns: columns ?? null,
        end,
      });
    }
  }

  /** A copy by cp.async writes when its group is waited for. */
  #landing(view: View, table: CellTable, at: string): ((thread: Thread) => void) | null {
    if (this.#ringOfBuffer.has(view.buffer)) return null;
    const slot = compileExpr(view.slot, table);
    return (thread) => {
      const access = this.#accesses.get(slotKey(view.buffer, slot(thread.cells)));
      if (access === undefined) return;
      access.flying++;
      const land = (): void => {
        access.flying--;
        access.written = thread.epoch;
      };
      thread.groups.open.push({ land, at, landed: false });
    };
  }

  /** Accesses by different roles are ordered by more than barriers of one role; they are not judged here. */
  #access(buffer: string, slot: number, kind: "read" | "write", thread: Thread, at: string): void {
    const key = slotKey(buffer, slot);
    const access = this.#accesses.get(key) ?? {
      thread: thread.name,
      written: -1,
      read: -1,
      flying: 0,
      multiplied: 0,
      fenced: false,
    };
    this.#accesses.set(key, access);
    if (access.thread !== thread.name) return;
    if (this.#overlaid && bufferAt(this.#subject, buffer).aliased !== true)
      throw new InterpretFailure(
        interpretCodes.protocol,
        at,
        `%${buffer} is used behind an epilogue whose tile lies in its place`,
        "put the epilogue behind all copies and products",
      );
    if (kind === "read" && access.flying > 0)
      throw new InterpretFailure(
        interpretCodes.protocol,
        at,
        `%${buffer} is read while copies into it are under way`,
        "commit the group of copies, and wait for it first",
      );
    if (kind === "write" && access.multiplied > 0)
      throw new InterpretFailure(
        interpretCodes.protocol,
        at,
        `%${buffer} is written while products that read it are under way`,
        "commit the group of products, and wait for it first (wgmma.wait)",
      );
    // Two writes are not judged: they may fill different parts of the tile.
    if ((kind === "read" ? access.written : access.read) === thread.epoch)
      throw new InterpretFailure(
        interpretCodes.protocol,
        at,
        kind === "read"
          ? `%${buffer} is read after it was written without a barrier in between`
          : `%${buffer} is written after it was read without a barrier in between`,
        "write barrier 0 between them, or manage the tile with a ring",
      );
    if (kind === "read") access.read = thread.epoch;
    else {
      access.written = thread.epoch;
      access.fenced = false;
    }
  }
}

const slotKey = (buffer: string, slot: number): string => (slot === 0 ? buffer : `${buffer}[${slot}]`);

/** A rule of the proof, asked at a statement of a block without roles. */
function proved(at: string, rule: () => void): void {
  try {
    rule();
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    throw new InterpretFailure(interpretCodes.protocol, at, error.finding.message, error.finding.hint);
  }
}
