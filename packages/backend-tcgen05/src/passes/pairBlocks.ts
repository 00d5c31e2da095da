/** Let two neighbouring blocks work on one tile: each holds half of the operands and of the accumulators. */

import type { Buffer, Pass, Stmt, TileProgram, View } from "@tilewright/ir";
import {
  bufferOf,
  directed,
  eachStmt,
  rewriteStmts,
  SCALE_LANES,
  wholeView,
  withBody,
  withReads,
} from "@tilewright/ir";

/**
 * Directive `pair blocks=2`: A is halved along its rows, B along its columns, and the accumulators along what goes into lanes, as matrix instructions of pairs want them. Scale
 * factors of A go with its rows; those of B both blocks have in full (PTX ISA 9.0, tcgen05.mma scale factor layouts).
 * The passes that follow give the halves their places, and what only one of the blocks may do to the leading one. Without the directive every
 * block works for itself.
 */
export const pairBlocks: Pass = {
  name: "pairBlocks",
  summary: "Pairs of blocks share a tile: each holds half of A, B and the accumulators",
  from: "staged",
  to: "staged",
  run: directed("pair", (program) => {
    const axes = halvedAxes(program);
    const buffers = program.buffers.map((b): Buffer => {
      const axis = axes.get(b.name);
      if (axis === undefined || b.space === "global") return b;
      return { ...b, halves: axis, shape: b.space === "tensor" ? halvedFactors(b.shape) : b.shape };
    });
    const resized = new Map(
      buffers.flatMap((b, i) => (b.shape === program.buffers[i]?.shape ? [] : [[b.name, b]])),
    );
    const moved = (view: View): View => {
      const buffer = resized.get(view.buffer);
      return buffer === undefined ? view : wholeView(buffer);
    };
    const body = rewriteStmts(program.body, (stmt): Stmt => {
      if (resized.size === 0) return stmt;
      if (stmt.kind === "copy") return { ...stmt, dst: moved(stmt.dst) };
      return stmt.kind === "mma" ? withReads(stmt, moved) : stmt;
    });
    return { ...withBody(program, body), launch: { ...program.launch, pair: true }, buffers };
  }),
};

/** Factors in tensor memory: half of the blocks of 32 lanes lie behind the others. Accumulators are not there yet. */
const halvedFactors = ([, columns]: readonly [number, number]): readonly [number, number] => [
  2 * SCALE_LANES,
  columns / 2,
];

/** Which axis of each tile the blocks of a pair share out. */
function halvedAxes(program: TileProgram): ReadonlyMap<string, 0 | 1> {
  const axes = new Map<string, 0 | 1>();
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind !== "mma") continue;
    axes.set(stmt.acc.buffer, bufferOf(program, stmt.acc.buffer).lanes ?? 0);
    axes.set(stmt.a.buffer, 0);
    axes.set(stmt.b.buffer, 1);
    for (const name of stmt.scales === undefined ? [] : sourcesOf(program, stmt.scales.a.buffer))
      axes.set(name, 0);
  }
  return axes;
}

/** A tile and those that it is copied from. */
function sourcesOf(program: TileProgram, name: string): readonly string[] {
  const from = eachStmt(program.body).find((s) => s.kind === "copy" && s.dst.buffer === name);
  if (from?.kind !== "copy" || bufferOf(program, from.src.buffer).space === "global") return [name];
  return [name, ...sourcesOf(program, from.src.buffer)];
}
