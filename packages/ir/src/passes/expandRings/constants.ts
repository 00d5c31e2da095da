/** What constants of unrolled loops make of conditions and statements. */
import { foldCond, substituteCond } from "../../tile/cond.ts";
import { asLinear, lit, sub, substituteExpr } from "../../tile/expr.ts";
import type { Cond, Expr, Stmt } from "../../tile/types.ts";
import { withExprs } from "../../tile/views.ts";
import type { Within } from "./cursor.ts";

/** Whether a condition holds in all turns of the open loop, or in none; null where neither is known. */
export function truthOf(cond: Cond, { loop, constants }: Within): boolean | null {
  const folded = substituteCond(cond, constants);
  const known = foldCond(folded);
  if (known !== null || loop === null) return known;
  const [from, to] = [loop.from, loop.to].map((e) => substituteExpr(e, constants));
  const turn = asLinear(sub(folded.lhs, folded.rhs))?.terms;
  if (from?.kind !== "const" || to?.kind !== "const" || turn?.size !== 1 || !turn.has(loop.var)) return null;
  // Linear in the loop's variable: its ends decide.
  const [first, last] = [from.value, to.value - 1].map((value) =>
    foldCond(substituteCond(folded, new Map([[loop.var, lit(value)]]))),
  );
  return first === last && folded.op !== "==" && folded.op !== "!=" ? (first ?? null) : null;
}

/** A statement and its nested lists with values for variables. */
export function substituted(stmt: Stmt, values: ReadonlyMap<string, Expr>): Stmt {
  const own = withExprs(stmt, (e) => substituteExpr(e, values));
  return "body" in own ? { ...own, body: own.body.map((s) => substituted(s, values)) } : own;
}
