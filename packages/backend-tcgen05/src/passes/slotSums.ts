/** Give the accumulator ring more slots, so that one tile is multiplied while another is stored. */

import type { Expr, Pass, Ring, Stmt, TileLoop, TileProgram, View } from "@tilewright/ir";
import { eachStmt, mod, rewriteStmts, takeDirective, v, withBody } from "@tilewright/ir";
import { SUMS } from "./specialiseEngines.ts";

/** Directive `accumulators slots=S`: tile (or part) t of a persistent CTA accumulates in slot t % S. Off: one slot. Blocks of one tile need no more. */
export const slotSums: Pass = {
  name: "slotSums",
  summary: "Accumulators of consecutive tiles take turns in tensor memory",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "accumulators");
    const slots = taken ? taken.args.slots : 1;
    const input = taken?.program ?? program;
    const ring = input.rings.find((r) => r.name === SUMS);
    if (slots === 1 || ring === undefined || !isPersistent(input)) return input;
    const moved = inPlaces(input, ring, slots);
    return { ...moved, rings: moved.rings.map((r) => (r === ring ? { ...r, slots } : r)) };
  },
};

/** Whether blocks stay and loop over tiles. */
export const isPersistent = (program: TileProgram): boolean => tileLoopOf(program) !== null;

/** The program with a ring's tiles in so many places, which its chunks take in turn. */
export function inPlaces(input: TileProgram, ring: Ring, places: number): TileProgram {
  const loop = tileLoopOf(input);
  if (loop === null) return input;
  const slot: Expr = mod(v(loop.tiles ?? loop.var), places);
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
  const buffers = input.buffers.map((b) => (ring.buffers.includes(b.name) ? { ...b, slots: places } : b));
  return { ...withBody(input, body), buffers };
}

/** How blocks go over tiles; null where each has one. */
function tileLoopOf(program: TileProgram): TileLoop | null {
  for (const stmt of eachStmt(program.body)) if (stmt.kind === "tiles") return stmt.loop;
  return null;
}
