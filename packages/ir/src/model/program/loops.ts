/** What of a program a run goes through: the statements of a role, and the turns of a loop. */
import { type Problem, runsOf } from "@tilewright/core";
import { type Env, evaluateExpr } from "../../tile/expr.ts";
import { eachStmt } from "../../tile/rewrite.ts";
import type { Stmt, TileProgram } from "../../tile/types.ts";
import { LANES } from "./costs.ts";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

/** Turns that a loop takes but for the first `skipped`, where it takes more. */
export function boundsOf(
  { from, to, within }: Pick<Of<"for">, "from" | "to" | "within">,
  env: Env,
  skipped: number,
): readonly [first: number, last: number] {
  let [first, last] = [evaluateExpr(from, env), evaluateExpr(to, env)];
  const left = (): number => (last - first > skipped ? first + skipped : first);
  if (within === undefined) return [left(), last];
  const [low, high] = within.bounds.map((bound) => evaluateExpr(bound, env)) as [number, number];
  first = Math.min(Math.max(first, low), last - 1);
  last = Math.max(first + 1, Math.min(last, high));
  first = left();
  switch (within.take) {
    case "all":
      return [first, last];
    case "first":
      return [first, first + 1];
    case "rest":
      return [first + 1, last];
    case "last":
      return [last - 1, last];
  }
}

/** Roles, each with the statements around it; or one of all warps. */
export function rolesOf({ body, launch }: TileProgram) {
  const roles = eachStmt(body).filter((stmt): stmt is Of<"role"> => stmt.kind === "role");
  if (roles.length === 0) return [{ warps: launch.threads / LANES, elected: false, body }];
  return roles.map((role) => ({
    warps: role.warps,
    elected: role.elected === true,
    body: withoutOthers(body, role),
  }));
}

/** The loop over work tiles with this role alone; what stands before and behind it a launch has once. */
const withoutOthers = (stmts: readonly Stmt[], role: Stmt): readonly Stmt[] =>
  stmts.flatMap((stmt) => {
    if (stmt === role) return role.kind === "role" ? role.body : [];
    if (stmt.kind === "role" || !("body" in stmt) || !eachStmt(stmt.body).includes(role)) return [];
    return [{ ...stmt, body: withoutOthers(stmt.body, role) } as Stmt];
  });

/** Sizes that a program has as variables: of sequences with lengths of their own the longest. */
export const sizesOf = (problem: Problem): Env =>
  new Map([
    ...(["m", "n", "k"] as const).map((name) => [name, problem[name]] as const),
    ...runsOf(problem).flatMap(({ first, count, most }) => [[first, 0] as const, [count, most] as const]),
  ]);
