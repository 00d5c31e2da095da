/** Every element of D is written once: what a work tile stores is whole, and work tiles follow each other. */
import { outerRuns } from "@tilewright/core";
import { columnRuns, type Run } from "../columns.ts";
import { evaluateCond } from "../cond.ts";
import { dsmemReduction } from "../dsmemReduction.ts";
import { type Env, evaluateExpr, freeVars, leastCommonMultiple } from "../expr.ts";
import { childrenOf } from "../rewrite.ts";
import { type Epilogue, type Expr, type Stmt, type Tiles, tileLoopVars } from "../types.ts";
import { iterationsWithin } from "../within.ts";
import { type Fault, MOST_ITERATIONS, type Site, type Subject, type Verifier } from "./verifier.ts";

/** Rows and columns of D that a statement stores. */
interface Stored {
  readonly at: Site;
  readonly spans: Box;
}

type Box = readonly [rows: Run, columns: Run];

/** Most parts in which a tile is stored. */
const MOST_PARTS = 4096;

const AXES = ["rows", "columns"] as const;

export const output: Verifier = {
  name: "output",
  code: "TW3119",
  property:
    "the epilogues of a work tile, in all turns of the loops around them, store every element of it exactly once, whichever work tile of its CTA it is, and the tiles follow each other over D",
  from: "nest",
  *check(subject) {
    const stores = subject.sites.filter(({ stmt }) => stmt.kind === "epilogue" && stmt.dst.buffer === "D");
    if (stores.length === 0)
      yield { at: "%D", message: "no epilogue writes %D", hint: "end the tile with an epilogue" };
    const { m, n } = subject.program.problem;
    for (const group of groupsOf(stores)) {
      const [first] = group;
      if (first === undefined) continue;
      const work = new WorkTiles(subject, first, group);
      const fault = work.foreign() ?? axisFault(work, 0, [m, n]) ?? axisFault(work, 1, [m, n]);
      if (fault !== null) yield fault;
    }
  },
};

const tilesOf = ({ parents }: Site): Tiles | null =>
  parents.find((stmt): stmt is Tiles => stmt.kind === "tiles") ?? null;

/** Epilogues that store all of D between them: of ping-pong roles each has all. */
function groupsOf(stores: readonly Site[]): readonly (readonly Site[])[] {
  const groups = new Map<Stmt | null, Site[]>();
  for (const site of stores) {
    const tiles = tilesOf(site);
    if (tiles === null) continue;
    const key = (tiles.loop?.of ?? 1) > 1 ? tiles : null;
    groups.set(key, [...(groups.get(key) ?? []), site]);
  }
  return [...groups.values()];
}

/** What decides whether, and in which turns, an epilogue inside runs. */
const decides = (stmt: Stmt): readonly Expr[] =>
  stmt.kind === "for"
    ? [stmt.from, stmt.to, ...(stmt.within?.bounds ?? [])]
    : stmt.kind === "if"
      ? [stmt.cond.lhs, stmt.cond.rhs]
      : [];

/** After how many values of a variable an expression repeats, but for what grows with it. */
function periodOf(e: Expr, name: string): number {
  switch (e.kind) {
    case "const":
    case "var":
      return 1;
    case "add":
    case "sub":
      return leastCommonMultiple(periodOf(e.lhs, name), periodOf(e.rhs, name));
    case "mul":
      return periodOf(e.lhs, name);
    case "div":
    case "mod":
      return freeVars(e.lhs).has(name) ? e.divisor * periodOf(e.lhs, name) : 1;
  }
}

/** Whether an expression is a multiple of variables and something without them. */
function isAffineIn(e: Expr, names: ReadonlySet<string>): boolean {
  switch (e.kind) {
    case "const":
    case "var":
      return true;
    case "add":
    case "sub":
      return isAffineIn(e.lhs, names) && isAffineIn(e.rhs, names);
    case "mul":
      return isAffineIn(e.lhs, names);
    case "div":
    case "mod":
      return isFree(e.lhs, names);
  }
}

