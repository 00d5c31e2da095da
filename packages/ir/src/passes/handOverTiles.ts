/** Shared tiles that element statements compute and products read: threads meet in between, and loops know which part a turn reads. */
import { freeVars } from "../tile/expr.ts";
import { bufferOf, eachStmt, withBody } from "../tile/rewrite.ts";
import type { Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** Barriers of all threads of a block, and of those of a role. */
const BLOCK_BARRIER = 0;
const ROLE_BARRIER = 1;

const WARP = 32;

/**
 * A barrier stands behind every `map` into a shared tile, and, where a CTA takes more than one work tile, another in front of it, behind the reads of the last one. Loops
 * that read parts of such a tile are unrolled: where a part lies is a constant.
 */
export const handOverTiles: Pass = {
  name: "handOverTiles",
  summary: "Threads meet where a shared tile passes from those that compute it to those that read it",
  from: "specialised",
  to: "specialised",
  run(program) {
    const made = new Set(
      eachStmt(program.body).flatMap((stmt) => (stmt.kind === "map" ? [stmt.dst.buffer] : [])),
    );
    const tiles = program.buffers.filter(({ name, space }) => space === "shared" && made.has(name));
    if (tiles.length === 0) return program;
    const names = new Set(tiles.map(({ name }) => name));
    return withBody(program, handOver(program, names, program.body, program.launch.threads, false));
  },
};

/** `threads`: of the block or role around; `again`: whether the statements run for more than one work tile. */
function handOver(
  program: TileProgram,
  tiles: ReadonlySet<string>,
  stmts: readonly Stmt[],
  threads: number,
  again: boolean,
): readonly Stmt[] {
  const barrier: Stmt =
    threads === program.launch.threads
      ? { kind: "barrier", id: BLOCK_BARRIER }
      : { kind: "barrier", id: ROLE_BARRIER, threads };
  return stmts.flatMap((stmt): readonly Stmt[] => {
    if (stmt.kind === "map" && bufferOf(program, stmt.dst.buffer).space === "shared")
      return [...(again ? [barrier] : []), stmt, barrier];
    if (!("body" in stmt)) return [stmt];
    const inside = stmt.kind === "role" ? stmt.warps * WARP : threads;
    const loops = again || (stmt.kind === "tiles" && stmt.loop !== null);
    const body = handOver(program, tiles, stmt.body, inside, loops);
    return [
      stmt.kind === "for"
        ? { ...stmt, unroll: stmt.unroll || readsParts(stmt, tiles), body }
        : { ...stmt, body },
    ];
  });
}

/** Whether the turns of a loop read parts of a tile. */
const readsParts = (loop: Extract<Stmt, { kind: "for" }>, tiles: ReadonlySet<string>): boolean =>
  eachStmt(loop.body)
    .flatMap((stmt): readonly View[] =>
      stmt.kind === "copy" ? [stmt.src] : stmt.kind === "mma" ? [stmt.a] : [],
    )
    .some(
      ({ buffer, origin }) => tiles.has(buffer) && origin.some((e) => [...freeVars(e)].includes(loop.var)),
    );
