/** Accumulators begin with something, and are read when nothing more is added. */
import { foldCond, substituteCond } from "../cond.ts";
import { elementSources, isElementStmt } from "../elements.ts";
import { ringsByBuffer } from "../interpret/ringUse.ts";
import { rangeOf } from "../ranges.ts";
import { eachStmt } from "../rewrite.ts";
import type { Expr, Of, Stmt, View } from "../types.ts";
import { readsOf } from "../views.ts";
import { firstIteration } from "../within.ts";
import { commonColumns } from "./proof/registerSums.ts";
import type { Site, Verifier } from "./verifier.ts";

export const written: Verifier = {
  name: "written",
  code: "TW3158",
  property:
    "every work tile fills or overwrites the accumulator before the first product is added to it, and adds none behind its epilogue",
  from: "nest",
  waivable: true,
  given: true,
  *check({ program, sites }) {
    const ringed = ringsByBuffer(program);
    const kept = program.buffers.filter(({ name, space }) => space !== "global" && !ringed.has(name));
    const walk = new Walk(
      new Map(sites.map((site) => [site.stmt, site])),
      new Set(kept.map(({ name }) => name)),
      new Map(program.rings.map(({ name, buffers }) => [name, buffers])),
    );
    walk.list(program.body, new Filled(), new Map());
    for (const [site, tile] of walk.empty)
      yield {
        at: site,
        message: `reads %${tile}, which nothing has written in this tile`,
        hint: `write what %${tile} holds before it`,
      };
    for (const site of walk.stale)
      if (site.stmt.kind === "mma" || site.stmt.kind === "accumulate")
        yield {
          at: site,
          message: `adds to %${site.stmt.acc.buffer}, which nothing has filled in this tile`,
          hint: `write fill %${site.stmt.acc.buffer} = 0 before it`,
        };
    for (const site of walk.wiped)
      yield {
        at: site,
        message: "begins anew in each turn of the loop that adds to it",
        hint: "put it before the loop",
      };
    for (const site of walk.late)
      yield {
        at: site,
        message: "reads an accumulator to which products are added behind it",
        hint: "put it behind the loops over K chunks",
      };
  },
};

/** What is added to an accumulator, or some columns of it. */
interface Adds {
  readonly acc: View;
  readonly columns?: Of<"mma">["columns"];
}

/** Accumulators that hold something whatever path led here, and those of which products of some columns have overwritten these. */
class Filled {
  readonly #names: Set<string>;

  constructor(names: Iterable<string> = []) {
    this.#names = new Set(names);
  }

  add(tile: string, columns?: Of<"mma">["columns"]): void {
    this.#names.add(key(tile, columns));
  }

