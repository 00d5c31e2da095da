/**
 * Reductions that are stored in another dtype than f32. Blocks combine them in f32, in the workspace, where they find and leave zeros; a kernel behind them stores
 * each result in its own dtype, rounded once, and puts the zero back.
 */
import { sizeOf } from "@tilewright/core";
import { must, RESULT_BYTES, v } from "@tilewright/ir";
import { type AddressOperand, addr, imm } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { Statements, StmtOf } from "./engine.ts";
import { storeElements } from "./formats.ts";
import { batchIndex, pointer } from "./globalAddress.ts";
import { isGrouped } from "./groups.ts";
import { advance, resultsPointer } from "./pointers.ts";
import { countOf, type Stride } from "./sizes.ts";

const strideOf = (count: number | "m" | "n", unit: number): Stride =>
  typeof count === "number" ? count * unit : { unit, sizes: [count] };

/** A thread's result of a step: whether there is one of its number, and where it is of so many bytes each. */
export interface ThreadResult {
  readonly mine: Pred;
  readonly value: Reg<"f32">;
  readonly from: AddressOperand;
  at(base: Reg<"u64">, bytes: number): AddressOperand;
}

function load(ctx: Context, { step, count: results }: StmtOf<"result.load">): void {
  const { entry, values } = ctx;
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
  const at = (base: Reg<"u64">, bytes: number): AddressOperand =>
    addr(advance(ctx, advance(ctx, base, batchIndex(ctx), strideOf(results, bytes)), number, bytes));
  const from = at(resultsPointer(ctx, step), RESULT_BYTES);
  const value = entry.reg("f32", "result");
  ctx.emit(mine, "ld.global.f32", value, from);
  ctx.results.set(step, { mine, value, from, at });
}

const loaded = (ctx: Context, { step }: StmtOf<"result.clear" | "result.store">): ThreadResult =>
  must(ctx.results.get(step), "its results have been loaded (launches)");

export const resultStatements: Pick<Statements, "result.load" | "result.clear" | "result.store"> = {
  "result.load": load,
  "result.clear"(ctx, stmt) {
    const { mine, from } = loaded(ctx, stmt);
    ctx.emit(mine, "st.global.u32", from, imm(0));
  },
  "result.store"(ctx, stmt) {
    const { mine, value, at } = loaded(ctx, stmt);
    const { step, dtype } = stmt;
    const to = at(pointer(ctx, `epilogue${step}`), sizeOf(dtype));
    storeElements(ctx, mine, "f32", dtype, [value], to);
  },
};
