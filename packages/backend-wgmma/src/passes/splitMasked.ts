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
  type Pass,
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
      rewriteStmts(program.body, (stmt) => (stmt.kind === "for" ? (split(stmt) ?? stmt) : stmt)),
    ),
  ),
};

/** The two loops; null where nothing is known of the turn from which on the condition holds. */
function split(loop: For): readonly Stmt[] | null {
  const conditions = loop.body.filter((stmt): stmt is If => stmt.kind === "if");
  const [hidden] = conditions;
  const multiplies = eachStmt(loop.body).some(({ kind }) => kind === "mma");
  if (loop.unroll || !multiplies || hidden === undefined || conditions.length > 1) return null;
  if (!hidden.body.every(({ kind }) => kind === "map")) return null;
  const from = firstWhere(hidden.cond, loop.var);
  if (from === null) return null;
  const without = loop.body.filter((stmt) => stmt !== hidden);
  const within = loop.body.flatMap((stmt) => (stmt === hidden ? hidden.body : [stmt]));
  const { least, divisor } = from;
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
  if (loop.within.take !== "rest" || !whole || !reaches(high, least, divisor)) return null;
  const bounds = (first: Expr, end: Expr) => ({ take: "rest", bounds: [first, end] }) as const;
  return [
    { ...loop, within: bounds(low, div(least, divisor)), body: without },
    { ...loop, within: bounds(div(sub(least, divisor), divisor), high), body: within },
  ];
}

/** The first turn for which a condition holds, and with it for all behind, as a quotient that is rounded down; null of other conditions. */
function firstWhere({ lhs, op, rhs }: Cond, name: string): { least: Expr; divisor: number } | null {
  const over = { ">": [lhs, rhs, 0], ">=": [lhs, rhs, 1], "<": [rhs, lhs, 0], "<=": [rhs, lhs, 1] } as const;
  if (op === "==" || op === "!=") return null;
  const [more, less, equal] = over[op];
  const difference = simplify(sub(more, less));
  const slope = asLinear(difference)?.terms.get(name) ?? 0;
  if (slope <= 0) return null;
  // slope * turn > rest, or turn >= (rest + slope) / slope, rounded down.
  const rest = simplify(sub({ kind: "mul", lhs: v(name), factor: slope }, difference));
  return { least: simplify(add(rest, slope - equal)), divisor: slope };
}

/** Whether a bound is no less than a quotient, whatever their variables are. */
function reaches(bound: Expr, least: Expr, divisor: number): boolean {
  const [end, by] = bound.kind === "div" ? [bound.lhs, bound.divisor] : [bound, 1];
  if (by !== divisor) return false;
  const difference = simplify(sub(end, least));
  const any = [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER] as const;
  return rangeOf(difference, new Map([...freeVars(difference)].map((name) => [name, any])))[0] >= 0;
}
