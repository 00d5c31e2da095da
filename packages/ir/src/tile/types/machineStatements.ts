/** Statements of the stage `machine`: one pattern of instructions each. */
import type { DType } from "@tilewright/core";
import type { Columns, View } from "./buffers.ts";
import type { SlotRange } from "./declarations.ts";
import type { Cond, Expr } from "./placement.ts";
import type { Stmt } from "./statements.ts";

/** Where a loop over work tiles begins, goes on and ends. */
export const boundaries = ["first", "between", "last"] as const;

export type Boundary = (typeof boundaries)[number];

/** An mbarrier of a ring's edge: that of the slot at which a pipeline of the ring stands. Its count is the edge's. */
export interface BarrierRef {
  readonly ring: string;
  readonly edge: "full" | "empty";
  readonly pipeline: string;
}

/** Whom an arrival by one thread stands for: itself, its warp or its warpgroup, each of whose threads has come so far; `copies`: it comes when the thread's asynchronous copies so far are complete. */
export const arrivers = ["thread", "warp", "warpgroup", "copies"] as const;

export type Arriver = (typeof arrivers)[number];

/**
 * Blocks of the cluster whose barrier is meant: the block's own; that of the first of its pair; those of its pair; of the first of the cluster; of all. `peers`: of the blocks with
 * which it shares copies along these axes, its own among them.
 */
export const reaches = {
  expect: ["own", "cluster"],
  arrive: ["own", "leader", "first", "cluster", "peers-m", "peers-n", "peers-mn"],
  commit: ["own", "pair", "peers-m", "peers-n", "peers-mn"],
} as const;

/** Those that one kind of statement tells, or any. */
export type Reach<K extends keyof typeof reaches = keyof typeof reaches> = (typeof reaches)[K][number];

/** Orders what a thread did through one proxy, or before, with what others do behind it; `init`: its initialised mbarriers (PTX ISA, fence.proxy.async, membar.cta, fence.acq_rel.gpu, fence.mbarrier_init, tcgen05.fence). */
export const fences = ["async", "cta", "gpu", "init", "tensor-before", "tensor-after"] as const;

type FenceKind = (typeof fences)[number];

/**
 * Statements of the stage machine: one pattern of instructions each. There slots of views, and chunks of `request` and `next`, are pipelines by name: the slot at which
 * that one stands.
 */
export type MachineStmt =
  /** Where a role stands in a ring `of` slots: stage `stage` at first, and the parity of the phase for which it waits (0: of data; 1: of room, which the first slots have). Of the role or block that it begins. */
  | {
      readonly kind: "pipeline";
      readonly name: string;
      readonly of: string;
      readonly stage: number;
      readonly phase: 0 | 1;
    }
  /** On by so many slots; past the last one in the next phase. */
  | { readonly kind: "advance"; readonly pipeline: string; readonly by: number }
  /** The slot at which a pipeline stands, under a name that stays when it goes on. `slots`: only the addresses of its tiles, for views. */
  | { readonly kind: "hold"; readonly name: string; readonly pipeline: string; readonly slots: boolean }
  /** Until the phase that the pipeline is in is complete. `cluster`: what other blocks did before they arrived is seen. */
  | { readonly kind: "mbar.wait"; readonly barrier: BarrierRef; readonly cluster: boolean }
  /**
   * Until every slot of the ring has been given back, from the one at which the pipeline stands on: an arrival of another block, or of matrix instructions, may
   * still be on its way, and must not find this block gone.
   */
  | { readonly kind: "mbar.drain"; readonly barrier: BarrierRef }
  /** One arrival, and so many bytes before the phase can be complete; at the barriers of `to`. `leader`: by the first block of a pair only. */
  | {
      readonly kind: "mbar.expect";
      readonly barrier: BarrierRef;
      readonly bytes: number;
      readonly to: Reach<"expect">;
      readonly leader: boolean;
    }
  | {
      readonly kind: "mbar.arrive";
      readonly barrier: BarrierRef;
      readonly by: Arriver;
      readonly to: Reach<"arrive">;
    }
  /** One arrival when the matrix instructions issued so far are done (PTX ISA, tcgen05.commit). */
  | { readonly kind: "tcgen05.commit"; readonly barrier: BarrierRef; readonly to: Reach<"commit"> }
  | { readonly kind: "fence"; readonly what: FenceKind }
  /** The lanes of a warp meet. */
  | { readonly kind: "warp.sync" }
  /** The thread's copies since the last of these are a group; all but the last `pending` groups are complete. */
  | { readonly kind: "cp.async.commit" }
  | { readonly kind: "cp.async.wait"; readonly pending: number }
  /** Orders the warpgroup's accesses to registers before the products behind it, which read and write them asynchronously (PTX ISA, wgmma.fence). */
  | { readonly kind: "wgmma.fence" }
  /** The products since the last of these are a group; all groups of the warpgroup but the last `pending` are done. */
  | { readonly kind: "wgmma.commit" }
  | { readonly kind: "wgmma.wait"; readonly pending: number }
  /** Sums that were made apart are added to an accumulator, each times the factors of its row and its column; without `b` those of its row are of both. */
  | {
      readonly kind: "accumulate";
      readonly acc: View;
      readonly sum: View;
      readonly scales?: { readonly a: View; readonly b?: View };
    }
  /** A register tile gets a reader that never runs; it goes on in registers of its own, or (`back`) in those that it had: for ptxas, which does so without moving anything. */
  | { readonly kind: "pin"; readonly tile: string }
  | { readonly kind: "rename"; readonly tile: string; readonly back: boolean }
  /** Reads the scheduler's response for a work tile: done at those of the other consumers, too, which take turns with this one. */
  | { readonly kind: "response"; readonly body: readonly Stmt[] }
  /**
   * In a loop over work tiles, barriers at its bounds. `first`: before the first turn. `between`: behind a CTA's part of a tile when another one follows. `last`: behind the last turn, of
   * the role among those that take turns which would have the next tile.
   */
  | { readonly kind: "boundary"; readonly bound: Boundary; readonly body: readonly Stmt[] }
  | GroupMaps
  | CopyStmt
  /** In the first block of the cluster only. */
  | { readonly kind: "leader"; readonly body: readonly Stmt[] }
  /**
   * Behind the main kernel's own statements: what the declared kernel of this name does, which is launched before or behind it. `warps`: those of a work tile, each a CTA of its own
   * along the grid's third axis; absent: they are a CTA's.
   */
  | {
      readonly kind: "kernel";
      readonly name: string;
      readonly warps?: number;
      readonly body: readonly Stmt[];
    }
  /** In an epilogue: its threads put these columns of D into a slot of the tile; one thread of each group of its warps has them stored from there (PTX ISA, cp.async.bulk.tensor). */
  | { readonly kind: "stage"; readonly via: View; readonly columns: Columns }
  | { readonly kind: "bulk.store"; readonly via: View; readonly columns: Columns }
  /** In an epilogue with `stores`: the lanes of each warp store these columns from the slot, which their warp has put there. */
  | { readonly kind: "warp.store"; readonly via: View; readonly columns: Columns }
  /** That thread's stores since the last of these are a group. */
  | { readonly kind: "bulk.commit" }
  | ReductionStmt
  /** Begins a role of one thread: what that does at the head's `prologue.at`, as soon as the barrier is ready on which its first copies arrive, before the other barriers are. */
  | { readonly kind: "prologue"; readonly body: readonly Stmt[] }
  | FrameStmt;

