/** What stands around a kernel's statements: barriers of rings made ready, blocks of a cluster met before they write to each other. */
import { type Barrier, eachStmt, earlyProducerRole, MBARRIER_BYTES, storesInBulk } from "@tilewright/ir";
import { addr, imm, sym } from "@tilewright/ptx";
import { clusterSize } from "./clusters.ts";
import type { Pred } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { othersThan } from "./roles.ts";
import { SMEM } from "./smem.ts";
import { mapAddress, usesBulkStores, usesTensorMaps } from "./tensorMaps.ts";

/**
 * One thread initialises the mbarriers of all rings and fetches the tensor maps; nobody goes on before that is seen. It is thread 0, or that which copies: the copies
 * of the first chunks need no other thread to have come so far.
 */
export function openKernel(ctx: Context): void {
  const { program, body } = ctx;
  const copying = earlyProducerRole(program);
  const others = threadIsNot(ctx, 32 * (copying?.first ?? 0));
  // Templates of maps are no maps that anything is copied through.
  const fetches = usesTensorMaps(program) && ctx.groups === null;
  const barriers = program.machine?.barriers ?? [];
  const initialises = barriers.length > 0;
  // One branch, no predicates: with those ptxas 13.0 makes a branch of each initialisation and computes its value anew, 80 cycles a barrier.
  const made = fetches || initialises ? ctx.entry.label("made") : null;
  if (made !== null) body.emit(others, "bra", made);
  // Maps that are copied through are needed first.
  const [sources, targets] = [new Set<string>(), new Set<string>()];
  for (const stmt of fetches ? eachStmt(program.body) : []) {
    if (stmt.kind === "copy" && stmt.transport === "tma") sources.add(stmt.src.buffer);
    if (stmt.kind === "epilogue" && storesInBulk(stmt)) targets.add(stmt.dst.buffer);
  }
  const fetch = (names: Iterable<string>): void => {
    for (const name of names) body.emitAny(null, "prefetch.tensormap", [addr(mapAddress(ctx, name))]);
  };
  fetch(sources);
  if (initialises) initialise(ctx, barriers);
  fetch([...targets].filter((name) => !sources.has(name)));
  if (made !== null) body.label(made);
  if (initialises) meetInitialised(ctx, copying);
  awaitGridBefore(ctx);
}

/**
 * Of a kernel that may begin beside the grid before it in the stream: what follows touches memory that that grid may write, or read before this one writes it; all of it
 * is then over, and the next grid may begin (PTX ISA, griddepcontrol). Of other kernels nothing.
 */
function awaitGridBefore({ program, body }: Context): void {
  if (!program.launch.pdl) return;
  body.emitAny(null, "griddepcontrol.wait", []);
  body.emitAny(null, "griddepcontrol.launch_dependents", []);
}

/** Barriers of rings and of the meeting, by one thread; behind the first the copies that arrive on it, where a chunk leads. */
function initialise(ctx: Context, declared: readonly Barrier[]): void {
  const { entry, body, program } = ctx;
  const base = entry.reg("u32", "sm");
  body.emit(null, "mov.u32", base, sym(SMEM));
  const make = (offset: number, arrivals: number): void =>
    body.emitAny(null, "mbarrier.init.shared::cta.b64", [addr(base, offset), imm(arrivals)]);
  // Seen by the asynchronous proxy and by the cluster's other blocks (PTX ISA, fence.mbarrier_init).
  const show = (): void => body.emit(null, "fence.mbarrier_init.release.cluster");
  const barriers = declared.flatMap(({ offset, slots, count }) =>
    Array.from({ length: slots }, (_, slot) => ({ offset: offset + MBARRIER_BYTES * slot, count })),
  );
  const ring = leadingRing(earlyProducerRole(program));
  const first = ring === null ? null : (ctx.shared.barriers.get(ring)?.full ?? null);
  if (first !== null) {
    for (const { offset, count } of barriers) if (offset === first) make(offset, count);
    show();
    ctx.lead = body.nest();
  }
  for (const { offset, count } of barriers) if (ctx.lead === null || offset !== first) make(offset, count);
  show();
}

/** The ring of which a chunk leads: the copying role begins with it. */
function leadingRing(copying: StmtOf<"role"> | null): string | null {
  const [first] = copying?.body ?? [];
  const pipeline = first?.kind === "prologue" ? first.body.find((s) => s.kind === "pipeline") : undefined;
  return pipeline?.kind === "pipeline" ? pipeline.of : null;
}

/** Barriers are seen by all before anybody arrives. */
function meetInitialised(ctx: Context, copying: StmtOf<"role"> | null): void {
  const { program, body } = ctx;
  if (clusterSize(program) === 1) {
    // Waited for where the blocks meet, behind the main loop.
    if (ctx.shared.meeting !== null) body.emitAny(null, "barrier.cluster.arrive.relaxed.aligned", []);
    if (copying === null) body.emit(null, "bar.sync", imm(0));
    else meetCopying(ctx, copying);
  } else {
    body.emitAny(null, "barrier.cluster.arrive.relaxed.aligned", []);
    body.emitAny(null, "barrier.cluster.wait.acquire.aligned", []);
  }
}

/** A block stays until its bulk stores have read shared memory, and until no other copies into its shared memory or arrives at its barriers any more. */
export function closeKernel(ctx: Context): void {
  if (usesBulkStores(ctx.program)) ctx.body.emit(null, "cp.async.bulk.wait_group.read", imm(0));
  if (clusterSize(ctx.program) === 1) return;
  ctx.body.emitAny(null, "barrier.cluster.arrive.relaxed", []);
  ctx.body.emitAny(null, "barrier.cluster.wait.acquire", []);
}

/** The warps that copy arrive and go on, all others wait for them: what one of them has initialised is theirs already, once its lanes have met. */
function meetCopying(ctx: Context, copying: StmtOf<"role">): void {
  const { entry, body, program } = ctx;
  const threads = imm(program.launch.threads);
  const others = othersThan(ctx, copying);
  const own = entry.reg("pred", "p");
  body.emit(null, "not.pred", own, others);
  body.emit(own, "bar.warp.sync", imm(0xffffffff));
  body.emit(own, "bar.arrive", imm(0), threads);
  body.emit(others, "bar.sync", imm(0), threads);
}

const threadIsNot = (ctx: Context, thread: number): Pred =>
  ctx.invariant(`all but thread ${thread}`, (code) => {
    const p = ctx.entry.reg("pred", "p");
    code.emit(null, "setp.ne.u32", p, ctx.values.thread(), imm(thread));
    return p;
  });
