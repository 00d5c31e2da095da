/** Statements as closures, roles as coroutines, blocks one after the other. */
import type { EpilogueStep } from "../../problem.ts";
import { printHead } from "../print.ts";
import { childrenOf } from "../rewrite.ts";
import type { Buffer, Stmt, TileProgram } from "../types.ts";
import { type Cells, CellTable, compileCond, compileExpr } from "./compileExpr.ts";
import { EpilogueChain, runEpilogue, type StepInput, type StepOutputs } from "./epilogue.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import { compileView, type Memory, type Place, resetTile } from "./memory.ts";
import { type Flight, type Groups, land, newGroups, RingState } from "./rings.ts";
import { copy, fill, multiply, Scratch } from "./tileOps.ts";

/** When asynchronous copies land: at issue, at the wait that covers them, or either. */
export type Order = "eager" | "lazy" | "random";

/** A role, or the whole block outside roles. */
interface Thread {
  readonly name: string;
  readonly cells: Cells;
  readonly groups: Groups;
}

/** Where a thread stands still; it goes on when `ready` says so. */
interface Blocked {
  readonly ready: () => boolean;
  readonly at: string;
  readonly why: string;
}

type Steps = Generator<Blocked, void, void>;

/** A compiled statement: `run` never blocks, `steps` may. */
type Op =
  | { readonly kind: "run"; readonly run: (thread: Thread) => void }
  | { readonly kind: "steps"; readonly steps: (thread: Thread) => Steps };

const BLOCK = "block";

export interface MachineOptions {
  readonly order: Order;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly alpha: number;
  readonly beta: number;
  readonly epilogue: readonly (StepInput | undefined)[];
}

/** A program ready to run on its memories. */
export class Machine {
  readonly #program: TileProgram;
  readonly #memories: ReadonlyMap<string, Memory>;
  readonly #options: MachineOptions;
  readonly #table = new CellTable();
  readonly #buffers: ReadonlyMap<string, Buffer>;
  readonly #ringOfBuffer = new Map<string, string>();
  readonly #scratch = new Scratch();
  readonly #ops: readonly Op[];
  /** One chain for all epilogue statements with the same steps: they write parts of the same outputs. */
  readonly #chains = new Map<string, EpilogueChain>();
  #rings = new Map<string, RingState>();

  constructor(program: TileProgram, memories: ReadonlyMap<string, Memory>, options: MachineOptions) {
    this.#program = program;
    this.#memories = memories;
    this.#options = options;
    this.#buffers = new Map(program.buffers.map((b) => [b.name, b]));
    for (const ring of program.rings) for (const b of ring.buffers) this.#ringOfBuffer.set(b, ring.name);
    this.#ops = this.#compileList(program.body, false);
  }

  /** Additional results of the epilogue, by step. */
  get outputs(): StepOutputs {
    const [chain] = this.#chains.values();
    return chain?.outputs ?? [];
  }

  run(): void {
    this.#newBlock();
    const thread = this.#thread(BLOCK);
    this.#schedule([thread], () => this.#ops);
    this.#endBlock([thread]);
  }

  #thread(name: string, cells?: Cells): Thread {
    return {
      name,
      cells: cells === undefined ? new Float64Array(this.#table.size) : cells.slice(),
      groups: newGroups(),
    };
  }

  /** Fresh shared memory, registers and rings. */
  #newBlock(): void {
    for (const memory of this.#memories.values()) if (memory.buffer.space !== "global") resetTile(memory);
    this.#rings = new Map(
      this.#program.rings.map((ring) => {
        const memories = ring.buffers.flatMap((b) => this.#memories.get(b) ?? []);
        return [ring.name, new RingState(ring, memories, consumersOf(this.#program, ring.name))];
      }),
    );
  }

  #endBlock(threads: readonly Thread[]): void {
    for (const ring of this.#rings.values()) ring.checkEnd();
    for (const { groups, name } of threads)
      if (groups.open.length > 0)
        throw new InterpretFailure(
          interpretCodes.inFlight,
          name,
          `${groups.open.length} asynchronous copies are never committed`,
          "commit them, and wait for them",
        );
  }

  /** Run threads until all have ended; round robin, or at random. */
  #schedule(threads: readonly Thread[], opsOf: (thread: Thread) => readonly Op[]): void {
    const live = threads.map((thread) => ({
      thread,
      steps: this.#runList(opsOf(thread), thread),
      blocked: null as Blocked | null,
    }));
    while (live.length > 0) {
      const ready = live.filter((t) => t.blocked === null || t.blocked.ready());
      const pick = this.#options.order === "random" ? Math.floor(this.#options.random() * ready.length) : 0;
      const next = ready[pick];
      if (next === undefined)
        throw new InterpretFailure(
          interpretCodes.deadlock,
          live.map((t) => t.blocked?.at ?? t.thread.name).join(", "),
          `deadlock: ${live.map((t) => `${t.thread.name} waits: ${t.blocked?.why ?? "?"}`).join("; ")}`,
          "commit what is waited for, release what is acquired again",
        );
      const result = next.steps.next();
      if (result.done === true) live.splice(live.indexOf(next), 1);
      else next.blocked = result.value;
    }
  }

