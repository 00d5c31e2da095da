/** Tensor maps as parameters of an entry. */
import { mapName } from "@tilewright/ir";
import { sym } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

/** Dimensions of an operand's map, as it is declared. */
export function mapDimensions({ kernel }: Context, global: string): number {
  const map = kernel.params.find(({ name }) => name === mapName(global));
  return map?.kind === "tensorMap" ? map.tensorMap.dims.length : 0;
}

/** Address of an operand's map. */
export const mapAddress = (ctx: Context, global: string): Reg<"u64"> =>
  ctx.roleValue(mapName(global), (code) => {
    const d = ctx.entry.reg("u64", "map");
    code.emitAny(null, "mov.b64", [d, sym(ctx.paramName(mapName(global)))]);
    code.emit(null, "cvta.param.u64", d, d);
    return d;
  });
