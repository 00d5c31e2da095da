import { columnRuns } from "../columns.ts";
import { dsmemReduction, mergeOf } from "../dsmemReduction.ts";
import { type ElementStmt, elementOrigins, elementSources } from "../elements.ts";
import { COUNTER_BYTES } from "../launches/partialTiles.ts";
import { printHead } from "../print.ts";
import { bufferOf, wholeView } from "../rewrite.ts";
import type { Buffer, Epilogue, Ring, Stmt, TileProgram, View } from "../types.ts";
import { skipsIterations } from "../within.ts";
import { type Cells, type CellTable, compileCond, compileExpr } from "./compileExpr.ts";
import type { DataStmt, Hooks, ReductionStep, ResultStmt, StagingStmt, Thread } from "./control/threads.ts";
import { Control } from "./control.ts";
import { runElements } from "./elements.ts";
import type { StepInput, StepOutputs } from "./epilogue.ts";
import { columnsOf, Epilogues } from "./epilogues.ts";
import { FurtherKernels } from "./furtherKernels.ts";
import { compileView, exchangedView, heldNow, type Memory, type Place, resetTile } from "./memory.ts";
import { PartialTiles, type Shared } from "./partialTiles.ts";
import { emptySlot, type Flight, land, RingState } from "./rings.ts";
import { consumersOf, ringsByBuffer } from "./ringUse.ts";
import { putSlice, putSum, takeOut } from "./splitReduction.ts";
import { blockFactor, copy, copyFactors, fill, multiply, Scratch } from "./tileOps.ts";
import { addScaled, multiplyInTwoLevels } from "./twoLevel.ts";

/** When asynchronous copies land: at issue, at the wait that covers them, or either. Roles take turns at random with `random`. */
export type Order = "eager" | "lazy" | "random";

export interface MachineOptions extends Shared {
  readonly order: Order;
  readonly turns: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly alpha: number;
  readonly beta: number;
  readonly epilogue: readonly (StepInput | undefined)[];
}

type Action = (thread: Thread) => void;
type Combine = Extract<Stmt, { kind: "reduce" }>;

/** A program ready to run on its memories. */
export class Machine implements Hooks {
  readonly turns: number;
  readonly tiles = "all";
  readonly #program: TileProgram;
  readonly #memories: ReadonlyMap<string, Memory>;
  readonly #options: MachineOptions;
  readonly #buffers: ReadonlyMap<string, Buffer>;
  readonly #ringOfBuffer: ReadonlyMap<string, string>;
  readonly #scratch = new Scratch();
  readonly #control: Control;
  readonly #epilogues: Epilogues;
  #partialTiles: PartialTiles | null = null;
  readonly #further: FurtherKernels;
  /** Tiles whose copies count at a barrier. */
  readonly #counted: ReadonlySet<string>;

