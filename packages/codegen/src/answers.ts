/**
 * The ring through which a block learns which tile it visits next: the thread that copies operands takes a number from the counter and hands it to all warps of
 * the cluster that work on tiles. The cluster's leading block asks for all.
 */
import { MBARRIER_BYTES, type Ring } from "@tilewright/ir";
import { addr, imm, sink } from "@tilewright/ptx";
import {
  advance,
  barrierAt,
  barriersOf,
  begin,
  type Cursor,
  cursorOf,
  ofStage,
  smemBase,
  spin,
} from "./bulkRings.ts";
import { clusterRank, clusterSize } from "./clusters.ts";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import { inBlock, putNumber, takeNumber, tileNumbers } from "./counter.ts";
import type { RingLowering, StmtOf } from "./engine.ts";
import { firstOf } from "./roles.ts";

type U32 = Reg<"u32">;

const WARP = 32;
const WARP_MASK = 0xffffffff;

const clustered = (ctx: Context): boolean => clusterSize(ctx.program) > 1;

/** What only the cluster's leading block does, by the one thread of its role; the others go round it. */
function inFirst(ctx: Context, ring: string, make: () => void): void {
  if (!ctx.solo) throw new CannotLower(`%${ring}`, "tiles are asked for by a role of one thread");
  if (!clustered(ctx)) {
    make();
    return;
  }
  const { entry } = ctx;
  const end = entry.label("asked");
  const others = ctx.crewValue("not first of the cluster", (code) => {
    const p = entry.reg("pred", "p");
    code.emit(null, "setp.ne.u32", p, clusterRank(ctx), imm(0));
    return p;
  });
  ctx.body.emit(others, "bra", end);
  make();
  ctx.body.label(end);
}

/** Address of the barrier at an offset, for the slot that a role is at. */
const barrier = (ctx: Context, cursor: Cursor, offset: number): U32 => {
  const d = ctx.entry.reg("u32", "bar");
  ctx.body.emit(
    null,
    "add.u32",
    d,
    ofStage(ctx, cursor, "barrier", MBARRIER_BYTES, smemBase(ctx)),
    imm(offset),
  );
  return d;
};

function slotOf(ctx: Context, ring: Ring, cursor: Cursor): U32 {
  const place = ctx.shared.places.get(ring.buffers[0] ?? "");
  if (place === undefined) throw new CannotLower(`%${ring.name}`, "has no slots");
  const d = ctx.entry.reg("u32", "slot");
  const at = ofStage(ctx, cursor, `slot ${place.every}`, place.every, smemBase(ctx));
  ctx.body.emit(null, "add.u32", d, at, imm(place.offset));
  return d;
}

/** Arrive at a barrier of a block of the cluster; what this thread has written, or read, is ordered before it. */
function arriveAt(ctx: Context, address: U32, rank: number, guard: Reg<"pred"> | null): void {
  if (!clustered(ctx)) ctx.body.emit(guard, "mbarrier.arrive.shared::cta.b64", sink, addr(address));
  else
    ctx.body.emit(
      guard,
      "mbarrier.arrive.release.cluster.shared::cluster.b64",
      sink,
      addr(inBlock(ctx, address, rank)),
    );
}

/** One arrival at the full edge of every block, one of each warp (or of a role's one thread) at the empty edge of the first. */
export const answers: RingLowering = {
  acquire(ctx, ring, stmt) {
    inFirst(ctx, ring.name, () => {
      const cursor = cursorOf(ctx, ring, "producer");
      begin(cursor, stmt.at);
      spin(ctx, barrierAt(ctx, cursor, barriersOf(ctx, ring).empty), cursor.parity, clustered(ctx));
      cursor.known.clear();
    });
  },
  commit(ctx, ring) {
    inFirst(ctx, ring.name, () => {
      const cursor = cursorOf(ctx, ring, "producer");
      cursor.known.clear();
      const full = barrier(ctx, cursor, barriersOf(ctx, ring).full);
      for (let rank = 0; rank < clusterSize(ctx.program); rank++) arriveAt(ctx, full, rank, null);
      advance(ctx, ring, cursor);
    });
  },
  wait(ctx, ring, stmt) {
    const cursor = cursorOf(ctx, ring, "consumer");
    begin(cursor, stmt.at);
    spin(ctx, barrierAt(ctx, cursor, barriersOf(ctx, ring).full), cursor.parity, clustered(ctx));
  },
  release(ctx, ring) {
    const cursor = cursorOf(ctx, ring, "consumer");
    if (!ctx.solo) ctx.body.emit(null, "bar.warp.sync", imm(WARP_MASK));
    const empty = barrier(ctx, cursor, barriersOf(ctx, ring).empty);
    arriveAt(ctx, empty, 0, ctx.solo ? null : firstOf(ctx, WARP));
    advance(ctx, ring, cursor);
  },
};

export function lowerFetch(ctx: Context, stmt: StmtOf<"fetch">): void {
  const ring = numbers(ctx, stmt.ring);
  inFirst(ctx, ring.name, () => {
    const cursor = cursorOf(ctx, ring, "producer");
    cursor.known.clear();
    putNumber(ctx, slotOf(ctx, ring, cursor), takeNumber(ctx));
    cursor.known.clear();
  });
}

/** What follows is kept beside the number of the tile at hand until that is done with. */
export function lowerNext(ctx: Context, stmt: StmtOf<"next">): void {
  const ring = numbers(ctx, stmt.ring);
  const loop = ctx.tileLoop;
  if (loop === null) throw new CannotLower(`%${ring.name}`, "is read outside a loop over tiles");
  const number = ctx.entry.reg("u32", "next");
  const more = ctx.entry.reg("pred", "more");
  ctx.body.emit(null, "ld.shared.u32", number, addr(slotOf(ctx, ring, cursorOf(ctx, ring, "consumer"))));
  ctx.body.emit(null, "setp.lt.u32", more, number, imm(tileNumbers(ctx.program)));
  loop.following = { number, more };
}

function numbers(ctx: Context, name: string): Ring {
  const ring = ctx.program.rings.find((r) => r.name === name);
  if (ring?.transport !== "atomic")
    throw new CannotLower(`%${name}`, "this backend has no such ring: nothing says which tile follows");
  return ring;
}
