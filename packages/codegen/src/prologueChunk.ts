/** The first chunk of a block that has one tile, copied before the block has met. From its copies to its arrival pass 2000 cycles on an H200, all of them idle (docs/perf/wgmma.md). */
import { must } from "@tilewright/ir";
import type { Context } from "./context.ts";

/** By the thread that initialises the barriers, which is the role's. */
export function lowerPrologue(ctx: Context, lowerBody: () => void): void {
  const outer = ctx.body;
  ctx.body = must(ctx.lead, "the head says where it leads (frame)");
  ctx.roleScope(ctx.values.role, lowerBody);
  ctx.body = outer;
}
