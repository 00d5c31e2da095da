/**
 * The ring through which a block learns which tile it visits next: one thread asks, of a counter or of the cluster launch control, and every block of the cluster
 * has the response in its own slot. The cluster's leading block asks for all.
 */
import { clusterSize, must } from "@tilewright/ir";
import { addr, imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { putNumber, takeNumber, tileNumbers } from "./counter.ts";
import type { StmtOf } from "./engine.ts";
import { barrierAt, type Pipeline, pipelineOf, slotOfBuffer } from "./pipelines.ts";

type U32 = Reg<"u32">;

/** Address of the slot of responses at which a pipeline stands. */
function responseSlot(
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
  const { name, pipeline, slot } = responseSlot(ctx, stmt);
  if (pipeline.ring.transport === "atomic") {
    putNumber(ctx, slot, takeNumber(ctx));
    return;
  }
  const full = barrierAt(ctx, { ring: stmt.ring, edge: "full", pipeline: name });
  const all = clusterSize(ctx.program) > 1 ? ".multicast::cluster::all" : "";
  ctx.body.emitAny(
    null,
    `clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes${all}.b128`,
    [addr(slot), full],
  );
}

/** What follows is kept beside the number of the tile at hand until that is done with. */
export function lowerNext(ctx: Context, stmt: StmtOf<"next">): void {
  const loop = must(ctx.tileLoop, "it stands in a loop over tiles (tileSources)");
  const { body, entry } = ctx;
  const number = entry.reg("u32", "next");
  const more = entry.reg("pred", "more");
  const { pipeline, slot } = responseSlot(ctx, stmt);
  if (pipeline.ring.transport === "atomic") {
    body.emit(null, "ld.shared.u32", number, addr(slot));
    body.emit(null, "setp.lt.u32", more, number, imm(tileNumbers(ctx)));
    loop.following = { number, more, batch: null };
    return;
  }
  const words = entry.regs("u64", 2, "answer");
  const whole = entry.reg("b128", "answer_q");
  body.emitAny(null, "ld.shared.v2.b64", [{ kind: "vector", elements: words }, addr(slot)]);
  body.emitAny(null, "mov.b128", [whole, { kind: "vector", elements: words }]);
  body.emit(null, "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", more, whole);
  body.emit(null, "mov.u32", number, loop.number);
  body.emit(more, "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128", number, whole);
  const blocks = clusterSize(ctx.program);
  if (blocks > 1) body.emit(more, "div.u32", number, number, imm(blocks));
  const batch = ctx.batch === null ? null : entry.reg("u32", "batch");
  if (batch !== null && ctx.batch !== null) {
    body.emit(null, "mov.u32", batch, ctx.batch);
    body.emit(more, "clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128", batch, whole);
  }
  loop.following = { number, more, batch };
}
