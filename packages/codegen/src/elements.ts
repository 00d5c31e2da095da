/**
 * `map` and `reduce.row`: expressions of the elements that a thread holds. What the elements of a row share is computed once. A row's sum or maximum comes
 * from the owner of its tile: over the thread's registers, then among the lanes that hold the row, then, through shared memory, among the warps.
 */
import type { Expression } from "@tilewright/core";
import {
  bufferOf,
  codesOf,
  contiguousIn,
  ELEMENT_BARRIER,
  type ElementLeaf,
  type ElementStmt,
  elementDomain,
  elementSources,
  factorOf,
  lit,
  must,
  type OwnedRegister,
  type Ownership,
  ownedRegisters,
  registerRun,
  type View,
} from "@tilewright/ir";
import { f32imm, imm } from "@tilewright/ptx";
import { Arithmetic, type F32 } from "./arithmetic.ts";
import { cachePolicy } from "./cachePolicy.ts";
import { CannotLower } from "./cannotLower.ts";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { loadedRun, storeResult } from "./elementPairs.ts";
import type { StmtOf } from "./engine.ts";
import { accumulator } from "./epilogue.ts";
import { lowerFunction, type Value } from "./expressions.ts";
import { loadElements, loadOrZero, roundedWords, storeElements } from "./formats.ts";
import { axisIndex } from "./globalAddress.ts";
import { groupAlong, type OwnedTile, ownedTile, ownerOf } from "./registers.ts";
import { amongLanes, insideColumns } from "./rowLanes.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { insideBlock, NOWHERE, ownedPosition, type ThreadPosition } from "./threads.ts";
import { elementGuard, globalAddress } from "./viewAddress.ts";
import { lowerWeights } from "./weights.ts";

type Expr = Expression<ElementLeaf>;
type At = Pick<OwnedRegister, "row" | "col">;

/** The register tile whose owner says who computes which element: as many rows and columns as the statement goes through. */
function domainOwner(ctx: Context, stmt: ElementStmt): Ownership {
  const [rows, cols] = elementDomain(stmt);
  const views = stmt.kind === "map" ? [stmt.dst, ...elementSources(stmt.value)] : elementSources(stmt.value);
  const found = views
    .filter(({ extent }) => extent[0] === rows && extent[1] === cols)
    .map(({ buffer }) => bufferOf(ctx.program, buffer))
    .find(({ space }) => space === "register");
  return ownerOf(must(found, "a register tile says which thread has which element (elements)"));
}

function dependsOf(
  e: Expr,
  of: (arg: Expr) => readonly [boolean, boolean],
): readonly [rows: boolean, cols: boolean] {
  if (e.kind === "number") return [false, false];
  if (e.kind === "leaf")
    return e.leaf.kind === "view"
      ? [e.leaf.view.extent[0] > 1, e.leaf.view.extent[1] > 1]
      : [e.leaf.kind === "row", e.leaf.kind === "col"];
  const all = e.args.map(of);
  return [all.some(([rows]) => rows), all.some(([, cols]) => cols)];
}

/** An expression as registers, one element at a time. */
class Elements {
  readonly #ctx: Context;
  readonly #own: Ownership;
  readonly #position: ThreadPosition;
  /** What does not depend on the column, or on neither, by expression and row. */
  readonly #shared = new Map<Expr, Map<string, Value>>();
  readonly #axes = new Map<Expr, readonly [boolean, boolean]>();
  readonly #tiles = new Map<string, ReadonlyMap<string, F32>>();
  /** Elements that were loaded with their neighbours, by view and place. */
  readonly #loaded = new Map<View, Map<string, F32>>();

  constructor(ctx: Context, own: Ownership) {
    this.#ctx = ctx;
    this.#own = own;
    this.#position = ownedPosition(ctx.values, own);
  }

  /** The element's value in a register. */
  value(e: Expr, at: At): F32 {
    return new Arithmetic(this.#ctx, null).register(this.#value(e, at));
  }

  #value(e: Expr, at: At): Value {
    const [rows, cols] = this.#depends(e);
    const key = `${rows ? at.row : ""} ${cols ? at.col : ""}`;
    const known = this.#shared.get(e) ?? new Map<string, Value>();
    this.#shared.set(e, known);
    const made = known.get(key) ?? this.#make(e, at);
    known.set(key, made);
    return made;
  }

