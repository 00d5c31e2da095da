/**
 * The ring through which a block learns which tile it visits next: the thread that copies operands takes a number from the counter and hands it to all warps of
 * the cluster that work on tiles. The cluster's leading block asks for all.
 */
import { must } from "@tilewright/ir";
import { addr, imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import { putNumber, takeNumber, tileNumbers } from "./counter.ts";
import type { StmtOf } from "./engine.ts";
import { type Pipeline, pipelineOf, slotOfBuffer } from "./pipelines.ts";

type U32 = Reg<"u32">;

/** Address of the slot of responses at which a pipeline stands. */
export function responseSlot(
  ctx: Context,
  { ring, at }: StmtOf<"request" | "next">,
): { readonly name: string; readonly pipeline: Pipeline; readonly slot: U32 } {
  const name = must(at.kind === "var" ? at.name : null, `%${ring} is asked at a pipeline (pipelines)`);
  const pipeline = pipelineOf(ctx, name);
  const { base, offset } = slotOfBuffer(ctx, pipeline, pipeline.ring.buffers[0] ?? "");
  const slot = ctx.entry.reg("u32", "slot");
  ctx.body.emit(null, "add.u32", slot, base, imm(offset));
  return { name, pipeline, slot };
}

export function lowerTileRequest(ctx: Context, stmt: StmtOf<"request">): void {
  if (!ctx.solo) throw new CannotLower(`%${stmt.ring}`, "tiles are asked for by a role of one thread");
  const { pipeline, slot } = responseSlot(ctx, stmt);
  refuseOthers(pipeline);
  putNumber(ctx, slot, takeNumber(ctx));
}

/** What follows is kept beside the number of the tile at hand until that is done with. */
export function lowerNext(ctx: Context, stmt: StmtOf<"next">): void {
  const loop = must(ctx.tileLoop, "it stands in a loop over tiles (tileSources)");
  const number = ctx.entry.reg("u32", "next");
  const more = ctx.entry.reg("pred", "more");
  const { pipeline, slot } = responseSlot(ctx, stmt);
  refuseOthers(pipeline);
  ctx.body.emit(null, "ld.shared.u32", number, addr(slot));
  ctx.body.emit(null, "setp.lt.u32", more, number, imm(tileNumbers(ctx)));
  loop.following = { number, more };
}

function refuseOthers({ ring }: Pipeline): void {
  if (ring.transport !== "atomic")
    throw new CannotLower(`%${ring.name}`, "this backend has no such ring: nothing says which tile follows");
}
