/** What stands around a kernel's roles and tiles, statement by statement: barriers made ready, blocks that meet, the grids beside this one. */

import { type FrameKind, MBARRIER_BYTES, must, type Stmt } from "@tilewright/ir";
import { addr, imm, sym } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { Statements, StmtOf } from "./engine.ts";
import { othersThan } from "./roles.ts";
import { SMEM } from "./smem.ts";
import { mapAddress } from "./tensorMaps.ts";

type Setup = Omit<
  Pick<Statements, FrameKind>,
  "tmem.alloc" | "tmem.relinquish" | "tmem.base" | "tmem.dealloc"
>;

export const setupStatements = (lower: (ctx: Context, stmts: readonly Stmt[]) => void): Setup => ({
  // One branch, no predicates: with those ptxas 13.0 makes a branch of each initialisation and computes its value anew, 80 cycles a barrier.
  only(ctx, { unit, number, body }) {
    const others = unit === "thread" ? threadIsNot(ctx, number) : null;
    const past = ctx.entry.label(unit === "thread" ? "made" : "alone");
    ctx.body.emit(others ?? warpIsNot(ctx, number), "bra", past);
    ctx.smem = null;
    lower(ctx, body);
    ctx.smem = null;
    ctx.body.label(past);
  },
  "tensormap.prefetch": (ctx, { buffer }) =>
    ctx.body.emitAny(null, "prefetch.tensormap", [addr(mapAddress(ctx, buffer))]),
  "mbar.init"(ctx, { barriers, slots }) {
    const found = ctx.program.machine?.barriers.find(({ name }) => name === barriers);
    const declared = must(found, `%${barriers} is declared (frame)`);
    const { offset, count } = declared;
    const { from, to } = slots ?? { from: 0, to: declared.slots };
    const base = smemStart(ctx);
    for (let slot = from; slot < to; slot++)
      ctx.body.emitAny(null, "mbarrier.init.shared::cta.b64", [
        addr(base, offset + MBARRIER_BYTES * slot),
        imm(count),
      ]);
  },
  "prologue.at"(ctx) {
    ctx.lead = ctx.body.nest();
  },
  "cluster.arrive": (ctx, { release, any }) =>
    ctx.body.emitAny(
      null,
      `barrier.cluster.arrive.${release ? "release" : "relaxed"}${any ? "" : ".aligned"}`,
      [],
    ),
  "cluster.wait": (ctx, { any }) =>
    ctx.body.emitAny(null, `barrier.cluster.wait.acquire${any ? "" : ".aligned"}`, []),
  "pdl.wait": (ctx) => ctx.body.emitAny(null, "griddepcontrol.wait", []),
  "pdl.launch": (ctx) => ctx.body.emitAny(null, "griddepcontrol.launch_dependents", []),
  "bulk.wait": (ctx, { pending, complete = false }) =>
    ctx.body.emit(ctx.storing, `cp.async.bulk.wait_group${complete ? "" : ".read"}`, imm(pending)),
});

/** Start of the block's shared memory, in a register for the statements of one list. */
export function smemStart(ctx: Context): Reg<"u32"> {
  if (ctx.smem !== null) return ctx.smem;
  const base = ctx.entry.reg("u32", "sm");
  ctx.body.emit(null, "mov.u32", base, sym(SMEM));
  ctx.smem = base;
  return base;
}

/** The warps that are ahead arrive and go on, all others wait for them: what one of them has initialised is theirs already, once its lanes have met. */
export function barrierAhead(
  ctx: Context,
  { id, threads = ctx.program.launch.threads }: StmtOf<"barrier">,
  ahead: NonNullable<StmtOf<"barrier">["ahead"]>,
): void {
  const { entry, body } = ctx;
  const others = othersThan(ctx, ahead);
  const own = entry.reg("pred", "p");
  body.emit(null, "not.pred", own, others);
  body.emit(own, "bar.warp.sync", imm(0xffffffff));
  body.emit(own, "bar.arrive", imm(id), imm(threads));
  body.emit(others, "bar.sync", imm(id), imm(threads));
}

export const threadIsNot = (ctx: Context, thread: number): Pred =>
  ctx.invariant(`all but thread ${thread}`, (code) => {
    const p = ctx.entry.reg("pred", "p");
    code.emit(null, "setp.ne.u32", p, ctx.values.thread(), imm(thread));
    return p;
  });

function warpIsNot(ctx: Context, warp: number): Pred {
  const p = ctx.entry.reg("pred", "other");
  ctx.body.emit(null, "setp.ne.u32", p, ctx.values.warp(), imm(warp));
  return p;
}
