/** What the parts of the first work tile read and multiply, element by element of K. */

import {
  BLOCK_SCALE,
  exchangedOf,
  isScaled,
  SCALE_FACTORS,
  SCALE_WORDS,
  scaledTypes,
  stepOfBuffer,
  WEIGHT_COLUMNS,
  weightWordsPerRow,
} from "@tilewright/core";
import { operandRole, sourceOf } from "../accesses.ts";
import { elementSources } from "../elements.ts";
import { v } from "../expr.ts";
import type { Cells, CellTable } from "../interpret/compileExpr.ts";
import { compileCond, compileExpr } from "../interpret/compileExpr.ts";
import type { DataStmt, Hooks, Thread } from "../interpret/control/threads.ts";
import { Control } from "../interpret/control.ts";
import { InterpretFailure } from "../interpret/failure.ts";
import { RingState } from "../interpret/rings.ts";
import { consumersOf } from "../interpret/ringUse.ts";
import { isFactors } from "../scaleTiles.ts";
import type { Ring, Stmt, View } from "../types.ts";
import { viewsOf } from "../views.ts";
import { codesOf } from "../weights.ts";
import { skipsIterations } from "../within.ts";
import { chunkLength, K_AXIS, type Operand } from "./chunkLength.ts";
import { Origins } from "./origins.ts";
import { MOST_ITERATIONS, type Subject } from "./verifier.ts";

/** Where along their inner axis the factors of a product begin, and whether it is one behind that of A and B. */
export interface Apart {
  readonly from: readonly [a: number, b: number];
  readonly later: boolean;
}

/** Sums of A's rows from different ones on, where there are as many as sums. */
function rowGroups(products: readonly Stmt[]): number {
  const rows = new Map(
    products.flatMap((stmt) =>
      stmt.kind === "mma" ? [[stmt.acc.buffer, JSON.stringify(stmt.a.origin[0])] as const] : [],
    ),
  );
  return Math.max(1, new Set(rows.values()).size === rows.size ? rows.size : 1);
}

/** Counts what the parts of the first tile read. */
export class Counting implements Hooks {
  readonly tiles = "one";
  readonly turns = MOST_ITERATIONS;
  /** Elements of K over which the tile's products have gone, since sums that had gone over all of it began anew. */
  products = 0;
  /** Whether some sums have gone over all of K. */
  #complete = false;
  /** The part whose products were the last. */
  #part = 0;
  /** Products of factors at different elements of their inner axis, and at which first. */
  readonly apart = new Map<Stmt, Apart>();
  /** Sums that factors of other elements of K scale, or of none, and at which first. */
  readonly scaled = new Map<Stmt, readonly [sums: number, factors: number]>();
  readonly #subject: Subject;
  readonly #origins: Origins;
  /** Elements across K that were read at each position of K. */
  readonly #read: Readonly<Record<Operand, Float64Array>>;
  /** Operands of which tiles have copies. */
  readonly #roles = new Map<string, Operand>();
  /** Words of codes of 16 columns for each row of B. */
  readonly #wordsPerRow: number;
  /** Tiles of codes of weights on their way. */
  readonly #words = new Set<string>();
  /** Products of A and B. */
  readonly #ofOperands = new Set<Stmt>();
  /** Groups of rows with sums of their own, each of which goes over K. */
  readonly #groups: number;
  /** Whether other products take what is made of their sums. */
  readonly #chained: boolean;
  /** Columns of the sums to which those of a run along k are added, which then go on; the run's may have fewer. */
  readonly #runs = new Map<string, number>();
  /** Zeros of their sums in a loop around the one over K. */
  readonly #again = new Set<Stmt>();
  readonly #chunk: number;
  readonly #control: Control;

