/** Pipelines, mbarriers, named barriers and groups of asynchronous copies, from stage machine on. */
import { barrierName } from "../../sharedMemory.ts";
import type { BarrierRef, MachineStmt, Ring, SlotRange, TileProgram } from "../../types.ts";
import {
  advanceCells,
  arrivals,
  arrivalsFrom,
  Barriers,
  type PipelineCells,
  pipelineCells,
} from "../barriers.ts";
import type { CellTable } from "../compileExpr.ts";
import { InterpretFailure, interpretCodes } from "../failure.ts";
import { land } from "../rings.ts";
import { type Hooks, type Op, run, steps, type Thread } from "./threads.ts";

type SyncKind =
  | "pipeline"
  | "advance"
  | "hold"
  | "mbar.wait"
  | "mbar.drain"
  | "mbar.expect"
  | "mbar.arrive"
  | "mbar.init"
  | "tcgen05.commit"
  | "cp.async.commit"
  | "cp.async.wait";
/** Statements that other threads or asynchronous copies can see. */
export type SyncStmt = Extract<MachineStmt, { kind: SyncKind }>;

export class Synchronisation {
  readonly #program: TileProgram;
  readonly #table: CellTable;
  readonly #hooks: Pick<Hooks, "emptied">;
  #mbarriers: Barriers;
  /** Pipelines of the role being compiled. */
  readonly #pipelines = new Map<string, PipelineCells>();
  /** Slots of each declaration whose mbarriers nothing has initialised yet, where anything has been of them. */
  readonly #unready = new Map<string, ReadonlySet<number>>();
  /** Threads that have come to a named barrier. */
  readonly #named = new Map<number, number>();

  constructor(program: TileProgram, table: CellTable, hooks: Pick<Hooks, "emptied">) {
    this.#program = program;
    this.#table = table;
    this.#hooks = hooks;
    this.#mbarriers = new Barriers(program);
  }

  get barriers(): Barriers {
    return this.#mbarriers;
  }

  newBlock(): void {
    this.#mbarriers = new Barriers(this.#program);
    this.#named.clear();
  }

  /** Threads of two roles at a barrier: those that come to meet wait until all have come. */
  compileNamed(id: number, threads: number, arrives: boolean, at: string): Op {
    const come = (thread: Thread): number => {
      const before = this.#named.get(id) ?? 0;
      this.#named.set(id, before + thread.threads);
      return Math.floor(before / threads);
    };
    if (arrives) return run(come);
    const named = this.#named;
    return steps(function* (thread) {
      const generation = come(thread);
      const ready = (): boolean => (named.get(id) ?? 0) >= (generation + 1) * threads;
      if (!ready()) yield { ready, at, why: `barrier ${id}` };
    });
  }

