/** A loop with its first turn and its last around it, for passes that issue what belongs to one turn in another. */
import { add, lit, sub } from "../tile/expr.ts";
import { rangeOf } from "../tile/ranges.ts";
import { rewriteStmts } from "../tile/rewrite.ts";
import { launchRanges } from "../tile/sizes.ts";
import { substituteStmt } from "../tile/streamK.ts";
import type { Expr, Stmt, TileProgram } from "../tile/types.ts";

type For = Extract<Stmt, { kind: "for" }>;

/** A loop's statements at one of its turns. */
export const placedAt = ({ var: name }: For, stmts: readonly Stmt[], at: Expr): readonly Stmt[] =>
  rewriteStmts(stmts, (each) => substituteStmt(each, new Map([[name, at]])));

/** Statements of the first turn, the loop of the others, and statements of the last turn; null of a loop that may take no turn. */
export function peelEnds(program: TileProgram, loop: For) {
  const { from, to, within } = loop;
  if (within?.take === "all") {
    const one = (take: "first" | "last") => (body: readonly Stmt[]) => [
      { ...loop, within: { ...within, take }, body },
    ];
    return {
      first: one("first"),
      rest: { ...loop, within: { ...within, take: "rest" as const } },
      last: one("last"),
    };
  }
  const [least] = rangeOf(sub(to, from), launchRanges(program.problem));
  if (within !== undefined || least < 1) return null;
  return {
    first: (stmts: readonly Stmt[]) => placedAt(loop, stmts, from),
    rest: { ...loop, from: add(from, lit(1)) },
    last: (stmts: readonly Stmt[]) => placedAt(loop, stmts, sub(to, lit(1))),
  };
}
