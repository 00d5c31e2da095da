/** Arrays that lie in the workspace: transposed copies of A and B, and results of steps until they are stored in their own dtype. */
import type { LaunchExpr } from "@tilewright/core";
import { placeParam, RESULT_BYTES, WORKSPACE } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { advance } from "./globalAddress.ts";
import { groupNumber, isGrouped } from "./groups.ts";

/** Pointer to a copy, of the first matrix of a batch. */
export const copyPointer = (ctx: Context, which: string, at: LaunchExpr): Reg<"u64"> =>
  ctx.invariant(`copy of ${which}`, (code) => {
    const d = ctx.entry.reg("u64", "copy");
    code.emit(null, "ld.param.u64", d, ctx.param(WORKSPACE));
    code.emit(null, "cvta.to.global.u64", d, d);
    if (typeof at === "number" && at !== 0) code.emit(null, "add.s64", d, d, imm(at));
    return d;
  });

/** Pointer to the results of a step in the workspace, of a grouped problem those of the group at hand, `every` places on from group to group. */
export function resultsPointer(ctx: Context, index: number, at: LaunchExpr, every: number): Reg<"u64"> {
  const base = ctx.invariant(`results of step ${index}`, (code) => {
    const d = ctx.entry.reg("u64", "results");
    const workspace = ctx.entry.reg("u64", "ws");
    code.emit(null, "ld.param.u64", workspace, ctx.param(WORKSPACE));
    code.emit(null, "cvta.to.global.u64", workspace, workspace);
    if (typeof at === "number") code.emit(null, "add.s64", d, workspace, imm(at));
    else {
      code.emit(null, "ld.param.u64", d, ctx.param(placeParam(index)));
      code.emit(null, "add.s64", d, d, workspace);
    }
    return d;
  });
  return isGrouped(ctx) ? advance(ctx, base, groupNumber(ctx), every * RESULT_BYTES) : base;
}