  constructor(subject: Subject) {
    const { k, b } = subject.program.problem;
    this.#subject = subject;
    this.#wordsPerRow = weightWordsPerRow(b.dtype);
    this.#read = { A: new Float64Array(k), B: new Float64Array(k) };
    for (const { name } of subject.program.buffers) {
      const role = operandRole(subject.program, name);
      if (role !== null) this.#roles.set(name, role === "a" ? "A" : "B");
    }
    if (subject.program.problem.weights !== undefined) this.#words.add("B");
    for (const { stmt } of subject.sites)
      if (stmt.kind === "copy" && this.#words.has(stmt.src.buffer)) this.#words.add(stmt.dst.buffer);
    for (const { stmt } of subject.sites)
      if (stmt.kind === "mma") {
        const source = sourceOf(subject.program, stmt.b.buffer);
        if (stmt.exchanged) continue;
        if (source === null || (stepOfBuffer(source.name) ?? exchangedOf(source.name)) === null)
          this.#ofOperands.add(stmt);
      }
    for (const { stmt } of subject.sites)
      if (stmt.kind === "accumulate")
        this.#runs.set(stmt.sum.buffer, subject.buffers.get(stmt.acc.buffer)?.shape[1] ?? 0);
    this.#groups = rowGroups([...this.#ofOperands]);
    this.#chained = subject.sites.some(({ stmt }) => stmt.kind === "mma" && !this.#ofOperands.has(stmt));
    this.#origins = new Origins(subject, this.#chained);
    this.#chunk = chunkLength(subject);
    const sums = new Set([...this.#ofOperands].map((stmt) => (stmt.kind === "mma" ? stmt.acc.buffer : "")));
    for (const { stmt, parents } of subject.sites)
      if (stmt.kind === "fill" && sums.has(stmt.dst.buffer) && parents.some(({ kind }) => kind === "for"))
        this.#again.add(stmt);
    this.#control = new Control(subject.program, this);
  }

  zero(): () => void {
    return () => {};
  }

  /** Whether all sums have gone over K once. */
  once(): boolean {
    return this.#all() || (this.#complete && this.products === 0);
  }

  #all(): boolean {
    const { k } = this.#subject.program.problem;
    return this.products >= k && this.products < k + this.#chunk;
  }

  /** Sums begin anew, but for those of another part of the tile, which goes on where the last one has ended. */
  #begin(part: number): void {
    if (part !== this.#part || !this.#all()) return;
    this.products = 0;
    this.#complete = true;
  }

  /** The number of the part of K that a CTA has of a split tile; sums that other products go on from go over all of K, whatever part of another axis they are of. */
  #partOf(table: CellTable): (cells: Cells) => number {
    if (this.#chained) return () => 0;
    for (const { stmt } of this.#subject.sites)
      if (stmt.kind === "tiles" && stmt.split !== null) return compileExpr(v(stmt.split.var), table);
    return () => 0;
  }

  /** False where the program cannot run: another verifier says why. */
  run(): boolean {
    try {
      this.#control.run();
      return true;
    } catch (failure) {
      if (failure instanceof InterpretFailure) return false;
      throw failure;
    }
  }

  /** What is read more or less often than elsewhere; the first position has a whole tile's worth if all have. */
  fault(operand: Operand): string | null {
    const read = this.#read[operand];
    const across = this.#across(operand);
    if (across === null) return null;
    const at = read.findIndex((count) => count !== across);
    if (at < 0) return null;
    return `element ${at} along K of %${operand} is read ${(read[at] ?? 0) / across} times by the parts of a tile`;
  }

  /** Rows of A, or columns of B, of a tile: those of the accumulator that is handed in. */
  #across(operand: Operand): number | null {
    for (const { stmt } of this.#subject.sites)
      if (stmt.kind === "reduce") return stmt.acc.extent[operand === "A" ? 0 : 1];
    return null;
  }

  at(): string {
    return "body";
  }

  pick(): number {
    return 0;
  }

  newBlock(): void {
    this.#origins.clear();
  }

  combine(): () => readonly (() => void)[] {
    return () => [];
  }

  ring(ring: Ring): RingState {
    const { program } = this.#subject;
    return new RingState(ring, [], consumersOf(program, ring.name), skipsIterations(program));
  }

  data(stmt: DataStmt, table: CellTable): ((thread: Thread) => void) | null {
    if (stmt.kind === "accumulate") return this.#accumulates(stmt, table);
    const part = this.#partOf(table);
    if (stmt.kind === "fill") return this.#again.has(stmt) ? ({ cells }) => this.#begin(part(cells)) : null;
    const reads = this.#reads(stmt, table);
    if (stmt.kind === "copy") return this.#moves(stmt, table, reads);
    const words = codesOf(stmt);
    if (words !== null && stmt.kind === "map") return this.#dequantises(stmt.dst, words, table, reads);
    if (stmt.kind === "map") return this.#maps(stmt, table);
    if (stmt.kind !== "mma") return reads;
    const { columns } = stmt;
    // Further products go over rows of other matrices.
    if (!this.#ofOperands.has(stmt)) return this.#multiplies(stmt, table);
    const sums = this.#origins.follows(stmt.acc, [1], [stmt.b], table);
    const share = columns === undefined ? 1 : (columns.to - columns.from) / columns.of;
    const of = this.#runs.get(stmt.acc.buffer) ?? stmt.acc.extent[1];
    const width = stmt.a.extent[1] * share * (stmt.acc.extent[1] / of);
    const [a, b] = [
      this.#origins.place(stmt.a, K_AXIS.A, table),
      this.#origins.place(stmt.b, K_AXIS.B, table),
    ];
    // Sums that products overwrite begin anew.
    const factors = this.#scales(stmt, table);
    const keeps = typeof stmt.keep === "object" ? compileCond(stmt.keep, table) : () => stmt.keep !== false;
    return (thread) => {
      const own = part(thread.cells);
      if (!keeps(thread.cells) && !this.#runs.has(stmt.acc.buffer)) this.#begin(own);
      this.#part = own;
      this.products += width / this.#groups;
      const [from, other] = [a(thread), b(thread)];
      if (from !== other && !this.apart.has(stmt))
        this.apart.set(stmt, { from: [from, other], later: false });
      for (const at of factors) {
        const of = at(thread);
        if (of !== from && !this.scaled.has(stmt)) this.scaled.set(stmt, [from, of]);
      }
      this.#origins.setAlongK(stmt.acc.buffer, from);
      sums?.(thread);
      reads?.(thread);
    };
  }

  /** Weights are those of the rows of B whose codes they are made of. */
  #dequantises(
    dst: View,
    words: View,
    table: CellTable,
    reads: ((thread: Thread) => void) | null,
  ): (thread: Thread) => void {
    const [place, origin] = [this.#origins.place(words, 1, table), compileExpr(dst.origin[0], table)];
    const slot = compileExpr(dst.slot, table);
    return (thread) => {
      reads?.(thread);
      this.#origins.set(
        dst.buffer,
        slot(thread.cells),
        0,
        place(thread) / this.#wordsPerRow - origin(thread.cells),
      );
    };
  }

  /** What is made of factors is of the elements along K that all of them are of. */
  #maps({ dst, value }: Extract<Stmt, { kind: "map" }>, table: CellTable): ((thread: Thread) => void) | null {
    const sources = elementSources(value);
    const taken = this.#origins.follows(dst, [0, 1], sources, table);
    const runs = sources.map(({ buffer, origin }) => ({ buffer, run: compileExpr(origin[1], table) }));
    return (thread) => {
      taken?.(thread);
      const of = runs.map(
        ({ buffer, run }) => this.#origins.alongK(buffer) + BLOCK_SCALE * run(thread.cells),
      );
      const [first = Number.NaN] = of;
      this.#origins.setAlongK(dst.buffer, of.every((from) => from === first) ? first : Number.NaN);
    };
  }

  /** A product whose first factor is made of sums: their columns are the rows of its second, where both are known. */
  #multiplies(stmt: Extract<Stmt, { kind: "mma" }>, table: CellTable): (thread: Thread) => void {
    const inner = stmt.exchanged ? 1 : K_AXIS.B;
    const [a, b] = [this.#origins.place(stmt.a, K_AXIS.A, table), this.#origins.place(stmt.b, inner, table)];
    return (thread) => {
      const [from, other] = [a(thread), b(thread)];
      if (Number.isNaN(from) || Number.isNaN(other) || from === other || this.apart.has(stmt)) return;
      this.apart.set(stmt, { from: [from, other], later: true });
    };
  }

  /** What a copy brings, and where in its matrix that is from. */
  #moves(
    stmt: Extract<Stmt, { kind: "copy" }>,
    table: CellTable,
    reads: ((thread: Thread) => void) | null,
  ): ((thread: Thread) => void) | null {
    const words = this.#words.has(stmt.src.buffer);
    const role = words ? "B" : this.#roles.get(stmt.dst.buffer);
    if (role === undefined) return this.#factors(stmt, table) ?? reads;
    const axis = words ? 1 : K_AXIS[role];
    const from = this.#origins.place(stmt.src, axis, table);
    const origin = compileExpr(stmt.dst.origin[axis], table);
    const slot = compileExpr(stmt.dst.slot, table);
    const when = stmt.when === null ? null : compileCond(stmt.when, table);
    const across = this.#origins.follows(stmt.dst, [axis === 0 ? 1 : 0], [stmt.src], table);
    return (thread) => {
      const { cells } = thread;
      reads?.(thread);
      if (when !== null && !when(cells)) return;
      this.#origins.set(stmt.dst.buffer, slot(cells), axis, from(thread) - origin(cells));
      across?.(thread);
    };
  }

  /** Factors in registers, by the element along K of which they are: each is for a run. */
  #factors(stmt: Extract<Stmt, { kind: "copy" }>, table: CellTable): ((thread: Thread) => void) | null {
    const { dst, src } = stmt;
    const { space } = this.#subject.buffers.get(dst.buffer) ?? {};
    if (space !== "register" && !(space === "shared" && isFactors(src.buffer))) return null;
    const { a } = this.#subject.program.problem;
    const each = isScaled(a.dtype) ? (scaledTypes[a.dtype].block * SCALE_FACTORS) / SCALE_WORDS : BLOCK_SCALE;
    const origin = compileExpr(src.origin[1], table);
    const outside = this.#origins.isGlobal(src.buffer);
    const across = this.#origins.follows(dst, [0, 1], [src], table);
    const when = stmt.when === null ? null : compileCond(stmt.when, table);
    const [to, of] = [this.#origins.slotAlongK(dst, table), this.#origins.slotAlongK(src, table)];
    return (thread) => {
      if (when !== null && !when(thread.cells)) return;
      const from = outside ? 0 : this.#origins.alongK(of(thread));
      this.#origins.setAlongK(to(thread), from + each * origin(thread.cells));
      across?.(thread);
    };
  }

  /** Where along K the factors are by which a product's operands count, in registers. */
  #scales(
    { scales }: Extract<Stmt, { kind: "mma" }>,
    table: CellTable,
  ): readonly ((thread: Thread) => number)[] {
    return [scales?.a, scales?.b, scales?.beside].flatMap((view) => {
      if (view === undefined || this.#subject.buffers.get(view.buffer)?.space !== "register") return [];
      const at = this.#origins.slotAlongK(view, table);
      return [(thread: Thread) => this.#origins.alongK(at(thread))];
    });
  }

  /** Sums and the factors that scale them are of the same elements along K. */
  #accumulates(stmt: Extract<Stmt, { kind: "accumulate" }>, table: CellTable): (thread: Thread) => void {
    const factors = viewsOf(stmt)
      .slice(2)
      .map(({ buffer, origin }) => ({ buffer, run: compileExpr(origin[1], table) }));
    return ({ cells }) => {
      const sums = this.#origins.alongK(stmt.sum.buffer);
      for (const { buffer, run } of factors) {
        const of = this.#origins.alongK(buffer) + BLOCK_SCALE * run(cells);
        if (of !== sums && !this.scaled.has(stmt)) this.scaled.set(stmt, [sums, of]);
      }
    };
  }

  #reads(stmt: DataStmt, table: CellTable): ((thread: Thread) => void) | null {
    const words = codesOf(stmt);
    const views =
      stmt.kind === "copy"
        ? [stmt.src]
        : stmt.kind === "mma"
          ? [stmt.a, stmt.b]
          : words === null
            ? []
            : [words];
    const counts = views.flatMap((view) => this.#count(view, table) ?? []);
    if (counts.length === 0) return null;
    const when = stmt.kind === "copy" && stmt.when !== null ? compileCond(stmt.when, table) : null;
    return (thread) => {
      if (when === null || when(thread.cells)) for (const count of counts) count(thread);
    };
  }

  #count(view: View, table: CellTable): ((thread: Thread) => void) | null {
    if (view.buffer !== "A" && view.buffer !== "B") return null;
    const words = this.#words.has(view.buffer);
    const axis = words ? 1 : K_AXIS[view.buffer];
    const [each, wide] = words ? [this.#wordsPerRow, WEIGHT_COLUMNS] : [1, 1];
    const read = this.#read[view.buffer];
    const origin = compileExpr(view.origin[axis], table);
    const [along, across] = [view.extent[axis] / each, (view.extent[1 - axis] ?? 1) * wide];
    return ({ cells }) => {
      const from = origin(cells) / each;
      for (let k = Math.max(0, from); k < Math.min(from + along, read.length); k++)
        read[k] = (read[k] ?? 0) + across;
    };
  }
}
