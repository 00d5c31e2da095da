/** Runs of rows: where that of the problem at hand begins and how many rows it has, as variables, read from cumulative offsets, or numbers of rows in pages, in device memory. */
import { stepBuffer } from "@tilewright/core";
import { addr, imm } from "@tilewright/ptx";
import type { Context } from "./context.ts";
import { globalArray, ofProblem, pointer } from "./globalAddress.ts";

/** Bytes of an offset. */
const OFFSET = 4;

/** Binds the variables of all runs: within the matrix, and no longer than the longest, whatever memory says. */
export function bindRuns(ctx: Context): void {
  for (const { step, first, count, most, total, pages } of ctx.runs) {
    const { name, batchStride } = globalArray(ctx, stepBuffer(step));
    const place = ofProblem(ctx, pointer(ctx, name), batchStride);
    const offset = (at: 0 | 1) =>
      ctx.invariant(`${name}[${at}]`, (code) => {
        const d = ctx.entry.reg("u32", "offset");
        code.emit(null, "ld.global.u32", d, addr(place, at * OFFSET));
        code.emit(null, "max.s32", d, d, imm(0));
        code.emit(null, "min.s32", d, d, imm(total));
        return d;
      });
    const from = pages === undefined ? offset(0) : null;
    const rows = ctx.invariant(count, (code) => {
      const d = ctx.entry.reg("u32", "rows");
      if (from === null) code.emit(null, "mov.u32", d, offset(0));
      else code.emit(null, "sub.s32", d, offset(1), from);
      code.emit(null, "max.s32", d, d, imm(0));
      code.emit(null, "min.s32", d, d, imm(most));
      return d;
    });
    ctx.tileVars.set(first, { reg: from, extent: from === null ? 1 : total + 1 });
    ctx.tileVars.set(count, { reg: rows, extent: most + 1 });
  }
}
