/** The tile scheduler of each loop over work tiles, and the maps of a tile's group: which CTAs take a number together, how many numbers there are, and where the tile's coordinates stand. */
import { readsBy } from "../tile/elements.ts";
import { freeVars } from "../tile/expr.ts";
import { groupMapsOf } from "../tile/launches/groupMaps.ts";
import { clusterUnits, eachStmt, rewriteStmts, withBody } from "../tile/rewrite.ts";
import { listedProblems, listOf } from "../tile/streamK.ts";
import type { Stmt, TileProgram, TileScheduler, Tiles } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/**
 * `late`: roles of persistent CTAs that copy nothing compute the coordinates of a work tile behind their first asynchronous products, or at the epilogue, where the arithmetic costs
 * nothing; else before all else.
 */
export const scheduleTiles = (place: "first" | "deferred"): Pass => ({
  name: "scheduleTiles",
  summary: "Loops over work tiles say what their scheduler counts by, and make the maps of a tile's group",
  from: "machine",
  to: "machine",
  // Nothing has its place yet.
  unfinished: true,
  run: (program) =>
    withBody(
      program,
      program.body.flatMap((stmt): readonly Stmt[] => {
        if (stmt.kind !== "role") return scheduled(program, [stmt], program.launch.threads / 32, place);
        return [{ ...stmt, body: scheduled(program, stmt.body, stmt.warps, place) }];
      }),
    ),
});

/** Loops over work tiles of statements that so many warps run: of a grouped problem they begin with the maps of the tile's group. */
const scheduled = (
  program: TileProgram,
  stmts: readonly Stmt[],
  warps: number,
  place: "first" | "deferred",
): readonly Stmt[] =>
  rewriteStmts(stmts, (stmt) => {
    if (stmt.kind !== "tiles") return stmt;
    const maps = stmt.loop === null ? [] : groupMapsOf(program, stmt.body, warps);
    const scheduler = schedulerOf(program, stmt, place === "deferred");
    return { ...stmt, scheduler, body: [...maps, ...stmt.body] };
  });

function schedulerOf(program: TileProgram, tiles: Tiles, deferred: boolean): TileScheduler {
  const { launch } = program;
  const [m, n] = clusterUnits(launch);
  const { loop, symbolic, extents } = tiles;
  const inner = eachStmt(tiles.body);
  const copies = inner.some((s) => s.kind === "copy" || readsBy(s, tiles.vars));
  const numbers = ((extents[0] * extents[1]) / (m * n)) * listedProblems(program.problem, loop);
  return {
    unit: launch.cluster[0] * launch.cluster[1],
    below: symbolic === undefined && Number.isInteger(numbers) ? numbers : null,
    deferred: deferred && loop !== null && symbolic === undefined && !copies,
    counts:
      loop !== null &&
      inner.some((s) => s.kind === "copy" && s.src.origin.some((e) => freeVars(e).has(loop.var))),
    ...listOf(program, tiles),
  };
}
