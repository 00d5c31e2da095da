/** Give the accumulator ring more slots, so that one tile is multiplied while another is stored. */
import { mod } from "../tile/expr.ts";
import { eachStmt, numberArg, rewriteStmts, takeDirective, withBody } from "../tile/rewrite.ts";
import type { Expr, Stmt, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";
import { SUMS } from "./specialiseEngines.ts";
import { VISIT } from "./visitTiles.ts";

/** Directive `sums slots=S`: tile t of a block that stays accumulates in slot t % S. Off: one slot. Blocks of one tile need no more. */
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
    const stays = [...eachStmt(input.body)].some((s) => s.kind === "tiles" && s.visit !== null);
    if (slots === 1 || ring === undefined || !stays) return input;
    const slot: Expr = mod({ kind: "var", name: VISIT }, slots);
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
