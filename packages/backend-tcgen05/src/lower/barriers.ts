/** mbarriers: addresses, waits and arrivals, in the block itself and in the pair's leader. */
import { CannotLower, type Context, inBlock, type Pred, type Reg, SMEM } from "@tilewright/codegen";
import { addr, imm, pair, sink, sym } from "@tilewright/ptx";
import { clusterSize, type RingPlace, type RoleState, stateOf } from "./state.ts";

type U32 = Reg<"u32">;

/** Bytes of an mbarrier (PTX ISA). */
const MBARRIER = 8;

/** Members of a full warp. */
const WARP_MASK = 0xffffffff;

/** Clears the bit in which addresses of the two blocks of a pair differ: what is left names the leader's (PTX ISA, cta_group::2). */
export const LEADER_MASK = 0xfeffffff;

/** A register that this statement alone uses. */
export const scratch = (ctx: Context, prefix = "t"): U32 => ctx.entry.reg("u32", prefix);

/** Start of the block's shared memory. */
const sharedBase = (ctx: Context): U32 =>
  ctx.invariant("shared base", (code) => {
    const d = ctx.entry.reg("u32", "smb");
    code.emit(null, "mov.u32", d, sym(SMEM));
    return d;
  });

/** start + offset + slot * stride, in bytes of the block's shared memory. */
export function sharedAt(ctx: Context, offset: number, slot: U32 | null, stride: number): U32 {
  const base = sharedBase(ctx);
  const d = scratch(ctx);
  if (slot === null) ctx.body.emit(null, "add.u32", d, base, imm(offset));
  else {
    ctx.body.emit(null, "mad.lo.u32", d, slot, imm(stride), base);
    if (offset !== 0) ctx.body.emit(null, "add.u32", d, d, imm(offset));
  }
  return d;
}

/** Address of a ring's barrier for the place of the role at hand. */
export function barrierAt(ctx: Context, ring: string, edge: "full" | "empty", place: RingPlace): U32 {
  const offset = ctx.shared.barriers.get(ring)?.[edge] ?? null;
  if (offset === null) throw new CannotLower(`%${ring}`, `edge ${edge} has to be an mbarrier here`);
  return sharedAt(ctx, offset, place.slot, MBARRIER);
}

/** Spin until the phase has completed. Arrivals of the other block of a pair are seen with cluster scope. */
export function waitParity(ctx: Context, barrier: U32, parity: U32, remote: boolean): void {
  const { body } = ctx;
  const again = ctx.entry.label("wait");
  const done = ctx.entry.reg("pred", "wait");
  const more = ctx.entry.reg("pred", "wait");
  body.label(again);
  if (remote)
    body.emit(null, "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", done, addr(barrier), parity);
  else body.emit(null, "mbarrier.try_wait.parity.shared::cta.b64", done, addr(barrier), parity);
  body.emit(null, "not.pred", more, done);
  body.emit(more, "bra", again);
}

/** Who waits for the arrivals of several blocks: the leader of the pair, or of the whole cluster. */
export type Leader = "pair" | "cluster";

/** Whether that may be another block. */
export const remoteLeader = (ctx: Context, leader: Leader): boolean =>
  leader === "pair" ? stateOf(ctx).group === 2 : clusterSize(ctx.program) > 1;

/** The same address in the leading block. */
function inLeader(ctx: Context, address: U32, leader: Leader): U32 {
  const rank = ctx.invariant(`rank of the ${leader}'s leader`, (code) => {
    const d = ctx.entry.reg("u32", "lead");
    code.emit(null, "and.b32", d, ctx.values.rank(), imm(leader === "pair" ? 0xfffffffe : 0));
    return d;
  });
  return inRank(ctx, address, rank);
}

/** One arrival of a role's thread at a barrier of every block of the cluster; what it has written before is seen behind them. */
export function arriveAtAll(ctx: Context, barrier: U32): void {
  const size = clusterSize(ctx.program);
  if (size === 1) ctx.body.emit(null, "mbarrier.arrive.shared::cta.b64", sink, addr(barrier));
  else
    for (let rank = 0; rank < size; rank++)
      ctx.body.emit(
        null,
        "mbarrier.arrive.release.cluster.shared::cluster.b64",
        sink,
        addr(inBlock(ctx, barrier, rank)),
      );
}

/** The same address in the block of a rank. */
function inRank(ctx: Context, address: U32, rank: U32): U32 {
  const d = scratch(ctx);
  ctx.body.emit(null, "mapa.shared::cluster.u32", d, address, rank);
  return d;
}

/** True in one lane of the warp. */
export function elect(ctx: Context): Pred {
  const p = ctx.entry.reg("pred", "el");
  ctx.body.emit(null, "elect.sync", pair(sink, p), imm(WARP_MASK));
  return p;
}

export const syncWarp = (ctx: Context): void => ctx.body.emit(null, "bar.warp.sync", imm(WARP_MASK));

/** One arrival of the role's thread, or of each of its warps, at a barrier of the leader. */
export function arriveAtLeader(ctx: Context, role: RoleState, barrier: U32, leader: Leader): void {
  const guard = role.single ? null : electAfterWarp(ctx);
  if (!remoteLeader(ctx, leader))
    ctx.body.emit(guard, "mbarrier.arrive.shared::cta.b64", sink, addr(barrier));
  else
    ctx.body.emit(
      guard,
      "mbarrier.arrive.release.cluster.shared::cluster.b64",
      sink,
      addr(inLeader(ctx, barrier, leader)),
    );
}

/** One arrival of the role's thread, or of each of its warps, at a barrier of its own block. */
export function arriveHere(ctx: Context, role: RoleState, barrier: U32): void {
  const guard = role.single ? null : electAfterWarp(ctx);
  ctx.body.emit(guard, "mbarrier.arrive.shared::cta.b64", sink, addr(barrier));
}

/** All lanes of the warp have done what stands before. */
function electAfterWarp(ctx: Context): Pred {
  syncWarp(ctx);
  return elect(ctx);
}

/** Whether this block leads its pair, or its cluster. */
export const leads = (ctx: Context, leader: Leader = "pair"): Pred =>
  ctx.invariant(`leads its ${leader}`, (code) => {
    const bit = ctx.entry.reg("u32", "t");
    const p = ctx.entry.reg("pred", "lead_p");
    code.emit(null, "and.b32", bit, ctx.values.rank(), imm(leader === "pair" ? 1 : 0xffffffff));
    code.emit(null, "setp.eq.u32", p, bit, imm(0));
    return p;
  });

/** The blocks of a cluster that have something to tell one another meet; a block by itself meets its own warps. */
export function meetAll(ctx: Context): void {
  const { body } = ctx;
  if (clusterSize(ctx.program) > 1) {
    body.emit(null, "barrier.cluster.arrive.release.aligned");
    body.emit(null, "barrier.cluster.wait.acquire.aligned");
  } else body.emit(null, "bar.sync", imm(0));
}
