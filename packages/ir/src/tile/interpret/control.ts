/**
 * Control flow of a program: loops, conditions, tiles, roles as coroutines, ring events. What data statements do is given
 * as hooks, so that the interpreter and the protocol verifier run one and the same control flow.
 */
import { withSum } from "../dsmemReduction.ts";
import { answering } from "../pingPong.ts";
import { boundaryOf, childrenOf } from "../rewrite.ts";
import { barrierName } from "../sharedMemory.ts";
import type {
  BarrierRef,
  Boundary,
  MachineStmt,
  ReductionKind,
  ReductionStmt,
  Ring,
  SlotRange,
  Stmt,
  TileProgram,
} from "../types.ts";
import {
  advanceCells,
  arrivals,
  arrivalsFrom,
  Barriers,
  type PipelineCells,
  pipelineCells,
} from "./barriers.ts";
import { type Cells, CellTable, compileCond, compileExpr } from "./compileExpr.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import { type Groups, land, newGroups, type RingState } from "./rings.ts";
import { partialTilesOfBlocks, type TileChoice, workTilesOf } from "./workTiles.ts";

/** A role, or the whole block outside roles. */
export interface Thread {
  readonly name: string;
  readonly cells: Cells;
  readonly groups: Groups;
  /** Threads of the block that it stands for; of leading blocks only, where a role is theirs. */
  readonly threads: number;
  readonly leader: "pair" | "cluster" | null;
  /** Barriers passed: what happened in different epochs is ordered for all threads of the role. */
  epoch: number;
  /** What `next` has read in this turn of a loop over tiles: the number of the visit that follows, null for the end. */
  following?: number | null | undefined;
  /** It has left the `reduce` around. */
  left?: boolean;
}

/** Where a thread stands still; it goes on when `ready` says so. */
interface Blocked {
  readonly ready: () => boolean;
  readonly at: string;
  readonly why: string;
}

type Steps = Generator<Blocked, void, void>;

/** A compiled statement: `run` never blocks, `steps` may. */
export type Op =
  | { readonly kind: "run"; readonly run: (thread: Thread) => void }
  | { readonly kind: "steps"; readonly steps: (thread: Thread) => Steps };

/** Statements that touch data. */
export type DataStmt = Extract<
  Stmt,
  { kind: "fill" | "copy" | "mma" | "accumulate" | "epilogue" | "map" | "reduce.row" }
>;
type Machine = Exclude<
  MachineStmt,
  ReductionStmt | { kind: "prologue" | "leader" | "only" | "response" | "boundary" | "accumulate" }
>;
type Combine = Extract<Stmt, { kind: "reduce" }>;
/** Statements of a reduction that are no blocks. */
export type ReductionStep = Exclude<ReductionStmt, { kind: "reduction" | "slices" }>;
type RingStmt = Extract<Stmt, { kind: "acquire" | "commit" | "wait" | "release" }>;
type TileStmt = Extract<Stmt, { kind: "request" | "next" }>;
type Role = Extract<Stmt, { kind: "role" }>;
type Epilogue = Extract<Stmt, { kind: "epilogue" }>;
export type OrderingStmt = Extract<
  Stmt,
  { kind: "fence" | "wgmma.fence" | "wgmma.commit" | "wgmma.wait" | "pin" }
>;
export type StagingStmt = Extract<Stmt, { kind: "stage" | "bulk.store" | "warp.store" }>;

