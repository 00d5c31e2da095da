/** Transposed copies of A and B in the workspace, as their readers see them. */
import { WORKSPACE } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

/** Pointer to a copy, of the first matrix of a batch. */
export const copyPointer = (ctx: Context, which: string, at: number): Reg<"u64"> =>
  ctx.invariant(`copy of ${which}`, (code) => {
    const d = ctx.entry.reg("u64", "copy");
    code.emit(null, "ld.param.u64", d, ctx.param(WORKSPACE));
    code.emit(null, "cvta.to.global.u64", d, d);
    if (at !== 0) code.emit(null, "add.s64", d, d, imm(at));
    return d;
  });
