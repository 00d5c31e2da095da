/** Pointers moved on by strides, and those to arrays that lie in the workspace: transposed copies of A and B, and results of steps until they are stored in their own dtype. */
import { placeParam, WORKSPACE } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { groupNumber, isGrouped } from "./groups.ts";
import { type Stride, strideKey, strideRegister } from "./sizes.ts";

/** base + index * stride (bytes); the product has 64 bits. */
export function advance(
  ctx: Context,
  base: Reg<"u64">,
  index: Reg<"u32"> | null,
  stride: Stride,
): Reg<"u64"> {
  if (index === null || stride === 0) return base;
  // Of elements that share bytes those at whole ones.
  if (typeof stride === "number" && stride > 0 && stride < 1)
    return advance(ctx, base, ctx.values.divide(index, 1 / stride), 1);
  return ctx.invariant(`${base.name}+${index.name}*${strideKey(stride)}`, (code) => {
    const d = ctx.entry.reg("u64", "gp");
    if (typeof stride !== "number") {
      const wide = ctx.entry.reg("u64", "w");
      code.emit(null, "cvt.u64.u32", wide, index);
      code.emit(null, "mad.lo.s64", d, wide, strideRegister(ctx, stride, 1), base);
    } else if (stride < 2 ** 31) {
      const wide = ctx.entry.reg("u64", "w");
      code.emit(null, "mul.wide.u32", wide, index, imm(stride));
      code.emit(null, "add.s64", d, base, wide);
    } else {
      const wide = ctx.entry.reg("u64", "w");
      code.emit(null, "cvt.u64.u32", wide, index);
      code.emit(null, "mad.lo.s64", d, wide, imm(stride), base);
    }
    return d;
  });
}

/** Pointer to a copy, of the first matrix of a batch. */
export const copyPointer = (ctx: Context, which: "a" | "b"): Reg<"u64"> =>
  ctx.invariant(`copy of ${which}`, (code) => {
    const { at } = ctx.region(which);
    const d = ctx.entry.reg("u64", "copy");
    code.emit(null, "ld.param.u64", d, ctx.param(WORKSPACE));
    code.emit(null, "cvta.to.global.u64", d, d);
    if (typeof at === "number" && at !== 0) code.emit(null, "add.s64", d, d, imm(at));
    return d;
  });

/** Pointer to the results of a step in the workspace, of a grouped problem those of the group at hand. */
export function resultsPointer(ctx: Context, index: number): Reg<"u64"> {
  const { at, stride = 0 } = ctx.region(`epilogue${index}`);
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
  return isGrouped(ctx) ? advance(ctx, base, groupNumber(ctx), stride) : base;
}
