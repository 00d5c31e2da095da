/**
 * Reductions that are stored in another dtype than f32. Blocks combine them in f32, in the workspace, where they find and leave zeros; a kernel behind them stores
 * each result in its own dtype, rounded once, and puts the zero back.
 */
import { sizeOf } from "@tilewright/core";
import { type KernelStep, RESULT_BYTES, v } from "@tilewright/ir";
import { addr, imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { storeElements } from "./formats.ts";
import { buildFurtherKernel, type FurtherKernel, stepsOf } from "./furtherKernel.ts";
import { batchIndex, pointer } from "./globalAddress.ts";
import { isGrouped } from "./groups.ts";
import { advance, resultsPointer } from "./pointers.ts";
import { countOf, type Stride } from "./sizes.ts";

const strideOf = (count: number | "m" | "n", unit: number): Stride =>
  typeof count === "number" ? count * unit : { unit, sizes: [count] };

/** The code of the kernel that stores results: a thread one of each step. */
export function buildResultKernel(at: FurtherKernel): void {
  const { program, kernel } = at;
  const launch = { threads: kernel.threads, cluster: [1, 1] } as const;
  const own = { ...program, name: kernel.name, launch, rings: [] };
  buildFurtherKernel({ ...at, program: own }, (ctx) => {
    for (const step of stepsOf(at, "result")) storeResults(ctx, step);
  });
}

/** The result of this thread's number, if there is one of that number, in its dtype to where the launch wants it. */
function storeResults(ctx: Context, result: Extract<KernelStep, { kind: "result" }>): void {
  const { entry, values } = ctx;
  const { step: index, dtype, count: results } = result;
  const number = values.sum(values.scale(values.block(), ctx.program.launch.threads), values.thread());
  const count = typeof results === "number" ? results : countOf(ctx, v(results));
  const mine = entry.reg("pred", "p");
  ctx.emit(null, "setp.lt.u32", mine, number, typeof count === "number" ? imm(count) : count);
  // Nothing is stored for a group without rows or columns.
  if (isGrouped(ctx))
    for (const name of ["m", "n"] as const) {
      const extent = countOf(ctx, v(name));
      if (typeof extent !== "number") ctx.emit(null, "setp.ne.and.u32", mine, extent, imm(0), mine);
    }
  const at = (base: Reg<"u64">, bytes: number): Reg<"u64"> =>
    advance(ctx, advance(ctx, base, batchIndex(ctx), strideOf(results, bytes)), number, bytes);
  const from = addr(at(resultsPointer(ctx, index), RESULT_BYTES));
  const value = entry.reg("f32", "result");
  ctx.emit(mine, "ld.global.f32", value, from);
  ctx.emit(mine, "st.global.u32", from, imm(0));
  const to = addr(at(pointer(ctx, `epilogue${index}`), sizeOf(dtype)));
  storeElements(ctx, mine, "f32", dtype, [value], to);
}