  *#runList(ops: readonly Op[], thread: Thread): Steps {
    for (const op of ops) {
      if (op.kind === "run") op.run(thread);
      else yield* op.steps(thread);
    }
  }

  /** Neighbouring roles run at the same time; what follows them runs when all have ended. */
  #compileList(stmts: readonly Stmt[], inRole: boolean): readonly Op[] {
    const ops: Op[] = [];
    let roles: Extract<Stmt, { kind: "role" }>[] = [];
    const flush = (): void => {
      if (roles.length > 0) ops.push(this.#compileRoles(roles));
      roles = [];
    };
    for (const stmt of stmts) {
      if (stmt.kind === "role") roles.push(stmt);
      else {
        flush();
        ops.push(this.#compile(stmt, inRole));
      }
    }
    flush();
    return ops;
  }

  #compileRoles(roles: readonly Extract<Stmt, { kind: "role" }>[]): Op {
    const bodies = new Map(roles.map((role) => [role.name, this.#compileList(role.body, true)]));
    return {
      kind: "run",
      run: (parent) => {
        const threads = roles.map((role) => this.#thread(role.name, parent.cells));
        this.#schedule(threads, (thread) => bodies.get(thread.name) ?? []);
        for (const { groups, name } of threads)
          if (groups.open.length > 0)
            throw new InterpretFailure(
              interpretCodes.inFlight,
              `role ${name}`,
              `${groups.open.length} asynchronous copies are never committed`,
              "commit them, and wait for them",
            );
      },
    };
  }

  #compile(stmt: Stmt, inRole: boolean): Op {
    const at = printHead(stmt, this.#buffers);
    const view = (v: Parameters<typeof compileView>[0]) => compileView(v, this.#memories, this.#table, at);
    switch (stmt.kind) {
      case "tiles":
        return this.#compileTiles(stmt, inRole);
      case "for": {
        const cell = this.#table.cell(stmt.var);
        const [from, to] = [compileExpr(stmt.from, this.#table), compileExpr(stmt.to, this.#table)];
        const body = this.#compileList(stmt.body, inRole);
        const runList = (thread: Thread) => this.#runList(body, thread);
        return steps(function* (thread) {
          const last = to(thread.cells);
          for (let i = from(thread.cells); i < last; i++) {
            thread.cells[cell] = i;
            yield* runList(thread);
          }
        });
      }
      case "if": {
        const test = compileCond(stmt.cond, this.#table);
        const body = this.#compileList(childrenOf(stmt), inRole);
        const runList = (thread: Thread) => this.#runList(body, thread);
        return steps(function* (thread) {
          if (test(thread.cells)) yield* runList(thread);
        });
      }
      case "role":
        return this.#compileRoles([stmt]);
      case "fill": {
        const dst = view(stmt.dst);
        return run((thread) => fill(this.#written(dst(thread.cells), at), stmt.value, at));
      }
      case "copy":
        return this.#compileCopy(stmt, at);
      case "mma": {
        const [acc, a, b] = [view(stmt.acc), view(stmt.a), view(stmt.b)];
        return run((thread) => {
          const { cells } = thread;
          const [lhs, rhs] = [this.#read(a(cells), thread, at), this.#read(b(cells), thread, at)];
          multiply(acc(cells), lhs, rhs, this.#scratch, at);
        });
      }
      case "acquire":
      case "commit":
      case "wait":
      case "release":
        return this.#compileRingEvent(stmt, at);
      case "barrier":
        // Threads of one role move together here, so there is nobody to wait for.
        return run(() => {});
      case "epilogue": {
        const [dst, acc] = [view(stmt.dst), view(stmt.acc)];
        const c = stmt.c === null ? null : view(stmt.c);
        const { alpha, beta } = this.#options;
        const chain = this.#chain(stmt.steps);
        return run((thread) => {
          const { cells } = thread;
          const places = {
            dst: dst(cells),
            acc: this.#read(acc(cells), thread, at),
            c: c === null ? null : c(cells),
          };
          runEpilogue(
            places,
            stmt.alpha === "runtime" ? alpha : stmt.alpha,
            stmt.beta === "runtime" ? beta : stmt.beta,
            chain,
            stmt.guard,
            at,
          );
        });
      }
    }
  }

  #chain(steps: readonly EpilogueStep[]): EpilogueChain {
    const key = JSON.stringify(steps);
    const chain =
      this.#chains.get(key) ?? new EpilogueChain(this.#program.problem, steps, this.#options.epilogue);
    this.#chains.set(key, chain);
    return chain;
  }

  /** Outside roles every tile is a block of its own; inside, one persistent block visits all. */
  #compileTiles(stmt: Extract<Stmt, { kind: "tiles" }>, inRole: boolean): Op {
    const [rowCell, colCell] = [this.#table.cell(stmt.vars[0]), this.#table.cell(stmt.vars[1])];
    const [rows, cols] = stmt.extents;
    const body = this.#compileList(stmt.body, inRole);
    const visit = (thread: Thread, row: number, col: number): Steps => {
      thread.cells[rowCell] = row;
      thread.cells[colCell] = col;
      return this.#runList(body, thread);
    };
    const begin = (thread: Thread): void => {
      if (inRole) return;
      this.#newBlock();
      thread.groups.open = [];
      thread.groups.closed.length = 0;
    };
    const end = (thread: Thread): void => {
      if (!inRole) this.#endBlock([thread]);
    };
    return steps(function* (thread) {
      for (let row = 0; row < rows; row++)
        for (let col = 0; col < cols; col++) {
          begin(thread);
          yield* visit(thread, row, col);
          end(thread);
        }
    });
  }

  #compileCopy(stmt: Extract<Stmt, { kind: "copy" }>, at: string): Op {
    const dst = compileView(stmt.dst, this.#memories, this.#table, at);
    const src = compileView(stmt.src, this.#memories, this.#table, at);
    const when = stmt.when === null ? null : compileCond(stmt.when, this.#table);
    const async = stmt.transport !== "direct" && this.#ringOfBuffer.has(stmt.dst.buffer);
    return run((thread) => {
      const { cells } = thread;
      if (when !== null && !when(cells)) return;
      const [to, from] = [this.#written(dst(cells), at), this.#read(src(cells), thread, at)];
      const move = (): void => copy(to, from, stmt.guard, at);
      if (!async) move();
      else thread.groups.open.push(this.#launch(move));
    });
  }

  #launch(move: () => void): Flight {
    const flight: Flight = { land: move, landed: false };
    const { order, random } = this.#options;
    if (order === "eager" || (order === "random" && random() < 0.5)) land([flight]);
    return flight;
  }

  #compileRingEvent(
    stmt: Extract<Stmt, { kind: "acquire" | "commit" | "wait" | "release" }>,
    at: string,
  ): Op {
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
          const why = `acquire of chunk ${chunk} of %${stmt.ring}, whose slot holds chunk ${chunk - ring.ring.slots}`;
          if (!ready()) yield { ready, at, why };
          ring.acquire(chunk, at);
        });
      case "commit":
        return run((thread) => state().commit(chunkOf(thread.cells), thread.groups, at));
      case "wait":
        return steps(function* (thread) {
          const [ring, chunk] = [state(), chunkOf(thread.cells)];
          const ready = (): boolean => ring.committed >= chunk;
          if (!ready())
            yield { ready, at, why: `wait for chunk ${chunk} of %${stmt.ring}, which nobody has committed` };
          ring.wait(chunk, stmt.pending, thread.name, thread.groups, at);
        });
      case "release":
        return run((thread) => state().release(chunkOf(thread.cells), thread.name, at));
    }
  }

  #ring(place: Place): RingState | undefined {
    const name = this.#ringOfBuffer.get(place.memory.buffer.name);
    return name === undefined ? undefined : this.#rings.get(name);
  }

  #written(place: Place, at: string): Place {
    this.#ring(place)?.checkWrite(place.slot, at);
    return place;
  }

  #read(place: Place, thread: Thread, at: string): Place {
    this.#ring(place)?.checkRead(place.slot, thread.name, at);
    return place;
  }
}

const run = (action: (thread: Thread) => void): Op => ({ kind: "run", run: action });
const steps = (action: (thread: Thread) => Steps): Op => ({ kind: "steps", steps: action });

/** Roles (or the block) that wait for a ring: all of them must release a slot before it is free. */
export function consumersOf(program: TileProgram, ring: string): readonly string[] {
  const names = new Set<string>();
  const walk = (stmts: readonly Stmt[], name: string): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "wait" && stmt.ring === ring) names.add(name);
      walk(childrenOf(stmt), stmt.kind === "role" ? stmt.name : name);
    }
  };
  walk(program.body, BLOCK);
  return [...names];
}
