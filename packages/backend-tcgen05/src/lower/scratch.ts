/** Registers of one statement. */
import type { Context, Reg } from "@tilewright/codegen";
import { imm } from "@tilewright/ptx";

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