const isFree = (e: Expr, names: ReadonlySet<string>): boolean =>
  ![...freeVars(e)].some((name) => names.has(name));

/** The work tiles that some epilogues store. */
class WorkTiles {
  readonly tiles: readonly Tiles[];
  readonly first: Site;
  /** Rows of D that its longest run has; null where rows are the problem's. */
  readonly run: number | null;
  readonly #sites: ReadonlyMap<Stmt, Site>;
  readonly #around: ReadonlySet<Stmt>;
  /** CTAs of a cluster that store a slice each. */
  readonly #rank: { readonly var: string; readonly slices: number } | null;
  /** Numbers of work tiles of a CTA, and of chunks before them, on which places depend, and with which period. */
  readonly #visits = new Map<string, number>();
  /** Tiles and turns that are still tried. */
  #left = MOST_ITERATIONS;
  #origin: { readonly stored: readonly (readonly Stored[])[] | null } | null = null;

  constructor({ program }: Subject, first: Site, stores: readonly Site[]) {
    this.first = first;
    this.tiles = [...new Set(stores.flatMap((site) => tilesOf(site) ?? []))];
    this.run = outerRuns(program.problem)?.most ?? null;
    this.#sites = new Map(stores.map((site) => [site.stmt, site]));
    this.#around = new Set(stores.flatMap(({ parents }) => parents));
    const meeting = dsmemReduction(program);
    this.#rank = meeting && { var: meeting.split.var, slices: meeting.slices };
    const counts = new Set(this.tiles.flatMap(({ loop }) => tileLoopVars(loop)));
    for (const e of [...this.#epilogues().flatMap(({ dst }) => dst.origin), ...this.#decisions()])
      for (const name of freeVars(e))
        if (counts.has(name))
          this.#visits.set(name, leastCommonMultiple(this.#visits.get(name) ?? 1, periodOf(e, name)));
  }

  #epilogues(): readonly Epilogue[] {
    return [...this.#sites.keys()].flatMap((stmt) => (stmt.kind === "epilogue" ? [stmt] : []));
  }

  #decisions(): readonly Expr[] {
    return [...this.#around].flatMap(decides);
  }

  /** A part of D that begins, or is stored, where neither the tile's number nor a loop of the tile says. */
  foreign(): Fault | null {
    for (const [stmt, at] of this.#sites) {
      const tiles = tilesOf(at);
      if (stmt.kind !== "epilogue" || tiles === null) continue;
      const loops = at.parents.flatMap((s) => (s.kind === "for" ? [s.var] : []));
      const own = [...loops, ...this.#visits.keys(), ...(this.#rank === null ? [] : [this.#rank.var])];
      const asked = [
        ...AXES.map((what, axis) => ({
          what: `${what} of %D begin where`,
          exprs: stmt.dst.origin.filter((_, i) => i === axis),
          vars: tiles.vars.filter((_, i) => i === axis),
        })),
        { what: "stores as often as", exprs: at.parents.flatMap(decides), vars: tiles.vars },
      ];
      for (const { what, exprs, vars } of asked) {
        const known = new Set([...own, ...vars]);
        const names = exprs.flatMap((e) => [...freeVars(e)]);
        const name =
          names.find((each) => !known.has(each)) ??
          (exprs.some((e) => this.#drifts(e)) ? names.find((each) => this.#visits.has(each)) : undefined);
        if (name !== undefined)
          return {
            at,
            message: `${what} %${name} says, of which the tile has several values`,
            hint: `write ${vars.map((each) => `%${each}`).join(" or ")}, the tile's own number`,
          };
      }
    }
    return null;
  }

  /** Whether what an expression says grows with the number of the CTA's work tile. */
  #drifts(e: Expr): boolean {
    const at = (visit: number) =>
      new Map([...freeVars(e)].map((name) => [name, visit * (this.#visits.get(name) ?? 0)]));
    return evaluateExpr(e, at(0)) !== evaluateExpr(e, at(1));
  }

  /** Whether each tile is as far from the one before along an axis: then two tell all. */
  isEven(axis: 0 | 1): boolean {
    const vars = new Set(this.tiles.map((tiles) => tiles.vars[axis]));
    return (
      this.#epilogues().every(({ dst }) => isAffineIn(dst.origin[axis], vars)) &&
      this.#decisions().every((e) => isFree(e, vars))
    );
  }

  /** What the tile of this number along an axis, the first along the other, stores, as each of the work tiles of its CTA; null where that is too much to try. */
  at(axis: 0 | 1, number: number): readonly (readonly Stored[])[] | null {
    if (number > 0) return this.#tile(axis, number);
    this.#origin ??= { stored: this.#tile(0, 0) };
    return this.#origin.stored;
  }

  #tile(axis: 0 | 1, number: number): readonly (readonly Stored[])[] | null {
    const states: Stored[][] = [];
    const env = new Map<string, number>();
    const tile = (): boolean => {
      const found: Stored[] = [];
      states.push(found);
      if (this.#left-- <= 0) return false;
      return this.tiles.every(({ vars, body }) => {
        for (const [i, name] of vars.entries()) env.set(name, i === axis ? number : 0);
        return this.#collect(body, env, found);
      });
    };
    const visits = [...this.#visits].reduce(
      (inner, [name, period]) =>
        () =>
          this.#turns(name, [0, period], env, inner),
      tile,
    );
    return visits() ? states : null;
  }

  #collect(stmts: readonly Stmt[], env: Map<string, number>, into: Stored[]): boolean {
    return stmts.every((stmt) => {
      const at = this.#sites.get(stmt);
      if (at !== undefined && stmt.kind === "epilogue") {
        into.push(...storedBy(stmt, at, env));
        return into.length <= MOST_PARTS;
      }
      if (!this.#around.has(stmt)) return true;
      const body = (): boolean => this.#collect(childrenOf(stmt), env, into);
      if (stmt.kind === "if") return !evaluateCond(stmt.cond, env) || body();
      if (stmt.kind === "reduce" && stmt.by === "cluster" && this.#rank !== null)
        return this.#turns(this.#rank.var, [0, this.#rank.slices], env, body);
      if (stmt.kind !== "for") return body();
      const [from = 0, to = 0, low = from, high = to] = decides(stmt).map((e) => evaluateExpr(e, env));
      const turns = iterationsWithin([from, to], [low, high], stmt.within?.take ?? "all");
      return this.#turns(stmt.var, turns, env, body);
    });
  }

  /** Whether all turns could be tried. */
  #turns(
    name: string,
    [from, to]: readonly [number, number],
    env: Map<string, number>,
    turn: () => boolean,
  ): boolean {
    for (let i = from; i < to; i++) {
      env.set(name, i);
      if (this.#left-- <= 0 || !turn()) return false;
    }
    return true;
  }
}

function storedBy({ dst, columns }: Epilogue, at: Site, env: Env): readonly Stored[] {
  const [row, column] = [evaluateExpr(dst.origin[0], env), evaluateExpr(dst.origin[1], env)];
  const rows = { from: row, to: row + dst.extent[0] };
  return columnRuns(columns, dst.extent[1]).map(({ from, to }) => ({
    at,
    spans: [rows, { from: column + from, to: column + to }],
  }));
}

/** Along one axis the tiles, in the order of their numbers, follow each other from 0 to the extent; of runs from the first row of one, as many as the longest has. */
function axisFault(work: WorkTiles, axis: 0 | 1, limits: readonly [number, number]): Fault | null {
  const [count = 0] = work.tiles.map(({ extents }) => extents[axis]);
  const even = work.isEven(axis);
  const ends = [...limits];
  let [next, start, shape] = [0, 0, ""];
  let last = work.first;
  for (let i = 0; i < count; i++) {
    const states = work.at(axis, i);
    if (states === null)
      return {
        at: last,
        message: `stores %D in more parts than are tried: ${MOST_PARTS} of a tile, ${MOST_ITERATIONS} turns of all`,
        hint: "fewer and larger parts, at a place that is a multiple of the tile's number",
      };
    const boxes = states.map(boxOf);
    const [box] = boxes;
    const [first] = states[0] ?? [];
    if (box === undefined || first === undefined) continue;
    last = first.at;
    const begins = box[axis].from;
    if (i === 0 && axis === 0 && work.run !== null) {
      next = begins;
      ends[0] = Math.min(limits[0], next + work.run);
    }
    for (const { [axis]: span } of boxes) {
      if (span.from !== next)
        return wrong(first.at, axis, span.from, next, `tile ${i} should begin at ${next}`);
      if (span.to !== box[axis].to)
        return wrong(first.at, axis, box[axis].to, span.to, `tile ${i} should end at ${box[axis].to}`);
    }
    const own = states.map((stored, s) => shapeOf(stored, boxes[s] ?? box)).join("|");
    if (own === shape && even) {
      next = box[axis].to + (count - 1 - i) * (begins - start);
      break;
    }
    // The first tile is the first along both axes.
    const known = own === shape || (axis === 1 && i === 0);
    for (const [s, stored] of known ? [] : states.entries()) {
      const fault = tileFault(stored, boxes[s] ?? box, ends);
      if (fault !== null) return fault;
    }
    [next, start, shape] = [box[axis].to, begins, own];
  }
  const end = ends[axis] ?? 0;
  if (next >= end) return null;
  const size = next / count;
  const hint = size > 0 ? `${Math.ceil(end / size)} tiles of ${size} cover ${end}` : "a tile stores its part";
  return wrong(last, axis, end, next, hint);
}

function boxOf(stored: readonly Stored[]): Box {
  const along = (axis: 0 | 1): Run => ({
    from: stored.reduce((least, { spans }) => Math.min(least, spans[axis].from), Number.POSITIVE_INFINITY),
    to: stored.reduce((most, { spans }) => Math.max(most, spans[axis].to), 0),
  });
  return [along(0), along(1)];
}

/** What a tile stores, seen from where it begins. */
const shapeOf = (stored: readonly Stored[], box: Box): string =>
  stored
    .flatMap(({ spans }) => spans.flatMap(({ from, to }, i) => [from - (box[i]?.from ?? 0), to - from]))
    .join();

function wrong(at: Site, axis: 0 | 1, from: number, next: number, hint: string, within = ""): Fault {
  const [low, high] = [Math.min(from, next), Math.max(from, next) - 1];
  const what = from > next ? "never written" : "written twice";
  return { at, message: `${AXES[axis]} ${low} to ${high} of %D${within} are ${what}`, hint };
}

/** Between neighbouring cuts of a tile's rows its columns follow each other. What lies outside of D nobody needs. */
function tileFault(stored: readonly Stored[], [, columns]: Box, ends: readonly number[]): Fault | null {
  const [endRow = 0, endColumn = 0] = ends;
  const cuts = [...new Set(stored.flatMap(({ spans: [{ from, to }] }) => [from, to]))].sort((a, b) => a - b);
  let at = stored[0]?.at;
  for (const [i, top] of cuts.entries()) {
    const bottom = Math.min(cuts[i + 1] ?? top, endRow);
    const line = stored
      .filter(({ spans: [rows] }) => rows.from <= top && top < rows.to)
      .sort((a, b) => a.spans[1].from - b.spans[1].from);
    let next = columns.from;
    for (const { from, to, by } of [
      ...line.map((each) => ({ ...each.spans[1], by: each.at })),
      { from: columns.to, to: columns.to, by: null },
    ]) {
      const again = at === by && from < next;
      at = by ?? at;
      if (at !== undefined && top < bottom && from !== next && Math.min(from, next) < endColumn) {
        const hint = again
          ? "let the part depend on every loop around it, or put it behind them"
          : "epilogues of parts that follow each other";
        const until = from > next ? next : Math.min(next, to);
        const [low, high] = [Math.min(from, until), Math.max(from, until)];
        if (low > columns.from || high < columns.to)
          return wrong(at, 1, from, until, hint, ` in rows ${top} to ${bottom - 1}`);
        return from > next ? wrong(at, 0, bottom, top, hint) : wrong(at, 0, top, bottom, hint);
      }
      next = to;
    }
  }
  return null;
}
