/** Partial tiles, counters and slots of bulk reductions, as the statements of a reduction use them. */
import { memoryType, roundTo } from "@tilewright/core";
import { elementsPerRegister } from "../../atoms/atoms.ts";
import { must } from "../../must.ts";
import { mergeOf } from "../dsmemReduction.ts";
import { blocksOfTile } from "../launches/counts.ts";
import { inOnePlace, reductionIn, registerTileBytes } from "../launches/partialTiles.ts";
import { ownersAlong } from "../ownership.ts";
import { bufferOf, wholeView } from "../rewrite.ts";
import type { Buffer, Stmt, TileProgram, View } from "../types.ts";
import { type Cells, type CellTable, compileExpr } from "./compileExpr.ts";
import type { ReductionStep, Thread } from "./control/threads.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import { compileView, type Memory, makeValues, type Place, type ValueArray } from "./memory.ts";
import { type Numbers, numbersOf } from "./partialTileNumbers.ts";
import { putSum, takeOut } from "./splitReduction.ts";
import type { Workspace } from "./workspace.ts";

type Combine = Extract<Stmt, { kind: "reduce" }>;
type Merge = Extract<Stmt, { kind: "merge" }>;
type Action = (thread: Thread) => void;

/** What CTAs leave for each other beside the workspace: in shared memory of a cluster, and before stage machine. */
interface Left {
  readonly parts: ValueArray[];
  /** Registers that bulk copies are to add, by slots of the warps' rooms. */
  readonly slots: Map<
    number,
    { readonly first: number; readonly count: number; readonly values: ValueArray }
  >;
  /** What each of the tiles that are merged was in each CTA. */
  readonly held: Map<string, ValueArray[]>;
}

/** Behind what the tiles of earlier CTAs were. */
function keep(held: Map<string, ValueArray[]>, name: string, values: ValueArray): void {
  held.set(name, [...(held.get(name) ?? []), values]);
}

const copied = (values: ValueArray): ValueArray => values.slice();

/** Where the elements of a register tile are in a partial tile. */
interface Elements {
  /** Register, CTA of the pair, and byte of each, row by row. */
  readonly register: Int32Array;
  readonly half: Uint8Array;
  readonly byte: Float64Array;
  /** Bytes of one. */
  readonly size: number;
}

/** What CTAs that share tiles have in common: the workspace, and the number of their problem in a batch. */
export interface Shared {
  readonly workspace: Workspace;
  readonly problem: number;
}

/** What the CTAs of each reduction leave for each other. */
export class PartialTiles {
  readonly #program: TileProgram;
  readonly #memories: ReadonlyMap<string, Memory>;
  readonly #workspace: Workspace;
  /** The problem of a batch. */
  readonly #problem: number;
  readonly #table: CellTable;
  readonly #tiles: Extract<Stmt, { kind: "tiles" }> | null;
  readonly #known = new Map<Combine, Left>();
  readonly #elements = new Map<string, Elements>();

  constructor(
    program: TileProgram,
    memories: ReadonlyMap<string, Memory>,
    table: CellTable,
    { workspace, problem }: Shared,
  ) {
    this.#program = program;
    this.#tiles = reductionIn(program)?.tiles ?? null;
    this.#memories = memories;
    this.#table = table;
    this.#workspace = workspace;
    this.#problem = problem;
  }

  /** Of a `reduce`. */
  of(combine: Combine): Left {
    const known = this.#known.get(combine) ?? { parts: [], slots: new Map(), held: new Map() };
    this.#known.set(combine, known);
    return known;
  }

