/** What a kernel keeps in registers. */
import { eachStmt, elementsPerRegister, type LaunchHints, type TileProgram } from "@tilewright/ir";

/** Accumulators of a thread that leave it registers for what the epilogue needs, which then need not be computed between the last product and the first store. */
const FEW_ACCUMULATORS = 64;

/** Of CTAs that begin early and have one tile of few accumulators: persistent ones compute places of D behind the first products of each tile. */
function keepsEpilogue(program: TileProgram): boolean {
  if (program.launch.earlyProducerStart !== true) return false;
  let math = program.launch.threads;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "tiles" && stmt.loop !== null) return false;
    if (stmt.kind === "role" && eachStmt(stmt.body).some(({ kind }) => kind === "mma"))
      math = 32 * stmt.warps;
  }
  // Every thread has the factors of sums that are promoted.
  const copied = new Set(eachStmt(program.body).flatMap((s) => (s.kind === "copy" ? [s.dst.buffer] : [])));
  const held = program.buffers
    .filter((b) => b.space === "register" && !copied.has(b.name))
    .reduce((sum, b) => sum + (b.slots * b.shape[0] * b.shape[1]) / elementsPerRegister(b.dtype), 0);
  return held <= FEW_ACCUMULATORS * math;
}

/** Of a program of stage machine. */
export const hints = (program: TileProgram): LaunchHints =>
  keepsEpilogue(program) ? { keeps: ["epilogue"] } : {};
