/** Let groups whose k is 0 go by everything that is done for chunks: what is stored is then made of zeros. */
import { cond } from "../tile/cond.ts";
import { v } from "../tile/expr.ts";
import { eachStmt, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { Stmt, TileProgram } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Of a grouped problem, whose k a group may have 0 of: the statements that copy or multiply chunks of A and B, or touch the rings of such chunks, stand under
 * `if 0 < %k`. All passes before this one may take it that there is a chunk; what follows the chunks, `reduce` and `epilogue`, runs for every tile. Other
 * problems have a k of 1 at least.
 */
export const skipEmpty: Pass = {
  name: "skipEmpty",
  summary: "Groups with k = 0 have no chunks: their tiles are stored without",
  from: "specialised",
  to: "specialised",
  run(program) {
    if (program.problem.batch.kind !== "grouped" || program.problem.symbolic?.k === undefined) return program;
    const chunked = chunkBuffers(program);
    const rings = new Set(
      program.rings.filter((ring) => ring.buffers.some((b) => chunked.has(b))).map(({ name }) => name),
    );
    const ofChunks = (stmt: Stmt): boolean =>
      eachStmt([stmt]).some(
        (s) =>
          s.kind === "mma" ||
          (s.kind === "copy" && chunked.has(s.src.buffer)) ||
          ("ring" in s && rings.has(s.ring)),
      );
    return withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "tiles" && !stmt.body.some(({ kind }) => kind === "role")
          ? { ...stmt, body: underK(stmt.body, ofChunks) }
          : stmt.kind === "role" && !stmt.body.some(({ kind }) => kind === "tiles")
            ? { ...stmt, body: underK(stmt.body, ofChunks) }
            : stmt,
      ),
    );
  },
};

/** Buffers that chunks of A and B, or of their factors, are in on their way to a multiplication. */
function chunkBuffers(program: TileProgram): ReadonlySet<string> {
  const found = new Set(["A", "B", "SFA", "SFB"]);
  const all = eachStmt(program.body);
  for (let before = 0; before !== found.size; ) {
    before = found.size;
    for (const stmt of all)
      if (stmt.kind === "copy" && found.has(stmt.src.buffer)) found.add(stmt.dst.buffer);
  }
  return found;
}

/** Each run of statements of chunks under one condition. */
function underK(stmts: readonly Stmt[], ofChunks: (stmt: Stmt) => boolean): readonly Stmt[] {
  const out: Stmt[] = [];
  let run: Stmt[] = [];
  const flush = (): void => {
    if (run.length > 0) out.push({ kind: "if", cond: cond(0, "<", v("k")), body: run });
    run = [];
  };
  for (const stmt of stmts) {
    if (ofChunks(stmt)) run.push(stmt);
    else {
      flush();
      out.push(stmt);
    }
  }
  flush();
  return out;
}