  constructor(program: TileProgram, memories: ReadonlyMap<string, Memory>, options: MachineOptions) {
    this.turns = options.turns;
    this.#program = program;
    this.#memories = memories;
    this.#options = options;
    this.#buffers = new Map(program.buffers.map((b) => [b.name, b]));
    this.#ringOfBuffer = ringsByBuffer(program);
    this.#counted = new Set(
      program.rings.flatMap(({ full, buffers }) => (full?.kind === "mbarrier" ? buffers : [])),
    );
    this.#further = new FurtherKernels(program, memories, options);
    this.#epilogues = new Epilogues(program, memories, options, this.#further, (...of) => this.#read(...of));
    this.#control = new Control(program, this);
  }

  run(): void {
    this.#control.run();
  }

  /** Additional results of the epilogue, by step: of those that lie in the workspace, what a kernel has stored. */
  get outputs(): StepOutputs {
    return this.#epilogues.outputs.map((values, i) => this.#further.stored(i) ?? values);
  }

  at(stmt: Stmt): string {
    return printHead(stmt, this.#buffers);
  }

  pick(count: number): number {
    return this.#options.order === "random" ? Math.floor(this.#options.random() * count) : 0;
  }

  newBlock(): void {
    for (const memory of this.#memories.values()) if (memory.buffer.space !== "global") resetTile(memory);
  }

  /** The one table of all threads is the control's. */
  #shared(table: CellTable): PartialTiles {
    this.#partialTiles ??= new PartialTiles(this.#program, this.#memories, table, this.#options);
    return this.#partialTiles;
  }

  combine(
    stmt: Combine,
    last: (thread: Thread) => boolean,
    table: CellTable,
    at: string,
  ): (thread: Thread) => readonly (() => void)[] {
    const acc = compileView(stmt.acc, this.#memories, table, at);
    const meeting = dsmemReduction(this.#program);
    const slice = meeting === null ? null : compileView(meeting.slice, this.#memories, table, at);
    const rank = meeting === null ? 0 : table.cell(meeting.split.var);
    const stated = stmt.body.some(({ kind }) => kind === "reduction");
    const partialTiles = this.#shared(table);
    const { parts } = partialTiles.of(stmt);
    const merge = mergeOf(stmt);
    if (merge !== null) {
      const meet = partialTiles.meet(stmt, merge, at);
      return (thread) => {
        const ends = last(thread);
        meet(thread, ends);
        return ends ? [() => {}] : [];
      };
    }
    return (thread) => {
      const place = acc(thread.cells);
      if (!stated) parts.push(takeOut(place, at));
      if (!last(thread)) return [];
      putSum(
        place,
        stated && stmt.by === "slices" ? partialTiles.all(stmt, thread, at) : parts.splice(0),
        at,
      );
      if (meeting === null || slice === null) return [() => {}];
      const sum = takeOut(place, at);
      return Array.from({ length: meeting.slices }, (_, own) => () => {
        thread.cells[rank] = own;
        putSlice(slice(thread.cells), sum, { axis: meeting.axis, columns: place.cols, own }, at);
      });
    };
  }

  merged(combine: Combine, stmt: Extract<Stmt, { kind: "merge" }>, table: CellTable, at: string) {
    return this.#shared(table).merged(combine, stmt, at);
  }

  reduction(combine: Combine, stmt: ReductionStep, table: CellTable, at: string): Action {
    return this.#shared(table).step(combine, stmt, at);
  }

  transpose(stmt: Extract<Stmt, { kind: "transpose" }>, at: string): () => void {
    return this.#further.transpose(stmt, at);
  }

  result(stmt: ResultStmt, at: string): () => void {
    return this.#further.result(stmt, at);
  }

  ctas(kernel: string | null): readonly [x: number, y: number, z: number] {
    return this.#options.workspace.grid(kernel);
  }

  /** A counter wraps behind the last number, so that it ends as it began. */
  takeNumber(count: number, listed: boolean, at: string): void {
    const { workspace, problem } = this.#options;
    const { at: from, stride } = workspace.region("counters", at);
    const number = listed ? 0 : problem;
    const cell = workspace.claim(
      from + number * stride,
      COUNTER_BYTES,
      workspace.holding(`the counter of problem ${number}`, true),
      at,
    );
    const value = workspace.values[cell] ?? 0;
    workspace.values[cell] = value >= count - 1 ? 0 : value + 1;
  }

  emptied(ring: Ring): (place: number) => void {
    const memories = ring.buffers.flatMap((b) => this.#memories.get(b) ?? []);
    return (place) => {
      if (ring.carried !== true) for (const memory of memories) emptySlot(memory, place, ring.overlapped);
    };
  }

  ring(ring: Ring): RingState {
    const memories = ring.buffers.flatMap((b) => this.#memories.get(b) ?? []);
    return new RingState(
      ring,
      memories,
      consumersOf(this.#program, ring.name),
      skipsIterations(this.#program),
    );
  }

  zero(tile: string, table: CellTable, at: string): Action {
    const place = compileView(wholeView(bufferOf(this.#program, tile)), this.#memories, table, at);
    return ({ cells }) => fill(place(cells), 0, at);
  }

  data(stmt: DataStmt, table: CellTable, at: string): Action {
    const view = (v: View) => compileView(v, this.#memories, table, at);
    switch (stmt.kind) {
      case "fill": {
        const dst = view(stmt.dst);
        return (thread) => fill(this.#written(dst(thread.cells), thread, at), stmt.value, at);
      }
      case "copy":
        return this.#copy(stmt, table, at);
      case "mma": {
        const [acc, a] = [view(stmt.acc), view(stmt.a)];
        const b = stmt.exchanged ? exchangedView(view(stmt.b)) : view(stmt.b);
        const part = stmt.twoLevel === undefined ? null : view(stmt.twoLevel.sum);
        const { keep } = stmt;
        const keeps = keep ? compileCond(keep, table) : () => keep !== false;
        const beside = stmt.beside === undefined ? null : view(stmt.beside);
        const { scales: given } = stmt;
        const factors = given && {
          a: view(given.a),
          b: [given.b, given.beside].filter((each) => each !== undefined).map(view),
        };
        return (thread) => {
          const { cells } = thread;
          const read = (place: (cells: Cells) => Place): Place => this.#read(place(cells), thread, at);
          const [lhs, rhs] = [read(a), read(b)];
          const scales = factors === undefined ? null : { a: [read(factors.a)], b: factors.b.map(read) };
          const sum = this.#written(acc(cells), thread, at);
          const runs = columnRuns(stmt.columns, sum.cols);
          if (!keeps(cells)) for (const run of runs) fill(columnsOf(sum, run), 0, at);
          if (beside !== null) {
            const width = rhs.cols;
            const halves = [
              columnsOf(sum, { from: 0, to: width }),
              columnsOf(sum, { from: width, to: sum.cols }),
            ];
            for (const [i, half] of halves.entries()) {
              const factor = i === 0 ? rhs : read(beside);
              const own = scales && { a: scales.a, b: scales.b.slice(i, i + 1) };
              multiply(half, lhs, factor, own, this.#scratch, at);
            }
          } else if (stmt.columns !== undefined)
            for (const run of runs)
              multiply(columnsOf(sum, run), lhs, columnsOf(rhs, run), null, this.#scratch, at);
          else if (part === null) multiply(sum, lhs, rhs, scales, this.#scratch, at);
          else {
            const { every } = stmt.twoLevel ?? { every: 1 };
            const sums = this.#written(part(cells), thread, at);
            multiplyInTwoLevels({ acc: sum, part: sums, a: lhs, b: rhs, scales, every }, this.#scratch, at);
          }
        };
      }
      case "accumulate": {
        const [acc, part] = [view(stmt.acc), view(stmt.sum)];
        const { scales: given } = stmt;
        const factors = given && { a: view(given.a), b: given.b && view(given.b) };
        return (thread) => {
          const { cells } = thread;
          const read = (place: (cells: Cells) => Place): Place => this.#read(place(cells), thread, at);
          const sums = this.#written(acc(cells), thread, at);
          const [rows, columns] = [factors && [read(factors.a)], factors?.b && [read(factors.b)]];
          const scales = rows && {
            row: (r: number) => blockFactor(rows, sums.rows, r, 0),
            column: (c: number) => (columns === undefined ? 1 : blockFactor(columns, sums.cols, c, 0)),
          };
          addScaled(sums, read(part), scales ?? null, at);
        };
      }
      case "map":
      case "reduce.row":
        return this.#elements(stmt, table, at);
      case "epilogue":
        return this.#epilogues.run(stmt, table, at);
    }
  }

  staged(epilogue: Epilogue, stmt: StagingStmt, table: CellTable, at: string): Action {
    return this.#epilogues.staged(epilogue, stmt, table, at);
  }

  #elements(stmt: ElementStmt, table: CellTable, at: string): Action {
    const dst = compileView(stmt.dst, this.#memories, table, at);
    const sources = elementSources(stmt.value).map((v) => compileView(v, this.#memories, table, at));
    const from = elementOrigins(stmt.value).map((e) => compileExpr(e, table));
    return (thread) => {
      const places = sources.map((source) => this.#read(source(thread.cells), thread, at));
      const origins = from.map((each) => each(thread.cells));
      runElements(stmt, this.#written(dst(thread.cells), thread, at), places, origins, at);
    };
  }

  /** Asynchronous copies into a ring fly until its wait; without a ring nothing could wait for them, so they land at once. */
  #copy(stmt: Extract<Stmt, { kind: "copy" }>, table: CellTable, at: string): Action {
    const dst = compileView(stmt.dst, this.#memories, table, at);
    const src = compileView(stmt.src, this.#memories, table, at);
    const when = stmt.when === null ? null : compileCond(stmt.when, table);
    const ring = this.#ringOfBuffer.get(stmt.dst.buffer);
    // Consumers that change a chunk have done so when they release it.
    const flies =
      stmt.transport !== "direct" &&
      this.#program.rings.some(({ name, carried }) => name === ring && carried !== true);
    return (thread) => {
      const { cells } = thread;
      if (when !== null && !when(cells)) return;
      const [to, source] = [this.#written(dst(cells), thread, at), this.#read(src(cells), thread, at)];
      // Registers are read where a copy is issued, and may change while it flies.
      const from = flies && source.memory.buffer.space === "register" ? heldNow(source) : source;
      const move = (): void =>
        stmt.transport === "tcgen05.cp" || stmt.transport === "factors"
          ? copyFactors(to, from, at)
          : copy(to, from, stmt.guard, at);
      if (!flies) move();
      else if (
        this.#program.stage === "machine" &&
        to.memory.buffer.space !== "register" &&
        this.#counted.has(stmt.dst.buffer)
      )
        this.#control.barriers.attach(
          this.#ringOfBuffer.get(stmt.dst.buffer) ?? "",
          to.slot,
          this.#launch(move),
        );
      else thread.groups.open.push(this.#launch(move));
    };
  }

  #launch(move: () => void): Flight {
    const flight: Flight = { land: move, landed: false };
    const { order, random } = this.#options;
    if (order === "eager" || (order === "random" && random() < 0.5)) land([flight]);
    return flight;
  }

  #ring(place: Place): RingState | undefined {
    const name = this.#ringOfBuffer.get(place.memory.buffer.name);
    return name === undefined ? undefined : this.#control.rings.get(name);
  }

  #written(place: Place, { name }: Thread, at: string): Place {
    this.#ring(place)?.checkWrite(place.slot, name, at);
    return place;
  }

  #read(place: Place, thread: Thread, at: string): Place {
    this.#ring(place)?.checkRead(place.slot, thread.name, at);
    return place;
  }
}
