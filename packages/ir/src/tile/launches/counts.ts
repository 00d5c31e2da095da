/** How many tiles, problems and CTAs a launch has: numbers, or expressions in the sizes that it supplies. */
import type { LaunchExpr, Problem } from "@tilewright/core";
import { launchExprOf } from "../../launch/ofExpr.ts";
import { sharedNames } from "../sharedMemory.ts";
import type { KernelDeclaration, Stmt, TileProgram } from "../types.ts";

export type Tiles = Extract<Stmt, { kind: "tiles" }>;

/** The product, folded where it can be. */
export const times = (a: LaunchExpr, b: LaunchExpr): LaunchExpr =>
  typeof a === "number" && typeof b === "number" ? a * b : b === 1 ? a : ["mul", a, b];

/** The sum, folded where it can be. */
export const plus = (a: LaunchExpr, b: LaunchExpr): LaunchExpr =>
  typeof a === "number" && typeof b === "number" ? a + b : a === 0 ? b : ["add", a, b];

/** Output tiles of one problem. */
export function tilesOf({ extents, symbolic }: Pick<Tiles, "extents" | "symbolic">): LaunchExpr {
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

/** CTAs along the grid's first axis that work on one tile: those of a pair. */
export const blocksOfTile = ({ launch }: Pick<TileProgram, "launch">): 1 | 2 =>
  launch.pair === true ? 2 : 1;

/** CTAs of a cluster. */
export const clusterSize = ({ launch }: Pick<TileProgram, "launch">): number =>
  launch.cluster[0] * launch.cluster[1];

/** Extents of a kernel's clusters along the grid's axes: CTAs that share a tile's K loop lie along the third, and are a cluster where they have an mbarrier for each other's slices. */
export const clusterExtents = (
  { launch, machine }: Pick<TileProgram, "launch" | "machine">,
  { grid: [, , along] }: Pick<KernelDeclaration, "grid">,
): readonly [number, number, number] => {
  const meet = machine?.barriers.some(({ name }) => name === sharedNames.slicesFull) === true;
  return [clusterSize({ launch }), 1, meet && typeof along === "number" ? along : 1];
};