  compile(stmt: SyncStmt, at: string): Op {
    const ringOf = (name: string): Ring => {
      const ring = this.#program.rings.find((r) => r.name === name);
      if (ring === undefined) throw new RangeError(`unresolved ring %${name}`);
      return ring;
    };
    switch (stmt.kind) {
      case "pipeline": {
        const own = pipelineCells(this.#table, ringOf(stmt.of), stmt.name);
        this.#pipelines.set(stmt.name, own);
        return run(({ cells }) => {
          cells[own.place] = stmt.stage;
          cells[own.parity] = stmt.phase;
        });
      }
      case "advance": {
        const own = this.#pipeline(stmt.pipeline);
        return run(({ cells }) => advanceCells(cells, own, stmt.by));
      }
      case "hold": {
        const from = this.#pipeline(stmt.pipeline);
        const own = pipelineCells(this.#table, from.ring, stmt.name);
        this.#pipelines.set(stmt.name, own);
        return run(({ cells }) => {
          cells[own.place] = cells[from.place] ?? 0;
          cells[own.parity] = cells[from.parity] ?? 0;
        });
      }
      case "mbar.wait": {
        const { barrier } = stmt;
        const own = this.#pipeline(barrier.pipeline);
        const passed = this.#passed(barrier, own);
        const emptied = barrier.edge === "empty" ? this.#hooks.emptied?.(own.ring) : undefined;
        const initialised = this.#initialised(barrier, at);
        return steps(function* (thread) {
          initialised();
          const ready = (): boolean => passed(thread);
          if (!ready()) yield { ready, at, why: `the wait for %${barrier.ring}.${barrier.edge}` };
          emptied?.(thread.cells[own.place] ?? 0);
        });
      }
      case "mbar.drain": {
        const { barrier } = stmt;
        const own = this.#pipeline(barrier.pipeline);
        const initialised = this.#initialised(barrier, at);
        const passed = this.#passed(barrier, own);
        return steps(function* (thread) {
          initialised();
          const ready = (): boolean => passed(thread);
          for (let i = 0; i < own.ring.slots; i++) {
            if (!ready()) yield { ready, at, why: `the wait for all of %${barrier.ring}.${barrier.edge}` };
            advanceCells(thread.cells, own, 1);
          }
        });
      }
      case "mbar.expect":
        return this.#arrival(stmt.barrier, () => 1, at);
      case "tcgen05.commit":
        return this.#arrival(
          stmt.barrier,
          ({ leader }) => arrivalsFrom(this.#program.launch, stmt.to, leader),
          at,
        );
      case "mbar.arrive":
        return this.#arrival(
          stmt.barrier,
          ({ threads, leader }) =>
            arrivals(threads, stmt.by) * arrivalsFrom(this.#program.launch, stmt.to, leader),
          at,
        );
      case "cp.async.commit":
        return run(({ groups }) => {
          groups.closed.push({ ring: "", chunk: 0, flights: groups.open });
          groups.open = [];
        });
      case "cp.async.wait":
        return run(({ groups }) => {
          for (const { flights } of groups.closed.splice(0, Math.max(0, groups.closed.length - stmt.pending)))
            land(flights);
        });
      case "mbar.init":
        return run(() => this.#initialise(stmt.barriers, stmt.slots));
    }
  }

  #initialise(name: string, range: SlotRange | undefined): void {
    const { slots = 1 } = this.#program.machine?.barriers.find((one) => one.name === name) ?? {};
    const { from, to } = range ?? { from: 0, to: slots };
    const left = this.#unready.get(name) ?? new Set(Array.from({ length: slots }, (_, slot) => slot));
    this.#unready.set(name, new Set([...left].filter((slot) => slot < from || slot >= to)));
  }

  /** Throws where a barrier is used that nothing has initialised; of programs without declarations nothing is known of that. */
  #initialised({ ring, edge }: BarrierRef, at: string): () => void {
    const name = barrierName(ring, edge);
    if (this.#program.machine === undefined) return () => {};
    return () => {
      if (this.#unready.get(name)?.size !== 0)
        throw new InterpretFailure(
          interpretCodes.protocol,
          at,
          `%${name} is used, and nothing has initialised it`,
          `mbar.init %${name} before the roles`,
        );
    };
  }

  /** Whether the phase is over in which a thread's pipeline stands. */
  #passed(barrier: BarrierRef, { place, parity }: PipelineCells): (thread: Thread) => boolean {
    return ({ cells }) => this.#mbarriers.passed(barrier, cells[place] ?? 0, cells[parity] ?? 0);
  }

  #arrival(barrier: BarrierRef, count: (thread: Thread) => number, at: string): Op {
    const own = this.#pipeline(barrier.pipeline);
    const initialised = this.#initialised(barrier, at);
    return run((thread) => {
      initialised();
      this.#mbarriers.arrive(barrier, thread.cells[own.place] ?? 0, count(thread), at);
    });
  }

  #pipeline(name: string): PipelineCells {
    const own = this.#pipelines.get(name);
    if (own === undefined)
      throw new InterpretFailure(
        interpretCodes.protocol,
        `%${name}`,
        `%${name} is used before it is declared`,
        "declare pipelines where the role begins",
      );
    return own;
  }
}
