/** Where warpgroups wait for products: before their slots are given back, and before their sums are read. */

import type { Columns, Expr, Pass, Stmt, TileProgram } from "@tilewright/ir";
import {
  eachStmt,
  freeVars,
  launchRanges,
  lit,
  readsOf,
  sameValue,
  substituteExpr,
  viewsOf,
} from "@tilewright/ir";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

export const awaitProducts: Pass = {
  name: "awaitProducts",
  summary: "Warpgroups wait for their products where slots are given back and sums are read",
  from: "bound",
  to: "bound",
  run: (program) => ({ ...program, body: new Walk(program).list(program.body, outside) }),
};

/** Products that are waited for together: the tiles of registers or shared memory that they write and read, and the rings. */
interface Group {
  readonly tiles: readonly string[];
  readonly columns: Columns | null;
  readonly rings: readonly string[];
}

interface Within {
  /** Whether a rolled loop is open. */
  readonly looped: boolean;
  readonly constants: ReadonlyMap<string, Expr>;
}

const outside: Within = { looped: false, constants: new Map() };

/** Products of the threads that run the statements, in their order. */
class Walk {
  readonly #sizes: ReadonlyMap<string, unknown>;
  /** Groups of products that have been issued and nobody has waited for. */
  #pending: readonly Group[] = [];
  readonly #ringOf: ReadonlyMap<string, string>;
  /** Accumulators whose columns are multiplied apart. */
  readonly #apart = new Set<string>();
  /** The chunk of the last products, as their operands' slot says, and those waited for last, by ring. */
  #chunk: Expr | null = null;
  readonly #waited = new Map<string, Expr>();

  constructor(program: TileProgram) {
    this.#sizes = launchRanges(program.problem);
    this.#ringOf = new Map(program.rings.flatMap(({ name, buffers }) => buffers.map((b) => [b, name])));
  }

