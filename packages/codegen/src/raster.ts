/** Tile coordinates of a block from its number, in the order of the raster. */
import type { Raster } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

/** A register, or null for 0. */
export type Coordinate = Reg<"u32"> | null;

/** Tile row and column of number `index` of the raster, this block's unless given; null where there is one only. */
export function rasterise(
  ctx: Context,
  raster: Raster,
  tilesM: number,
  tilesN: number,
  index: Reg<"u32"> = ctx.values.block(),
): [Coordinate, Coordinate] {
  const { values } = ctx;
  if (tilesM === 1) return [null, tilesN === 1 ? null : index];
  if (tilesN === 1) return [index, null];
  switch (raster.kind) {
    case "row":
      return [values.divide(index, tilesN), values.modulo(index, tilesN, tilesM * tilesN)];
    case "col":
      return [values.modulo(index, tilesM, tilesM * tilesN), values.divide(index, tilesM)];
    case "grouped":
      return grouped(ctx, Math.min(raster.group, tilesM), tilesM, tilesN, index);
  }
}

/** Groups of `group` tile rows, the last one shorter; rows fastest inside a group. */
function grouped(
  ctx: Context,
  group: number,
  tilesM: number,
  tilesN: number,
  block: Reg<"u32">,
): [Coordinate, Coordinate] {
  const { values } = ctx;
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
