/** Statements of the stage machine that wait, arrive and order: a few instructions each. */
import {
  type CopyKind,
  clusterSize,
  type FrameKind,
  type MachineStmt,
  type Reach,
  type ReductionStmt,
} from "@tilewright/ir";
import { type AddressOperand, imm, sink } from "@tilewright/ptx";
import { clusterRank, isLeader, peerRank } from "./clusters.ts";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { Statements } from "./engine.ts";
import {
  barrierAt,
  forgetSlots,
  lowerAdvance,
  lowerHold,
  lowerPipeline,
  pipelineOf,
  smemBase,
} from "./pipelines.ts";
import { firstOf, placeIn } from "./roles.ts";

type U32 = Reg<"u32">;
type Of<K extends MachineStmt["kind"]> = Extract<MachineStmt, { readonly kind: K }>;

/** Members of a full warp. */
export const WARP_MASK = 0xffffffff;

/** Threads of which one arrives. */
const groups = { thread: 1, warp: 32, warpgroup: 128 } as const;

/** Wait until the phase of that parity is over; `remote`: what other blocks wrote before they arrived is then seen too. */
export function spin(ctx: Context, barrier: AddressOperand, parity: U32, remote = false): void {
  const { entry, body } = ctx;
  const acquire = remote ? ".acquire.cluster" : "";
  const [done, again] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  const label = entry.label("wait");
  body.label(label);
  body.emitAny(null, `mbarrier.try_wait.parity${acquire}.shared::cta.b64`, [done, barrier, parity]);
  body.emit(null, "not.pred", again, done);
  body.emit(again, "bra", label);
}

/** Start of the shared memory of a block of the cluster. */
const sharedOf = (ctx: Context, key: string, rank: () => U32): { readonly key: string; start(): U32 } => ({
  key: `barrier of ${key}`,
  start: () =>
    ctx.roleValue(`shared memory of ${key}`, (code) => {
      const number = rank();
      const d = ctx.entry.reg("u32", "sm");
      code.emit(null, "mapa.shared::cluster.u32", d, smemBase(ctx), number);
      return d;
    }),
});

const rankOf = (ctx: Context, rank: number) =>
  sharedOf(ctx, `block ${rank}`, () =>
    ctx.roleValue(`rank ${rank}`, (code) => {
      const d = ctx.entry.reg("u32", "rank");
      code.emit(null, "mov.u32", d, imm(rank));
      return d;
    }),
  );

/** The first block of this one's pair. */
const leaderOf = (ctx: Context) =>
  sharedOf(ctx, "the leader", () =>
    ctx.roleValue("rank of the leader", (code) => {
      const rank = clusterRank(ctx);
      const d = ctx.entry.reg("u32", "lead");
      code.emit(null, "and.b32", d, rank, imm(0xfffffffe));
      return d;
    }),
  );

/** The blocks of the cluster that are told one by one, but for the own one in their midst; those of a lone block are itself. */
function expect(ctx: Context, { barrier, bytes, to, leader }: Of<"mbar.expect">): void {
  const guard = ctx.both(ctx.acting, leader ? isLeader(ctx, "pair") : null);
  const own = "mbarrier.arrive.expect_tx.shared::cta.b64";
  ctx.body.emitAny(guard, own, [sink, barrierAt(ctx, barrier), imm(bytes)]);
  if (to === "own") return;
  const other = "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64";
  for (let rank = 1; rank < clusterSize(ctx.program); rank++)
    ctx.body.emitAny(guard, other, [sink, barrierAt(ctx, barrier, rankOf(ctx, rank)), imm(bytes)]);
}

/** Axes of the reach to blocks that share copies. */
const peerAxes: Readonly<Record<Extract<Reach, `peers-${string}`>, ReadonlySet<"m" | "n">>> = {
  "peers-m": new Set(["m"]),
  "peers-n": new Set(["n"]),
  "peers-mn": new Set(["m", "n"]),
};

/** Blocks with which this one shares copies along these axes, itself among them. */
function peersOf(ctx: Context, axes: ReadonlySet<"m" | "n">): number {
  const [m, n] = ctx.program.launch.cluster;
  return (axes.has("m") ? m : 1) + (axes.has("n") ? n : 1) - 1;
}

function arrive(ctx: Context, { barrier, by, to }: Of<"mbar.arrive">): void {
  if (by === "copies") {
    ctx.emitAny(null, "cp.async.mbarrier.arrive.noinc.shared::cta.b64", barrierAt(ctx, barrier));
    return;
  }
  const threads = groups[by];
  // Where the role stands comes before what follows from its threads.
  pipelineOf(ctx, barrier.pipeline).stage();
  const one = (): Pred | null => (threads === 1 ? ctx.acting : firstOf(ctx, threads));
  const there = "mbarrier.arrive.release.cluster.shared::cluster.b64";
  switch (to) {
    case "own":
      ctx.emitAny(one(), "mbarrier.arrive.shared::cta.b64", sink, barrierAt(ctx, barrier));
      return;
    case "leader":
      ctx.emitAny(one(), there, sink, barrierAt(ctx, barrier, leaderOf(ctx)));
      return;
    case "first":
      ctx.emitAny(one(), there, sink, barrierAt(ctx, barrier, rankOf(ctx, 0)));
      return;
    case "cluster":
      for (let rank = 0; rank < clusterSize(ctx.program); rank++)
        ctx.emitAny(one(), there, sink, barrierAt(ctx, barrier, rankOf(ctx, rank)));
      return;
    case "peers-m":
    case "peers-n":
    case "peers-mn":
      arriveAtPeers(ctx, barrier, threads, peerAxes[to]);
      return;
  }
}

