/** Products as the statements that issue them: fences, groups, what overwrites accumulators, and what ptxas wants around them. */
import {
  add,
  type Buffer,
  bufferOf,
  cond,
  eachStmt,
  elementSources,
  freeVars,
  holdsResponses,
  launchRanges,
  must,
  type Pass,
  registerBuffer,
  type Stmt,
  type TileProgram,
  type View,
  v,
  wholeView,
} from "@tilewright/ir";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

export const issueProducts: Pass = {
  name: "issueProducts",
  summary: "Products get their fences and groups; the first ones of a work tile overwrite their accumulator",
  from: "machine",
  to: "machine",
  // Barriers have no places yet.
  unfinished: true,
  run(program) {
    const walk = new Walk(program);
    const body = walk.list(program.body, null);
    return { ...program, body, buffers: [...program.buffers, ...walk.made] };
  },
};

/** Fewest columns under one factor whose scales are computed ahead of their sums: the registers of more factors are those of sums. */
const LEAST_SHARED = 16;

/** The loop over chunks that is open. */
type Loop = Pick<Of<"for">, "var" | "from"> | null;

/** Statements in the order of the threads that run them. */
class Walk {
  readonly #program: TileProgram;
  readonly #sizes: ReadonlyMap<string, unknown>;
  /** Whether blocks loop over work tiles: the zeros of the start are then not there again. */
  readonly #stays: boolean;
  /** Accumulators that products are added to; others take sums of products. */
  readonly #multiplied: ReadonlySet<string>;
  /** Those that epilogues store. */
  readonly #stored: ReadonlySet<string>;
  /** Tiles of sums that are promoted, by their accumulators. */
  readonly #parts = new Map<string, Set<string>>();
  /** Accumulators of 0 into which nothing has been multiplied since. */
  readonly #fresh = new Set<string>();
  /** Accumulators that have other registers, for products of some columns. */
  readonly #renamed = new Set<string>();
  /** A loop is open in whose turns sums begin anew. */
  #again = false;
  /** Products have stood in a loop over chunks. */
  #looped = false;
  /** Register tiles for scales of sums, by name. */
  readonly #made = new Map<string, Buffer>();

  get made(): readonly Buffer[] {
    return [...this.#made.values()];
  }

  constructor(program: TileProgram) {
    const all = eachStmt(program.body);
    this.#program = program;
    this.#sizes = launchRanges(program.problem);
    this.#stays = all.some((s) => s.kind === "tiles" && s.loop !== null);
    this.#multiplied = new Set(
      all.flatMap((s) => (s.kind === "mma" && s.twoLevel === undefined ? [s.acc.buffer] : [])),
    );
    this.#stored = new Set(all.flatMap((s) => (s.kind === "epilogue" ? [s.acc.buffer] : [])));
    for (const s of all)
      if (s.kind === "mma" && s.twoLevel !== undefined)
        this.#parts.set(s.acc.buffer, new Set(this.#parts.get(s.acc.buffer)).add(s.twoLevel.sum.buffer));
  }

