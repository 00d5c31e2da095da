/** Send D through shared memory, from where bulk tensor stores take it while the block goes on. */
import { bufferOf, numberArg, rewriteStmts, takeDirective, withBody, wordArg } from "../tile/rewrite.ts";
import type { Buffer, TileProgram } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** Bulk copies read shared memory at multiples of 128 bytes (PTX ISA, cp.async.bulk.tensor). */
const BULK_ALIGN = 128;

/** Name of the shared tile. */
const TILE = "sD";

/**
 * Directive `epilogue way=tma cols=C`: the epilogue passes D through a shared tile of all rows of the accumulator and C of its columns, as often as
 * that takes. Meaning does not change; the last tile's stores may still be read from shared memory when the next tile begins.
 */
export const stageEpilogue: Pass = {
  name: "stageEpilogue",
  summary: "D goes to memory through a shared tile, by bulk tensor stores",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "epilogue");
    if (!taken || wordArg(taken.args, "way", "direct") !== "tma") return taken?.program ?? program;
    return stage(taken.program, numberArg(taken.args, "cols", 0));
  },
};

function stage(program: TileProgram, cols: number): TileProgram {
  const added: Buffer[] = [];
  const body = rewriteStmts(program.body, (stmt) => {
    if (stmt.kind !== "epilogue" || stmt.via !== null) return stmt;
    const d = bufferOf(program, stmt.dst.buffer);
    const [rows, width] = stmt.acc.extent;
    added.push({
      name: TILE,
      space: "shared",
      dtype: d.dtype,
      shape: [rows, cols > 0 && width % cols === 0 ? cols : width],
      slots: 1,
      layout: null,
      own: null,
      align: BULK_ALIGN,
    });
    return { ...stmt, via: TILE };
  });
  return { ...withBody(program, body), buffers: [...program.buffers, ...added] };
}
