/** Keep sums along k short where tensor cores keep few bits of them: each is made apart and then added to the accumulator. */

import type { Buffer, Pass } from "@tilewright/ir";
import { bufferOf, directed, registerBuffer, rewriteStmts, wholeView, withBody } from "@tilewright/ir";

/** The register tile in which sums are made. */
const SUM = "chunk_sum";

/**
 * Directive `twoLevel every=N columns=C`: each multiplication makes sums of N elements along k in a tile `chunk_sum` of the accumulator's shape, which it then scales, where
 * operands have factors, and adds to the accumulator. With C that tile has so many columns, and takes the sums of these one after the other. Off: products are added to the
 * accumulator where they are made.
 */
export const accumulateInTwoLevels: Pass = {
  name: "accumulateInTwoLevels",
  summary: "Sums along k are made apart in short runs, scaled and added to the accumulator in f32",
  from: "specialised",
  to: "specialised",
  run: directed("twoLevel", (program, { every, columns }) => {
    let part: Buffer | null = null;
    const body = rewriteStmts(program.body, (stmt) => {
      if (stmt.kind !== "mma") return stmt;
      const { dtype, shape } = bufferOf(program, stmt.acc.buffer);
      part ??= registerBuffer(SUM, dtype, [shape[0], columns || shape[1]]);
      return { ...stmt, twoLevel: { sum: wholeView(part), every } };
    });
    const buffers = part === null ? program.buffers : [...program.buffers, part];
    return { ...withBody(program, body), buffers };
  }),
};
