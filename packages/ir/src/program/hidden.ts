/** Turns of a loop of which a mask leaves nothing: where every element of a map is the mask's other value, and the rest of the body then gives back what it was given. */
import { type FunctionName, foldExpression, isPlain, leavesOf, plainValues } from "@tilewright/core";
import { cond } from "../tile/cond.ts";
import { add, div, freeVars, lit, mul } from "../tile/expr.ts";
import { rangeOf } from "../tile/ranges.ts";
import type { Cond, Expr } from "../tile/types.ts";
import { type AxisProgram, type AxisStmt, axisOf, type NamedExpr, type NamedLeaf, namedIn } from "./types.ts";

type Loop = Extract<AxisStmt, { kind: "for" }>;
type MapStmt = Extract<AxisStmt, { kind: "map" }>;

/** What every element of a tile is: a number, or something by its text, the same where texts are. */
type Value = number | string;

/** Where a tile of `rows` rows begins, and the columns of a turn. */
interface Tile {
  readonly at: Expr;
  readonly rows: number;
  readonly width: number;
}

/**
 * First turn and end of those of a loop over parts of an axis that a tile has to take; null where it is all. Elements that others do not see are taken for finite: what
 * weighs nothing adds nothing.
 */
export function iterationsSeen(
  program: AxisProgram,
  loop: Loop,
  tile: Tile,
  countOf: CountOf = fixedCounts(program),
): readonly [Expr, Expr] | null {
  const { extent, runs } = axisOf(program, loop.axis);
  const turns = Math.ceil(extent / tile.width);
  // One turn is taken in any case.
  if (turns === 1) return null;
  const [rows] = program.grid;
  let [first, end]: [Expr, Expr] = [lit(0), div(add(countOf(loop.axis), tile.width - 1), tile.width)];
  if (loop.all) return runs === undefined ? null : [first, end];
  for (const stmt of loop.body) {
    if (stmt.kind !== "map" || namedIn(program, stmt.tile).axes[1] !== loop.axis) continue;
    for (const mask of masksOf(stmt.value)) {
      const bound = boundOf(mask, loop.axis, rows);
      if (bound === null) continue;
      for (const truth of [true, false]) {
        const value = valueUnder(stmt.value, mask, truth);
        if (typeof value !== "number" || !changesNothing(program, loop, stmt, value)) continue;
        // Elements of the axis before the bound are hidden from the row, or those behind it.
        const far = bound.slope * (tile.rows - 1);
        const at = (more: number): Expr => boundAt(bound, tile, countOf, more);
        if (bound.before === truth) first = div(at(Math.min(0, far)), tile.width);
        else end = div(at(Math.max(0, far) + tile.width - 1), tile.width);
      }
    }
  }
  if (runs !== undefined || [first, end].some((e) => counted(program, e))) return [first, end];
  const ranges = new Map([...tileRange(program, tile)]);
  const needed = rangeOf(first, ranges)[1] > 0 || rangeOf(end, ranges)[0] < turns;
  return needed ? [first, end] : null;
}

/**
 * Where turn `at` of a loop has elements that a map masks, one condition for each of its masks, of which any may hold; elsewhere the map leaves its tile as it is. Null where it does
 * more than mask, or asks for something else than positions.
 */
export function maskedIterations(
  program: AxisProgram,
  axis: string,
  stmt: MapStmt,
  tile: Tile,
  at: Expr,
  countOf: CountOf = fixedCounts(program),
): readonly Cond[] | null {
  const masks = masksOf(stmt.value);
  const conditions: Cond[] = [];
  let left: NamedExpr = stmt.value;
  for (const mask of masks) {
    const bound = boundOf(mask, axis, program.grid[0]);
    const [, , yes, no] = mask.args;
    if (bound === null || yes === undefined || no === undefined) return null;
    const hides = yes.kind === "number";
    if (left !== mask || hides === (no.kind === "number")) return null;
    left = hides ? no : yes;
    const far = bound.slope * (tile.rows - 1);
    const from = (more: number): Expr => boundAt(bound, tile, countOf, more);
    // Elements before the bound are masked, or those from there on: in turns that begin before the last row's, or end behind the first row's.
    conditions.push(
      bound.before === hides
        ? cond(at, "<", from(Math.max(0, far)))
        : cond(add(at, tile.width), ">", from(Math.min(0, far))),
    );
  }
  const whole = left.kind === "leaf" && left.leaf.kind === "element" && left.leaf.name === stmt.tile;
  return whole && conditions.length > 0 ? conditions : null;
}

