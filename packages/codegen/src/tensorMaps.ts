/** Tensor maps as parameters of an entry. */
import type { TensorMapRecipe } from "@tilewright/core";
import { type Buffer, mapName, must } from "@tilewright/ir";
import { sym } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

/** The map of an operand, as it is declared. */
export function declaredMap({ kernel }: Context, global: string): TensorMapRecipe {
  const map = kernel.params.find(({ name }) => name === mapName(global));
  return must(map?.kind === "tensorMap" ? map.tensorMap : null, `%${global} has a tensor map (launches)`);
}

/** Runs to which rows across a tile are interleaved, each a dimension of the map. */
export const runsOf = ({ layout }: Buffer): number => layout?.interleaved?.runs ?? 1;

/** Extents of a map's boxes along the axes of a tile, without those of a batch. */
export const boxOf = (ctx: Context, global: string, tile: Buffer): readonly number[] =>
  declaredMap(ctx, global).box.slice(0, runsOf(tile) > 1 ? 3 : 2);

/** Address of an operand's map. */
export const mapAddress = (ctx: Context, global: string): Reg<"u64"> =>
  ctx.roleValue(mapName(global), (code) => {
    const d = ctx.entry.reg("u64", "map");
    code.emitAny(null, "mov.b64", [d, sym(ctx.paramName(mapName(global)))]);
    code.emit(null, "cvta.param.u64", d, d);
    return d;
  });