  #fresh(): F32 {
    return this.#ctx.entry.reg("f32", "e");
  }

  /** Whether the value differs along rows and along columns. */
  #depends(e: Expr): readonly [rows: boolean, cols: boolean] {
    const known = this.#axes.get(e);
    if (known !== undefined) return known;
    const made = dependsOf(e, (arg) => this.#depends(arg));
    this.#axes.set(e, made);
    return made;
  }

  #make(e: Expr, at: At): Value {
    switch (e.kind) {
      case "number":
        return Math.fround(e.value);
      case "leaf":
        return e.leaf.kind === "view" ? this.#load(e.leaf.view, at) : this.#coordinate(e.leaf, at);
      case "apply":
        return lowerFunction(
          this.#ctx,
          null,
          e.fn,
          e.args.map((arg) => this.#value(arg, at)),
        );
    }
  }

  /** The element's row or column, in the tile or from where they are counted. */
  #coordinate({ kind: axis, from }: Exclude<ElementLeaf, { kind: "view" }>, at: At): F32 {
    const ctx = this.#ctx;
    const d = this.#fresh();
    const { constant, terms } = ctx.linear(from ?? lit(0));
    const reg = axisIndex(ctx, terms, this.#position[axis]);
    const place = f32imm(at[axis] + constant);
    if (reg === null) ctx.emit(null, "mov.f32", d, place);
    else {
      // Places that are counted from an end lie before it.
      const signed = [...terms.values()].some((factor) => factor < 0);
      ctx.emitAny(null, `cvt.rn.f32.${signed ? "s32" : "u32"}`, d, reg);
      ctx.emit(null, "add.rn.f32", d, d, place);
    }
    return d;
  }

  #load(view: View, at: At): F32 {
    const ctx = this.#ctx;
    const { space, dtype } = bufferOf(ctx.program, view.buffer);
    const [row, col] = [view.extent[0] === 1 ? 0 : at.row, view.extent[1] === 1 ? 0 : at.col];
    if (space === "register") {
      const [down, right] = view.origin.map((from) => ctx.constant(from, `origin of %${view.buffer}`));
      const held = this.#registers(view.buffer).get(`${row + (down ?? 0)} ${col + (right ?? 0)}`);
      if (held === undefined) throw new CannotLower(`%${view.buffer}`, "is held by other threads");
      return held;
    }
    const of = (own: ThreadPosition): ThreadPosition => ({
      row: view.extent[0] === 1 ? NOWHERE : own.row,
      col: view.extent[1] === 1 ? NOWHERE : own.col,
    });
    if (space === "shared") {
      const from = sharedAddress(ctx, view, of(ownedPosition(ctx.values, this.#own, insideBlock)), row, col);
      return loadElements(ctx, null, "f32", dtype, 1, from, "m", "shared")[0] as F32;
    }
    const position = of(this.#position);
    const guard = elementGuard(ctx, view, [true, true], position, row, col, (a, b) => ctx.conjunction(a, b));
    const policy = cachePolicy(ctx, view.buffer, "load");
    if (guard === "outside") {
      const d = this.#fresh();
      ctx.emit(null, "mov.f32", d, f32imm(0));
      return d;
    }
    if (guard !== null)
      return loadOrZero(ctx, guard, dtype, globalAddress(ctx, view, position, row, col), "m", policy);
    const known = this.#loaded.get(view) ?? new Map<string, F32>();
    this.#loaded.set(view, known);
    const made = known.get(`${row} ${col}`);
    if (made !== undefined) return made;
    const [first, width] = loadedRun(ctx, view, this.#own, position, row, col);
    const address = globalAddress(ctx, view, position, row, first);
    const values = loadElements(ctx, null, "f32", dtype, width, address, "m", "global", policy) as F32[];
    for (const [i, value] of values.entries()) known.set(`${row} ${first + i}`, value);
    return must(values[col - first], "a run has its elements");
  }

  /** A register tile as f32 values, by place. */
  #registers(name: string): ReadonlyMap<string, F32> {
    const known = this.#tiles.get(name);
    if (known !== undefined) return known;
    const tile = ownedTile(this.#ctx, name, 0);
    const made = new Map(
      tile.elements.map((e) => [`${e.row} ${e.col}`, accumulator(this.#ctx, null, "f32", tile, e) as F32]),
    );
    this.#tiles.set(name, made);
    return made;
  }
}

/** Every element is computed before the first is written: the tile may be in the expression. */
export function lowerMap(ctx: Context, stmt: StmtOf<"map">): void {
  if (codesOf(stmt) !== null) {
    lowerWeights(ctx, stmt);
    return;
  }
  begin(ctx);
  const own = domainOwner(ctx, stmt);
  const elements = new Elements(ctx, own);
  const dst = bufferOf(ctx.program, stmt.dst.buffer);
  if (dst.space === "register") {
    const tile = ownedTile(ctx, dst.name, 0);
    if (tile.type !== "f32") {
      packTile(ctx, stmt.dst, tile, (e) => elements.value(stmt.value, e));
      return;
    }
    if (stmt.unless === "one" && ctx.active === null) {
      scaleUnlessOne(ctx, stmt, tile, elements);
      return;
    }
    const made = elementsOf(ctx, stmt.dst, tile).map(
      ({ register, ...at }) => [tile.at(register), elements.value(stmt.value, at)] as const,
    );
    for (const [register, value] of made)
      if (register !== value) ctx.emitAny(null, "mov.f32", register, value);
    return;
  }
  if (dst.space === "global") {
    storeResult(ctx, stmt.dst, own, (at) => elements.value(stmt.value, at));
    return;
  }
  const axis = contiguousIn(dst);
  const run = registerRun(axis === 1 ? own.cols : own.rows);
  const position = ownedPosition(ctx.values, own, insideBlock);
  for (const group of groupAlong(ownedRegisters(own), axis, run % 2 === 0 ? 2 : 1)) {
    const [first] = group;
    if (first === undefined) continue;
    const values = group.map((e) => elements.value(stmt.value, e));
    const to = sharedAddress(ctx, stmt.dst, position, first.row, first.col);
    storeElements(ctx, null, "f32", dst.dtype, values, to, "shared");
  }
}

/** Threads multiply where their factor is not 1. A predicate costs no branch, and an instruction that it leaves out reads and writes no register. */
function scaleUnlessOne(ctx: Context, stmt: StmtOf<"map">, tile: OwnedTile, elements: Elements): void {
  const factor = must(factorOf(stmt), "what is left out multiplies by a factor (elements)");
  const value: Expr = { kind: "leaf", leaf: { kind: "view", view: factor } };
  const differ = new Map<F32, Pred>();
  for (const { register, ...at } of elementsOf(ctx, stmt.dst, tile)) {
    const by = elements.value(value, at);
    const differs = differ.get(by) ?? ctx.entry.reg("pred", "p");
    if (!differ.has(by)) ctx.emitAny(null, "setp.neu.f32", differs, by, f32imm(1));
    differ.set(by, differs);
    ctx.emitAny(differs, "mul.rn.f32", tile.at(register), tile.at(register), by);
  }
}

/** Registers of a view of a tile, by the place in the view of what they hold. */
function elementsOf(
  ctx: Context,
  { buffer, origin, extent }: View,
  { elements }: OwnedTile,
): readonly OwnedRegister[] {
  const [down, right] = origin.map((from) => ctx.constant(from, `origin of %${buffer}`));
  return elements
    .map(({ register, row, col }) => ({ register, row: row - (down ?? 0), col: col - (right ?? 0) }))
    .filter(({ row, col }) => row >= 0 && row < extent[0] && col >= 0 && col < extent[1]);
}

/** Neighbours of a row as the registers of a tile of 16-bit elements. */
function packTile(ctx: Context, view: View, tile: OwnedTile, value: (e: OwnedRegister) => F32): void {
  const { packed, dtype } = tile;
  const inOrder = elementsOf(ctx, view, tile).toSorted((x, y) => x.register - y.register);
  for (let i = 0; i < inOrder.length; i += packed) {
    const run = inOrder.slice(i, i + packed);
    const [word] = roundedWords(ctx, null, dtype, run.map(value));
    if (word !== undefined && run[0] !== undefined)
      ctx.emitAny(null, "mov.b32", tile.at(run[0].register), word);
  }
}

/** What the main loop has left to be computed later stands here; values of a loop are its own. */
function begin(ctx: Context): void {
  ctx.placeLate();
  if (ctx.loop === null) ctx.restartInvariants();
}

export function lowerRowReduction(ctx: Context, stmt: StmtOf<"reduce.row">): void {
  begin(ctx);
  const own = domainOwner(ctx, stmt);
  const elements = new Elements(ctx, own);
  const position = ownedPosition(ctx.values, own);
  const dst = ownedTile(ctx, stmt.dst.buffer, 0);
  const join = stmt.op === "max" ? "max.f32" : "add.rn.f32";
  const nothing = f32imm(stmt.op === "max" ? Number.NEGATIVE_INFINITY : 0);
  const rows = new Map<number, F32>();
  for (const e of ownedRegisters(own)) {
    const inside = insideColumns(ctx, own, position, e.col, stmt.below);
    if (inside === "outside") continue;
    let value = elements.value(stmt.value, e);
    if (inside !== null) {
      const masked = ctx.entry.reg("f32", "e");
      ctx.emitAny(null, "selp.f32", masked, value, nothing, inside);
      value = masked;
    }
    const sum = rows.get(e.row);
    const next = ctx.entry.reg("f32", "rx");
    if (sum === undefined) ctx.emit(null, "mov.f32", next, value);
    else ctx.emitAny(null, join, next, sum, value);
    rows.set(e.row, next);
  }
  const made = dst.elements.map(({ register, row }): readonly [Reg, number, F32] => {
    let sum = rows.get(row);
    if (sum === undefined) {
      sum = ctx.entry.reg("f32", "rx");
      ctx.emitAny(null, "mov.f32", sum, nothing);
    }
    return [dst.at(register), row, stmt.runs === undefined ? amongLanes(ctx, own, join, sum) : sum];
  });
  const all = stmt.via === null ? made : amongWarps(ctx, own, stmt.via, join, made);
  for (const [register, , sum] of all)
    if (stmt.adds) ctx.emitAny(null, join, register, register, sum);
    else ctx.emitAny(null, "mov.f32", register, sum);
}

/** Each warp puts its part of a row into the shared tile, and all read those of all. */
function amongWarps(
  ctx: Context,
  own: Ownership,
  via: View,
  join: string,
  parts: readonly (readonly [Reg, number, F32])[],
): readonly (readonly [Reg, number, F32])[] {
  const rows = own.rows;
  const warps = own.cols.filter(({ tier }) => tier === "warp");
  const from = ownedPosition(ctx.values, { rows, cols: warps }, insideBlock);
  const lanes = ownedPosition(ctx.values, {
    rows: [],
    cols: own.cols.filter(({ tier }) => tier === "thread"),
  });
  let first: Pred | null = null;
  if (lanes.col.reg !== null) {
    first = ctx.entry.reg("pred", "p");
    ctx.emit(null, "setp.eq.u32", first, lanes.col.reg, imm(0));
  }
  for (const [, row, sum] of parts)
    ctx.emitAny(first, "st.shared.f32", sharedAddress(ctx, via, from, row, 0), sum);
  meet(ctx);
  const made = parts.map(([register, row]): readonly [Reg, number, F32] => {
    let sum: F32 | null = null;
    for (let warp = 0; warp < via.extent[1]; warp++) {
      const part = ctx.entry.reg("f32", "rw");
      ctx.emitAny(
        null,
        "ld.shared.f32",
        part,
        sharedAddress(ctx, via, { row: from.row, col: NOWHERE }, row, warp),
      );
      if (sum === null) sum = part;
      else {
        const next: F32 = ctx.entry.reg("f32", "rx");
        ctx.emitAny(null, join, next, sum, part);
        sum = next;
      }
    }
    return [register, row, must(sum, "tiles have columns")];
  });
  meet(ctx);
  return made;
}

/** All threads that hold parts of rows. */
function meet(ctx: Context): void {
  const threads = ctx.values.warps * 32;
  if (threads === ctx.program.launch.threads) ctx.emit(null, "bar.sync", imm(0));
  else ctx.emit(null, "bar.sync", imm(ELEMENT_BARRIER), imm(threads));
}