/** The range of the variable in a tile's first row. */
function* tileRange(
  program: AxisProgram,
  { at, rows }: Tile,
): Iterable<readonly [string, readonly [number, number]]> {
  const name = at.kind === "mul" && at.lhs.kind === "var" ? at.lhs.name : at.kind === "var" ? at.name : null;
  const tiles = Math.ceil(axisOf(program, program.grid[0]).extent / rows);
  if (name !== null) yield [name, [0, tiles - 1]];
}

/** Elements of an axis: of runs the variable that says how many the one at hand has. */
export type CountOf = (axis: string) => Expr;

const fixedCounts =
  (program: AxisProgram): CountOf =>
  (axis) =>
    lit(axisOf(program, axis).extent);

/** Where along an axis a condition changes: for row 0, with each row, and with the elements of each axis. */
interface Bound {
  readonly before: boolean;
  readonly slope: number;
  readonly constant: number;
  readonly counts: ReadonlyMap<string, number>;
}

/** A bound in a tile's first row, so much further on. */
const boundAt = ({ slope, constant, counts }: Bound, tile: Tile, countOf: CountOf, more: number): Expr =>
  [...counts].reduce<Expr>(
    (sum, [axis, factor]) => add(sum, mul(countOf(axis), factor)),
    add(mul(tile.at, slope), constant + more),
  );

/** Whether an expression has more variables than the work tile's. */
const counted = (program: AxisProgram, e: Expr): boolean =>
  program.axes.some(({ runs }) => runs !== undefined) && freeVars(e).size > 1;

type Apply = Extract<NamedExpr, { kind: "apply" }>;

/** Selections of an expression. */
const masksOf = (e: NamedExpr): readonly Apply[] =>
  e.kind !== "apply" ? [] : [...(e.fn === "select" ? [e] : []), ...e.args.flatMap(masksOf)];

/** Where along an axis the condition of a selection changes, for a row: it holds `before` there, or from there on. Null for other conditions. */
function boundOf({ args: [x, y] }: Apply, axis: string, rows: string): Bound | null {
  const [left, right] = [linear(x), linear(y)];
  if (left === null || right === null) return null;
  const difference = new Map(left);
  for (const [name, factor] of right) difference.set(name, (difference.get(name) ?? 0) - factor);
  const along = difference.get(axis) ?? 0;
  const slope = difference.get(rows) ?? 0;
  const constant = difference.get("") ?? 0;
  const more = [...difference].filter(([name, factor]) => factor !== 0 && ![axis, rows, ""].includes(name));
  const others = more.some(([name]) => !name.startsWith("|"));
  const counts = new Map(more.map(([name, factor]) => [name.slice(1, -1), -along * factor]));
  if (Math.abs(along) !== 1 || others || ![slope, constant].every(Number.isSafeInteger)) return null;
  // s - B < 0 holds before B; B - s < 0 from B + 1 on.
  return along === 1
    ? { before: true, slope: -slope || 0, constant: -constant || 0, counts }
    : { before: false, slope, constant: constant + 1, counts };
}

/** Factors of positions, of the elements of axes by names between bars, and the constant by an empty name; null where the expression is no such sum. */
function linear(e: NamedExpr | undefined): ReadonlyMap<string, number> | null {
  if (e === undefined) return null;
  return foldExpression<NamedLeaf, ReadonlyMap<string, number> | null>(e, {
    number: (value) => new Map([["", value]]),
    leaf: (leaf) =>
      leaf.kind !== "position"
        ? null
        : new Map([[leaf.axis, 1], ...(leaf.end ? [[`|${leaf.axis}|`, -1] as const] : [])]),
    apply: (fn, [x, y]) => {
      if ((fn !== "add" && fn !== "sub") || !x || !y) return null;
      const sum = new Map(x);
      for (const [name, factor] of y) sum.set(name, (sum.get(name) ?? 0) + (fn === "add" ? factor : -factor));
      return sum;
    },
  });
}

/** The value of an expression where the condition of one of its selections is known, and tiles are not. */
function valueUnder(e: NamedExpr, mask: Apply, truth: boolean): Value {
  const known = new Known();
  const chosen = (node: NamedExpr): NamedExpr => {
    if (node.kind !== "apply") return node;
    const [, , a, b] = node.args;
    if (node === mask && a !== undefined && b !== undefined) return chosen(truth ? a : b);
    return { ...node, args: node.args.map(chosen) };
  };
  return known.evaluate(chosen(e), () => known.unknown());
}

