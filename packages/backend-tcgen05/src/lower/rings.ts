/** The ends of the three rings: operands by bulk copies, accumulators by matrix instructions, answers about tiles. */
import { CannotLower, type Context, type Reg, type RingLowering } from "@tilewright/codegen";
import {
  bufferOf,
  eachStmt,
  feedsEpilogue,
  ownBytes,
  type Ring,
  slotColumns,
  transactionBytes,
} from "@tilewright/ir";
import { addr, imm, sink } from "@tilewright/ptx";
import {
  arriveAtAll,
  arriveAtLeader,
  arriveHere,
  barrierAt,
  leads,
  scratch,
  waitParity,
} from "./barriers.ts";
import { advance, openPlace, placeOf, type Side } from "./places.ts";
import { clustered, roleOf, stateOf } from "./state.ts";
import { unitMask, writersMask } from "./units.ts";

/** Wait at an edge of the ring at the role's place: a producer until the slot is empty, a consumer until it is full. */
function passEdge(ctx: Context, ring: Ring, side: Side, remote: boolean): void {
  const place = openPlace(roleOf(ctx, `%${ring.name}`), ring, side);
  const barrier = barrierAt(ctx, ring.name, side === "producer" ? "empty" : "full", place);
  waitParity(ctx, barrier, place.parity, remote);
}

/** The barrier that the side signals, at its place. */
const signalled = (ctx: Context, ring: Ring, side: Side): Reg<"u32"> => {
  const place = placeOf(roleOf(ctx, `%${ring.name}`), ring, side);
  return barrierAt(ctx, ring.name, side === "producer" ? "full" : "empty", place);
};

const goOn = (ctx: Context, ring: Ring, side: Side): void =>
  advance(ctx, roleOf(ctx, `%${ring.name}`), ring, side);

const paired = (ctx: Context): boolean => stateOf(ctx).group === 2;

/** The matrix instructions issued so far arrive at a barrier when they are done: in this block, or in those of the mask. */
function commitTo(ctx: Context, barrier: Reg<"u32">, mask: Reg<"u16"> | null): void {
  const form = `tcgen05.commit.cta_group::${stateOf(ctx).group}.mbarrier::arrive::one.shared::cluster`;
  if (mask === null) ctx.body.emitAny(null, `${form}.b64`, [addr(barrier)]);
  else ctx.body.emitAny(null, `${form}.multicast::cluster.b64`, [addr(barrier), mask]);
}

/** Axes of the cluster along which copies into a ring are shared. */
function sharedAxes(ctx: Context, ring: Ring): ReadonlySet<"m" | "n"> {
  const axes = new Set<"m" | "n">();
  for (const stmt of eachStmt(ctx.program.body))
    if (stmt.kind === "copy" && stmt.multicast !== null && ring.buffers.includes(stmt.dst.buffer))
      axes.add(stmt.multicast);
  return axes;
}

/** Tensor memory is touched by instructions of other threads before and after a barrier: fences on both sides (PTX ISA, tcgen05.fence). */
const fenceAfter = (ctx: Context): void => ctx.body.emit(null, "tcgen05.fence::after_thread_sync");
const fenceBefore = (ctx: Context): void => ctx.body.emit(null, "tcgen05.fence::before_thread_sync");

/** The leader expects the bytes of both blocks at its barrier: the other's copies arrive there too. */
const multiplied: RingLowering = {
  acquire(ctx, ring) {
    passEdge(ctx, ring, "producer", clustered(ctx.program));
    ctx.body.emit(
      paired(ctx) ? leads(ctx) : null,
      "mbarrier.arrive.expect_tx.shared::cta.b64",
      sink,
      addr(signalled(ctx, ring, "producer")),
      imm(transactionBytes(ctx.program, ring)),
    );
  },
  commit: (ctx, ring) => goOn(ctx, ring, "producer"),
  wait(ctx, ring) {
    passEdge(ctx, ring, "consumer", clustered(ctx.program));
    fenceAfter(ctx);
  },
  release(ctx, ring) {
    const axes = sharedAxes(ctx, ring);
    const alone = !paired(ctx) && axes.size === 0;
    commitTo(ctx, signalled(ctx, ring, "consumer"), alone ? null : writersMask(ctx, axes));
    goOn(ctx, ring, "consumer");
  },
};