export interface Hooks {
  /** What a data statement does; null: nothing that matters here. */
  data(stmt: DataStmt, table: CellTable, at: string): ((thread: Thread) => void) | null;
  /** Zeros for all of a tile. */
  zero(tile: string, table: CellTable, at: string): (thread: Thread) => void;
  /**
   * A thread hands in its part of a tile, in their order, `last` at the end; how it goes on with the sum: not at all, or once for each entry, which makes ready
   * for it. One thread stands for all blocks that go on.
   */
  combine(
    stmt: Combine,
    last: (thread: Thread) => boolean,
    table: CellTable,
    at: string,
  ): (thread: Thread) => readonly (() => void)[];
  /** What a statement of an epilogue through a shared tile does; absent: nothing, and the epilogue is done as a whole. */
  staged?(epilogue: Epilogue, stmt: StagingStmt, table: CellTable, at: string): (thread: Thread) => void;
  /** What a statement of a reduction does; absent: nothing, and `reduce` says who goes on. */
  reduction?(combine: Combine, stmt: ReductionStep, table: CellTable, at: string): (thread: Thread) => void;
  /** What a statement that only orders accesses does; absent: nothing. */
  ordering?(stmt: OrderingStmt, at: string): (thread: Thread) => void;
  /** State of a ring at the start of a block. */
  ring(ring: Ring): RingState;
  /** What a slot held is gone, when its producer may fill it again. */
  emptied?(ring: Ring): (place: number) => void;
  /** How a statement is named in faults. */
  at(stmt: Stmt): string;
  /** Shared memory and registers are fresh. */
  newBlock(): void;
  readonly tiles: TileChoice;
  /** Most turns of loops over which the run goes on. */
  readonly turns: number;
  /** Picks the next of `count` threads that can go on. */
  pick(count: number): number;
}

/** Name of the thread outside of roles. */
export const BLOCK = "block";

/** Ways to combine in which one CTA goes on, by the work tile's counter. */
const countsItself: ReadonlySet<ReductionKind> = new Set(["last", "atomics", "bulk"]);

const isReductionStep = (stmt: Machine | ReductionStep): stmt is ReductionStep =>
  /^(partial|counter|dsmem|bulk\.reduce)\b/.test(stmt.kind);

const run = (action: (thread: Thread) => void): Op => ({ kind: "run", run: action });
const steps = (action: (thread: Thread) => Steps): Op => ({ kind: "steps", steps: action });

export class Control {
  readonly #program: TileProgram;
  readonly #hooks: Hooks;
  readonly #table = new CellTable();
  readonly #ops: readonly Op[];
  #rings: ReadonlyMap<string, RingState> = new Map();
  #barriers: Barriers;
  /** Pipelines of the role being compiled. */
  readonly #pipelines = new Map<string, PipelineCells>();
  /** Slots of each declaration whose mbarriers nothing has initialised yet, where anything has been of them. */
  readonly #unready = new Map<string, ReadonlySet<number>>();
  /** Threads that have come to a named barrier. */
  readonly #named = new Map<number, number>();
  /** Whether a thread has the last part of its tile, of the tiles being compiled. */
  #lastPart: (thread: Thread) => boolean = () => true;
  /** The `reduce` being compiled. */
  #combine: Combine | null = null;
  /** The epilogue through a shared tile being compiled. */
  #epilogue: Epilogue | null = null;
  /** Turns of all loops so far. */
  #turns = 0;
  /** Visits of the loop over tiles being compiled. */
  #visits = 0;
  /** Answers by ring and chunk: the visit that follows, or null. */
  readonly #answers = new Map<string, Map<number, number | null>>();
  /** Answers that have been asked for, by ring. */
  readonly #asked = new Map<string, number>();

  constructor(program: TileProgram, hooks: Hooks) {
    this.#program = program;
    this.#hooks = hooks;
    this.#barriers = new Barriers(program);
    this.#ops = this.#compileList(program.body, false);
  }

  /** Rings of the running block; in the stage machine there are none, but barriers. */
  get rings(): ReadonlyMap<string, RingState> {
    return this.#rings;
  }

  get barriers(): Barriers {
    return this.#barriers;
  }

  run(): void {
    this.#newBlock();
    const thread = this.#thread(BLOCK);
    this.#schedule([thread], () => this.#ops);
    this.#endBlock([thread]);
  }

  #thread(name: string, parent?: Thread): Thread {
    const cells = parent?.cells.slice() ?? new Int32Array(this.#table.size);
    const { threads } = this.#program.launch;
    return { name, cells, groups: newGroups(), threads, leader: null, epoch: parent?.epoch ?? 0 };
  }

