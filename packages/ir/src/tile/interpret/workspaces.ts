/** Partial tiles, counters and slots of bulk reductions, as the statements of a reduction use them. */
import { elementsPerRegister } from "../../atoms/atoms.ts";
import { registerAt } from "../ownership.ts";
import { bufferOf } from "../rewrite.ts";
import type { Buffer, Stmt, TileProgram } from "../types.ts";
import { type CellTable, compileExpr } from "./compileExpr.ts";
import type { ReductionStep, Thread } from "./control/threads.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import { compileView, type Memory, type ValueArray } from "./memory.ts";
import { putSum, takeOut } from "./splitReduction.ts";

type Combine = Extract<Stmt, { kind: "reduce" }>;
type Action = (thread: Thread) => void;

/** What CTAs leave for each other: partial tiles of the work tile at hand, in the order of its CTAs, and how far its counter is. */
interface Workspace {
  readonly parts: ValueArray[];
  /** Registers that bulk copies are to add, by slots of the warps' rooms. */
  readonly slots: Map<
    number,
    { readonly first: number; readonly count: number; readonly values: ValueArray }
  >;
  /** All CTAs of the tile have come. */
  complete: boolean;
  counter: number;
}

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
  readonly #known = new Map<Combine, Workspace>();

  constructor(program: TileProgram, memories: ReadonlyMap<string, Memory>) {
    this.#program = program;
    this.#memories = memories;
  }

  of(combine: Combine): Workspace {
    const known = this.#known.get(combine) ?? {
      parts: [],
      slots: new Map(),
      counter: 0,
      complete: false,
    };
    this.#known.set(combine, known);
    return known;
  }

  /** CTAs of a work tile come one after the other, so that partial tiles lie in their order. */
  step(combine: Combine, stmt: ReductionStep, table: CellTable, at: string): (thread: Thread) => void {
    const workspace = this.of(combine);
    const acc = compileView(combine.acc, this.#memories, table, at);
    switch (stmt.kind) {
      case "partial.store":
      case "partial.reduce":
      case "dsmem.send":
        return ({ cells }) => {
          // The first CTA of a tile finds what the tile before has left.
          if (workspace.complete) workspace.parts.length = 0;
          workspace.complete = false;
          const part = takeOut(acc(cells), at);
          workspace.parts.push(stmt.kind === "partial.reduce" && stmt.by === "bulk" ? part.fill(0) : part);
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
        const all = combine.by !== "last";
        return ({ cells }) => putSum(acc(cells), all ? workspace.parts : workspace.parts.slice(0, 1), at);
      }
      case "partial.add":
        return ({ cells }) => {
          const place = acc(cells);
          const { parts } = stmt;
          const further = workspace.parts.slice(1, parts === null ? undefined : 1 + parts);
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
