/** Tile coordinates of a block from its number, in the order of the raster. */
import type { Raster } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { Count } from "./sizes.ts";

/** A register, or null for 0. */
export type Coordinate = Reg<"u32"> | null;

/** Tile row and column of number `index` of the raster, this block's unless given; null where there is one only. */
export function rasterise(
  ctx: Context,
  raster: Raster,
  tilesM: Count,
  tilesN: Count,
  index: Reg<"u32"> = ctx.values.block(),
): [Coordinate, Coordinate] {
  const { values } = ctx;
  if (tilesM === 1) return [null, tilesN === 1 ? null : index];
  if (tilesN === 1) return [index, null];
  switch (raster.kind) {
    case "row":
      return [values.divide(index, tilesN), values.modulo(index, tilesN, most(tilesM, tilesN))];
    case "col":
      return [values.modulo(index, tilesM, most(tilesM, tilesN)), values.divide(index, tilesM)];
    case "grouped":
      return typeof tilesM === "number"
        ? grouped(ctx, Math.min(raster.group, tilesM), tilesM, tilesN, index)
        : grouped(ctx, raster.group, tilesM, tilesN, index);
  }
}

/** Tiles, where their number is known. */
const most = (tilesM: Count, tilesN: Count): number =>
  typeof tilesM === "number" && typeof tilesN === "number" ? tilesM * tilesN : Number.POSITIVE_INFINITY;

/** Groups of `group` tile rows, the last one shorter; rows fastest inside a group. */
function grouped(
  ctx: Context,
  group: number,
  tilesM: Count,
  tilesN: Count,
  block: Reg<"u32">,
): [Coordinate, Coordinate] {
  const { values } = ctx;
  const inGroup = typeof tilesN === "number" ? group * tilesN : values.scale(tilesN, group);
  const index = values.divide(block, inGroup);
  const first = values.scale(index, group);
  const before = typeof inGroup === "number" ? values.scale(index, inGroup) : values.product(index, inGroup);
  const local = values.difference(block, before);
  if (typeof tilesM === "number" && typeof inGroup === "number" && tilesM % group === 0)
    return [values.sum(first, values.modulo(local, group, inGroup)), values.divide(local, group)];
  const rows = typeof tilesM === "number" ? imm(tilesM) : tilesM;
  const size = values.least(values.difference(rows, first), imm(group));
  const column = values.divide(local, size);
  const row = values.memo(`${local.name}%${size.name}`, "v", (d) => {
    ctx.prologue.emit(null, "rem.u32", d, local, size);
  });
  return [values.sum(first, row), column];
}