/** The value of an expression where elements of some tiles have known ones, whatever finite values others have; null where that is not known. */
export function knownValue(e: NamedExpr, of: (tile: string) => number | undefined): number | null {
  const known = new Known();
  const leaf = (from: NamedLeaf): Value =>
    (from.kind === "element" ? of(from.name) : undefined) ?? known.unknown();
  const value = known.evaluate(e, leaf);
  return typeof value === "number" ? value : null;
}

/** Whether a turn, in which all elements of what a map makes have one value, leaves what it was given, and what is read behind it, as it was. */
function changesNothing(program: AxisProgram, loop: Loop, masked: MapStmt, value: number): boolean {
  const known = new Known();
  const values = new Map<string, Value>();
  const kept = new Set<string>();
  const leaf = (from: NamedLeaf): Value => {
    if (from.kind === "position" || program.params.some(({ name }) => name === from.name))
      return known.unknown();
    const found = values.get(from.name);
    if (found !== undefined) return found;
    // Read before it is written: of the turn before.
    kept.add(from.name);
    values.set(from.name, from.name);
    return from.name;
  };
  const held = (name: string): Value => leaf({ kind: "element", name });
  const run = (stmts: readonly AxisStmt[]): void => {
    for (const stmt of stmts)
      switch (stmt.kind) {
        case "for":
          run(stmt.body);
          break;
        case "fill":
          values.set(stmt.tile, stmt.value);
          break;
        case "map":
          values.set(stmt.tile, stmt === masked ? value : known.evaluate(stmt.value, leaf));
          break;
        case "mma": {
          const before = held(stmt.acc);
          values.set(stmt.acc, held(stmt.a) === 0 ? before : known.unknown());
          break;
        }
        case "reduce": {
          const row = known.evaluate(stmt.value, leaf);
          const whole = stmt.op === "max" || row === 0 ? row : known.unknown();
          const fn = stmt.op === "max" ? "max" : "add";
          values.set(stmt.tile, stmt.adds ? known.apply(fn, [held(stmt.tile), whole]) : whole);
          break;
        }
        case "merge":
          break;
        case "store":
          kept.add(stmt.param);
      }
  };
  run(loop.body);
  const anew = new Set<string>();
  for (const stmt of program.body.slice(program.body.indexOf(loop) + 1)) {
    if (stmt.kind === "merge") {
      for (const name of stmt.of) kept.add(name);
      continue;
    }
    if (stmt.kind === "for" || !("value" in stmt) || typeof stmt.value === "number") return false;
    for (const from of leavesOf(stmt.value))
      if (from.kind === "element" && !anew.has(from.name)) kept.add(from.name);
    if (stmt.kind === "map") anew.add(stmt.tile);
  }
  return [...kept].every((name) => (values.get(name) ?? name) === name);
}

/** Values of expressions, as far as numbers and neutral elements go. */
class Known {
  #unknowns = 0;

  unknown(): Value {
    this.#unknowns += 1;
    return `?${this.#unknowns}`;
  }

  evaluate(e: NamedExpr, leaf: (leaf: NamedLeaf) => Value): Value {
    return foldExpression<NamedLeaf, Value>(e, {
      number: (value) => value,
      leaf,
      apply: (fn, args) => this.apply(fn, args),
    });
  }

  apply(fn: FunctionName, args: readonly Value[]): Value {
    const [x = 0, y = 0, a, b] = args;
    if (fn === "select" && a !== undefined && a === b) return a;
    // Nothing is below it.
    if (fn === "select" && y === Number.NEGATIVE_INFINITY && b !== undefined) return b;
    if (isPlain(fn) && args.every((each) => typeof each === "number")) {
      const [p = 0, ...others] = args.map(Number);
      return plainValues[fn](p, others[0] ?? 0, others[1], others[2]);
    }
    const infinite = [x, y].find((each) => each === Number.NEGATIVE_INFINITY);
    switch (fn) {
      case "fma":
        return this.apply("add", [this.apply("mul", [x, y]), a ?? 0]);
      case "max":
        if (x === y || y === Number.NEGATIVE_INFINITY) return x;
        if (x === Number.NEGATIVE_INFINITY) return y;
        break;
      case "add":
        if (infinite !== undefined) return infinite;
        if (x === 0 || y === 0) return x === 0 ? y : x;
        break;
      case "sub":
        if (x === y) return 0;
        if (x === Number.NEGATIVE_INFINITY || y === 0) return x;
        break;
      case "mul":
        if (x === 0 || y === 0) return 0;
        if (x === 1 || y === 1) return x === 1 ? y : x;
        break;
      default:
        break;
    }
    return `${fn}(${args.join()})`;
  }
}