  list(stmts: readonly Stmt[], within: Within): readonly Stmt[] {
    return stmts.flatMap((stmt) => this.#stmt(stmt, within));
  }

  /** A wait, unless nothing is under way; `running`: groups that may go on. */
  #settle(running = 0): readonly Stmt[] {
    if (this.#pending.length <= running) return [];
    this.#pending = running > 0 ? this.#pending.slice(-running) : [];
    return [{ kind: "wgmma.wait", pending: running }];
  }

  #stmt(stmt: Stmt, within: Within): readonly Stmt[] {
    switch (stmt.kind) {
      case "for":
        return [this.#loop(stmt, within)];
      case "mma":
        return this.#multiply(stmt, within);
      case "wait":
        this.#waited.set(stmt.ring, substituteExpr(stmt.at, within.constants));
        return [stmt];
      case "wgmma.wait":
        // Of a text that the pass has made: nothing to add.
        this.#settle(stmt.pending);
        return [stmt];
      case "release":
        return [...this.#settleRing(stmt, within), stmt];
      case "epilogue": {
        const wait = this.#settleFor([stmt.acc.buffer], stmt.columns);
        if (stmt.columns?.to === stmt.columns?.of) this.#apart.delete(stmt.acc.buffer);
        return [...wait, stmt];
      }
      case "map":
      case "reduce.row":
        return [...this.#settleFor(elementsOf([stmt])), stmt];
      case "reduce":
        return [...this.#settleFor([stmt.acc.buffer]), { ...stmt, body: this.list(stmt.body, within) }];
      case "vote": {
        // Only warps that do it wait, so nobody knows behind it.
        const pending = this.#pending;
        const body = this.list(stmt.body, within);
        this.#pending = pending;
        return [{ ...stmt, body }];
      }
      case "if": {
        // All warps wait, whichever way they go.
        const wait = this.#settleFor(elementsOf(stmt.body));
        const body = this.list(stmt.body, within);
        // Products of a branch are done at its end.
        const end = this.#isBranch(stmt, within) ? this.#settle() : [];
        return [...wait, { ...stmt, body: [...body, ...end] }];
      }
      default:
        return ["body" in stmt ? { ...stmt, body: this.list(stmt.body, within) } : stmt];
    }
  }

  #loop(stmt: Of<"for">, { looped, constants }: Within): Stmt {
    const [from, to] = [stmt.from, stmt.to].map((e) => substituteExpr(e, constants));
    // One turn is no loop.
    const once = from?.kind === "const" && to?.kind === "const" && to.value - from.value <= 1;
    const inside = once
      ? { looped, constants: new Map([...constants, [stmt.var, lit(from.value)] as const]) }
      : { looped: looped || !stmt.unroll, constants };
    return { ...stmt, body: this.list(stmt.body, inside) };
  }

  #multiply(stmt: Of<"mma">, within: Within): readonly Stmt[] {
    // An accumulator that instructions of fewer columns go on with: those of all have to be done.
    const apart = stmt.columns !== undefined && !this.#apart.has(stmt.acc.buffer);
    const wait = apart ? this.#settle() : [];
    if (apart) this.#apart.add(stmt.acc.buffer);
    // Sums that are promoted have been waited for.
    const { acc, a, b, columns = null } = stmt;
    const rings = readsOf(stmt).flatMap(({ buffer }) => this.#ringOf.get(buffer) ?? []);
    const group = { tiles: [acc.buffer, a.buffer, b.buffer], columns, rings };
    this.#pending = stmt.twoLevel === undefined ? [...this.#pending, group] : [];
    const slot = substituteExpr(stmt.a.slot, within.constants);
    this.#chunk = slot.kind === "mod" ? slot.lhs : null;
    return [...wait, stmt];
  }

  /** Groups of products that may go on when a chunk is given back: those of the chunk at hand, where that is a later one and has been multiplied. */
  #running({ ring, at }: Of<"release">, { looped, constants }: Within): 0 | 1 {
    const current = this.#waited.get(ring);
    if (!looped || this.#chunk === null || current === undefined) return 0;
    return sameValue(this.#chunk, current) && !sameValue(current, substituteExpr(at, constants)) ? 1 : 0;
  }

  /** Accumulators are read or written, or some columns of them, while products into others run; or tiles that products read. */
  #settleFor(tiles: readonly string[], columns?: Columns): readonly Stmt[] {
    return this.#settleWhere(
      (group) => group.tiles.some((tile) => tiles.includes(tile)) && meets(group.columns, columns),
    );
  }

  #settleWhere(has: (group: Group) => boolean): readonly Stmt[] {
    const last = this.#pending.findLastIndex(has);
    return last < 0 ? [] : this.#settle(this.#pending.length - 1 - last);
  }

  /** A slot is given back: what reads it is done. */
  #settleRing(stmt: Of<"release">, within: Within): readonly Stmt[] {
    const running = this.#running(stmt, within);
    return running > 0 ? this.#settle(running) : this.#settleWhere(({ rings }) => rings.includes(stmt.ring));
  }

  /** Whether threads go by a condition together: it asks for sizes of the launch, and has a loop in it. */
  #isBranch({ cond, body }: Of<"if">, { looped }: Within): boolean {
    const used = [...freeVars(cond.rhs, freeVars(cond.lhs))];
    return (
      !looped &&
      used.length > 0 &&
      used.every((name) => this.#sizes.has(name)) &&
      eachStmt(body).some((s) => s.kind === "for" && !s.unroll)
    );
  }
}

/** Tiles of registers whose elements are read or written. */
const elementsOf = (stmts: readonly Stmt[]): readonly string[] =>
  eachStmt(stmts).flatMap((stmt) =>
    stmt.kind === "map" || stmt.kind === "reduce.row" ? viewsOf(stmt).map(({ buffer }) => buffer) : [],
  );

/** Whether products of some columns (null: of all) write others. */
const meets = (group: Columns | null, columns: Columns | undefined): boolean =>
  group === null || columns === undefined || (group.from < columns.to && columns.from < group.to);
