/** The second kernel of `reduce … by kernel`: adds up the parts that the first has left, and goes on with the sum. */
import { clusterSize, sumProgram, withSum } from "@tilewright/ir";
import { numberClusters } from "./clusters.ts";
import { buildFurtherKernel, type FurtherKernel, stepsOf } from "./furtherKernel.ts";
import { partialTilePlaces } from "./partialTilePlaces.ts";
import { addPartials, loadPartial, partialsOf } from "./partialTiles.ts";
import { ownedTile } from "./registers.ts";
import { lowerStmts } from "./statements.ts";
import { placeTile } from "./tilePlace.ts";

/** Its code. */
export function buildSumKernel(at: FurtherKernel): void {
  const { program: sum, tiles, combine } = sumProgram(at.program);
  for (const { tile, partials: parts, warps } of stepsOf(at, "sum"))
    buildFurtherKernel(
      { ...at, program: sum },
      (ctx) => {
        // Workspace and tiles go by the first kernel's blocks.
        numberClusters(ctx);
        placeTile(ctx, tiles);
        const acc = ownedTile(ctx, tile, 0);
        const shared = partialsOf(ctx, combine);
        const place = partialTilePlaces(ctx, shared);
        ctx.placeLate();
        loadPartial(ctx, shared, acc.registers, place.first);
        addPartials(ctx, shared, acc.registers, place.further(shared.each - 1 + warps - parts));
        lowerStmts(ctx, withSum(combine));
      },
      { first: 0, warps, across: "grid", clusterOf: clusterSize(sum) },
    );
}
