/** What whole warps do together. */
import { type Context, type Pred, type Reg, WARP_MASK } from "@tilewright/codegen";
import { imm, pair, sink } from "@tilewright/ptx";

/** Clears the bit in which addresses of the two blocks of a pair differ: what is left names the leader's (PTX ISA, cta_group::2). */
export const LEADER_MASK = 0xfeffffff;

/** A register that this statement alone uses. */
export const scratch = (ctx: Context, prefix = "t"): Reg<"u32"> => ctx.entry.reg("u32", prefix);

/** base + offset, in a register of its own. */
export function moved(
  ctx: Context,
  { base, offset }: { readonly base: Reg<"u32">; readonly offset: number },
): Reg<"u32"> {
  if (offset === 0) return base;
  const d = scratch(ctx);
  ctx.body.emit(null, "add.u32", d, base, imm(offset));
  return d;
}

/** True in one lane of the warp. */
export function elect(ctx: Context): Pred {
  const p = ctx.entry.reg("pred", "el");
  ctx.body.emit(null, "elect.sync", pair(sink, p), imm(WARP_MASK));
  return p;
}

export const syncWarp = (ctx: Context): void => ctx.body.emit(null, "bar.warp.sync", imm(WARP_MASK));
