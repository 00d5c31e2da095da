/** The same program for another number of K chunks: what the protocol must survive is any count, not the one at hand. */
import { substituteCond } from "../cond.ts";
import { freeVars } from "../expr.ts";
import { childrenOf, eachStmt, rewriteStmts } from "../rewrite.ts";
import type { Cond, Expr, Stmt, TileProgram } from "../types.ts";

type For = Extract<Stmt, { kind: "for" }>;

/** Whether a loop consumes a ring: a wait or release inside names a chunk by the loop's variable. */
function consumesRing(loop: For): boolean {
  for (const stmt of eachStmt(childrenOf(loop)))
    if ((stmt.kind === "wait" || stmt.kind === "release") && freeVars(stmt.at).has(loop.var)) return true;
  return false;
}

/** Trip count of the loops over K chunks; null when there are none, or their bounds are not constants 0 .. N. */
export function chunkCount(program: TileProgram): number | null {
  const loops = [...eachStmt(program.body)].filter((s) => s.kind === "for").filter(consumesRing);
  const [count, ...others] = new Set(loops.map(({ from, to }) => (isConst(from, 0) ? constant(to) : null)));
  return count === undefined || others.length > 0 ? null : count;
}

/**
 * The program with `count` chunks: in the loops over chunks, and wherever `… < N` compares something with their number.
 * Null when the program does not say its number of chunks in that form. Statements keep their order and nesting.
 */
export function withChunkCount(program: TileProgram, count: number): TileProgram | null {
  const now = chunkCount(program);
  if (now === null) return null;
  const to: Expr = { kind: "const", value: count };
  const inCond = (cond: Cond): Cond =>
    cond.op === "<" && isConst(cond.rhs, now) && freeVars(cond.lhs).size > 0
      ? substituteCond({ ...cond, rhs: to }, new Map())
      : cond;
  const body = rewriteStmts(program.body, (stmt): Stmt => {
    switch (stmt.kind) {
      case "for":
        return consumesRing(stmt) ? { ...stmt, to } : stmt;
      case "if": {
        const { cond, ...rest } = stmt;
        return { ...rest, cond: inCond(cond) };
      }
      case "copy":
        return stmt.when === null ? stmt : { ...stmt, when: inCond(stmt.when) };
      default:
        return stmt;
    }
  });
  return { ...program, body };
}

const constant = (e: Expr): number | null => (e.kind === "const" ? e.value : null);
const isConst = (e: Expr, value: number): boolean => constant(e) === value;
