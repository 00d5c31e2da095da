/** The ends of rings by transport. Here those whose edges are barriers of all threads: copies through registers, and cp.async with its groups. */
import type { Edge, Ring } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import { answers } from "./answers.ts";
import { bulkRing } from "./bulkRings.ts";
import { CannotLower, type Context } from "./context.ts";
import { copyRing } from "./copyRings.ts";
import type { Lowering, RingLowering } from "./engine.ts";

/** The edge as a barrier of the block; nothing where other edges imply it. */
export function meetAtEdge(ctx: Context, edge: Edge | null): void {
  if (edge === null || edge.kind === "implied") return;
  if (edge.kind === "mbarrier")
    throw new CannotLower("ring", "mbarrier edges need a transport that signals them");
  ctx.emit(null, "bar.sync", imm(edge.id));
}

const direct: RingLowering = {
  acquire: (ctx, ring) => meetAtEdge(ctx, ring.empty),
  commit() {},
  wait: (ctx, ring) => meetAtEdge(ctx, ring.full),
  release() {},
};

/** A thread waits for its own groups, then the barrier makes all threads' groups known to all. */
const cpAsync: RingLowering = {
  ...direct,
  commit: (ctx) => ctx.emit(null, "cp.async.commit_group"),
  wait(ctx, ring, stmt) {
    ctx.emit(null, "cp.async.wait_group", imm(stmt.pending));
    meetAtEdge(ctx, ring.full);
  },
};

const shared: Readonly<Partial<Record<Ring["transport"], RingLowering>>> = {
  direct,
  "cp.async": cpAsync,
  tma: bulkRing,
  atomic: answers,
};

/** The ring of a name; `CannotLower` where there is none. */
export function ringOf(ctx: Context, name: string): Ring {
  const ring = ctx.program.rings.find((r) => r.name === name);
  if (!ring) throw new CannotLower(`%${name}`, "is no ring");
  return ring;
}

function loweringOf(ctx: Context, ring: Ring): RingLowering {
  const lowering =
    ctx.engine.rings[ring.transport] ??
    (ring.transport === "cp.async" && ring.full?.kind === "mbarrier" ? copyRing : shared[ring.transport]);
  if (!lowering)
    throw new CannotLower(`%${ring.name}`, `rings by ${ring.transport} are not lowered by this backend`);
  return lowering;
}

type RingStmt = "acquire" | "commit" | "wait" | "release";

/** The lowering of one end of a statement's ring. */
function onRing<S extends { readonly ring: string }>(
  ctx: Context,
  stmt: S,
  lower: (on: RingLowering, ring: Ring) => void,
): void {
  const ring = ringOf(ctx, stmt.ring);
  lower(loweringOf(ctx, ring), ring);
}

export const ringStatements: { readonly [K in RingStmt]: Lowering<K> } = {
  acquire: (ctx, stmt) => onRing(ctx, stmt, (on, ring) => on.acquire(ctx, ring, stmt)),
  commit: (ctx, stmt) => onRing(ctx, stmt, (on, ring) => on.commit(ctx, ring, stmt)),
  wait: (ctx, stmt) => onRing(ctx, stmt, (on, ring) => on.wait(ctx, ring, stmt)),
  release: (ctx, stmt) => onRing(ctx, stmt, (on, ring) => on.release(ctx, ring, stmt)),
};
