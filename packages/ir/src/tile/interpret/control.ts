/**
 * Control flow of a program: loops, conditions, tiles, roles as coroutines, ring events. What data statements do is given
 * as hooks, so that the interpreter and the protocol verifier run one and the same control flow.
 */
import { withSum } from "../dsmemReduction.ts";
import { childrenOf } from "../rewrite.ts";
import type { ReductionKind, Role, Stmt, TileProgram } from "../types.ts";
import type { Barriers } from "./barriers.ts";
import { CellTable, compileCond } from "./compileExpr.ts";
import { compileRingEvent, Responses } from "./control/ringEvents.ts";
import { BLOCK, checkCommitted, checkLanded, isWhole, iterationsOf, runThreads } from "./control/running.ts";
import { Synchronisation } from "./control/synchronisation.ts";
import {
  type Epilogue,
  type Hooks,
  type Op,
  type Reduce,
  run,
  type Steps,
  steps,
  type Thread,
} from "./control/threads.ts";
import { compileTiles } from "./control/workTiles.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import { newGroups, type RingState } from "./rings.ts";
import { launchedOf, workTilesOf } from "./workTiles.ts";

/** Ways to combine in which statements say who goes on: one CTA, by the work tile's counter, or those of another kernel. */
const countsItself: ReadonlySet<ReductionKind> = new Set(["last", "atomics", "bulk", "kernel"]);

/** Whether it is that of a kernel which is launched before the main one. */
const isBefore = ({ machine }: TileProgram, stmt: Stmt): boolean =>
  stmt.kind === "kernel" &&
  machine?.launches?.kernels.some(({ role, name }) => role === "prepare" && name === stmt.name) === true;

const runOf = (action: ((thread: Thread) => void) | null | undefined): Op | null =>
  action ? run(action) : null;

export class Control {
  readonly #program: TileProgram;
  readonly #hooks: Hooks;
  readonly #table = new CellTable();
  readonly #sync: Synchronisation;
  readonly #responses: Responses;
  readonly #ops: readonly Op[];
  #rings: ReadonlyMap<string, RingState> = new Map();
  /** Whether a thread has the last part of its tile, of the tiles being compiled. */
  #lastPart: (thread: Thread) => boolean = () => true;
  /** The `reduce` being compiled. */
  #combine: Reduce | null = null;
  /** The epilogue through a shared tile being compiled. */
  #epilogue: Epilogue | null = null;
  /** Turns of all loops so far. */
  #turns = 0;
  /** Work tiles of the loop being compiled, and whether it has those of all problems. */
  #workTiles = 0;
  #listed = false;
  /** The kernel beside the main one that is being compiled. */
  #kernel: string | null = null;

  constructor(program: TileProgram, hooks: Hooks) {
    this.#program = program;
    this.#hooks = hooks;
    this.#sync = new Synchronisation(program, this.#table, hooks);
    this.#responses = new Responses(
      () => this.#rings,
      this.#table,
      (ring, count, at) => {
        const { transport } = program.rings.find(({ name }) => name === ring) ?? {};
        if (transport === "atomic") hooks.takeNumber?.(count, this.#listed, at);
      },
    );
    const before = program.body.filter((stmt) => isBefore(program, stmt));
    const others = program.body.filter((stmt) => !before.includes(stmt));
    this.#ops = this.#compileList([...before, ...others], false);
  }

  /** Rings of the running block; in the stage machine there are none, but barriers. */
  get rings(): ReadonlyMap<string, RingState> {
    return this.#rings;
  }

  get barriers(): Barriers {
    return this.#sync.barriers;
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
    const { epoch, tile } = parent ?? { epoch: 0, tile: 0 };
    return { name, cells, groups: newGroups(), threads, leader: null, epoch, tile };
  }

  #newBlock(): void {
    this.#hooks.newBlock();
    this.#responses.newBlock();
    this.#sync.newBlock();
    if (this.#program.stage !== "machine")
      this.#rings = new Map(this.#program.rings.map((ring) => [ring.name, this.#hooks.ring(ring)]));
  }

  #endBlock(threads: readonly Thread[]): void {
    for (const ring of this.#rings.values()) ring.checkEnd();
    this.#sync.barriers.checkEnd();
    for (const thread of threads) checkLanded(thread);
  }