/** The first threads of a group tell a block each. */
function arriveAtPeers(
  ctx: Context,
  barrier: Of<"mbar.arrive">["barrier"],
  threads: number,
  axes: ReadonlySet<"m" | "n">,
): void {
  const peers = peersOf(ctx, axes);
  const place = placeIn(ctx, threads);
  const telling = ctx.roleValue(`first ${peers} of ${threads}`, (code) => {
    const p = ctx.entry.reg("pred", "p");
    code.emit(null, "setp.lt.u32", p, place, imm(peers));
    return p;
  });
  const peer = sharedOf(ctx, "the peer", () => peerRank(ctx, place, axes));
  // Without `.release.cluster`, which costs a fence of the whole GPU: what is ordered are reads by the asynchronous proxy, which are over.
  ctx.emitAny(telling, "mbarrier.arrive.shared::cluster.b64", sink, barrierAt(ctx, barrier, peer));
}

/** PTX ISA: fence.proxy, membar, fence, tcgen05.fence. */
export const fenceText = {
  async: "fence.proxy.async.shared::cta",
  cta: "membar.cta",
  gpu: "fence.acq_rel.gpu",
  init: "fence.mbarrier_init.release.cluster",
  "tensor-before": "tcgen05.fence::before_thread_sync",
  "tensor-after": "tcgen05.fence::after_thread_sync",
} as const;

/** The other blocks go round it. */
function inFirst(ctx: Context, make: () => void): void {
  if (clusterSize(ctx.program) === 1) {
    make();
    return;
  }
  const { entry } = ctx;
  const end = entry.label("asked");
  const others = ctx.roleValue("not first of the cluster", (code) => {
    const p = entry.reg("pred", "p");
    code.emit(null, "setp.ne.u32", p, clusterRank(ctx), imm(0));
    return p;
  });
  ctx.body.emit(others, "bra", end);
  forgetSlots(ctx);
  make();
  forgetSlots(ctx);
  ctx.body.label(end);
}

type Shared = Omit<
  { readonly [K in MachineStmt["kind"]]: Statements[K] },
  | "wgmma.fence"
  | "wgmma.commit"
  | "wgmma.wait"
  | "accumulate"
  | "tcgen05.commit"
  | "stage"
  | "bulk.store"
  | "warp.store"
  | "pin"
  | "rename"
  | "prologue"
  | ReductionStmt["kind"]
  | CopyKind
  | FrameKind
>;

export const machineStatements = (lower: (ctx: Context, stmts: Of<"leader">["body"]) => void): Shared => ({
  pipeline: lowerPipeline,
  // An entry of its own.
  kernel: () => {},
  // The loop around does it where it begins, goes on and ends, or comes to another group.
  boundary: () => {},
  "tensormap.make": () => {},
  advance: lowerAdvance,
  hold: lowerHold,
  "mbar.wait"(ctx, { barrier, cluster }) {
    const at = pipelineOf(ctx, barrier.pipeline);
    const parity = at.parity();
    spin(ctx, barrierAt(ctx, barrier), parity, cluster);
  },
  "mbar.drain": (ctx, { barrier }) => {
    const at = pipelineOf(ctx, barrier.pipeline);
    for (let i = 0; i < at.ring.slots; i++) {
      const parity = at.parity();
      spin(ctx, barrierAt(ctx, barrier), parity, true);
      if (i < at.ring.slots - 1) lowerAdvance(ctx, { kind: "advance", pipeline: barrier.pipeline, by: 1 });
    }
  },
  "mbar.expect": expect,
  "mbar.arrive": arrive,
  fence: (ctx, { what }) => ctx.body.emitAny(null, fenceText[what], []),
  "warp.sync": (ctx) => ctx.body.emitAny(null, "bar.warp.sync", [imm(WARP_MASK)]),
  "cp.async.commit": (ctx) => ctx.emit(null, "cp.async.commit_group"),
  "bulk.commit": (ctx) => ctx.body.emit(ctx.storing, "cp.async.bulk.commit_group"),
  "cp.async.wait": (ctx, { pending }) => ctx.emit(null, "cp.async.wait_group", imm(pending)),
  response: (ctx, { body }) => lower(ctx, body),
  leader: (ctx, { body }) => inFirst(ctx, () => lower(ctx, body)),
});
