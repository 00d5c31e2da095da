/** Numbers of a plan at run time: the program counts its own K chunks, a run those of the tile at hand. */
import { asLinear, evaluateExpr, type Linear } from "../../expr.ts";
import type { Cond, Expr } from "../../types.ts";
import { scaledBound } from "../chunks.ts";
import type { Plan, PlanRing } from "./plan.ts";
import type { Thread } from "./thread.ts";

const linears = new WeakMap<Expr, Linear | null>();

/** The runs of a proof ask for the same expressions over and over. */
function linearOf(e: Expr): Linear | null {
  const known = linears.get(e);
  if (known !== undefined) return known;
  const linear = asLinear(e);
  linears.set(e, linear);
  return linear;
}

/** A constant that counts chunks of the program as it stands, for the number at hand. */
const scaled = ({ chunks, cuts }: Plan, thread: Thread, value: number): number =>
  chunks === null ? value : scaledBound(value, chunks, thread.count, cuts ?? { first: 0, last: [] });

/** The bound of a loop over K chunks. */
export function boundAt(plan: Plan, thread: Thread, e: Expr): number {
  return e.kind === "const" ? scaled(plan, thread, e.value) : valueAt(thread, e);
}

export function valueAt(thread: Thread, e: Expr): number {
  return evaluateExpr(e, thread.values);
}

/** `< N` asks for the chunks of the tile at hand. */
export function holds(plan: Plan, thread: Thread, { lhs, op, rhs }: Cond): boolean {
  const left = valueAt(thread, lhs);
  const right =
    rhs.kind === "const" && rhs.value === plan.chunks && op === "<" ? thread.count : valueAt(thread, rhs);
  switch (op) {
    case "<":
      return left < right;
    case "<=":
      return left <= right;
    case "==":
      return left === right;
    case "!=":
      return left !== right;
    case ">=":
      return left >= right;
    case ">":
      return left > right;
  }
}

/** The sequence number of a chunk: in a chunked ring a tile's chunks follow those of all tiles before it, whatever their numbers. */
export function chunkAt(plan: Plan, thread: Thread, ring: PlanRing, e: Expr | null): number {
  if (e === null) return thread.places.get(ring.name)?.last ?? 0;
  const { chunks } = plan;
  const linear = ring.chunked && chunks !== null ? linearOf(e) : null;
  if (linear === null || chunks === null) return valueAt(thread, e);
  let sum = linear.constant;
  for (const [name, factor] of linear.terms)
    sum += visitsOf(plan).has(name)
      ? (factor / chunks) * thread.before
      : factor * (thread.values.get(name) ?? 0);
  return sum;
}

const visitNames = new WeakMap<Plan, ReadonlySet<string>>();

/** Variables that count tiles. */
function visitsOf(plan: Plan): ReadonlySet<string> {
  const known = visitNames.get(plan);
  if (known !== undefined) return known;
  const names = new Set(
    plan.roles.flatMap(({ body }) =>
      body.flatMap((step) => (step.kind === "tiles" && step.visit !== null ? [step.visit] : [])),
    ),
  );
  visitNames.set(plan, names);
  return names;
}
