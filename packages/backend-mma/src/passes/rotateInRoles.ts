/** Double-buffer the fragments of the role that multiplies, which waits for chunks that another role copies. */

import type { Pass } from "@tilewright/ir";
import { peelLast, rewriteStmts, rotateAll, withBody } from "@tilewright/ir";

/**
 * Directive `rotate slots=2` of a program with roles, as `rotateFragments` does it without: step kk + 1 loads while step kk multiplies, and the last
 * step of a chunk gives its slot back and waits for the next. The last chunk leaves the loop, so that no wait depends on a condition.
 */
export const rotateInRoles: Pass = {
  name: "rotateInRoles",
  summary: "Fragments of the next K step load while this one multiplies, in the role that multiplies",
  from: "specialised",
  to: "specialised",
  run(program) {
    const rotated = rotateAll(program, true);
    return rotated === program
      ? program
      : withBody(
          rotated,
          rewriteStmts(rotated.body, (stmt) => peelLast(stmt, 1)),
        );
  },
};
