/** Uniform conditions over loop variables: construction, evaluation, substitution, folding. */
import {
  type Env,
  type ExprLike,
  evaluateExpr,
  freeVars,
  lit,
  simplify,
  sub,
  substituteExpr,
} from "./expr.ts";
import type { Cond } from "./types.ts";

export type CondOp = Cond["op"];

const ops: Readonly<Record<CondOp, (lhs: number, rhs: number) => boolean>> = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  "==": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  ">=": (a, b) => a >= b,
  ">": (a, b) => a > b,
};

export const condOps = Object.keys(ops) as readonly CondOp[];

/** `lhs op rhs`; numbers stand for constants. */
export const cond = (lhs: ExprLike, op: CondOp, rhs: ExprLike): Cond => ({
  lhs: typeof lhs === "number" ? lit(lhs) : lhs,
  op,
  rhs: typeof rhs === "number" ? lit(rhs) : rhs,
});

/** The truth of `lhs op rhs` for numbers. */
export const compare = (op: CondOp, lhs: number, rhs: number): boolean => ops[op](lhs, rhs);

/** The truth of a condition. Throws (a bug) on a variable without a value. */
export const evaluateCond = (c: Cond, env: Env): boolean =>
  compare(c.op, evaluateExpr(c.lhs, env), evaluateExpr(c.rhs, env));

/** Replace variables on both sides and fold. */
export const substituteCond = (c: Cond, values: ReadonlyMap<string, ExprLike>): Cond => ({
  lhs: substituteExpr(c.lhs, values),
  op: c.op,
  rhs: substituteExpr(c.rhs, values),
});

/** True or false where the difference of the sides is a constant; null where it depends on variables. */
export function foldCond(c: Cond): boolean | null {
  const difference = simplify(sub(c.lhs, c.rhs));
  return difference.kind === "const" ? compare(c.op, difference.value, 0) : null;
}

/** Names of the variables of a condition. */
export const condVars = (c: Cond): Set<string> => freeVars(c.rhs, freeVars(c.lhs));