  #newBlock(): void {
    this.#hooks.newBlock();
    this.#answers.clear();
    this.#asked.clear();
    this.#barriers = new Barriers(this.#program);
    this.#named.clear();
    if (this.#program.stage !== "machine")
      this.#rings = new Map(this.#program.rings.map((ring) => [ring.name, this.#hooks.ring(ring)]));
  }

  #endBlock(threads: readonly Thread[]): void {
    for (const ring of this.#rings.values()) ring.checkEnd();
    this.#barriers.checkEnd();
    for (const { groups, name } of threads) {
      committed(groups, name);
      // Of a ring `checkEnd` judges that; from stage machine on its groups are the thread's.
      const left = groups.closed
        .flatMap(({ ring, flights }) => (ring === "" ? flights : []))
        .find(({ landed }) => !landed);
      if (left !== undefined)
        throw new InterpretFailure(
          interpretCodes.inFlight,
          left.at ?? name,
          "asynchronous copies are never waited for",
          "cp.async.wait behind their groups, or no copies there",
        );
    }
  }

  /** Run threads until all have ended. */
  #schedule(threads: readonly Thread[], opsOf: (thread: Thread) => readonly Op[]): void {
    const live = threads.map((thread) => ({
      thread,
      steps: this.#runList(opsOf(thread), thread),
      blocked: null as Blocked | null,
    }));
    while (live.length > 0) {
      const ready = live.filter((t) => t.blocked === null || t.blocked.ready());
      const next = ready[this.#hooks.pick(ready.length)];
      if (next === undefined)
        throw new InterpretFailure(
          interpretCodes.deadlock,
          live[0]?.blocked?.at ?? BLOCK,
          `deadlock: ${live.map((t) => `${t.thread.name} stands at ${t.blocked?.why ?? "?"}`).join("; ")}`,
          "commit what is waited for, release what is acquired again",
        );
      const result = next.steps.next();
      if (result.done === true) live.splice(live.indexOf(next), 1);
      else next.blocked = result.value;
    }
  }

  #turn(at: string): void {
    if (++this.#turns > this.#hooks.turns)
      throw new InterpretFailure(
        interpretCodes.tooLong,
        at,
        `loops take more than ${this.#hooks.turns} turns, which is more than is tried`,
        "fewer turns, or a bound that is the number of K chunks",
      );
  }

