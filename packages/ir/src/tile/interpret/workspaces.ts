/** Partial tiles, counters and slots of bulk reductions, as the statements of a reduction use them. */
import { elementsPerRegister } from "../../atoms/atoms.ts";
import { mergeOf } from "../dsmemReduction.ts";
import { inOnePlace } from "../launches/partialTiles.ts";
import { registerAt } from "../ownership.ts";
import { bufferOf, wholeView } from "../rewrite.ts";
import type { Buffer, Stmt, TileProgram } from "../types.ts";
import { type CellTable, compileExpr } from "./compileExpr.ts";
import type { ReductionStep, Thread } from "./control/threads.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import { compileView, type Memory, type ValueArray } from "./memory.ts";
import { putSum, takeOut } from "./splitReduction.ts";

type Combine = Extract<Stmt, { kind: "reduce" }>;
type Merge = Extract<Stmt, { kind: "merge" }>;
type Action = (thread: Thread) => void;

/** What CTAs leave for each other: partial tiles of the work tile at hand, in the order of its CTAs, and how far its counter is; for another kernel those of all work tiles, by number. */
interface Workspace {
  readonly parts: ValueArray[];
  readonly tiles: ValueArray[][];
  /** Registers that bulk copies are to add, by slots of the warps' rooms. */
  readonly slots: Map<
    number,
    { readonly first: number; readonly count: number; readonly values: ValueArray }
  >;
  /** What each of the tiles that are merged was in each CTA. */
  readonly held: Map<string, ValueArray[]>;
  /** All CTAs of the tile have come. */
  complete: boolean;
  counter: number;
}

/** Behind what the tiles of earlier CTAs were. */
function keep(held: Map<string, ValueArray[]>, name: string, values: ValueArray): void {
  held.set(name, [...(held.get(name) ?? []), values]);
}

const copied = (values: ValueArray): ValueArray => values.slice();

/** The register that holds each element of a tile, row by row. */
function registersOf({ own, dtype, shape: [rows, cols] }: Buffer): readonly number[] {
  const packed = elementsPerRegister(dtype);
  return Array.from({ length: own === null ? 0 : rows * cols }, (_, i) =>
    Math.floor(registerAt(own, Math.floor(i / cols), i % cols) / packed),
  );
}

/** What the CTAs of each reduction leave for each other. */
export class Workspaces {
  readonly #program: TileProgram;
  readonly #memories: ReadonlyMap<string, Memory>;
  readonly #known = new Map<Combine | string, Workspace>();

  constructor(program: TileProgram, memories: ReadonlyMap<string, Memory>) {
    this.#program = program;
    this.#memories = memories;
  }