/**
 * In a loop over the work tiles of a grouped problem, where these belong to another group than those before: the maps of these matrices are made for it, from the launch's
 * templates and the group's row, in the next of `slots` places of the workspace. A CTA's maps have `every` bytes there, of which these begin at `offset`. One thread makes them: the
 * role's only one, or of `groups` of threads (so many below each other and side by side) the one that stores, each with places of its own (PTX ISA, tensormap.replace).
 */
export interface GroupMaps {
  readonly kind: "tensormap.make";
  /** `contiguous`: the axis along which the map's boxes are contiguous, 0 rows, 1 columns. */
  readonly maps: readonly { readonly buffer: string; readonly contiguous: 0 | 1 }[];
  readonly slots: number;
  readonly offset: number;
  readonly every: number;
  readonly groups?: readonly [m: number, n: number];
}

/** What kernels beside the main one do with a matrix, or with results of a step that lie in its region of the workspace. */
type CopyStmt =
  /**
   * `ctas` CTAs from number `first` on copy a matrix, as the launch has it, to the region of its name, where its layout is that of the declared buffer: `lines` of `run` neighbours, `pitch`
   * elements from one to the next, loaded so many (`vector`) at once.
   */
  | {
      readonly kind: "transpose";
      readonly buffer: string;
      readonly first: number;
      readonly ctas: number;
      readonly lines: number;
      readonly run: number;
      readonly pitch: number;
      readonly vector: number;
    }
  /** Each thread of the launch has one of `count` results of a step: it comes to a register in f32; 0 goes to its place; it goes in a dtype to where the launch wants it. */
  | { readonly kind: "result.load"; readonly step: number; readonly count: number | "m" | "n" }
  | { readonly kind: "result.clear"; readonly step: number }
  | { readonly kind: "result.store"; readonly step: number; readonly dtype: DType };

export type CopyKind = CopyStmt["kind"];

