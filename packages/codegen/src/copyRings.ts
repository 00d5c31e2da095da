/** Rings that the threads of a role fill by cp.async: mbarriers at both edges, at which every thread arrives when its copies of the chunk are complete. */
import { advance, barrierAt, barriersOf, begin, bulkRing, cursorOf, fullBarrier, spin } from "./bulkRings.ts";
import type { RingLowering } from "./engine.ts";

/** The full edge counts all threads of the role; none of them waits for its copies (PTX ISA, cp.async.mbarrier.arrive.noinc). */
export const copyRing: RingLowering = {
  ...bulkRing,
  acquire(ctx, ring, stmt) {
    const cursor = cursorOf(ctx, ring, "producer");
    begin(cursor, ctx.fold(stmt.at));
    spin(ctx, barrierAt(ctx, cursor, barriersOf(ctx, ring).empty), cursor.parity);
  },
  commit(ctx, ring) {
    ctx.emitAny(null, "cp.async.mbarrier.arrive.noinc.shared::cta.b64", fullBarrier(ctx, ring));
    advance(ctx, ring, cursorOf(ctx, ring, "producer"));
  },
};
