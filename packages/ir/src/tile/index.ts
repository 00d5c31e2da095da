/** Public surface of the tile IR, beside its types (`types.ts`). */
export {
  type CondOp,
  cond,
  condVars,
  evaluateCond,
  foldCond,
  negateCond,
  substituteCond,
} from "./cond.ts";
export {
  add,
  asLinear,
  div,
  type Env,
  type ExprLike,
  equalExpr,
  evaluateExpr,
  freeVars,
  type Linear,
  lit,
  mod,
  mul,
  sameValue,
  simplify,
  sub,
  substituteExpr,
  v,
} from "./expr.ts";
export { printCond, printExpr } from "./printExpr.ts";
