/**
 * Persistent CTAs go through the tiles of all groups of a grouped problem: one list, in the order of the groups and of the raster in each. Every role of a
 * block walks it by itself, a group's row of the table at a time, and takes one tile in as many as there are blocks (or clusters).
 */

import { clusterSize, must, type TileLoop } from "@tilewright/ir";
import { imm, special } from "@tilewright/ptx";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { makeMaps } from "./groupMaps.ts";
import { keepRows, keptRows } from "./groups.ts";
import { countOperand } from "./sizes.ts";
import { clustersOf, place, schedulerOf } from "./tilePlace.ts";

type Tiles = StmtOf<"tiles">;

/** The loop over the tiles of the list. Blocks beyond its end have none. */
export function walkTileList(ctx: Context, stmt: Tiles, loop: TileLoop, make: () => void): void {
  const { entry, body } = ctx;
  const groups = must(schedulerOf(stmt).groups, "the scheduler says how many groups there are (lists)");
  const register = (name: string, value: number | string) => {
    const d = entry.reg("u32", name);
    body.emit(null, "mov.u32", d, typeof value === "number" ? imm(value) : special(value));
    return d;
  };
  const clustered = clusterSize(ctx.program) > 1;
  const tile = register("tile", clustered ? "%clusterid.x" : "%ctaid.x");
  const step = register("tile", clustered ? "%nclusterid.x" : "%nctaid.x");
  // Before the first group: it begins and ends at 0.
  const group = register("group", 0xffffffff);
  const [first, end] = [register("first", 0), register("first", 0)];
  const [again, found, done] = [entry.label("list"), entry.label("tile"), entry.label("list_end")];
  const [here, over] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  const kept = keptRows(ctx);
  body.label(again);
  body.emit(null, "setp.lt.u32", here, tile, end);
  body.emit(here, "bra", found);
  body.emit(null, "add.u32", group, group, imm(1));
  body.emit(null, "setp.ge.u32", over, group, imm(groups));
  body.emit(over, "bra", done);
  body.emit(null, "mov.u32", first, end);
  ctx.group = group;
  ctx.scope(() => {
    ctx.body.emit(null, "add.u32", end, end, countOperand(clustersOf(ctx, stmt)));
    if (kept !== null) keepRows(ctx, kept);
  });
  ctx.expert = kept;
  ctx.body.emit(null, "bra", again);
  ctx.body.label(found);
  ctx.tileLoop = { number: tile, following: null, loop, below: null };
  ctx.scope(() => {
    for (const each of stmt.body) if (each.kind === "tensormap.make") makeMaps(ctx, each);
    place(ctx, stmt, ctx.values.difference(tile, first));
    make();
  });
  ctx.tileLoop = null;
  ctx.group = null;
  ctx.expert = null;
  ctx.body.emit(null, "add.u32", tile, tile, step);
  ctx.body.emit(null, "bra", again);
  ctx.body.label(done);
}