  /** Of a `reduce`; kernels behind each other know those of an accumulator. */
  of(combine: Combine): Workspace {
    const key = combine.by === "kernel" ? combine.acc.buffer : combine;
    const known = this.#known.get(key) ?? {
      parts: [],
      tiles: [],
      slots: new Map(),
      held: new Map(),
      counter: 0,
      complete: false,
    };
    this.#known.set(key, known);
    return known;
  }

  /** Before stage machine: the tiles of a CTA are kept, of the first one taken back by the last. */
  meet(
    combine: Combine,
    { of }: Merge,
    table: CellTable,
    at: string,
  ): (thread: Thread, last: boolean) => void {
    const { held } = this.of(combine);
    const places = of.map((name) => [name, this.#place(name, table, at)] as const);
    return ({ cells }, last) => {
      for (const [name, place] of places) {
        keep(held, name, takeOut(place(cells), at));
        if (last) putSum(place(cells), (held.get(name) ?? []).slice(0, 1).map(copied), at);
      }
    };
  }

  /** The tiles of each CTA behind the first in turn, put where the body of a merge finds them. */
  merged(
    combine: Combine,
    { of, from }: Merge,
    table: CellTable,
    at: string,
  ): (thread: Thread) => Iterable<true> {
    const { held } = this.of(combine);
    const places = from.map((name, i) => [of[i] ?? "", this.#place(name, table, at)] as const);
    return function* ({ cells }) {
      const parts = held.get(of[0] ?? "")?.length ?? 0;
      for (let part = 1; part < parts; part++) {
        for (const [name, place] of places) {
          const values = held.get(name)?.[part];
          if (values !== undefined) putSum(place(cells), [values], at);
        }
        yield true;
      }
      held.clear();
    };
  }

  #place(name: string, table: CellTable, at: string) {
    return compileView(wholeView(bufferOf(this.#program, name)), this.#memories, table, at);
  }

  /** CTAs of a work tile come one after the other, so that partial tiles lie in their order. */
  step(combine: Combine, stmt: ReductionStep, table: CellTable, at: string): (thread: Thread) => void {
    const workspace = this.of(combine);
    const acc = compileView(combine.acc, this.#memories, table, at);
    const partsOf = ({ tile }: Thread): ValueArray[] => {
      if (combine.by !== "kernel") return workspace.parts;
      workspace.tiles[tile] ??= [];
      return workspace.tiles[tile];
    };
    if (mergeOf(combine) !== null && (stmt.kind === "partial.store" || stmt.kind === "partial.load")) {
      const { buffer } = stmt.acc;
      const place = compileView(stmt.acc, this.#memories, table, at);
      const { held } = workspace;
      return stmt.kind === "partial.store"
        ? ({ cells }) => keep(held, buffer, takeOut(place(cells), at))
        : ({ cells }) => putSum(place(cells), (held.get(buffer) ?? []).slice(0, 1).map(copied), at);
    }
    switch (stmt.kind) {
      case "partial.store":
      case "partial.reduce":
      case "dsmem.send":
        return (thread) => {
          // The first CTA of a tile finds what the tile before has left.
          if (workspace.complete) workspace.parts.length = 0;
          workspace.complete = false;
          const part = takeOut(acc(thread.cells), at);
          partsOf(thread).push(stmt.kind === "partial.reduce" && stmt.by === "bulk" ? part.fill(0) : part);
        };
      case "partial.stage":
      case "bulk.reduce":
        return this.#addedInBulk(combine, stmt, table, at);
      case "counter.add": {
        const by = compileExpr(stmt.by, table);
        return ({ cells }) => {
          workspace.counter += by(cells);
        };
      }
      case "counter.leave": {
        const complete = compileExpr(stmt.unless, table);
        return (thread) => {
          thread.left = workspace.counter !== Math.max(1, complete(thread.cells));
        };
      }
      case "counter.clear":
        return () => {
          workspace.counter = 0;
          workspace.complete = true;
        };
      // Of partial tiles that were added up in memory the sum lies there.
      case "partial.load": {
        const end = inOnePlace(combine.by) ? undefined : 1;
        return (thread) => putSum(acc(thread.cells), partsOf(thread).slice(0, end).map(copied), at);
      }
      case "partial.add":
        return (thread) => {
          const place = acc(thread.cells);
          const { partials } = stmt;
          const further = partsOf(thread).slice(1, partials === null ? undefined : 1 + partials);
          putSum(place, [takeOut(place, at), ...further], at);
        };
      default:
        return () => {};
    }
  }

  /** Registers of all threads on their way through a slot to the partial tile that was handed in last. */
  #addedInBulk(
    combine: Combine,
    stmt: Extract<ReductionStep, { kind: "partial.stage" | "bulk.reduce" }>,
    table: CellTable,
    at: string,
  ): Action {
    const { parts, slots } = this.of(combine);
    const acc = compileView(stmt.acc, this.#memories, table, at);
    const [from, slot] = [compileExpr(stmt.from, table), compileExpr(stmt.slot, table)];
    const registers = registersOf(bufferOf(this.#program, stmt.acc.buffer));
    return ({ cells }) => {
      const [first, number] = [from(cells), slot(cells)];
      if (stmt.kind === "partial.stage") {
        slots.set(number, { first, count: stmt.count, values: takeOut(acc(cells), at) });
        return;
      }
      const held = slots.get(number);
      const part = parts.at(-1);
      if (held?.first !== first || held.count !== stmt.count || part === undefined)
        throw new InterpretFailure(
          interpretCodes.protocol,
          at,
          `adds registers that nobody has put into slot ${number}`,
          "partial.stage of the same registers in front of it",
        );
      registers.forEach((register, i) => {
        if (register >= first && register < first + held.count)
          part[i] = (part[i] ?? 0) + (held.values[i] ?? 0);
      });
    };
  }
}