  *#runList(ops: readonly Op[], thread: Thread): Steps {
    for (const op of ops) {
      if (op.kind === "run") op.run(thread);
      else yield* op.steps(thread);
      if (thread.left === true) return;
    }
  }

  /** Neighbouring roles run at the same time; what follows them runs when all have ended. */
  #compileList(stmts: readonly Stmt[], inRole: boolean): readonly Op[] {
    const ops: Op[] = [];
    let roles: Role[] = [];
    const flush = (): void => {
      if (roles.length > 0) ops.push(this.#compileRoles(roles));
      roles = [];
    };
    for (const stmt of stmts) {
      if (stmt.kind === "role") roles.push(stmt);
      else {
        flush();
        const op = this.#compile(stmt, inRole);
        if (op !== null) ops.push(op);
      }
    }
    flush();
    return ops;
  }

  #compileRoles(roles: readonly Role[]): Op {
    const bodies = new Map(roles.map((role) => [role.name, this.#compileList(role.body, true)]));
    return run((parent) => {
      const threads = roles.map((role) => ({
        ...this.#thread(role.name, parent),
        threads: role.elected === true ? 1 : 32 * role.warps,
        leader: role.leader ?? null,
      }));
      this.#schedule(threads, (thread) => bodies.get(thread.name) ?? []);
      for (const { groups, name } of threads) committed(groups, `role ${name}`);
      parent.epoch = Math.max(parent.epoch, ...threads.map((t) => t.epoch));
    });
  }

  #compile(stmt: Exclude<Stmt, Role>, inRole: boolean): Op | null {
    const at = this.#hooks.at(stmt);
    switch (stmt.kind) {
      case "tiles":
        return this.#compileTiles(stmt, inRole);
      case "for": {
        const cell = this.#table.cell(stmt.var);
        const [from, to] = [compileExpr(stmt.from, this.#table), compileExpr(stmt.to, this.#table)];
        const body = this.#compileList(stmt.body, inRole);
        if (body.length === 0) return null;
        const runList = (thread: Thread) => this.#runList(body, thread);
        const turn = (): void => this.#turn(at);
        return steps(function* (thread) {
          const last = to(thread.cells);
          for (let i = from(thread.cells); i < last; i++) {
            turn();
            thread.cells[cell] = i;
            yield* runList(thread);
          }
        });
      }
      case "if": {
        const test = compileCond(stmt.cond, this.#table);
        const body = this.#compileList(childrenOf(stmt), inRole);
        const zeros = (stmt.zeros ?? []).map((name) => this.#hooks.zero(name, this.#table, at));
        if (body.length === 0 && zeros.length === 0) return null;
        const runList = (thread: Thread) => this.#runList(body, thread);
        return steps(function* (thread) {
          if (test(thread.cells)) yield* runList(thread);
          else for (const zero of zeros) zero(thread);
        });
      }
      case "reduce":
        return this.#compileCombine(stmt, inRole, at);
      case "fill":
      case "copy":
      case "mma":
      case "accumulate":
      case "map":
      case "reduce.row":
      case "epilogue": {
        if (stmt.kind === "epilogue" && stmt.body.length > 0 && this.#hooks.staged !== undefined)
          return this.#compileStaged(stmt, inRole);
        const action = this.#hooks.data(stmt, this.#table, at);
        if (action === null) return null;
        if (stmt.kind !== "fill" || stmt.once !== true || !inRole) return run(action);
        const filled = new WeakSet<Thread>();
        return run((thread) => {
          if (!filled.has(thread)) action(thread);
          filled.add(thread);
        });
      }
      case "acquire":
      case "commit":
      case "wait":
      case "release":
        return this.#compileRingEvent(stmt, at);
      case "request":
      case "next":
        return run(this.#compileTileEvent(stmt, at));
      case "barrier":
        if (stmt.threads !== undefined && stmt.groups === undefined)
          return this.#compileNamed(stmt.id, stmt.threads, stmt.arrive === true, at);
        // Threads of one role move together here, so there is nobody to wait for.
        return run((thread) => {
          thread.epoch++;
        });
      // The loop over work tiles does it where that begins, goes on and ends.
      case "boundary":
        return null;
      case "prologue":
      case "leader":
      case "only":
      case "response":
      case "slices": {
        const body = this.#compileList(stmt.body, inRole);
        const runList = (thread: Thread) => this.#runList(body, thread);
        return steps(runList);
      }
      case "reduction": {
        const test = stmt.unless === null ? null : compileCond(stmt.unless, this.#table);
        const body = this.#compileList(stmt.body, inRole);
        const runList = (thread: Thread) => this.#runList(body, thread);
        return steps(function* (thread) {
          if (test === null || !test(thread.cells)) yield* runList(thread);
        });
      }
      case "partial.reduce": {
        const handsIn = this.#combine && this.#hooks.reduction?.(this.#combine, stmt, this.#table, at);
        const body = this.#compileList(stmt.body, inRole);
        const runList = (thread: Thread) => this.#runList(body, thread);
        return steps(function* (thread) {
          handsIn?.(thread);
          yield* runList(thread);
        });
      }
      default:
        if (isReductionStep(stmt)) {
          const combine = this.#combine;
          if (combine === null || this.#hooks.reduction === undefined) return null;
          return run(this.#hooks.reduction(combine, stmt, this.#table, at));
        }
        return this.#compileMachine(stmt, at);
    }
  }

  #compileStaged(stmt: Epilogue, inRole: boolean): Op {
    this.#epilogue = stmt;
    const body = this.#compileList(stmt.body, inRole);
    this.#epilogue = null;
    return steps((thread) => this.#runList(body, thread));
  }

  /** In stage machine the statements of a reduction say who goes on, but where one thread stands for several: for CTAs with slices, and of a kernel behind. */
  #compileCombine(stmt: Combine, inRole: boolean, at: string): Op {
    this.#combine = stmt;
    const stated = stmt.body.some(({ kind }) => kind === "reduction") && this.#hooks.reduction !== undefined;
    const steppers = this.#compileList(
      stmt.body.filter(({ kind }) => kind === "reduction"),
      inRole,
    );
    const body = this.#compileList(withSum(stmt), inRole);
    this.#combine = null;
    const runList = (ops: readonly Op[], thread: Thread) => this.#runList(ops, thread);
    if (stated && countsItself.has(stmt.by))
      return steps(function* (thread) {
        thread.left = false;
        yield* runList([...steppers, ...body], thread);
        thread.left = false;
      });
    const meet = this.#hooks.combine(stmt, this.#lastPart, this.#table, at);
    return steps(function* (thread) {
      yield* runList(steppers, thread);
      for (const begin of meet(thread)) {
        begin();
        yield* runList(body, thread);
      }
    });
  }

  /** Threads of two roles at a barrier: those that come to meet wait until all have come. */
  #compileNamed(id: number, threads: number, arrives: boolean, at: string): Op {
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

  #compileMachine(stmt: Machine, at: string): Op | null {
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
        const passed = ({ cells }: Thread): boolean =>
          this.#barriers.passed(barrier, cells[own.place] ?? 0, cells[own.parity] ?? 0);
        const emptied = barrier.edge === "empty" ? this.#hooks.emptied?.(own.ring) : undefined;
        const initialised = this.#initialised(barrier, at);
        return steps(function* (thread) {
          initialised();
          const ready = (): boolean => passed(thread);
          if (!ready()) yield { ready, at, why: `the wait for %${barrier.ring}.${barrier.edge}` };
          emptied?.(thread.cells[own.place] ?? 0);
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
      case "stage":
      case "bulk.store":
      case "warp.store": {
        const epilogue = this.#epilogue;
        const staged = epilogue && this.#hooks.staged?.(epilogue, stmt, this.#table, at);
        return staged ? run(staged) : null;
      }
      case "mbar.init":
        return run(() => this.#initialise(stmt.barriers, stmt.slots));
      // Only the orders of threads, proxies and blocks are different with them, which the proof judges.
      case "fence":
      case "wgmma.fence":
      case "wgmma.commit":
      case "wgmma.wait":
      case "pin": {
        const ordered = this.#hooks.ordering?.(stmt, at);
        return ordered ? run(ordered) : null;
      }
      case "warp.sync":
      case "rename":
      case "tensormap.prefetch":
      case "prologue.at":
      case "cluster.arrive":
      case "cluster.wait":
      case "pdl.wait":
      case "pdl.launch":
      case "bulk.wait":
      case "bulk.commit":
      case "tmem.alloc":
      case "tmem.relinquish":
      case "tmem.base":
      case "tmem.dealloc":
        return null;
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

  #arrival(barrier: BarrierRef, count: (thread: Thread) => number, at: string): Op {
    const own = this.#pipeline(barrier.pipeline);
    const initialised = this.#initialised(barrier, at);
    return run((thread) => {
      initialised();
      this.#barriers.arrive(barrier, thread.cells[own.place] ?? 0, count(thread), at);
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

  /** Outside roles every tile is a block of its own; inside, one persistent block visits all. */
  #compileTiles(stmt: Extract<Stmt, { kind: "tiles" }>, inRole: boolean): Op {
    const [rowCell, colCell] = [this.#table.cell(stmt.vars[0]), this.#table.cell(stmt.vars[1])];
    const splitCell = stmt.split === null ? null : this.#table.cell(stmt.split.var);
    const visitCell = stmt.loop === null ? null : this.#table.cell(stmt.loop.var);
    const partsCell = stmt.loop?.tiles === undefined ? null : this.#table.cell(stmt.loop.tiles);
    const { turn, of } = stmt.loop ?? { turn: 0, of: 1 };
    const [, cols] = stmt.extents;
    const shareCells =
      stmt.streamK === undefined
        ? null
        : ([this.#table.cell(stmt.streamK.first), this.#table.cell(stmt.streamK.count)] as const);
    const splits = stmt.split?.extent ?? 1;
    const parts = partialTilesOfBlocks(stmt);
    const visits = workTilesOf(stmt, this.#program, this.#hooks.tiles);
    const { chunks } = stmt.streamK ?? { chunks: 0 };
    this.#lastPart = ({ cells }) => {
      if (splitCell !== null) return cells[splitCell] === splits - 1;
      if (shareCells !== null) return (cells[shareCells[0]] ?? 0) + (cells[shareCells[1]] ?? 0) === chunks;
      return true;
    };
    this.#visits = visits.length;
    const body = this.#compileList(stmt.body, inRole);
    // At visits of ping-pong roles with this one.
    const response = stmt.body.filter(({ kind }) => kind === "response");
    const others = this.#compileList(response.length > 0 ? response : answering(stmt), inRole);
    const runOthers = (thread: Thread): Steps => this.#runList(others, thread);
    const visit = (thread: Thread, index: number): Steps => {
      // The blocks of one tile follow each other, so that the last of them is the one that goes on after a combine.
      const part = parts?.[index];
      const tile = part?.tile ?? Math.floor(index / splits);
      if (part !== undefined && shareCells !== null) {
        thread.cells[shareCells[0]] = part.first;
        thread.cells[shareCells[1]] = part.count;
      }
      thread.cells[rowCell] = Math.floor(tile / cols);
      thread.cells[colCell] = tile % cols;
      if (splitCell !== null) thread.cells[splitCell] = index % splits;
      thread.following = undefined;
      return this.#runList(body, thread);
    };
    // One block visits all parts here, so that the chunks before are those along the line.
    const chunksBefore = (index: number): number => {
      const part = parts?.[index];
      return part === undefined ? 0 : part.tile * chunks + part.first;
    };
    const runAt = (at: Boundary): ((thread: Thread) => Steps) => {
      const ops = this.#compileList(boundaryOf(stmt, at), inRole);
      return (thread) => this.#runList(ops, thread);
    };
    const [first, between, last] = [runAt("first"), runAt("between"), runAt("last")];
    // From stage machine on a CTA does its parts one after the other.
    const goesOn = (index: number): boolean =>
      this.#program.stage === "machine" && !inRole && index > 0 && parts !== null
        ? parts[index]?.cta === parts[index - 1]?.cta
        : false;
    const begin = (thread: Thread): void => {
      if (inRole) return;
      this.#newBlock();
      thread.groups.open = [];
      thread.groups.closed.length = 0;
    };
    const end = (thread: Thread): void => {
      if (!inRole) this.#endBlock([thread]);
    };
    const at = this.#hooks.at(stmt);
    const ring = stmt.loop?.ring;
    return steps(function* (thread) {
      yield* first(thread);
      yield* visitsIn(thread);
      if (visits.length % of === turn) yield* last(thread);
    });
    function* visitsIn(thread: Thread): Steps {
      for (let ordinal = 0; ordinal < visits.length; ) {
        if (ordinal % of === turn) {
          if (goesOn(ordinal)) yield* between(thread);
          else begin(thread);
          if (visitCell !== null)
            thread.cells[visitCell] = parts === null ? ordinal : chunksBefore(visits[ordinal] ?? 0);
          if (partsCell !== null) thread.cells[partsCell] = ordinal;
          yield* visit(thread, visits[ordinal] ?? 0);
          if (!goesOn(ordinal + 1)) end(thread);
        } else if (ring !== undefined) {
          if (visitCell !== null) thread.cells[visitCell] = ordinal;
          thread.following = undefined;
          yield* runOthers(thread);
        }
        if (ring !== undefined && thread.following === null) return;
        if (ring !== undefined) ordinal = (thread.following ?? noAnswer(ring, at)) - 1;
        ordinal++;
      }
    }
  }

  /** `request` answers in the order of the tiles; `next` reads the answer in the slot. */
  #compileTileEvent(stmt: TileStmt, at: string): (thread: Thread) => void {
    const chunkOf = compileExpr(stmt.at, this.#table);
    const visits = this.#visits;
    const answers = (): Map<number, number | null> => {
      const known = this.#answers.get(stmt.ring) ?? new Map<number, number | null>();
      this.#answers.set(stmt.ring, known);
      return known;
    };
    return (thread) => {
      const chunk = chunkOf(thread.cells);
      const ring = this.#rings.get(stmt.ring);
      if (ring === undefined) {
        // By the slot of a pipeline: answers follow each other in the order in which they are asked for.
        if (stmt.kind === "next") thread.following = answers().get(chunk);
        else {
          const asked = this.#asked.get(stmt.ring) ?? 0;
          this.#asked.set(stmt.ring, asked + 1);
          answers().set(chunk, asked + 1 < visits ? asked + 1 : null);
        }
        return;
      }
      const slot = chunk % ring.ring.slots;
      if (stmt.kind === "next") {
        ring.checkRead(slot, thread.name, at);
        thread.following = answers().get(chunk);
        return;
      }
      ring.checkWrite(slot, at);
      if (answers().get(chunk - 1) === null)
        throw new InterpretFailure(
          interpretCodes.protocol,
          at,
          `asks %${stmt.ring} for another tile after it has answered that there is none`,
          "end the loop with the answer: read it with `next` in the scheduler too",
        );
      answers().set(chunk, chunk + 1 < visits ? chunk + 1 : null);
    };
  }

  #compileRingEvent(stmt: RingStmt, at: string): Op {
    const chunkOf = compileExpr(stmt.at, this.#table);
    const state = (): RingState => {
      const ring = this.#rings.get(stmt.ring);
      if (ring === undefined) throw new RangeError(`unresolved ring %${stmt.ring}`);
      return ring;
    };
    switch (stmt.kind) {
      case "acquire":
        return steps(function* (thread) {
          const [ring, chunk] = [state(), chunkOf(thread.cells)];
          const ready = (): boolean => ring.free(chunk);
          const why = `acquire of chunk ${chunk} of %${stmt.ring}, whose slot still holds chunk ${chunk - ring.ring.slots}`;
          if (!ready()) yield { ready, at, why };
          ring.acquire(chunk, thread, at);
        });
      case "commit":
        return run((thread) => state().commit(chunkOf(thread.cells), thread, at));
      case "wait":
        return steps(function* (thread) {
          const [ring, chunk] = [state(), chunkOf(thread.cells)];
          const ready = (): boolean => ring.committed >= chunk;
          const why = `wait for chunk ${chunk} of %${stmt.ring}, which nobody has committed`;
          if (!ready()) yield { ready, at, why };
          ring.wait(chunk, stmt.pending, thread, at);
        });
      case "release":
        return run((thread) => state().release(chunkOf(thread.cells), thread, at));
    }
  }
}

function committed({ open }: Groups, at: string): void {
  if (open.length > 0)
    throw new InterpretFailure(
      interpretCodes.inFlight,
      at,
      `${open.length} asynchronous copies are never committed`,
      "commit them, and wait for them",
    );
}

function noAnswer(ring: string, at: string): never {
  throw new InterpretFailure(
    interpretCodes.protocol,
    at,
    `the body ends without having read from %${ring} which tile follows`,
    "write `next` between wait and release of that ring",
  );
}
