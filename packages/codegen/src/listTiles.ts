/**
 * Persistent CTAs go through the tiles of all groups of a grouped problem: one list, in the order of the groups and of the raster in each. Every role of a
 * block walks it by itself, a group's row of the table at a time, and takes one tile in as many as there are blocks (or clusters).
 */
import { clusterSize, type TileLoop } from "@tilewright/ir";
import { imm, special } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { makeMaps } from "./groupMaps.ts";
import { type Count, countOperand } from "./sizes.ts";
import { clustersOf, place, schedulerOf } from "./tilePlace.ts";

type Tiles = StmtOf<"tiles">;

/** How a backend goes over the tiles of a list. */
export interface ListWalk {
  /** A register of its own with the number of the block, or of the cluster whose blocks take tiles together; and with how many there are. */
  number(prefix: string): Reg<"u32">;
  step(prefix: string): Reg<"u32">;
  /** Tiles of the group at hand that have numbers of their own. */
  tiles(): Count;
  /** Binds the coordinates of the tile with this number in the raster of its group. */
  place(tile: Reg<"u32">): void;
  /** What is done for a tile. */
  body(): void;
}

/** The walk of blocks, or of clusters of blocks with a tile each. */
export const ownWalk = (ctx: Context, stmt: Tiles, body: () => void): ListWalk => {
  const clustered = clusterSize(ctx.program) > 1;
  const register = (name: string, value: ReturnType<typeof special>) => {
    const d = ctx.entry.reg("u32", name);
    ctx.body.emit(null, "mov.u32", d, value);
    return d;
  };
  return {
    number: (prefix) => register(prefix, special(clustered ? "%clusterid.x" : "%ctaid.x")),
    step: (prefix) => register(prefix, special(clustered ? "%nclusterid.x" : "%nctaid.x")),
    tiles: () => clustersOf(ctx, stmt),
    place: (tile) => place(ctx, stmt, tile),
    body,
  };
};

/** The loop over the tiles of the list. Blocks beyond its end have none. */
export function walkTileList(ctx: Context, stmt: Tiles, loop: TileLoop, walk: ListWalk): void {
  const { entry, body } = ctx;
  const { groups } = schedulerOf(stmt);
  if (groups === undefined) throw new CannotLower("tiles", "one problem is no list");
  const register = (name: string, value: number) => {
    const d = entry.reg("u32", name);
    body.emit(null, "mov.u32", d, imm(value));
    return d;
  };
  const tile = walk.number("tile");
  const step = walk.step("tile");
  // Before the first group: it begins and ends at 0.
  const group = register("group", 0xffffffff);
  const [first, end] = [register("first", 0), register("first", 0)];
  const [again, found, done] = [entry.label("list"), entry.label("tile"), entry.label("list_end")];
  const [here, over] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  body.label(again);
  body.emit(null, "setp.lt.u32", here, tile, end);
  body.emit(here, "bra", found);
  body.emit(null, "add.u32", group, group, imm(1));
  body.emit(null, "setp.ge.u32", over, group, imm(groups));
  body.emit(over, "bra", done);
  body.emit(null, "mov.u32", first, end);
  ctx.group = group;
  ctx.scope(() => {
    ctx.body.emit(null, "add.u32", end, end, countOperand(walk.tiles()));
  });
  ctx.body.emit(null, "bra", again);
  ctx.body.label(found);
  ctx.tileLoop = { number: tile, following: null, loop, below: null };
  ctx.scope(() => {
    for (const each of stmt.body) if (each.kind === "tensormap.make") makeMaps(ctx, each);
    walk.place(ctx.values.difference(tile, first));
    walk.body();
  });
  ctx.tileLoop = null;
  ctx.group = null;
  ctx.body.emit(null, "add.u32", tile, tile, step);
  ctx.body.emit(null, "bra", again);
  ctx.body.label(done);
}
