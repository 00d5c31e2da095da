/** The second kernel of `reduce … by kernel`: adds up the parts that the first has left, and goes on with the sum. */
import type { LaunchExpr } from "@tilewright/core";
import { eachStmt, type KernelDeclaration, type TileProgram, withSum } from "@tilewright/ir";
import { clusterSize, numberClusters } from "./clusters.ts";
import { CannotLower } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { buildFurtherKernel, type FurtherKernel, further } from "./furtherKernel.ts";
import { rowOfGroups } from "./params.ts";
import { partialTilePlaces } from "./partialTilePlaces.ts";
import { addPartials, loadPartial } from "./partialTiles.ts";
import { ownedTile } from "./registers.ts";
import { placedParameters, type WideResult } from "./results.ts";
import { lowerStmts } from "./statements.ts";
import { blocksOfTile, problemsOf } from "./tileCounts.ts";
import { placeTile } from "./tilePlace.ts";
import { gridOf } from "./tiles.ts";
import { type PartialTiles, times } from "./workspace.ts";

/**
 * One warp a block: no thread needs another's sum, and so a tile occupies as many SMs as its accumulators have warps. The grid has tiles along
 * x and problems along y, as the first kernel's, and the warps of a tile along z. Throws `CannotLower` where D passes through shared memory.
 */
export function sumDeclaration(
  program: TileProgram,
  shared: PartialTiles,
  results: readonly WideResult[],
  workspace: LaunchExpr,
): KernelDeclaration {
  const sum = sumProgram(program);
  const row = rowOfGroups(program);
  return {
    role: "reduce",
    name: sum.name,
    grid: [
      times(gridOf(program)[0], blocksOfTile(program)),
      problemsOf(program.problem),
      shared.threads / 32,
    ],
    ...further,
    threads: sum.launch.threads,
    workspace,
    params: placedParameters(sum, results),
    ...(row === null ? {} : { row }),
  };
}

/** Its code. */
export function buildSumKernel(
  at: FurtherKernel,
  shared: PartialTiles,
  results: readonly WideResult[],
): void {
  const { engine } = at;
  const sum = sumProgram(at.program);
  const warps = shared.threads / 32;
  buildFurtherKernel(
    { ...at, program: sum },
    (ctx) => {
      ctx.results = results;
      const { tiles, combine } = meetingOf(sum);
      // Workspace and tiles go by the first kernel's blocks.
      numberClusters(ctx);
      (engine.placeTile ?? placeTile)(ctx, tiles);
      const acc = ownedTile(ctx, combine.acc.buffer, 0);
      const place = partialTilePlaces(ctx, shared);
      ctx.placeLate();
      loadPartial(ctx, shared, acc.registers, place.first);
      addPartials(ctx, shared, acc.registers, place.further(warps));
      lowerStmts(ctx, withSum(combine));
    },
    { first: 0, warps, across: "grid", clusterOf: clusterSize(sum) },
  );
}

/** The part of a program that the second kernel runs: nothing of A and B, and blocks of their own. */
function sumProgram(program: TileProgram): TileProgram {
  const { tiles, combine } = meetingOf(program);
  const { cluster, pair } = program.launch;
  for (const stmt of eachStmt(withSum(combine)))
    if (stmt.kind !== "epilogue" || stmt.via !== null)
      throw new CannotLower("reduce", "a second kernel has registers only: D goes to memory from there");
  const used = new Set(["C", "D", combine.acc.buffer]);
  return {
    ...program,
    name: `${program.name}_sum`,
    launch: { threads: 32, cluster, ...(pair ? { pair } : {}) },
    buffers: program.buffers.filter(({ name }) => used.has(name)),
    rings: [],
    body: [{ ...tiles, split: null, loop: null, body: [combine] }],
  };
}

function meetingOf(program: TileProgram): {
  readonly tiles: StmtOf<"tiles">;
  readonly combine: StmtOf<"reduce">;
} {
  let tiles: StmtOf<"tiles"> | null = null;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "tiles") tiles = stmt;
    if (stmt.kind === "reduce" && tiles !== null) return { tiles, combine: stmt };
  }
  throw new CannotLower("reduce", "is missing");
}
