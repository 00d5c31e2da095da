/** Tile coordinates of a block from its number, in the order of the raster. */
import type { Raster } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

/** A register, or null for 0. */
export type Coordinate = Reg<"u32"> | null;

/** Tile row and column of this block; null where there is one only. */
export function rasterise(
  ctx: Context,
  raster: Raster,
  tilesM: number,
  tilesN: number,
): [Coordinate, Coordinate] {
  const { values } = ctx;
  if (tilesM === 1) return [null, tilesN === 1 ? null : values.block()];
  if (tilesN === 1) return [values.block(), null];
  switch (raster.kind) {
    case "row":
      return [values.divide(values.block(), tilesN), values.modulo(values.block(), tilesN, tilesM * tilesN)];
    case "col":
      return [values.modulo(values.block(), tilesM, tilesM * tilesN), values.divide(values.block(), tilesM)];
    case "grouped":
      return grouped(ctx, Math.min(raster.group, tilesM), tilesM, tilesN);
  }
}

/** Groups of `group` tile rows, the last one shorter; rows fastest inside a group. */
function grouped(ctx: Context, group: number, tilesM: number, tilesN: number): [Coordinate, Coordinate] {
  const { values } = ctx;
  const block = values.block();
  const index = values.divide(block, group * tilesN);
  const first = values.scale(index, group);
  const local = values.difference(block, values.scale(index, group * tilesN));
  if (tilesM % group === 0)
    return [values.sum(first, values.modulo(local, group, group * tilesN)), values.divide(local, group)];
  const size = values.least(values.difference(imm(tilesM), first), imm(group));
  const column = values.divide(local, size);
  const row = values.memo(`${local.name}%${size.name}`, "v", (d) => {
    ctx.prologue.emit(null, "rem.u32", d, local, size);
  });
  return [values.sum(first, row), column];
}
