/** Several chunks in one turn of the main loop. */
import { numberArg, rewriteStmts, takeDirective, usesRing, withBody } from "../tile/rewrite.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `unroll together=N`: loops over chunks have N of them in a turn. With as many as the ring has slots these are constants, and copies reach the
 * next chunks from the same pointers. Where the number of chunks is no multiple of N the last ones stand behind the loop.
 */
export const unrollRing: Pass = {
  name: "unrollRing",
  summary: "One turn of the main loop takes several chunks, whose slots are constants",
  from: "pipelined",
  to: "pipelined",
  run(program) {
    const taken = takeDirective(program, "unroll");
    if (!taken) return program;
    const together = numberArg(taken.args, "together", 1);
    return withBody(
      taken.program,
      rewriteStmts(taken.program.body, (stmt) =>
        stmt.kind === "for" && !stmt.unroll && usesRing(stmt.body) ? { ...stmt, together } : stmt,
      ),
    );
  },
};
