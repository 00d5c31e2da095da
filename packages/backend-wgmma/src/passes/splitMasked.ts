/** Loops whose later turns alone have hidden elements, in two: turns that ask for none, and behind them those that all have some. */
import {
  add,
  asLinear,
  type Cond,
  directed,
  div,
  type Expr,
  eachStmt,
  freeVars,
  lit,
  mul,
  type Pass,
  type Ranges,
  rangeOf,
  rewriteStmts,
  type Stmt,
  simplify,
  sub,
  v,
  withBody,
} from "@tilewright/ir";

type For = Extract<Stmt, { kind: "for" }>;
type If = Extract<Stmt, { kind: "if" }>;

/**
 * Directive `splitMasked loops=1`: a loop of products in which `if` holds from some turn on becomes two, the first one without what stands in it, the second one with that in every
 * turn. Straight code is left, in which ptxas mixes exponentials with sums.
 */
export const splitMasked: Pass = {
  name: "splitMasked",
  summary: "Turns without hidden elements have a loop of their own, which asks for none",
  from: "specialised",
  to: "specialised",
  run: directed("splitMasked", (program) =>
    withBody(
      program,
      rewriteStmts(program.body, (tiles) => {
        if (tiles.kind !== "tiles") return tiles;
        const ranges: Ranges = new Map(tiles.vars.map((name, i) => [name, [0, (tiles.extents[i] ?? 1) - 1]]));
        return {
          ...tiles,
          body: rewriteStmts(tiles.body, (stmt) =>
            stmt.kind === "for" ? (split(stmt, ranges) ?? stmt) : stmt,
          ),
        };
      }),
    ),
  ),
};

/** The two loops; null where nothing is known of the turn from which on the condition holds. */
function split(loop: For, ranges: Ranges): readonly Stmt[] | null {
  const conditions = loop.body.filter((stmt): stmt is If => stmt.kind === "if");
  const multiplies = eachStmt(loop.body).some(({ kind }) => kind === "mma");
  const maps = conditions.every(({ body }) => body.every(({ kind }) => kind === "map"));
  if (loop.unroll || !multiplies || !maps) return null;
  const turns = conditions.map(({ cond }) => firstWhere(cond, loop.var));
  const known = turns.filter((turn) => turn !== null);
  if (known.length < turns.length) return null;
  // Where several hide elements, one of them begins first.
  const at = known.findIndex((one) => known.every((other) => isUpTo(one, other, ranges)));
  const [first, hidden] = [known[at], conditions[at]];
  if (first === undefined || hidden === undefined) return null;
  const without = loop.body.filter((stmt) => stmt.kind !== "if");
  const within = loop.body.flatMap((stmt) => (stmt === hidden ? hidden.body : [stmt]));
  const { least, divisor } = first;
  if (loop.within === undefined) {
    const [low, high, at] = [loop.from, loop.to, simplify(div(least, divisor))];
    if (low.kind !== "const" || high.kind !== "const" || at.kind !== "const") return null;
    const middle = Math.min(Math.max(at.value, low.value), high.value);
    return [
      ...(middle > low.value ? [{ ...loop, to: lit(middle), body: without }] : []),
      ...(middle < high.value ? [{ ...loop, from: lit(middle), body: within }] : []),
    ];
  }
  // Turns behind the first one: those of the second loop are counted from the last one of the first, which has one at least.
  const [low, high] = loop.within.bounds;
  const whole = low.kind === "const" && loop.from.kind === "const" && low.value <= loop.from.value;
  const end = high.kind === "div" ? { least: high.lhs, divisor: high.divisor } : { least: high, divisor: 1 };
  if (loop.within.take !== "rest" || !whole || !isUpTo(first, end, ranges)) return null;
  const bounds = (from: Expr, to: Expr) => ({ take: "rest", bounds: [from, to] }) as const;
  return [
    { ...loop, within: bounds(low, div(least, divisor)), body: without },
    { ...loop, within: bounds(div(sub(least, divisor), divisor), high), body: within },
  ];
}

/** A quotient, which is rounded down. */
interface Turn {
  readonly least: Expr;
  readonly divisor: number;
}

/** The first turn for which a condition holds, and with it for all behind; null of other conditions. */
function firstWhere({ lhs, op, rhs }: Cond, name: string): Turn | null {
  const over = { ">": [lhs, rhs, 0], ">=": [lhs, rhs, 1], "<": [rhs, lhs, 0], "<=": [rhs, lhs, 1] } as const;
  if (op === "==" || op === "!=") return null;
  const [more, less, equal] = over[op];
  const difference = simplify(sub(more, less));
  const slope = asLinear(difference)?.terms.get(name) ?? 0;
  if (slope <= 0) return null;
  // slope * turn > rest, or turn >= (rest + slope) / slope, rounded down.
  const rest = sub(mul(v(name), slope), difference);
  return { least: simplify(add(rest, slope - equal)), divisor: slope };
}

const ANY = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER] as const;

/** Whether a quotient is no more than another, whatever variables without a range are. */
function isUpTo(one: Turn, other: Turn, ranges: Ranges): boolean {
  if (one.divisor !== other.divisor) return false;
  const difference = simplify(sub(other.least, one.least));
  const all = [...freeVars(difference)].map((name) => [name, ranges.get(name) ?? ANY] as const);
  return rangeOf(difference, new Map(all))[0] >= 0;
}
