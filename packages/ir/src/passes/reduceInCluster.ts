/** Let the blocks that share a tile meet in a cluster: they exchange parts through its shared memory. */

import { slicesOf } from "../tile/dsmemReduction.ts";
import { add, mul, v } from "../tile/expr.ts";
import { registerBuffer } from "../tile/gemm.ts";
import { bufferOf, directed, eachStmt, rewriteStmts, wholeView, withBody } from "../tile/rewrite.ts";
import type { Expr, Split, Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

type Combine = Extract<Stmt, { kind: "reduce" }>;

/** Name of the register tile that holds a block's columns of the sum. */
const SUM = "sum";

/**
 * Directive `dsmemReduction columns=U` or `meet rows=U`: a split's blocks become a cluster, and the combine one `by cluster`. Each of them adds up and stores a slice of the
 * tile's columns (or rows), whole groups of U, so that what each sends and adds is as little as can be; where the groups do not divide among the blocks fewer of them do
 * so. Without the directive they meet as the combine says. C and D are sliced with the sum; bits are those of `last`.
 */
export const reduceInCluster: Pass = {
  name: "reduceInCluster",
  summary: "Blocks that share a tile are a cluster and exchange slices of it through shared memory",
  from: "specialised",
  to: "specialised",
  run: directed("dsmemReduction", (program, { columns, rows }) => {
    const split = splitOf(program);
    if (split === null) return program;
    return rows > 0 ? meet(program, split, 0, rows) : meet(program, split, 1, columns);
  }),
};

function splitOf({ body }: TileProgram): Split | null {
  for (const stmt of eachStmt(body)) if (stmt.kind === "tiles" && stmt.split !== null) return stmt.split;
  return null;
}

function meet(program: TileProgram, split: Split, axis: 0 | 1, unit: number): TileProgram {
  const combine = eachStmt(program.body).find((s): s is Combine => s.kind === "reduce");
  if (combine === undefined) return program;
  const { extent } = combine.acc;
  const own = extent[axis] / slicesOf(extent[axis] / unit, split.extent);
  const shape = axis === 0 ? ([own, extent[1]] as const) : ([extent[0], own] as const);
  const sum = registerBuffer(SUM, bufferOf(program, combine.acc.buffer).dtype, shape);
  const along = (at: 0 | 1, origin: Expr): Expr =>
    at === axis ? add(origin, mul(v(split.var), own)) : origin;
  // Of a gated product D, and the first sums, have half of the sum's columns.
  const part = ({ extent: [rows, columns] }: View): View["extent"] =>
    axis === 0 ? [own, columns] : [rows, own];
  const sliced = (view: View): View => {
    const [row, col] = view.origin;
    return { ...view, origin: [along(0, row), along(1, col)], extent: part(view) };
  };
  const inside = (stmts: readonly Stmt[]): readonly Stmt[] =>
    rewriteStmts(stmts, (stmt) =>
      stmt.kind !== "epilogue"
        ? stmt
        : {
            ...stmt,
            acc: { ...wholeView(sum), extent: part(stmt.acc) },
            dst: sliced(stmt.dst),
            c: stmt.c === null ? null : sliced(stmt.c),
          },
    );
  const body = rewriteStmts(program.body, (stmt) =>
    stmt.kind === "reduce" ? { ...stmt, by: "cluster", into: wholeView(sum), body: inside(stmt.body) } : stmt,
  );
  return { ...withBody(program, body), buffers: [...program.buffers, sum] };
}