  /** Run threads until all have ended. */
  #schedule(threads: readonly Thread[], opsOf: (thread: Thread) => readonly Op[]): void {
    const live = threads.map((thread) => ({ thread, steps: this.#runList(opsOf(thread), thread) }));
    runThreads(live, (ready) => this.#hooks.pick(ready));
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

  #compileBody(stmts: readonly Stmt[], inRole: boolean): (thread: Thread) => Steps {
    const body = this.#compileList(stmts, inRole);
    return (thread) => this.#runList(body, thread);
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
      for (const { groups, name } of threads) checkCommitted(groups, `role ${name}`);
      parent.epoch = Math.max(parent.epoch, ...threads.map((t) => t.epoch));
    });
  }

  #compile(stmt: Exclude<Stmt, Role>, inRole: boolean): Op | null {
    const at = this.#hooks.at(stmt);
    switch (stmt.kind) {
      case "tiles":
        return this.#compileTiles(stmt, inRole, at);
      case "for": {
        const cell = this.#table.cell(stmt.var);
        const iterations = iterationsOf(stmt, this.#table);
        const body = this.#compileList(stmt.body, inRole);
        if (body.length === 0) return null;
        const runList = (thread: Thread) => this.#runList(body, thread);
        const turn = (): void => this.#turn(at);
        return steps(function* (thread) {
          const [first, last] = iterations(thread);
          for (let i = first; i < last; i++) {
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
        return compileRingEvent(stmt, () => this.#rings, this.#table, at);
      case "request":
      case "next":
        return run(this.#responses.compile(stmt, this.#workTiles, at));
      case "barrier":
        if (stmt.threads !== undefined && stmt.groups === undefined)
          return this.#sync.compileNamed(stmt.id, stmt.threads, stmt.arrive === true, at);
        // Threads of one role move together here, so there is nobody to wait for.
        return run((thread) => {
          thread.epoch++;
        });
      case "result.load":
      case "result.clear":
      case "result.store":
        return runOf(this.#hooks.result?.(stmt, at));
      case "transpose":
        return runOf(this.#hooks.transpose?.(stmt, at));
      case "kernel": {
        this.#kernel = stmt.name;
        const runList = this.#compileBody(stmt.body, inRole);
        this.#kernel = null;
        const begin = (): void => this.#newBlock();
        const end = (thread: Thread) => this.#endBlock([thread]);
        // It begins when the kernel before it has ended.
        return steps(function* (thread) {
          end(thread);
          begin();
          yield* runList(thread);
        });
      }
      // The loop over work tiles does it where that begins, goes on and ends.
      case "boundary":
        return null;
      case "prologue":
      // Where it says 1 it changes nothing.
      case "vote":
      case "leader":
      case "only":
      case "response":
      case "slices": {
        return steps(this.#compileBody(stmt.body, inRole));
      }
      case "reduction": {
        const whole = isWhole(stmt, this.#table);
        const runList = this.#compileBody(stmt.body, inRole);
        return steps(function* (thread) {
          if (!whole(thread)) yield* runList(thread);
        });
      }
      case "merge": {
        const combine = this.#combine;
        const parts = combine && this.#hooks.merged?.(combine, stmt, this.#table, at);
        const runList = this.#compileBody(stmt.body, inRole);
        return steps(function* (thread) {
          for (const _ of parts?.(thread) ?? [true]) yield* runList(thread);
        });
      }
      case "partial.reduce": {
        const handsIn = this.#combine && this.#hooks.reduction?.(this.#combine, stmt, this.#table, at);
        const runList = this.#compileBody(stmt.body, inRole);
        return steps(function* (thread) {
          handsIn?.(thread);
          yield* runList(thread);
        });
      }
      case "partial.store":
      case "partial.stage":
      case "partial.load":
      case "partial.clear":
      case "partial.add":
      case "bulk.reduce":
      case "counter.add":
      case "counter.leave":
      case "counter.clear":
      case "dsmem.send":
      case "dsmem.leave":
      case "dsmem.expect":
      case "dsmem.wait":
      case "dsmem.add":
        return runOf(this.#combine && this.#hooks.reduction?.(this.#combine, stmt, this.#table, at));
      case "stage":
      case "bulk.store":
      case "warp.store":
        return runOf(this.#epilogue && this.#hooks.staged?.(this.#epilogue, stmt, this.#table, at));
      // Only the orders of threads, proxies and blocks are different with them, which the proof judges.
      case "fence":
      case "wgmma.fence":
      case "wgmma.commit":
      case "wgmma.wait":
      case "pin":
        return runOf(this.#hooks.ordering?.(stmt, at));
      case "warp.sync":
      case "rename":
      case "tensormap.make":
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
      default:
        return this.#sync.compile(stmt, at);
    }
  }

  #compileTiles(stmt: Extract<Stmt, { kind: "tiles" }>, inRole: boolean, at: string): Op {
    const grid = inRole ? undefined : this.#hooks.ctas?.(this.#kernel);
    const workTiles = launchedOf(stmt, workTilesOf(stmt, this.#program, this.#hooks.tiles), {
      ...{ program: this.#program, grid: grid ?? null },
    });
    this.#workTiles = workTiles.length;
    this.#listed = stmt.loop?.batch !== undefined;
    return compileTiles(stmt, workTiles, inRole, {
      program: this.#program,
      table: this.#table,
      at,
      list: (stmts, role) => this.#compileList(stmts, role),
      runList: (ops, thread) => this.#runList(ops, thread),
      newBlock: () => this.#newBlock(),
      endBlock: (threads) => this.#endBlock(threads),
      setLastPart: (last) => {
        this.#lastPart = last;
      },
    });
  }

  #compileStaged(stmt: Epilogue, inRole: boolean): Op {
    this.#epilogue = stmt;
    const body = this.#compileList(stmt.body, inRole);
    this.#epilogue = null;
    return steps((thread) => this.#runList(body, thread));
  }

  /** In stage machine the statements of a reduction say who goes on, but where one thread stands for several: for CTAs with slices. */
  #compileCombine(stmt: Reduce, inRole: boolean, at: string): Op {
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
}
