/** Where a tile lies: its coordinates from its number in the raster, and how many tiles there are. */

import { clusterSize, clusterUnits, type Expr, must, rangeOf } from "@tilewright/ir";
import { type IntegerOperand, imm, type LabelRef } from "@tilewright/ptx";
import { clusterNumber, clusterPlace } from "./clusters.ts";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { isGrouped } from "./groups.ts";
import { boundOf } from "./iterations.ts";
import { type Coordinate, rasterise } from "./raster.ts";
import { type Count, countOf } from "./sizes.ts";

type Tiles = StmtOf<"tiles">;
type U32 = Reg<"u32">;

/** How a loop over work tiles counts. */
export const schedulerOf = ({ scheduler }: Tiles): NonNullable<Tiles["scheduler"]> =>
  must(scheduler, "tiles have a scheduler (schedulers)");

/** Coordinates of the one tile of a block. The label behind the tile to which blocks go that have none; null where there are none, or they end. */
export function placeTile(ctx: Context, stmt: Tiles): LabelRef | null {
  if (isGrouped(ctx)) leaveBeyond(ctx, stmt);
  place(ctx, stmt, clusterSize(ctx.program) === 1 ? undefined : clusterNumber(ctx));
  if (stmt.until === undefined) return null;
  return leaveBehind(ctx, stmt.until, ctx.tileVars.get(stmt.vars[0])?.reg ?? null);
}

/** Blocks of rows of tiles from `until` on leave; those that have columns of tensor memory give them back first. */
function leaveBehind(ctx: Context, until: Expr, row: U32 | null): LabelRef | null {
  const end = boundOf(ctx, until);
  if (typeof end === "number") return null;
  const none = ctx.entry.reg("pred", "p");
  ctx.body.emit(null, "setp.le.u32", none, end, row ?? imm(0));
  if ((ctx.program.machine?.memory.tensor ?? 0) === 0) {
    ctx.body.emit(none, "ret");
    return null;
  }
  const behind = ctx.entry.label("no_tile");
  ctx.body.emit(none, "bra", behind);
  return behind;
}

/** Of a grouped problem: blocks beyond the tiles of their group leave, before anything is divided by their number. */
function leaveBeyond(ctx: Context, stmt: Tiles): void {
  const { entry, prologue, values } = ctx;
  const operand = (count: Count): U32 | IntegerOperand => (typeof count === "number" ? imm(count) : count);
  const none = entry.reg("pred", "p");
  prologue.emit(null, "setp.ge.u32", none, values.block(), operand(clustersOf(ctx, stmt)));
  prologue.emit(none, "ret");
}

/** Tile coordinates from the number of a tile, or of a cluster's rectangle of tiles, in the raster. */
export function place(ctx: Context, stmt: Tiles, index: U32 | undefined): void {
  const [clusterM, clusterN] = clusterUnits(ctx.program.launch);
  const [unitsM, unitsN] = [clustersAlong(ctx, stmt, 0), clustersAlong(ctx, stmt, 1)];
  const raster =
    "group" in stmt.raster
      ? { ...stmt.raster, group: Math.max(1, Math.floor(stmt.raster.group / clusterM)) }
      : stmt.raster;
  const [row, n] = rasterise(ctx, raster, unitsM, unitsN, index);
  const m = stmt.descending && row !== null ? fromLast(ctx, unitsM, row) : row;
  const within = (at: Coordinate, units: number, axis: "m" | "n"): Coordinate => {
    const rank = clusterPlace(ctx, axis);
    if (rank === null) return at;
    return at === null ? rank : ctx.values.sum(ctx.values.scale(at, units), rank);
  };
  ctx.tileVars.set(stmt.vars[0], { reg: within(m, clusterM, "m"), extent: mostTiles(ctx, stmt, 0) });
  ctx.tileVars.set(stmt.vars[1], { reg: within(n, clusterN, "n"), extent: mostTiles(ctx, stmt, 1) });
  if (stmt.split) ctx.tileVars.set(stmt.split.var, { reg: ctx.values.split(), extent: stmt.split.extent });
}

/** The row as many from the last as this one is from the first. */
function fromLast(ctx: Context, rows: Count, row: U32): U32 {
  const count = must(typeof rows === "number" ? rows : null, "rows that descend are counted (context)");
  return ctx.values.difference(imm(count - 1), row);
}

/** Clusters of tiles along an axis. */
function clustersAlong(ctx: Context, stmt: Tiles, axis: 0 | 1): Count {
  const cluster = clusterUnits(ctx.program.launch)[axis];
  const count = stmt.symbolic?.[axis] ?? null;
  if (count === null) return stmt.extents[axis] / cluster;
  const tiles = countOf(ctx, count);
  return typeof tiles === "number" ? tiles / cluster : ctx.values.divide(tiles, cluster);
}

/** The most tiles along an axis in any launch. */
function mostTiles(ctx: Context, stmt: Tiles, axis: 0 | 1): number {
  const count = stmt.symbolic?.[axis] ?? null;
  return count === null ? stmt.extents[axis] : rangeOf(count, ctx.sizes)[1];
}

/** Tiles of one problem, or the rectangles of tiles that a cluster takes at a time. */
export function clustersOf(ctx: Context, stmt: Tiles): Count {
  const [rows, columns] = [clustersAlong(ctx, stmt, 0), clustersAlong(ctx, stmt, 1)];
  if (typeof rows === "number")
    return typeof columns === "number" ? rows * columns : ctx.values.scale(columns, rows);
  return typeof columns === "number" ? ctx.values.scale(rows, columns) : ctx.values.product(rows, columns);
}
