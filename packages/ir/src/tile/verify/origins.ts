/** From where in their matrices, and along K, the elements of tiles are, as the parts of a work tile move them. */
import { upBuffer } from "@tilewright/core";
import { type CellTable, compileExpr } from "../interpret/compileExpr.ts";
import type { Thread } from "../interpret/control/threads.ts";
import type { View } from "../types.ts";
import type { Subject } from "./verifier.ts";

export class Origins {
  /** By buffer, slot and axis: the row (axis 0) and column of its matrix of a slot's first element. By buffer along K: where sums and their factors are. */
  readonly #from = new Map<string, number>();
  readonly #subject: Subject;
  /** Whether other products take what is made of sums. */
  readonly #chained: boolean;

  constructor(subject: Subject, chained: boolean) {
    this.#subject = subject;
    this.#chained = chained;
  }

  clear(): void {
    this.#from.clear();
  }

  set(buffer: string, slot: number, axis: 0 | 1, at: number): void {
    this.#from.set(`${buffer} ${slot} ${axis}`, at);
  }

  setAlongK(name: string, at: number): void {
    this.#from.set(`${name} along K`, at);
  }

  /** Where along K the sums or factors of a name are; NaN where nothing says. */
  alongK(name: string): number {
    return this.#from.get(`${name} along K`) ?? Number.NaN;
  }

  /** In a chain of products a tile's elements are from where those of the first source are that has one for each along an axis. */
  follows(
    dst: View,
    axes: readonly (0 | 1)[],
    sources: readonly View[],
    table: CellTable,
  ): ((thread: Thread) => void) | null {
    if (!this.#chained) return null;
    const slot = compileExpr(dst.slot, table);
    const places = axes.map((axis) => {
      const source = sources.find(({ extent }) => extent[axis] === dst.extent[axis]);
      const place = source === undefined ? () => Number.NaN : this.place(source, axis, table);
      return { axis, place, origin: compileExpr(dst.origin[axis], table) };
    });
    return (thread) => {
      const number = slot(thread.cells);
      for (const { axis, place, origin } of places)
        this.set(dst.buffer, number, axis, place(thread) - origin(thread.cells));
    };
  }

  /** Along an axis: of a view of a matrix where it begins, of their copies where that lies which they begin with; NaN of what nothing has been copied to. */
  place(view: View, axis: 0 | 1, table: CellTable): (thread: Thread) => number {
    const origin = compileExpr(view.origin[axis], table);
    if (view.buffer === "A") return ({ cells }) => origin(cells);
    const { gated, b } = this.#subject.program.problem;
    // Of interleaved columns those of the second factor lie behind the leading dimension (matrixLayout).
    const second = gated === "interleaved" ? b.ld : Number.POSITIVE_INFINITY;
    // The second factor may be a matrix of its own.
    if (view.buffer === "B" || view.buffer === upBuffer(this.#subject.program.problem))
      return ({ cells }) => {
        const at = origin(cells);
        return at >= second ? at - second : at;
      };
    if (this.isGlobal(view.buffer)) return ({ cells }) => origin(cells);
    const slot = compileExpr(view.slot, table);
    return ({ cells }) =>
      (this.#from.get(`${view.buffer} ${slot(cells)} ${axis}`) ?? Number.NaN) + origin(cells);
  }

  /** Under which name it is kept where along K factors are: in rings, and in registers of several slots, for each slot. */
  slotAlongK({ buffer, slot }: View, table: CellTable): (thread: Thread) => string {
    const number = compileExpr(slot, table);
    const { space, slots = 1 } = this.#subject.buffers.get(buffer) ?? {};
    const held = space === "shared" || slots > 1;
    return ({ cells }) => `${buffer}${held ? ` ${number(cells)}` : ""}`;
  }

  isGlobal(name: string): boolean {
    return this.#subject.buffers.get(name)?.space === "global";
  }
}
