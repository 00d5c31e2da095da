/** The turns that a loop takes of those that it has, as registers. */
import { type Expr, iterationsWithin, type Within } from "@tilewright/ir";
import { type IntegerOperand, imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

type Bound = IntegerOperand | Reg<"u32">;

/** First turn and end, as far as they are asked for, of a loop from `from` (0 or more) to `to`. Its bounds are sums of tile variables, or their quotients. */
export function iterationsTaken(
  ctx: Context,
  { bounds: [low, high], take }: Within,
  [from, to]: readonly [number, number],
): { readonly first: Bound; readonly end: Bound } {
  ctx.placeLate();
  const [first, end] = [boundOf(ctx, low), boundOf(ctx, high)];
  if (typeof first === "number" && typeof end === "number") {
    const turns = iterationsWithin([from, to], [first, end], take);
    return { first: imm(turns[0]), end: imm(turns[1]) };
  }
  const between = (bound: number | Reg<"u32">, least: Bound, most: number): Bound => {
    if (typeof bound === "number" && least.kind !== "register")
      return imm(Math.min(most, Math.max(bound, Number(least.value))));
    const d = ctx.entry.reg("u32", "turn");
    if (typeof bound === "number") ctx.body.emitAny(null, "max.u32", [d, least, imm(bound)]);
    else ctx.body.emitAny(null, "max.u32", [d, bound, least]);
    ctx.body.emit(null, "min.u32", d, d, imm(most));
    return d;
  };
  const begin = between(first, imm(from), to - 1);
  const moved = (bound: Bound, by: number): Bound => {
    if (bound.kind !== "register") return imm(Number(bound.value) + by);
    const d = ctx.entry.reg("u32", "turn");
    ctx.body.emit(null, "add.u32", d, bound, imm(by));
    return d;
  };
  const second = moved(begin, 1);
  if (take === "first") return { first: begin, end: second };
  const behind = between(end, second, to);
  switch (take) {
    case "all":
      return { first: begin, end: behind };
    case "rest":
      return { first: second, end: behind };
    case "last":
      return { first: moved(behind, -1), end: behind };
  }
}

/** A bound; 0 where it is below. */
export function boundOf(ctx: Context, bound: Expr): number | Reg<"u32"> {
  const e = ctx.fold(bound);
  const divisor = e.kind === "div" ? e.divisor : 1;
  const { constant, terms } = ctx.linear(e.kind === "div" ? e.lhs : e);
  const moving = [...terms].filter(([name]) => ctx.tileVars.get(name)?.reg !== null);
  if (moving.length === 0) {
    return Math.floor(Math.max(0, constant) / divisor);
  }
  const sum = ctx.entry.reg("u32", "bound");
  ctx.body.emit(null, "mov.u32", sum, imm(constant));
  for (const [name, factor] of moving)
    ctx.body.emit(null, "mad.lo.u32", sum, ctx.variable(name), imm(factor), sum);
  ctx.body.emit(null, "max.s32", sum, sum, imm(0));
  if (divisor === 1) return sum;
  const log = Math.log2(divisor);
  if (Number.isInteger(log)) ctx.body.emit(null, "shr.u32", sum, sum, imm(log));
  else ctx.body.emit(null, "div.u32", sum, sum, imm(divisor));
  return sum;
}
