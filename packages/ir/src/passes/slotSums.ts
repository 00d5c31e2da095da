/** Give the accumulator ring more slots, so that one tile is multiplied while another is stored. */
import { mod, v } from "../tile/expr.ts";
import { eachStmt, numberArg, rewriteStmts, takeDirective, withBody } from "../tile/rewrite.ts";
import type { Expr, Stmt, TileProgram, View, Visit } from "../tile/types.ts";
import type { Pass } from "./pass.ts";
import { SUMS } from "./specialiseEngines.ts";

/** Directive `sums slots=S`: tile (or part) t of a block that stays accumulates in slot t % S. Off: one slot. Blocks of one tile need no more. */
export const slotSums: Pass = {
  name: "slotSums",
  summary: "Accumulators of consecutive tiles take turns in tensor memory",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "sums");
    const slots = taken ? numberArg(taken.args, "slots", 1) : 1;
    const input = taken?.program ?? program;
    const ring = input.rings.find((r) => r.name === SUMS);
    const visit = visitOf(input);
    if (slots === 1 || ring === undefined || visit === null) return input;
    const slot: Expr = mod(v(visit.parts ?? visit.var), slots);
    const moved = (view: View): View => (ring.buffers.includes(view.buffer) ? { ...view, slot } : view);
    const body = rewriteStmts(input.body, (stmt): Stmt => {
      switch (stmt.kind) {
        case "fill":
          return { ...stmt, dst: moved(stmt.dst) };
        case "copy":
          return { ...stmt, src: moved(stmt.src) };
        case "mma":
          return { ...stmt, acc: moved(stmt.acc) };
        default:
          return stmt;
      }
    });
    return {
      ...withBody(input, body),
      rings: input.rings.map((r) => (r === ring ? { ...r, slots } : r)),
      buffers: input.buffers.map((b) => (ring.buffers.includes(b.name) ? { ...b, slots } : b)),
    };
  },
};

/** How blocks go over tiles; null where each has one. */
function visitOf(program: TileProgram): Visit | null {
  for (const stmt of eachStmt(program.body)) if (stmt.kind === "tiles") return stmt.visit;
  return null;
}
