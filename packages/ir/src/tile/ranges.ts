/** Least and greatest values of expressions over loop ranges, and exhaustive search where intervals are too coarse. */

import { compare } from "./cond.ts";
import { asLinear, type Env, evaluateExpr, floorMod, freeVars, simplify } from "./expr.ts";
import { eachStmt } from "./rewrite.ts";
import { type Cond, type Expr, type Stmt, type StreamK, tileLoopVars } from "./types.ts";

export type Range = readonly [low: number, high: number];

/** Ranges of the loop variables in scope; `high < low` where the loop never runs. */
export type Ranges = ReadonlyMap<string, Range>;

/** Key of the range of the sum of two variables that depend on each other: a part's first chunk, and a loop over its chunks. */
const sumKey = (a: string, b: string): string => `${a}+${b}`;

/** An interval that holds every value of the expression; exact for affine expressions of independent variables. */
export function rangeOf(e: Expr, ranges: Ranges): Range {
  const linear = asLinear(e);
  if (linear === null) return intervalOf(simplify(e), ranges);
  let [low, high] = [linear.constant, linear.constant];
  for (const [name, coefficient] of linear.terms) {
    const first = [...linear.terms].find(
      ([other, same]) => same === coefficient && ranges.has(sumKey(other, name)),
    );
    // Counted with its partner.
    if ([...linear.terms].some(([other, same]) => same === coefficient && ranges.has(sumKey(name, other))))
      continue;
    const [a, b] = first === undefined ? variable(name, ranges) : variable(sumKey(first[0], name), ranges);
    low += coefficient * (coefficient > 0 ? a : b);
    high += coefficient * (coefficient > 0 ? b : a);
  }
  return [low, high];
}

function variable(name: string, ranges: Ranges): Range {
  const range = ranges.get(name);
  if (range === undefined) throw new RangeError(`no range for %${name}`);
  return range;
}

function intervalOf(e: Expr, ranges: Ranges): Range {
  switch (e.kind) {
    case "const":
      return [e.value, e.value];
    case "var":
      return variable(e.name, ranges);
    case "add": {
      const [a, b] = [intervalOf(e.lhs, ranges), intervalOf(e.rhs, ranges)];
      return [a[0] + b[0], a[1] + b[1]];
    }
    case "sub": {
      const [a, b] = [intervalOf(e.lhs, ranges), intervalOf(e.rhs, ranges)];
      return [a[0] - b[1], a[1] - b[0]];
    }
    case "mul": {
      const [a, b] = intervalOf(e.lhs, ranges);
      return e.factor >= 0 ? [a * e.factor, b * e.factor] : [b * e.factor, a * e.factor];
    }
    case "div": {
      const [a, b] = intervalOf(e.lhs, ranges);
      return [Math.floor(a / e.divisor), Math.floor(b / e.divisor)];
    }
    case "mod": {
      const [a, b] = intervalOf(e.lhs, ranges);
      const sameBlock = Math.floor(a / e.divisor) === Math.floor(b / e.divisor);
      return sameBlock ? [floorMod(a, e.divisor), floorMod(b, e.divisor)] : [0, e.divisor - 1];
    }
  }
}

/** Tiles of all blocks, parts of a split tile counted each. */
export const tileCount = (stmt: Extract<Stmt, { kind: "tiles" }>): number =>
  stmt.extents[0] * stmt.extents[1] * (stmt.split?.extent ?? 1);

/** The most tiles along an axis: over all sizes of the launch where it supplies them. */
function mostTiles(stmt: Extract<Stmt, { kind: "tiles" }>, axis: 0 | 1, ranges: Ranges): number {
  const count = stmt.symbolic?.[axis] ?? null;
  return count === null ? stmt.extents[axis] : rangeOf(count, ranges)[1];
}

/** The greatest value of what counts work tiles, or the chunks of those before. */
function lastVisit(stmt: Extract<Stmt, { kind: "tiles" }>, ranges: Ranges): number {
  const chunks = stmt.loop?.chunks;
  const workTiles = mostTiles(stmt, 0, ranges) * mostTiles(stmt, 1, ranges);
  // Of a list of problems nothing says how many come before.
  return chunks === undefined ? workTiles - 1 : Number.POSITIVE_INFINITY;
}

