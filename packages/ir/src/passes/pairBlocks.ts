/** Let two neighbouring blocks work on one tile: each holds half of the operands and of the accumulators. */
import { bufferOf, eachStmt, takeDirective } from "../tile/rewrite.ts";
import type { Buffer, TileProgram } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * Directive `pair blocks=2`: A is halved along its rows, B along its columns, and the accumulators along what goes into lanes, as matrix instructions of pairs want them.
 * The passes that follow give the halves their places, and what only one of the blocks may do to the leading one. Without the directive every
 * block works for itself.
 */
export const pairBlocks: Pass = {
  name: "pairBlocks",
  summary: "Pairs of blocks share a tile: each holds half of A, B and the accumulators",
  from: "staged",
  to: "staged",
  run(program) {
    const taken = takeDirective(program, "pair");
    if (!taken) return program;
    const axes = halvedAxes(taken.program);
    return {
      ...taken.program,
      launch: { ...program.launch, pair: true },
      buffers: program.buffers.map((b): Buffer => {
        const axis = axes.get(b.name);
        return axis === undefined || b.space === "global" ? b : { ...b, halves: axis };
      }),
    };
  },
};

/** Which axis of each tile the blocks of a pair share out. */
function halvedAxes(program: TileProgram): ReadonlyMap<string, 0 | 1> {
  const axes = new Map<string, 0 | 1>();
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "mma") continue;
    axes.set(stmt.acc.buffer, bufferOf(program, stmt.acc.buffer).lanes ?? 0);
    axes.set(stmt.a.buffer, 0);
    axes.set(stmt.b.buffer, 1);
  }
  return axes;
}