  list(stmts: readonly Stmt[], loop: Loop): readonly Stmt[] {
    const out: Stmt[] = [];
    for (let i = 0; i < stmts.length; i++) {
      const stmt = stmts[i];
      if (stmt === undefined) continue;
      if (stmt.kind !== "mma" || stmt.twoLevel === undefined) out.push(...this.#stmt(stmt, loop));
      else {
        // Sums are in registers when the last products are done: their slot is given back before they are promoted.
        const behind = stmts.slice(i + 1);
        const last = behind.findIndex((each) => !isGivenBack(each));
        const free = last < 0 ? behind : behind.slice(0, last);
        out.push(...this.#promoted(stmt, stmt.twoLevel, free));
        i += free.length;
      }
    }
    return out;
  }

  #stmt(stmt: Stmt, loop: Loop): readonly Stmt[] {
    switch (stmt.kind) {
      case "fill":
        if (stmt.value !== 0 || !this.#multiplied.has(stmt.dst.buffer))
          return [stmt, ...this.#zerosOnce(stmt.dst.buffer)];
        this.#fresh.add(stmt.dst.buffer);
        // Once all the same, so that no register is read before it was written, if only to be multiplied by nothing.
        return [{ ...stmt, once: true }];
      case "for":
        return this.#for(stmt, loop);
      case "if": {
        const zeros = this.#isBranch(stmt, loop) ? [...this.#fresh] : [];
        return [{ ...stmt, ...(zeros.length > 0 ? { zeros } : {}), body: this.list(stmt.body, loop) }];
      }
      case "vote": {
        // All warps begin sums, whichever way they go.
        const body = this.list(stmt.body, loop);
        const begins = ({ kind }: Stmt): boolean => kind === "fill";
        return [...body.filter(begins), { ...stmt, body: body.filter((s) => !begins(s)) }];
      }
      case "mma":
        return this.#multiply(stmt, loop);
      case "epilogue": {
        const { buffer } = stmt.acc;
        const before = stmt.columns === undefined ? this.#read(stmt) : [];
        const last = stmt.columns?.to === stmt.columns?.of && this.#renamed.delete(buffer);
        return [...before, stmt, ...(last ? [{ kind: "rename", tile: buffer, back: true } as const] : [])];
      }
      case "map":
      case "reduce.row":
        return [
          ...elementSources(stmt.value).flatMap((acc) =>
            this.#multiplied.has(acc.buffer) ? this.#read({ acc }) : [],
          ),
          stmt,
        ];
      case "reduce":
        // A second kernel multiplies nothing.
        if (stmt.by === "kernel") return [...this.#read(stmt), stmt];
        return [...this.#read(stmt), { ...stmt, body: this.list(stmt.body, loop) }];
      default:
        return ["body" in stmt ? { ...stmt, body: this.list(stmt.body, loop) } : stmt];
    }
  }

  #for(stmt: Of<"for">, loop: Loop): readonly Stmt[] {
    const { from, to } = stmt;
    const once = from.kind === "const" && to.kind === "const" && to.value - from.value <= 1;
    const begins = eachStmt(stmt.body).some((s) => s.kind === "fill" && this.#multiplied.has(s.dst.buffer));
    if (begins && !stmt.unroll) {
      // Sums that begin anew in each turn; others go on, and begin in front of the loop.
      const before = [...this.#fresh].flatMap((name) => this.#zero(name));
      const outer = this.#again;
      this.#again = true;
      const body = this.list(stmt.body, null);
      this.#again = outer;
      return [...before, { ...stmt, body }];
    }
    // Of turns that follow each other as statements only one could overwrite.
    const zeros = stmt.unroll && !once && eachStmt(stmt.body).some(({ kind }) => kind === "mma");
    return [
      ...(zeros ? [...this.#fresh].flatMap((name) => this.#zero(name)) : []),
      { ...stmt, body: this.list(stmt.body, once || stmt.unroll ? loop : stmt) },
    ];
  }

  #multiply(stmt: Of<"mma">, loop: Loop): readonly Stmt[] {
    const { buffer } = stmt.acc;
    const renames = stmt.columns !== undefined && !this.#renamed.has(buffer);
    if (renames) this.#renamed.add(buffer);
    if (loop !== null) this.#looped = true;
    const first = this.#fresh.delete(buffer) && (this.#stays || this.#again);
    const keep = first ? { keep: loop === null ? (false as const) : cond(v(loop.var), "!=", loop.from) } : {};
    return [
      ...(renames ? [{ kind: "rename", tile: buffer, back: false } as const] : []),
      { kind: "wgmma.fence" },
      { ...stmt, ...keep },
      { kind: "wgmma.commit" },
    ];
  }

  /**
   * Runs of a chunk along k, one after the other, and of each as many columns as the tile of sums has: made apart, waited for, and added to the accumulator by their factors.
   * `free`: what gives the chunk's slot back, as soon as all products are done. Where columns share factors, these are multiplied by those of the rows while products run:
   * which uses what threads have loaded from the slot, so that nothing waits for the loads.
   */
  #promoted(
    { twoLevel: _, scales, ...stmt }: Of<"mma">,
    { sum, every }: NonNullable<Of<"mma">["twoLevel"]>,
    free: readonly Stmt[],
  ): readonly Stmt[] {
    const [chunk, columns, width] = [stmt.a.extent[1], stmt.acc.extent[1], sum.extent[1]];
    const each = scales === undefined ? width : columns / scales.b.extent[0];
    const early = scales !== undefined && this.#areShared(scales.b, each);
    const rest = early ? free.filter(({ kind }) => kind !== "fence") : free;
    const out: Stmt[] = [];
    for (let from = 0; from < chunk; from += every)
      for (let col = 0; col < columns; col += width) {
        const k = Math.min(every, chunk - from);
        const last = from + k === chunk && col + width === columns;
        const run = from / every;
        const rows = scales && part(scales.a, 1, run, 1);
        const across = scales && part(part(scales.b, 1, run, 1), 0, col / each, width / each);
        const made: Stmt[] = [];
        const sums: Stmt[] = [];
        if (early && rows !== undefined && across !== undefined)
          for (let at = 0; at < width; at += each) {
            const both = this.#scaleTile(scales.a, at / each);
            const args = [rows, part(across, 0, at / each, 1)].map(
              (view) => ({ kind: "leaf", leaf: { kind: "view", view } }) as const,
            );
            made.push({ kind: "map", dst: both, value: { kind: "apply", fn: "mul", args } });
            sums.push({
              kind: "accumulate",
              acc: part(stmt.acc, 1, col + at, each),
              sum: part(sum, 1, at, each),
              scales: { a: both },
            });
          }
        else
          sums.push({
            kind: "accumulate",
            acc: part(stmt.acc, 1, col, width),
            sum,
            ...(rows && across && { scales: { a: rows, b: across } }),
          });
        out.push(
          { kind: "wgmma.fence" },
          {
            ...stmt,
            acc: sum,
            a: part(stmt.a, 1, from, k),
            b: part(part(stmt.b, 0, from, k), 1, col, width),
            keep: false,
          },
          { kind: "wgmma.commit" },
          ...made,
          { kind: "wgmma.wait", pending: 0 },
          ...(last ? rest : []),
          ...sums,
        );
      }
    return out;
  }

  /** Whether every thread has the same factors of columns, each of several that follow each other. */
  #areShared({ buffer }: View, each: number): boolean {
    const { own } = bufferOf(this.#program, buffer);
    return each >= LEAST_SHARED && own !== null && own.rows.every(({ tier }) => tier === "register");
  }

  /** Registers for the products of the factors of rows with one of columns. */
  #scaleTile({ buffer, extent: [rows] }: View, i: number): View {
    const name = `scale${i}`;
    let made = this.#made.get(name);
    if (made === undefined) {
      const own = must(bufferOf(this.#program, buffer).own, "factors have an owner");
      made = { ...registerBuffer(name, "f32", [rows, 1]), own: { rows: own.rows, cols: [] } };
      this.#made.set(name, made);
    }
    return wholeView(made);
  }

  /** Tiles of sums that are promoted to an accumulator: once, so that no register is read before it was written, if only to be overwritten. */
  #zerosOnce(acc: string): readonly Stmt[] {
    return [...(this.#parts.get(acc) ?? [])].map((name) => {
      const dst = this.#program.buffers.find((b) => b.name === name);
      return { kind: "fill", dst: wholeView(must(dst, "sums have a tile")), value: 0, once: true };
    });
  }

  /** Accumulators are read; where no chunk was multiplied they are zeros. */
  #read({ acc }: Pick<Of<"epilogue">, "acc">): readonly Stmt[] {
    const { problem, rings, buffers } = this.#program;
    const [rows, columns] = buffers.find(({ name }) => name === acc.buffer)?.shape ?? [0, 0];
    // Sums that no epilogue stores are read by maps, wherever they lie.
    const inside = !this.#stored.has(acc.buffer) || (problem.m >= rows && problem.n >= columns);
    // Copies by threads of straight code are such stores, too, as ptxas moves before the wait.
    const copies = rings.filter((ring) => !holdsResponses(ring));
    const pins = !this.#looped && !(inside && copies.every(({ transport }) => transport === "tma"));
    return [
      ...(pins ? [{ kind: "pin", tile: acc.buffer } as const] : []),
      ...(this.#fresh.has(acc.buffer) ? this.#zero(acc.buffer) : []),
    ];
  }

  #zero(name: string): readonly Stmt[] {
    this.#fresh.delete(name);
    const dst = this.#program.buffers.find((b) => b.name === name);
    return dst === undefined ? [] : [{ kind: "fill", dst: wholeView(dst), value: 0 }];
  }

  /** Whether threads go by a condition together: it asks for sizes of the launch, and has a loop in it. */
  #isBranch({ cond: { lhs, rhs }, body }: Of<"if">, loop: Loop): boolean {
    const used = [...freeVars(rhs, freeVars(lhs))];
    return (
      loop === null &&
      used.length > 0 &&
      used.every((name) => this.#sizes.has(name)) &&
      eachStmt(body).some((s) => s.kind === "for" && !s.unroll)
    );
  }
}

/** What tells a producer that a slot is free. */
const isGivenBack = (stmt: Stmt): boolean =>
  (stmt.kind === "fence" && stmt.what === "async") ||
  stmt.kind === "warp.sync" ||
  (stmt.kind === "mbar.arrive" && stmt.barrier.edge === "empty");

/** Part of a view along an axis. */
const part = (view: View, axis: 0 | 1, at: number, extent: number): View => ({
  ...view,
  origin: axis === 0 ? [add(view.origin[0], at), view.origin[1]] : [view.origin[0], add(view.origin[1], at)],
  extent: axis === 0 ? [extent, view.extent[1]] : [view.extent[0], extent],
});