/** C's tiles: every block has its own, and its epilogue's warps give it back. */
const added: RingLowering = {
  acquire(ctx, ring) {
    passEdge(ctx, ring, "producer", false);
    ctx.body.emit(
      null,
      "mbarrier.arrive.expect_tx.shared::cta.b64",
      sink,
      addr(signalled(ctx, ring, "producer")),
      imm(ownBytes(ctx.program, ring)),
    );
  },
  commit: (ctx, ring) => goOn(ctx, ring, "producer"),
  wait: (ctx, ring) => passEdge(ctx, ring, "consumer", false),
  release(ctx, ring) {
    // An arrive does not wait for loads under way, which a bulk copy then overtakes; this ends it (seen on an H200, docs/perf/mma.md).
    ctx.body.emit(null, "membar.cta");
    arriveHere(ctx, roleOf(ctx, `%${ring.name}`), signalled(ctx, ring, "consumer"));
    goOn(ctx, ring, "consumer");
  },
};

/** Rings of bulk copies, by who reads them. */
const readers = (ctx: Context, ring: Ring): RingLowering =>
  feedsEpilogue(ctx.program, ring) ? added : multiplied;
const copied: RingLowering = {
  acquire: (ctx, ring, stmt) => readers(ctx, ring).acquire(ctx, ring, stmt),
  commit: (ctx, ring, stmt) => readers(ctx, ring).commit(ctx, ring, stmt),
  wait: (ctx, ring, stmt) => readers(ctx, ring).wait(ctx, ring, stmt),
  release: (ctx, ring, stmt) => readers(ctx, ring).release(ctx, ring, stmt),
};

const sums: RingLowering = {
  acquire(ctx, ring) {
    passEdge(ctx, ring, "producer", paired(ctx));
    fenceAfter(ctx);
    if (ring.lap !== undefined) placeSums(ctx, ring, "producer");
  },
  commit(ctx, ring) {
    commitTo(ctx, signalled(ctx, ring, "producer"), paired(ctx) ? unitMask(ctx) : null);
    goOn(ctx, ring, "producer");
  },
  wait(ctx, ring) {
    passEdge(ctx, ring, "consumer", false);
    fenceAfter(ctx);
    if (ring.lap !== undefined) placeSums(ctx, ring, "consumer");
  },
  release(ctx, ring) {
    fenceBefore(ctx);
    arriveAtLeader(ctx, roleOf(ctx, `%${ring.name}`), signalled(ctx, ring, "consumer"), "pair");
    goOn(ctx, ring, "consumer");
  },
};

/** Of accumulators that share columns: where that of the chunk at hand begins. A ring of one slot is in phase t at chunk t; who fills it is a phase ahead. */
function placeSums(ctx: Context, ring: Ring, side: Side): void {
  const role = roleOf(ctx, `%${ring.name}`);
  const { tensor, columns } = stateOf(ctx);
  const [name = ""] = ring.buffers;
  const first = columns.first.get(name);
  if (tensor === null || first === undefined) throw new CannotLower(`%${ring.name}`, "has no tensor tile");
  const { parity } = placeOf(role, ring, side);
  role.sums ??= ctx.entry.reg("u32", "sums");
  const second = scratch(ctx);
  ctx.body.emit(null, "xor.b32", second, parity, imm(side === "producer" ? 1 : 0));
  const step = slotColumns(ctx.program, bufferOf(ctx.program, name));
  ctx.body.emit(null, "mad.lo.u32", role.sums, second, imm(step), tensor);
  if (first !== 0) ctx.body.emit(null, "add.u32", role.sums, role.sums, imm(first));
}

/** The answer arrives at the barriers of all blocks, which `fetch` has armed; readers tell the leader, who alone asks. */
const answers: RingLowering = {
  acquire: (ctx, ring) => passEdge(ctx, ring, "producer", clustered(ctx.program)),
  commit: (ctx, ring) => goOn(ctx, ring, "producer"),
  wait: (ctx, ring) => passEdge(ctx, ring, "consumer", clustered(ctx.program)),
  release(ctx, ring) {
    const role = roleOf(ctx, `%${ring.name}`);
    // Columns that accumulators do not share have been loaded since the last fence.
    if (role.sums !== null && !role.single) fenceBefore(ctx);
    arriveAtLeader(ctx, role, signalled(ctx, ring, "consumer"), "cluster");
    goOn(ctx, ring, "consumer");
  },
};

/** The number stands in the slots of all blocks: their barriers are told one by one. */
const numbers: RingLowering = {
  ...answers,
  commit(ctx, ring) {
    arriveAtAll(ctx, signalled(ctx, ring, "producer"));
    goOn(ctx, ring, "producer");
  },
};

export const rings = { tma: copied, "tcgen05.mma": sums, clc: answers, atomic: numbers } as const;