/** Statements before and behind the tiles and roles of a kernel, of the whole block. */
export type FrameStmt =
  /** One thread of the block, or one warp. */
  | {
      readonly kind: "only";
      readonly unit: "thread" | "warp";
      readonly number: number;
      readonly body: readonly Stmt[];
    }
  /** The map of a matrix of global memory comes nearer; a hint (PTX ISA, prefetch.tensormap). */
  | { readonly kind: "tensormap.prefetch"; readonly buffer: string }
  /** The mbarriers of a declaration, with its count: those of slots `from` to `to` - 1, of all unless given. */
  | { readonly kind: "mbar.init"; readonly barriers: string; readonly slots?: SlotRange }
  /** Here the thread runs what a role leads with. */
  | { readonly kind: "prologue.at"; readonly role: string }
  /** Blocks of the cluster meet: `release` publishes what came before; `any`: the threads of a warp need not come together (PTX ISA, barrier.cluster). */
  | { readonly kind: "cluster.arrive"; readonly release: boolean; readonly any: boolean }
  /** Also where slices of a cluster's CTAs meet, which arrived when they began. */
  | { readonly kind: "cluster.wait"; readonly any: boolean }
  /** The grid before this one in the stream is over; the next may begin (PTX ISA, griddepcontrol). */
  | { readonly kind: "pdl.wait" }
  | { readonly kind: "pdl.launch" }
  /**
   * All but the thread's last `pending` groups of bulk stores have read what they store, or are `complete`: it is in memory (PTX ISA, cp.async.bulk.wait_group); in an
   * epilogue and in a `partial.reduce` it is the thread that stores who waits.
   */
  | { readonly kind: "bulk.wait"; readonly pending: number; readonly complete?: true }
  /** Columns of tensor memory; the permit to allocate more; the address of the first column, out of its word in shared memory; columns back (PTX ISA, tcgen05.alloc). */
  | { readonly kind: "tmem.alloc"; readonly columns: number }
  | { readonly kind: "tmem.dealloc"; readonly columns: number }
  | { readonly kind: "tmem.relinquish" }
  | { readonly kind: "tmem.base" };

export type FrameKind = FrameStmt["kind"];

/**
 * What the CTAs of a work tile do in a `reduce`, until those that go on have the sum: partial tiles in the workspace with a counter beside them (split-K and stream-K fix-up), or slices
 * in the shared memory of a cluster (DSMEM reduction).
 */
export type ReductionStmt =
  /** In front of what is done with the sum. Threads branch past it where they have the whole tile (`unless`). */
  | { readonly kind: "reduction"; readonly unless: Cond | null; readonly body: readonly Stmt[] }
  /** Registers to the CTA's own partial tile. */
  | { readonly kind: "partial.store"; readonly acc: View }
  /** Registers added to the one partial tile of the work tile, by reductions of threads or of bulk copies through shared memory: the body, empty elsewhere, says how. */
  | {
      readonly kind: "partial.reduce";
      readonly acc: View;
      readonly by: "atomics" | "bulk";
      readonly body: readonly Stmt[];
    }
  /** There: so many registers of each thread, from one on, to a slot of its warp's room in shared memory; from there the warp's first lane has them added (PTX ISA, cp.reduce.async.bulk). */
  | ({ readonly kind: "partial.stage" } & RegisterRun)
  | ({ readonly kind: "bulk.reduce" } & RegisterRun)
  /** The first partial tile (or the only one) to registers; the `partials` behind it added, in their order; zeros to the only one. Null: as many as the CTAs that have chunks of the tile. */
  | { readonly kind: "partial.load"; readonly acc: View }
  | { readonly kind: "partial.clear"; readonly acc: View }
  | { readonly kind: "partial.add"; readonly acc: View; readonly partials: number | null }
  /**
   * Register tiles `of` have what the first CTA of a work tile has come to. Those of each of the `partials` behind it, in their order, are put into the tiles `from`, and the body makes of both
   * what they come to together. First in a `reduce`, whose accumulator is the first of the tiles; from stage machine on in its `reduction`.
   */
  | {
      readonly kind: "merge";
      readonly of: readonly string[];
      readonly from: readonly string[];
      readonly partials: number;
      readonly body: readonly Stmt[];
    }
  /** One thread adds to the work tile's counter (relaxed, at the scope of the GPU). */
  | { readonly kind: "counter.add"; readonly by: Expr }
  /** All threads meet at a barrier and leave the `reduce`, unless the counter has come to this number (at least 1) with that addition. */
  | { readonly kind: "counter.leave"; readonly unless: Expr; readonly id: number }
  /** One thread sets the counter to 0, for the next launch. */
  | { readonly kind: "counter.clear" }
  /** CTAs that still run when all partial tiles have come add up and store a slice each; the last also those of CTAs that have left. Their threads meet at a barrier. */
  | { readonly kind: "slices"; readonly id: number; readonly body: readonly Stmt[] }
  /** Slice s of the registers, as large as the tile `into`, to the shared memory of CTA s of the cluster, whose mbarrier counts the bytes. */
  | { readonly kind: "dsmem.send"; readonly acc: View; readonly into: View }
  /** CTAs of the cluster beyond the first `slices` leave the `reduce`. */
  | { readonly kind: "dsmem.leave"; readonly slices: number }
  /** One thread arrives at that mbarrier and tells how many bytes come; all threads wait for them. */
  | { readonly kind: "dsmem.expect"; readonly bytes: number }
  | { readonly kind: "dsmem.wait" }
  /** Registers become the sum of so many slices, in the order of the ranks. */
  | { readonly kind: "dsmem.add"; readonly into: View; readonly partials: number };

/** Registers `from` to `from + count - 1` of each thread's accumulators, and a slot of the warp's room. */
interface RegisterRun {
  readonly acc: View;
  readonly from: Expr;
  readonly count: number;
  readonly slot: Expr;
}
