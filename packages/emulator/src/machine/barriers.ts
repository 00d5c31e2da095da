/** Block barriers 0 to 15: arrivals per thread, generations, and the clocks they carry. PTX ISA 9.0, chapter 9.7.13.1. */
import type { Carried } from "../checkers/race.ts";
import { type Block, type ClusterState, popcount, type Warp } from "./state.ts";

export interface Barrier {
  readonly id: number;
  /** Threads that complete it; null: all threads of the block that have not exited. */
  count: number | null;
  /** Lanes of each warp that have arrived in this generation. */
  readonly arrived: Map<Warp, number>;
  generation: number;
  /** In the event log: the latest arrival, and that of the last completed generation. */
  gathered: number;
  completedAt: number;
  /** Clocks of those who arrived, and of the last completed generation. */
  clock: Carried | null;
  completedClock: Carried | null;
  /** Predicates gathered by bar.red: threads, and those whose predicate was true. */
  trueCount: number;
  votes: number;
  lastTrueCount: number;
  lastVotes: number;
}

export function barrierOf(block: Block, id: number): Barrier {
  let barrier = block.barriers.get(id);
  if (barrier === undefined) {
    barrier = {
      id,
      count: null,
      arrived: new Map(),
      generation: 0,
      gathered: 0,
      completedAt: 0,
      clock: null,
      completedClock: null,
      trueCount: 0,
      votes: 0,
      lastTrueCount: 0,
      lastVotes: 0,
    };
    block.barriers.set(id, barrier);
  }
  return barrier;
}

/** Threads that count as arrived: of a warp that takes part, lanes that do not exist or have exited count too. */
function arrivals(barrier: Barrier): number {
  let threads = 0;
  for (const [warp, mask] of barrier.arrived) threads += popcount(mask | ~warp.live);
  return threads;
}

/** Threads that the barrier still misses, for deadlock reports. */
export function describeBarrier(block: Block, barrier: Barrier): string {
  const expected = barrier.count ?? block.warps.filter((w) => !w.done).length * 32;
  const exited = block.warps.filter((w) => w.done).length;
  const gone = exited === 0 ? "" : `, ${exited} warp${exited === 1 ? " has" : "s have"} exited`;
  return `barrier ${barrier.id}, ${arrivals(barrier)} of ${expected} threads have arrived${gone}`;
}

/** Complete the barrier if all have arrived; returns whether it did. */
export function tryComplete(block: Block, barrier: Barrier): boolean {
  if (barrier.arrived.size === 0) return false;
  const complete =
    barrier.count === null
      ? block.warps.every((w) => w.done || ((barrier.arrived.get(w) ?? 0) & w.live) === w.live)
      : arrivals(barrier) >= barrier.count;
  if (!complete) return false;
  barrier.arrived.clear();
  barrier.generation += 1;
  barrier.completedAt = barrier.gathered;
  barrier.completedClock = barrier.clock;
  barrier.clock = null;
  barrier.lastTrueCount = barrier.trueCount;
  barrier.lastVotes = barrier.votes;
  barrier.trueCount = 0;
  barrier.votes = 0;
  return true;
}

/** Complete the cluster's barrier if all its threads that have not exited have arrived; returns whether it did. */
export function tryCompleteCluster(cluster: ClusterState): boolean {
  const { barrier } = cluster;
  if (barrier.arrived.size === 0) return false;
  for (const block of cluster.blocks)
    for (const warp of block.warps)
      if (!warp.done && ((barrier.arrived.get(warp) ?? 0) & warp.live) !== warp.live) return false;
  barrier.arrived.clear();
  barrier.generation += 1;
  barrier.completedAt = barrier.gathered;
  barrier.completed = barrier.carried;
  barrier.carried = null;
  return true;
}

/** For deadlock reports: who is missing at the cluster's barrier. */
export function describeClusterBarrier(cluster: ClusterState): string {
  const { arrived } = cluster.barrier;
  const warps = cluster.blocks.flatMap((block) => block.warps).filter((w) => !w.done);
  const here = warps.filter((w) => ((arrived.get(w) ?? 0) & w.live) === w.live).length;
  return `the cluster barrier, ${here} of ${warps.length} warps have arrived`;
}