/** Ranges inside a statement's body. */
export function rangesInside(stmt: Stmt, ranges: Ranges): Ranges {
  switch (stmt.kind) {
    case "tiles":
      return new Map([
        ...ranges,
        [stmt.vars[0], [0, mostTiles(stmt, 0, ranges) - 1]],
        [stmt.vars[1], [0, mostTiles(stmt, 1, ranges) - 1]],
        ...(stmt.split ? [[stmt.split.var, [0, stmt.split.extent - 1]] as const] : []),
        ...(stmt.streamK ? shareRanges(stmt.streamK, ranges) : []),
        ...tileLoopVars(stmt.loop).map((name) => [name, [0, lastVisit(stmt, ranges)]] as const),
      ]);
    case "for":
      return new Map([
        ...ranges,
        [stmt.var, [rangeOf(stmt.from, ranges)[0], rangeOf(stmt.to, ranges)[1] - 1]],
        ...sumsInLoop(stmt, ranges),
      ]);
    case "if":
      return narrow(stmt.cond, ranges);
    case "role":
      return new Map([...ranges, ...pipelineNames(stmt.body).map((name) => [name, SLOTS] as const)]);
    default:
      return ranges;
  }
}

/** Slots at which pipelines stand, of rings of any length. */
const SLOTS: Range = [0, 2 ** 16];

/** Names of a role's pipelines, and of slots that it keeps: variables of its views. */
export const pipelineNames = (body: readonly Stmt[]): readonly string[] => [
  ...new Set(eachStmt(body).flatMap((s) => (s.kind === "pipeline" || s.kind === "hold" ? [s.name] : []))),
];

function shareRanges(
  { first, count, chunks, counted }: StreamK,
  ranges: Ranges,
): readonly (readonly [string, Range])[] {
  const most = counted === undefined ? chunks : rangeOf(counted.chunks, ranges)[1];
  return [
    [first, [0, most - 1]],
    [count, [1, most]],
    [sumKey(first, count), [1, most]],
  ];
}

/** A loop from 0 to the number of a part's chunks stays inside the tile's chunks. */
function sumsInLoop(
  { var: name, from, to }: Extract<Stmt, { kind: "for" }>,
  ranges: Ranges,
): readonly (readonly [string, Range])[] {
  if (from.kind !== "const" || to.kind !== "var") return [];
  const ending = sumKey("", to.name);
  return [...ranges].flatMap(([key, range]): (readonly [string, Range])[] =>
    key.endsWith(ending) ? [[sumKey(key.slice(0, -ending.length), name), [from.value, range[1] - 1]]] : [],
  );
}

/** Ranges where a condition holds: exact when it bounds one variable with coefficient 1 or -1, unchanged otherwise. */
export function narrow(cond: Cond, ranges: Ranges): Ranges {
  const linear = asLinear({ kind: "sub", lhs: cond.lhs, rhs: cond.rhs });
  if (linear !== null && cond.op === "<" && linear.terms.size === 2) return narrowSums(linear, ranges);
  const [term, ...others] = linear?.terms ?? [];
  if (linear === null || term === undefined || others.length > 0 || Math.abs(term[1]) !== 1) return ranges;
  const [name, sign] = term;
  const range = ranges.get(name);
  if (range === undefined) return ranges;
  // sign * x + constant op 0, so x op -constant, or the mirrored comparison.
  const bound = -sign * linear.constant;
  const op = sign > 0 ? cond.op : mirrored[cond.op];
  const [low, high] = range;
  switch (op) {
    case "<":
      return new Map(ranges).set(name, [low, Math.min(high, bound - 1)]);
    case "<=":
      return new Map(ranges).set(name, [low, Math.min(high, bound)]);
    case ">":
      return new Map(ranges).set(name, [Math.max(low, bound + 1), high]);
    case ">=":
      return new Map(ranges).set(name, [Math.max(low, bound), high]);
    case "==":
      return new Map(ranges).set(name, [Math.max(low, bound), Math.min(high, bound)]);
    case "!=":
      return ranges;
  }
}

/** `x + constant < count`: a part's chunk x stays inside the tile, with its first chunk added as well. */
function narrowSums(
  { constant, terms }: { readonly constant: number; readonly terms: ReadonlyMap<string, number> },
  ranges: Ranges,
): Ranges {
  const name = [...terms].find(([, factor]) => factor === 1)?.[0];
  const count = [...terms].find(([, factor]) => factor === -1)?.[0];
  const range = name === undefined ? undefined : ranges.get(name);
  if (name === undefined || count === undefined || range === undefined) return ranges;
  const ending = sumKey("", count);
  const narrowed = new Map(ranges);
  for (const [key, sum] of ranges) {
    if (!key.endsWith(ending)) continue;
    const first = key.slice(0, -ending.length);
    const known = ranges.get(sumKey(first, name));
    const low = known?.[0] ?? (ranges.get(first)?.[0] ?? 0) + range[0];
    const most = sum[1] - constant - 1;
    narrowed.set(sumKey(first, name), [low, Math.min(known?.[1] ?? most, most)]);
  }
  return narrowed;
}