  /** Whether the tile holds something, or some columns of it. */
  holds(tile: string): boolean {
    return [...this.#names].some((name) => name === tile || name.startsWith(`${tile} `));
  }

  has({ acc, columns }: Adds): boolean {
    return this.#names.has(acc.buffer) || this.#names.has(key(acc.buffer, columns));
  }

  copy(): Filled {
    return new Filled(this.#names);
  }

  /** What both hold, as where two paths meet. */
  meet(other: Filled): Filled {
    return new Filled([...this.#names].filter((name) => other.#names.has(name)));
  }
}

const key = (tile: string, columns: Of<"mma">["columns"]): string =>
  columns === undefined ? tile : `${tile} ${columns.from}..${columns.to} of ${columns.of}`;

/** Statements in the order of their first run in a work tile. */
class Walk {
  /** Products that add to what nothing has filled. */
  readonly stale = new Set<Site>();
  /** Statements that read sums to which products come later. */
  readonly late = new Set<Site>();
  /** Zeros in a loop over chunks, for sums of the chunks before. */
  readonly wiped = new Set<Site>();
  /** Statements that read tiles of their own work tile, and the tile that nothing has written. */
  readonly empty = new Map<Site, string>();
  /** Statements of the work tile that have read sums. */
  #read: readonly Of<"epilogue" | "reduce">[] = [];
  readonly #sites: ReadonlyMap<Stmt, Site>;
  /** Tiles that neither a ring nor the launch fills. */
  readonly #kept: ReadonlySet<string>;
  /** Tiles of each ring. */
  readonly #ringed: ReadonlyMap<string, readonly string[]>;

  constructor(
    sites: ReadonlyMap<Stmt, Site>,
    kept: ReadonlySet<string>,
    ringed: ReadonlyMap<string, readonly string[]>,
  ) {
    this.#sites = sites;
    this.#kept = kept;
    this.#ringed = ringed;
  }

  /** `first`: variables of the loops around that begin anew with the work tile, in their first turn. `persists`: more work tiles or turns of a loop follow, which do not repeat what is done `once`. */
  list(stmts: readonly Stmt[], before: Filled, first: ReadonlyMap<string, Expr>, persists = false): Filled {
    return stmts.reduce((filled, stmt) => this.#stmt(stmt, filled, first, persists), before);
  }

  #stmt(stmt: Stmt, filled: Filled, first: ReadonlyMap<string, Expr>, persists: boolean): Filled {
    switch (stmt.kind) {
      case "fill":
        if (stmt.once !== true || !persists) filled.add(stmt.dst.buffer);
        return filled;
      case "copy":
        filled.add(stmt.dst.buffer);
        return filled;
      case "map":
      case "reduce.row":
        this.#needs(stmt, filled);
        filled.add(stmt.dst.buffer);
        return filled;
      case "mma":
        this.#needs(stmt, filled);
        return this.#multiply(stmt, filled, first);
      case "accumulate": {
        const site = this.#sites.get(stmt);
        this.#behind(stmt);
        if (!filled.has(stmt) && site !== undefined) this.stale.add(site);
        return filled;
      }
      case "merge":
        for (const name of stmt.from) filled.add(name);
        return this.list(stmt.body, filled, first, persists);
      case "epilogue":
      case "reduce":
        this.#read = [...this.#read, stmt];
        return this.list(stmt.body, filled, first, persists);
      case "tiles":
        this.#read = [];
        this.list(stmt.body, new Filled(), new Map(), stmt.loop !== null);
        return filled;
      case "role":
        this.#read = [];
        this.list(stmt.body, new Filled(), new Map());
        return filled;
      case "for": {
        if (foldCond({ lhs: stmt.from, op: ">=", rhs: stmt.to }) === true) return filled;
        const turn = firstIteration(stmt);
        const begins = turn === null ? first : new Map([...first, [stmt.var, turn] as const]);
        const inside = this.list(stmt.body, filled.copy(), begins, true);
        // What the next turn adds comes behind what this one reads.
        const within = eachStmt(stmt.body);
        const added = new Set(
          within.flatMap((s) => (s.kind === "mma" || s.kind === "accumulate" ? [s.acc.buffer] : [])),
        );
        // Sums of a turn that statements of the turn go on from, or another role.
        const used = new Set(
          within.flatMap((s) => {
            if (s.kind === "copy") return [s.src.buffer];
            if (s.kind === "commit") return this.#ringed.get(s.ring) ?? [];
            return isElementStmt(s) ? elementSources(s.value).map((view) => view.buffer) : [];
          }),
        );
        for (const again of within) {
          if (again.kind === "mma" || again.kind === "accumulate") this.#behind(again);
          const { buffer } = again.kind === "fill" ? again.dst : { buffer: "" };
          if (added.has(buffer) && !used.has(buffer)) this.#found(this.wiped, again);
        }
        return this.#runs(stmt) ? inside : filled;
      }
      case "if": {
        const known = foldCond(stmt.cond);
        if (known === false) return filled;
        const inside = this.list(stmt.body, filled.copy(), first, persists);
        if (known === true) return inside;
        const otherwise = filled.copy();
        for (const tile of stmt.zeros ?? []) otherwise.add(tile);
        return inside.meet(otherwise);
      }
      default:
        return "body" in stmt ? this.list(stmt.body, filled, first, persists) : filled;
    }
  }

  /** A statement reads tiles. */
  #needs(stmt: Stmt, filled: Filled): void {
    const site = this.#sites.get(stmt);
    for (const { buffer } of readsOf(stmt))
      if (this.#kept.has(buffer) && !filled.holds(buffer) && site !== undefined) this.empty.set(site, buffer);
  }

  #multiply(stmt: Of<"mma">, filled: Filled, first: ReadonlyMap<string, Expr>): Filled {
    const overwrites =
      stmt.keep === false ||
      (stmt.keep !== undefined && foldCond(substituteCond(stmt.keep, first)) === false);
    this.#behind(stmt);
    const site = this.#sites.get(stmt);
    if (overwrites) filled.add(stmt.acc.buffer, stmt.columns);
    else if (!filled.has(stmt) && site !== undefined) this.stale.add(site);
    return filled;
  }

  /** Products of the columns that a statement has read come too late for it. */
  #behind({ acc, columns }: Adds): void {
    for (const read of this.#read) {
      const of = "columns" in read ? read.columns : undefined;
      if (read.acc.buffer === acc.buffer && commonColumns(of ?? null, columns ?? null))
        this.#found(this.late, read);
    }
  }

  #found(list: Set<Site>, stmt: Stmt): void {
    const site = this.#sites.get(stmt);
    if (site !== undefined) list.add(site);
  }

  /** Whether a loop has a turn at all sizes of the launch. */
  #runs(stmt: Of<"for">): boolean {
    const ranges = this.#sites.get(stmt)?.ranges();
    return ranges === undefined || rangeOf(stmt.to, ranges)[0] > rangeOf(stmt.from, ranges)[1];
  }
}
