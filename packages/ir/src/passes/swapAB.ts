/** Let the columns of D go where a matrix instruction has the rows of its sum: A and B of the instructions change places. */
import { directed, eachStmt } from "../tile/rewrite.ts";
import type { Buffer } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `swapAB`: accumulators get `lanes cols`, so that what is multiplied there is the transpose of the tile: B^T * A^T. Of tensor memory lanes come in
 * 64 and 128, columns in steps of 8 and 16; a warpgroup's sum has 64 rows and columns in steps of 8. A D with few rows fills such tiles where it would leave most of
 * them without work. Meaning and shared tiles do not change. Without the directive rows go into lanes.
 */
export const swapAB: Pass = {
  name: "swapAB",
  summary: "Columns of D rather than rows go into lanes: A and B of the matrix instructions change places",
  from: "staged",
  to: "staged",
  run: directed("swapAB", (program) => {
    const sums = new Set<string>();
    for (const stmt of eachStmt(program.body)) if (stmt.kind === "mma") sums.add(stmt.acc.buffer);
    return {
      ...program,
      buffers: program.buffers.map((b): Buffer => (sums.has(b.name) ? { ...b, lanes: 1 } : b)),
    };
  }),
};
