/** Where roles that take turns are in a ring: its chunks go to them tile by tile, so that each goes by those of the others. */
import { asLinear, eachStmt, type Ring, type TileProgram, type Visit } from "@tilewright/ir";
import { CannotLower, type Context } from "./context.ts";

/** Chunks of a ring at each visit: the factor of the visit's number in that of a chunk. */
export function chunksAtVisit(program: TileProgram, ring: Ring, visit: Visit): number {
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "wait" && stmt.ring === ring.name) {
      const chunks = asLinear(stmt.at)?.terms.get(visit.var);
      if (chunks !== undefined) return chunks;
    }
  throw new CannotLower(`%${ring.name}`, "its chunks are not numbered by visits");
}

/** Chunks that go by before a role's first turn. */
export function chunksBefore(ctx: Context, ring: Ring): number {
  const visit = ctx.tileLoop?.visit;
  // Answers about tiles are read by all.
  if (visit?.ring === ring.name) return 0;
  return visit === undefined || visit.turn === 0 ? 0 : visit.turn * chunksAtVisit(ctx.program, ring, visit);
}