const mirrored = { "<": ">", "<=": ">=", "==": "==", "!=": "!=", ">=": "<=", ">": "<" } as const;

/** Whether some loop or condition around leaves no value at all. */
export const isDead = (ranges: Ranges): boolean => [...ranges.values()].some(([low, high]) => high < low);

/** Most assignments that `counterexample` looks at. */
const SEARCH_LIMIT = 50_000;

/**
 * Values of the loop variables under which `wrong` holds, with the loops and conditions around respected; null when there
 * are none, "unknown" when there are too many to try. Only variables that the expressions depend on are enumerated;
 * conditions on other variables count as possibly true.
 */
export function counterexample(
  parents: readonly Stmt[],
  when: Cond | null,
  exprs: readonly Expr[],
  wrong: (env: Env) => boolean,
): Env | "unknown" | null {
  const needed = relevant(parents, when, exprs);
  let tried = 0;
  let gaveUp = false;
  const env = new Map<string, number>();
  const conds = (cond: Cond | null): boolean => {
    if (cond === null) return true;
    const vars = freeVars(cond.rhs, freeVars(cond.lhs));
    if ([...vars].some((name) => !env.has(name))) return true;
    return compare(cond.op, evaluateExpr(cond.lhs, env), evaluateExpr(cond.rhs, env));
  };
  const holdsAt = (depth: number): boolean => {
    const stmt = parents[depth];
    if (stmt === undefined) {
      if (++tried > SEARCH_LIMIT) {
        gaveUp = true;
        return true;
      }
      return conds(when) && wrong(env);
    }
    if (stmt.kind === "if") return conds(stmt.cond) && holdsAt(depth + 1);
    const loops: readonly (readonly [string, number, number | ((env: Env) => number)])[] =
      stmt.kind === "tiles"
        ? [
            [stmt.vars[0], 0, stmt.extents[0]],
            [stmt.vars[1], 0, stmt.extents[1]],
            ...(stmt.split ? [[stmt.split.var, 0, stmt.split.extent] as const] : []),
            ...(stmt.streamK ? shareLoops(stmt.streamK) : []),
            ...tileLoopVars(stmt.loop).map((name) => [name, 0, tileCount(stmt)] as const),
          ]
        : stmt.kind === "for" && needed.has(stmt.var)
          ? [[stmt.var, evaluateExpr(stmt.from, env), evaluateExpr(stmt.to, env)]]
          : [];
    const nest = (i: number): boolean => {
      const loop = loops[i];
      if (loop === undefined) return holdsAt(depth + 1);
      const [name, from, to] = loop;
      if (!needed.has(name)) return nest(i + 1);
      const end = typeof to === "number" ? to : to(env);
      for (let x = from; x < end; x++) {
        env.set(name, x);
        if (nest(i + 1)) return true;
      }
      env.delete(name);
      return false;
    };
    return nest(0);
  };
  const found = holdsAt(0);
  return gaveUp ? "unknown" : found ? env : null;
}

const shareLoops = ({ first, count, chunks }: StreamK) =>
  [
    [first, 0, chunks],
    [count, 1, (env: Env) => chunks - (env.get(first) ?? 0) + 1],
  ] as const;

/** Variables that the expressions depend on, through conditions around them and loop bounds. */
function relevant(parents: readonly Stmt[], when: Cond | null, exprs: readonly Expr[]): Set<string> {
  const needed = new Set<string>();
  for (const e of exprs) freeVars(e, needed);
  const conds = [
    ...parents.flatMap((s) => (s.kind === "if" ? [s.cond] : [])),
    ...(when === null ? [] : [when]),
  ];
  for (let before = -1; before !== needed.size; ) {
    before = needed.size;
    for (const cond of conds) {
      const vars = freeVars(cond.rhs, freeVars(cond.lhs));
      if ([...vars].some((name) => needed.has(name))) for (const name of vars) needed.add(name);
    }
    for (const stmt of parents)
      if (stmt.kind === "for" && needed.has(stmt.var)) freeVars(stmt.to, freeVars(stmt.from, needed));
      else if (stmt.kind === "tiles" && stmt.streamK && needed.has(stmt.streamK.count))
        needed.add(stmt.streamK.first);
  }
  return needed;
}

/** `%kt = 3, %kk = 1` */
export const describeEnv = (env: Env): string =>
  env.size === 0 ? "always" : `at ${[...env].map(([name, value]) => `%${name} = ${value}`).join(", ")}`;
