/** The grid of a program's own kernel. */
import { expertRowsOf, type KernelSpec, type LaunchExpr, sizeMultiple } from "@tilewright/core";
import { evaluateExpr } from "../expr.ts";
import { eachStmt } from "../rewrite.ts";
import { streamKGrid } from "../streamK.ts";
import type { TileProgram } from "../types.ts";
import { blocksOfTile, clusterSize, problemsOf, type Tiles, tilesOf, times } from "./counts.ts";

type Grid = KernelSpec["launch"]["grid"];

/**
 * CTAs along x for tiles, along y for the problems of a batch unless their tiles are one list, along z for CTAs that share a tile. Of persistent CTAs as few as take the same number of
 * rounds as one on every SM would, so that all have the same number of tiles but for the last round (of groups where their tiles can be counted before the launch), each problem of a batch its share of the SMs; where they ask
 * for tiles, or their accumulators lie in tensor memory, as many as there are SMs.
 */
export function gridOf(program: TileProgram): Grid {
  const tiles = eachStmt(program.body).find((s) => s.kind === "tiles");
  const problems = problemsOf(program.problem);
  const grouped = program.problem.batch.kind === "grouped";
  if (tiles?.kind !== "tiles") return [1, problems, 1];
  const { streamK, loop } = tiles;
  if (streamK?.counted !== undefined) return [streamK.counted.blocks, grouped ? 1 : problems, 1];
  if (streamK !== undefined)
    return [streamKGrid(streamK, tiles.extents[0] * tiles.extents[1]) * blocksOfTile(program), problems, 1];
  if (program.buffers.some(({ space }) => space === "tensor")) return gridOfUnits(program, tiles);
  if (loop === null) {
    const count = tilesOf(tiles);
    // All groups may be empty.
    return [grouped ? ["max", 1, count] : count, problems, tiles.split?.extent ?? 1];
  }
  const size = clusterSize(program);
  const count = tilesOf(tiles);
  const clusters: LaunchExpr =
    typeof count === "number" ? count / size : size === 1 ? count : ["div", count, size];
  const resident: LaunchExpr = size === 1 ? "numSms" : ["max", 1, ["div", "numSms", size]];
  const blocks = (of: LaunchExpr): LaunchExpr => (size === 1 ? of : ["mul", of, size]);
  const evenly = (tiles: LaunchExpr, on: LaunchExpr): LaunchExpr => [
    "ceilDiv",
    tiles,
    ["ceilDiv", tiles, on],
  ];
  const whole = grouped ? countedOfGroups(program, tiles, clusters) : null;
  if (whole !== null) return [blocks(evenly(whole, resident)), 1, 1];
  // No group has more tiles than that of the launch; CTAs without one leave. All groups may be empty.
  if (grouped) return [blocks(["min", resident, ["max", 1, ["mul", problems, clusters]]]), 1, 1];
  const all = times(clusters, problems);
  const [along, apart] = loop.batch === undefined ? [clusters, problems] : [all, 1];
  if (loop.by === "ring") return [blocks(["min", along, resident]), apart, 1];
  const share: LaunchExpr = apart === 1 ? resident : ["max", 1, ["div", resident, apart]];
  return [blocks(evenly(along, share)), apart, 1];
}

/**
 * Clusters of tiles of all groups, of which one has `clusters` at most, where they can be counted before the launch: of experts that differ in k, which all have as many; of those that share
 * rows where none of their tiles has a tail, by the divisor of the rows: as many as all rows as one matrix. Else null.
 */
function countedOfGroups(
  { problem }: TileProgram,
  { symbolic }: Tiles,
  clusters: LaunchExpr,
): LaunchExpr | null {
  if (symbolic === undefined) return times(clusters, problemsOf(problem));
  const rows = symbolic[0];
  if (rows === null || expertRowsOf(problem) !== "offsets") return null;
  const multiple = sizeMultiple(problem, "m");
  const at = (m: number): number => evaluateExpr(rows, new Map([["m", m]]));
  return at(multiple) * (problem.m / multiple) === at(problem.m) ? clusters : null;
}

/** A CTA or pair a tile; of those that are persistent as many as the GPU holds. */
function gridOfUnits(program: TileProgram, tiles: Tiles): Grid {
  const problems = problemsOf(program.problem);
  const size = clusterSize(program);
  // The launch control hands out tiles that were launched, as if for CTAs of their own.
  const persistent = tiles.loop !== null && !program.rings.some(({ transport }) => transport === "clc");
  const whole = wholeClusters(tilesOf(tiles), blocksOfTile(program), size);
  if (!persistent) return [whole, problems, tiles.loop === null ? (tiles.split?.extent ?? 1) : 1];
  const resident: LaunchExpr = size === 1 ? "numSms" : ["mul", size, ["max", 1, ["div", "numSms", size]]];
  if (program.problem.batch.kind !== "grouped") return [["min", whole, resident], problems, 1];
  // No group has more tiles than that of the launch; CTAs without one leave. All groups may be empty.
  return [["min", ["max", size, ["mul", problems, whole]], resident], 1, 1];
}

/** CTAs for all tiles, `works` each, in whole clusters. */
function wholeClusters(tiles: LaunchExpr, works: number, size: number): LaunchExpr {
  if (typeof tiles === "number") return Math.ceil((tiles * works) / size) * size;
  // Tiles are counted in those of whole clusters where the launch counts them.
  return works === 1 ? tiles : ["mul", tiles, works];
}
