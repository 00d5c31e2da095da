/** How many tiles and problems a launch has: numbers, or expressions in the sizes that it supplies. */
import type { LaunchExpr, Problem } from "@tilewright/core";
import { launchExprOf, type TileProgram } from "@tilewright/ir";
import type { StmtOf } from "./engine.ts";

/** Output tiles of one problem. */
export function tilesOf({ extents, symbolic }: Pick<StmtOf<"tiles">, "extents" | "symbolic">): LaunchExpr {
  const along = (axis: 0 | 1): LaunchExpr => {
    const count = symbolic?.[axis] ?? null;
    return count === null ? extents[axis] : launchExprOf(count);
  };
  const [rows, columns] = [along(0), along(1)];
  if (typeof rows === "number" && typeof columns === "number") return rows * columns;
  return rows === 1 ? columns : columns === 1 ? rows : ["mul", rows, columns];
}

/** Problems of a batch: places along the grid's second axis. */
export const problemsOf = ({ batch, symbolic }: Problem): LaunchExpr =>
  batch.kind === "none" ? 1 : symbolic?.batch === undefined ? batch.count : "batch";

/** Blocks along the grid's first axis that work on one tile: those of a pair. */
export const blocksOfTile = ({ launch }: TileProgram): number => (launch.pair === true ? 2 : 1);
