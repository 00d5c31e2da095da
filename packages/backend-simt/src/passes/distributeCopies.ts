/** Give each thread several vectors of a row of a staging copy, so that one pointer serves them all. */
import { sizeOf } from "@tilewright/core";
import type { Pass } from "@tilewright/ir";
import { bufferOf, directed, distribute, rewriteStmts, withBody } from "@tilewright/ir";

/**
 * Directive `distribute vectors=P`: threads that copy stand in shorter rows, so that each moves P vectors of a row of global memory, at constant distances from
 * one address, where rows have that many and threads side by side still bring whole sectors.
 */
export const distributeCopies: Pass = {
  name: "distributeCopies",
  summary: "Threads copy several pieces of a row each, by one pointer",
  from: "specialised",
  to: "specialised",
  run: directed("distribute", (program, { vectors: pieces }) => {
    return withBody(
      program,
      rewriteStmts(program.body, (stmt) => {
        if (stmt.kind !== "copy" || stmt.dist === null) return stmt;
        const { threads, fastest, vector } = stmt.dist;
        const bytes = sizeOf(bufferOf(program, stmt.dst.buffer).dtype);
        return { ...stmt, dist: distribute(threads, stmt.dst.extent, fastest, vector, bytes, pieces) };
      }),
    );
  }),
};