  /** Before stage machine: the tiles of a CTA are kept, of the first one taken back by the last. */
  meet(combine: Combine, { of }: Merge, at: string): (thread: Thread, last: boolean) => void {
    const { held } = this.of(combine);
    const places = of.map((name) => [name, this.#place(name, at)] as const);
    return ({ cells }, last) => {
      for (const [name, place] of places) {
        keep(held, name, takeOut(place(cells), at));
        if (last) putSum(place(cells), (held.get(name) ?? []).slice(0, 1).map(copied), at);
      }
    };
  }

  /** The tiles of each CTA behind the first in turn, put where the body of a merge finds them. */
  merged(combine: Combine, { of, from, partials }: Merge, at: string): (thread: Thread) => Iterable<true> {
    const { held } = this.of(combine);
    const places = from.map((name, i) => [of[i] ?? "", this.#place(name, at)] as const);
    const stated = combine.body.some(({ kind }) => kind === "reduction");
    const partOf = (name: string, thread: Thread, part: number): ValueArray | undefined =>
      stated ? this.#part(combine, name, thread, part, at) : held.get(name)?.[part];
    return function* (thread) {
      const parts = stated ? 1 + partials : (held.get(of[0] ?? "")?.length ?? 0);
      for (let part = 1; part < parts; part++) {
        for (const [name, place] of places) {
          const values = partOf(name, thread, part);
          if (values !== undefined) putSum(place(thread.cells), [values], at);
        }
        yield true;
      }
      held.clear();
    };
  }

  #place(name: string, at: string): (cells: Cells) => Place {
    return compileView(wholeView(bufferOf(this.#program, name)), this.#memories, this.#table, at);
  }

  /** The partial tiles of a work tile whose CTAs all come and take slices. */
  all(combine: Combine, thread: Thread, at: string): readonly ValueArray[] {
    for (const half of this.#halves()) this.#counter(combine, thread, half, at);
    const { parts } = this.#numbersOf(combine, thread, 0, at);
    return Array.from({ length: parts }, (_, i) => this.#part(combine, combine.acc.buffer, thread, i, at));
  }

  step(combine: Combine, stmt: ReductionStep, at: string): Action {
    switch (stmt.kind) {
      case "dsmem.send": {
        const acc = this.#view(stmt.acc, at);
        const { parts } = this.of(combine);
        return ({ cells }) => {
          parts.push(takeOut(acc(cells), at));
        };
      }
      case "partial.store": {
        const acc = this.#view(stmt.acc, at);
        return (thread) => this.#put(combine, stmt.acc.buffer, thread, takeOut(acc(thread.cells), at), at);
      }
      case "partial.reduce": {
        const acc = this.#view(stmt.acc, at);
        if (stmt.by === "bulk") return () => {};
        return (thread) => this.#add(combine, stmt.acc.buffer, thread, takeOut(acc(thread.cells), at), at);
      }
      case "partial.stage":
      case "bulk.reduce":
        return this.#addedInBulk(combine, stmt, at);
      case "counter.add": {
        const by = compileExpr(stmt.by, this.#table);
        return (thread) => {
          for (const half of this.#halves()) {
            const cell = this.#counter(combine, thread, half, at);
            this.#workspace.values[cell] = (this.#workspace.values[cell] ?? 0) + by(thread.cells);
          }
        };
      }
      case "counter.leave": {
        const complete = compileExpr(stmt.unless, this.#table);
        return (thread) => {
          const counter = this.#workspace.values[this.#counter(combine, thread, 0, at)];
          thread.left = counter !== Math.max(1, complete(thread.cells));
        };
      }
      case "counter.clear":
        return (thread) => {
          for (const half of this.#halves())
            this.#workspace.values[this.#counter(combine, thread, half, at)] = 0;
        };
      case "partial.load": {
        const acc = this.#view(stmt.acc, at);
        return (thread) =>
          putSum(acc(thread.cells), [this.#part(combine, stmt.acc.buffer, thread, 0, at)], at);
      }
      case "partial.clear": {
        const { buffer } = stmt.acc;
        return (thread) =>
          this.#each(combine, buffer, thread, 0, at, (cell) => {
            this.#workspace.values[cell] = 0;
          });
      }
      case "partial.add": {
        const acc = this.#view(stmt.acc, at);
        const { buffer } = stmt.acc;
        return (thread) => {
          const place = acc(thread.cells);
          const count = stmt.partials ?? this.#numbersOf(combine, thread, 0, at).parts - 1;
          const further = Array.from({ length: count }, (_, i) =>
            this.#part(combine, buffer, thread, i + 1, at),
          );
          putSum(place, [takeOut(place, at), ...further], at);
        };
      }
      default:
        return () => {};
    }
  }

  #view(view: View, at: string): (cells: Cells) => Place {
    return compileView(view, this.#memories, this.#table, at);
  }

  /** CTAs of a pair have halves of the tile, each with its counter and partial tiles. */
  #halves(): readonly number[] {
    return blocksOfTile(this.#program) === 2 ? [0, 1] : [0];
  }

  #elementsOf(name: string, at: string): Elements {
    const known = this.#elements.get(name);
    if (known !== undefined) return known;
    const { dtype, own, shape } = bufferOf(this.#program, name);
    const [rows, cols] = shape;
    const { threads } = this.#workspace.region("partials", at);
    const packed = this.#packed(dtype);
    const bytes = dtype === "f64" ? 8 : 4;
    const size = bytes / packed;
    const [register, half, byte] = [
      new Int32Array(rows * cols),
      new Uint8Array(rows * cols),
      new Float64Array(rows * cols),
    ];
    const owner = must(own, "accumulators have an owner");
    const along = ownersAlong(owner.cols, cols);
    for (const [row, down] of ownersAlong(owner.rows, rows).entries())
      for (const [col, across] of along.entries()) {
        const i = row * cols + col;
        const number = down.register + across.register;
        const thread = down.thread + across.thread;
        const of = Math.floor(number / packed);
        register[i] = of;
        half[i] = down.block + across.block;
        byte[i] = (of * threads + thread) * bytes + (number % packed) * size;
      }
    const made = { register, half, byte, size };
    this.#elements.set(name, made);
    return made;
  }

  /** A column of tensor memory is a word, whatever it holds. */
  #packed(dtype: Buffer["dtype"]): number {
    return this.#program.buffers.some(({ space }) => space === "tensor") ? 1 : elementsPerRegister(dtype);
  }

  /** Bytes of a partial tile in front of those of a register tile. */
  #before(combine: Combine, name: string, at: string): number {
    const of = mergeOf(combine)?.of ?? [];
    const tiles = of.slice(0, Math.max(0, of.indexOf(name))).map((each) => bufferOf(this.#program, each));
    return registerTileBytes(tiles, this.#workspace.region("partials", at).threads, 4);
  }

  #numbersOf({ by }: Combine, thread: Thread, half: number, at: string): Numbers {
    const { count, each } = this.#workspace.region("partials", at);
    return numbersOf(must(this.#tiles, "a reduction has tiles"), by, {
      ...{ tile: thread.tile, half, pair: this.#halves().length, problem: this.#problem, count, each },
      counters: () => this.#workspace.region("counters", at).count,
      variable: (name) => this.#value(name, thread),
    });
  }

  #nameOf({ tile }: Thread, half: number): string {
    return `work tile ${tile} of problem ${this.#problem}${half === 0 ? "" : ", second half"}`;
  }

  #counter(combine: Combine, thread: Thread, half: number, at: string): number {
    const { at: from, stride, count } = this.#workspace.region("counters", at);
    const { counter } = this.#numbersOf(combine, thread, half, at);
    const number = this.#problem * count + counter;
    const holding = this.#workspace.holding(`the counter of ${this.#nameOf(thread, half)}`, true);
    return this.#workspace.claim(from + number * stride, combine.by === "slices" ? 8 : 4, holding, at);
  }

  /** The cell of each element of a register tile in a partial tile: number `part` of the work tile, or the CTA's own. */
  #each(
    combine: Combine,
    name: string,
    thread: Thread,
    part: number | "own",
    at: string,
    visit: (cell: number, element: number) => void,
    registers: readonly [from: number, to: number] = [0, Number.POSITIVE_INFINITY],
  ): void {
    const { at: from, stride } = this.#workspace.region("partials", at);
    const { register, half, byte, size } = this.#elementsOf(name, at);
    const zero = inOnePlace(combine.by);
    const before = this.#before(combine, name, at);
    const places = this.#halves().map((of) => {
      const { own, first, rank, further } = this.#numbersOf(combine, thread, of, at);
      const [number, name] = zero
        ? [first, "the partial tile"]
        : part === "own"
          ? [own, `partial tile ${rank}`]
          : [part === 0 ? first : further + part, `partial tile ${part}`];
      const holding = this.#workspace.holding(`${name} of ${this.#nameOf(thread, of)}`, zero);
      return { start: from + number * stride + before, holding };
    });
    for (let i = 0; i < byte.length; i++) {
      const of = register[i] ?? 0;
      if (of < registers[0] || of >= registers[1]) continue;
      const place = places[half[i] ?? 0];
      if (place === undefined) continue;
      const there = place.start + (byte[i] ?? 0);
      const cell =
        part === "own" || zero
          ? this.#workspace.claim(there, size, place.holding, at)
          : this.#workspace.held(there, size, place.holding, at);
      visit(cell, i);
    }
  }

  #put(combine: Combine, name: string, thread: Thread, values: ValueArray, at: string): void {
    const { values: to } = this.#workspace;
    this.#each(combine, name, thread, "own", at, (cell, i) => {
      to[cell] = values[i] ?? 0;
    });
  }

  /** Added where all parts of the tile are, each sum rounded to the tile's type. */
  #add(
    combine: Combine,
    name: string,
    thread: Thread,
    values: ValueArray,
    at: string,
    registers?: readonly [from: number, to: number],
  ): void {
    const { values: to } = this.#workspace;
    const dtype = memoryType(bufferOf(this.#program, name).dtype);
    const add = (cell: number, i: number): void => {
      to[cell] = roundTo(dtype, (to[cell] ?? 0) + (values[i] ?? 0));
    };
    this.#each(combine, name, thread, 0, at, add, registers);
  }

  #part(combine: Combine, name: string, thread: Thread, part: number, at: string): ValueArray {
    const { values: from } = this.#workspace;
    const { dtype, shape } = bufferOf(this.#program, name);
    const out = makeValues(dtype, shape[0] * shape[1]);
    this.#each(combine, name, thread, part, at, (cell, i) => {
      out[i] = from[cell] ?? 0;
    });
    return out;
  }

  /** A variable of the tiles around. */
  #value(name: string, { cells }: Thread): number {
    return cells[this.#table.cell(name)] ?? 0;
  }

  /** Registers of all threads on their way through a slot to the partial tile. */
  #addedInBulk(
    combine: Combine,
    stmt: Extract<ReductionStep, { kind: "partial.stage" | "bulk.reduce" }>,
    at: string,
  ): Action {
    const { slots } = this.of(combine);
    const acc = this.#view(stmt.acc, at);
    const [from, slot] = [compileExpr(stmt.from, this.#table), compileExpr(stmt.slot, this.#table)];
    return (thread) => {
      const [first, number] = [from(thread.cells), slot(thread.cells)];
      if (stmt.kind === "partial.stage") {
        slots.set(number, { first, count: stmt.count, values: takeOut(acc(thread.cells), at) });
        return;
      }
      const held = slots.get(number);
      if (held?.first !== first || held.count !== stmt.count)
        throw new InterpretFailure(
          interpretCodes.protocol,
          at,
          `adds registers that nobody has put into slot ${number}`,
          "partial.stage of the same registers in front of it",
        );
      this.#add(combine, stmt.acc.buffer, thread, held.values, at, [first, first + held.count]);
    };
  }
}
