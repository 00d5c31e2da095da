/** Conditions as branches of the whole block or role, around code that has loops of its own. */
import { type Cond, freeVars, narrow } from "@tilewright/ir";
import { f32imm, imm } from "@tilewright/ptx";
import type { Pred } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { forgetSlots } from "./pipelines.ts";
import { ownedTile } from "./registers.ts";

/** Whether an `if` asks for sizes of the launch and has a loop in it, what whole warps do, or has maps alone: its threads go by together, where others are predicated. */
export function isBranch(ctx: Context, { cond, body }: StmtOf<"if">): boolean {
  const used = [...freeVars(cond.rhs, freeVars(cond.lhs))];
  // Maps are many instructions, and no thread waits for another in them.
  const computes = body.every(({ kind }) => kind === "map");
  const uniform = (name: string): boolean => ctx.sizes.has(name) || (computes && ctx.tileVars.has(name));
  return ctx.loop === null && ctx.active === null && used.length > 0 && used.every(uniform);
}

/**
 * `lower` where a condition in sizes of the launch holds, with that known, and `otherwise` where it does not. Values that `lower` computes are forgotten behind
 * it: not all threads have them.
 */
export function lowerBranch(ctx: Context, condition: Cond, lower: () => void, otherwise?: () => void): void {
  const holds = ctx.condition(condition);
  if (holds === true) {
    lower();
    return;
  }
  if (holds === false) {
    otherwise?.();
    return;
  }
  ctx.placeLate();
  const { entry, body, sizes } = ctx;
  const not = entry.reg("pred", "p");
  const [skip, end] = [entry.label("skip"), entry.label("end_skip")];
  body.emit(null, "not.pred", not, holds);
  body.emit(not, "bra", skip);
  ctx.sizes = narrow(condition, sizes);
  ctx.scope(lower);
  ctx.sizes = sizes;
  forgetSlots(ctx);
  if (otherwise !== undefined) body.emit(null, "bra", end);
  body.label(skip);
  if (otherwise === undefined) return;
  ctx.scope(otherwise);
  forgetSlots(ctx);
  body.label(end);
}

const ALL_LANES = 0xffffffff;

/**
 * `lower` in warps of whose elements of a factor some differ from 1. The branch also keeps what stands in front of it there: within straight code ptxas moves a wait for
 * products ahead of arithmetic that does not need them.
 */
export function lowerVote(ctx: Context, factor: string, lower: () => void): void {
  const registers = new Set(ownedTile(ctx, factor, 0).registers);
  if (ctx.active !== null) {
    lower();
    return;
  }
  ctx.placeLate();
  const { entry, body } = ctx;
  let differs: Pred | null = null;
  for (const register of registers) {
    const one = entry.reg("pred", "p");
    ctx.emitAny(null, "setp.neu.f32", one, register, f32imm(1));
    if (differs !== null) body.emit(null, "or.pred", one, one, differs);
    differs = one;
  }
  if (differs === null) return;
  body.emit(null, "vote.sync.any.pred", differs, differs, imm(ALL_LANES));
  body.emit(null, "not.pred", differs, differs);
  const skip = entry.label("skip");
  body.emit(differs, "bra", skip);
  ctx.scope(lower);
  forgetSlots(ctx);
  body.label(skip);
}
