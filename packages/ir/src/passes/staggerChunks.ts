/** Let the blocks of a row of tiles begin with different K chunks. */
import { add, mod, mul, substituteExpr, v } from "../tile/expr.ts";
import { numberArg, rewriteStmts, takeDirective, withBody } from "../tile/rewrite.ts";
import type { Stmt, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `stagger step=S`: a block of tile column n takes the K chunks of its tile, or of its part of it, from number n * S on and then those from the first. Blocks of a row
 * of tiles share A; where it has few rows they all ask the same line of L2 for the same chunk at the same time, and wait for each other there. Sums are then taken in another
 * order, which depends on the tile alone. Without the directive all begin with the first.
 */
export const staggerChunks: Pass = {
  name: "staggerChunks",
  summary: "Blocks of a row of tiles begin with different K chunks",
  from: "nest",
  to: "nest",
  run(program) {
    const taken = takeDirective(program, "stagger");
    if (!taken) return program;
    const step = numberArg(taken.args, "step", 1);
    return withBody(
      taken.program,
      rewriteStmts(taken.program.body, (stmt) =>
        stmt.kind === "tiles" && stmt.share === undefined
          ? { ...stmt, body: rewriteStmts(stmt.body, (inner) => staggered(inner, stmt.vars[1], step)) }
          : stmt,
      ),
    );
  },
};

function staggered(stmt: Stmt, column: string, step: number): Stmt {
  if (stmt.kind !== "for" || stmt.to.kind !== "const") return stmt;
  const turned = mod(add(v(stmt.var), mul(v(column), step)), stmt.to.value);
  const values = new Map([[stmt.var, turned]]);
  const view = ({ origin: [row, col], ...rest }: View): View => ({
    ...rest,
    origin: [substituteExpr(row, values), substituteExpr(col, values)],
  });
  return {
    ...stmt,
    body: rewriteStmts(stmt.body, (inner) =>
      inner.kind === "mma" ? { ...inner, a: view(inner.a), b: view(inner.b) } : inner,
    ),
  };
}
