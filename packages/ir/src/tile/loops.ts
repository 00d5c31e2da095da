/** What loops of the stage machine are to those inside them. */
import type { Stmt } from "./types.ts";

/** Whether the statements of a loop are loops that are no unrolled ones, or loops among element statements, or take the sums of products that another role has in its loops. */
export const holdsLoops = ({ body }: Extract<Stmt, { kind: "for" }>): boolean =>
  body.some((stmt) => stmt.kind === "for" && !stmt.unroll) ||
  body.some((stmt) => stmt.kind === "copy" && stmt.transport === "tcgen05.ld") ||
  (body.some(({ kind }) => kind === "for") &&
    body.some(({ kind }) => kind === "map" || kind === "reduce.row"));
