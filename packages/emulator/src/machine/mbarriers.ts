/**
 * mbarriers: phases that end when all expected arrivals and all bytes have come. PTX ISA 9.0, chapter 9.7.13.15.
 * Their eight bytes in shared memory are kept as never written, so that every plain access takes the slow path and is found.
 */

import type { Place } from "../checkers/findings.ts";
import { type AsyncOp, Carried } from "../checkers/race.ts";
import {
  type Block,
  type ClusterState,
  type Execution,
  hex,
  type Machine,
  type SharedPlace,
  type Warp,
} from "./state.ts";

/** Limits of the ISA: expected arrivals 1 to 2^20 - 1, tx-count within +-(2^20 - 1). */
export const largestCount = 2 ** 20 - 1;
/** Bytes of an mbarrier object, and its alignment. */
export const mbarrierBytes = 8;

export interface Mbarrier {
  readonly block: Block;
  /** Arena offset. */
  readonly at: number;
  /** shared::cluster address, for messages. */
  readonly address: number;
  /** Completed phases. */
  phase: number;
  /** Arrivals that the current phase still misses. */
  pending: number;
  /** Arrivals that the next phase will begin with. */
  expected: number;
  /** Bytes that the current phase still misses. */
  tx: number;
  /** What the arrivals of the current phase hand on. */
  carried: Carried | null;
  /** What the completed phases have handed on. */
  completed: Carried | null;
  /** In the event log: when the latest of those that took part did, and when the last phase was complete. */
  gathered: number;
  completedAt: number;
  /** Who initialised it, and at which clock: others have to know. */
  readonly initialiser: Warp;
  readonly initialised: number;
  /** A fence after the initialisation has made it visible to the cluster and to the async proxy. */
  fenced: boolean;
}

/** For messages: phase, arrivals and bytes. */
export const describeMbarrier = (barrier: Mbarrier): string =>
  `mbarrier ${hex(barrier.address)} in phase ${barrier.phase}, ${barrier.pending} of ${barrier.expected} arrivals pending, tx-count ${barrier.tx}`;

/** The valid mbarrier that bytes [at, at+size) overlap, if any. */
export function mbarrierIn(cluster: ClusterState, at: number, size: number): Mbarrier | null {
  for (let k = (at & ~7) >>> 0; k < at + size; k += 8) {
    const found = cluster.mbarriers.get(k);
    if (found !== undefined) return found;
  }
  return null;
}

/**
 * The barrier at a resolved place; reports H040 where there is none and H046 where its initialisation is not known. `user`: who will access it. What an engine
 * does is over when its operation is (`AsyncOp`), whatever else the warp that has issued it does.
 */
export function mbarrierAt(
  by: Execution,
  place: SharedPlace,
  user: "warp" | "engine" = "warp",
): Mbarrier | null {
  const { warp, instruction } = by;
  const barrier = place.block.cluster.mbarriers.get(place.at);
  const address = place.block.rank * 2 ** 24 + place.at - place.block.sharedBase;
  if (barrier === undefined) {
    by.report("H040", () => `there is no mbarrier at shared address ${hex(address)}`);
    return null;
  }
  const { race } = warp.block;
  if (race === null) return barrier;
  if (place.block !== warp.block && user === "warp") race.remote(warp, place.block, instruction.index, true);
  const { agent } = barrier.initialiser;
  const known =
    agent === warp.agent ||
    race.clocks.knows(warp.agent, agent, barrier.initialised) ||
    (barrier.fenced && race.clocks.knowsExecuted(warp.agent, agent, barrier.initialised));
  if (!known)
    by.report(
      "H046",
      () =>
        `warp ${warp.id} uses mbarrier ${hex(address)} with no synchronisation after its initialisation by warp ${barrier.initialiser.id}`,
    );
  return barrier;
}

/** mbarrier.init by one lane: a valid barrier that expects `count` arrivals. */
export function initialise(by: Execution, lane: number, place: SharedPlace, count: number): void {
  const { warp, instruction, machine } = by;
  const { block, at } = place;
  const { race, cluster } = block;
  const known = mbarrierIn(cluster, at, mbarrierBytes);
  if (known !== null) by.report("H045", () => describeMbarrier(known));
  const clock = race === null ? 0 : (race.clocks.known[warp.agent * race.clocks.stride + warp.agent] ?? 0);
  race?.write(warp, lane, at, mbarrierBytes, instruction.index);
  machine.arena.clearShadow(at, mbarrierBytes);
  machine.arena.markAllocated(at, mbarrierBytes);
  const barrier: Mbarrier = {
    block,
    at,
    address: block.rank * 2 ** 24 + at - block.sharedBase,
    phase: 0,
    pending: count,
    expected: count,
    tx: 0,
    carried: null,
    completed: null,
    gathered: 0,
    completedAt: 0,
    initialiser: warp,
    initialised: clock,
    fenced: false,
  };
  cluster.mbarriers.set(at, barrier);
  machine.trace?.mbarrier(barrier, "init", count);
}

/** mbarrier.inval: the bytes may be used for something else, with nothing in them. */
export function invalidate({ warp, instruction, machine }: Execution, lane: number, barrier: Mbarrier): void {
  const { block, at } = barrier;
  block.race?.write(warp, lane, at, mbarrierBytes, instruction.index);
  block.cluster.mbarriers.delete(at);
  machine.trace?.mbarrier(barrier, "invalidate", 0);
  machine.touch();
}

/** A fence that makes the initialisations that the warp knows of visible to the cluster and to the async proxy. */
export function fenceInitialisations(warp: Warp): void {
  const { race } = warp.block;
  for (const barrier of warp.block.cluster.mbarriers.values()) {
    const { agent } = barrier.initialiser;
    if (race === null || agent === warp.agent || race.clocks.knows(warp.agent, agent, barrier.initialised))
      barrier.fenced = true;
  }
}

/** Arrive `count` times, handing on `carried`. `place`: where a finding is met. */
export function arrive(
  { machine, warp, instruction }: Execution,
  barrier: Mbarrier,
  count: number,
  carried: Carried | null,
  place: Warp | Place = warp,
): void {
  let taken = count;
  if (count > barrier.pending) {
    machine.report("H041", instruction, place, () => `${count} arrivals on ${describeMbarrier(barrier)}`);
    taken = barrier.pending;
  }
  barrier.pending -= taken;
  if (carried !== null) handOver(barrier, carried);
  machine.trace?.mbarrier(barrier, "arrive", count);
  settle(machine, barrier);
}

/** `carried` may be handed to several barriers, so each keeps its own copy. */
function handOver(barrier: Mbarrier, carried: Carried): void {
  barrier.carried ??= new Carried();
  barrier.carried.join(carried);
}

/** Complete the phase if nothing is missing. */
function settle(machine: Machine, barrier: Mbarrier): void {
  machine.touch();
  if (barrier.pending !== 0 || barrier.tx !== 0) return;
  barrier.phase += 1;
  machine.countPhase(barrier.block, barrier.at);
  machine.trace?.phaseComplete(barrier);
  barrier.pending = barrier.expected;
  if (barrier.carried !== null) {
    // Whoever sees this phase complete comes after the earlier ones too.
    barrier.completed ??= new Carried();
    barrier.completed.join(barrier.carried);
  }
  barrier.carried = null;
}

function checkTx(by: Execution, barrier: Mbarrier): void {
  if (Math.abs(barrier.tx) <= largestCount) return;
  by.report("H044", () => `${describeMbarrier(barrier)}; the tx-count stays within ${largestCount} of zero`);
}

/** Expect `bytes` more in the current phase. */
export function expectTx(by: Execution, barrier: Mbarrier, bytes: number): void {
  barrier.tx += bytes;
  by.machine.trace?.mbarrier(barrier, "expect", bytes);
  checkTx(by, barrier);
  settle(by.machine, barrier);
}

/** An engine delivers `bytes`; the clock of its operation (null when races are not checked) goes into the phase. */
export function completeTx(by: Execution, barrier: Mbarrier, bytes: number, op: AsyncOp | null): void {
  barrier.tx -= bytes;
  by.machine.trace?.mbarrier(barrier, "bytes", bytes);
  const { race } = barrier.block;
  if (race !== null && op !== null) {
    const carried = race.clocks.empty();
    race.clocks.complete(op.engine, op.clock, carried);
    handOver(barrier, carried);
    if (!barrier.fenced)
      by.report(
        "H046",
        () =>
          `mbarrier ${hex(barrier.address)} is used by the async proxy with no fence.mbarrier_init or fence.proxy.async after its initialisation`,
      );
  }
  checkTx(by, barrier);
  settle(by.machine, barrier);
}

/** The arrival of a commit or of a copy's completion: count 1, with the clocks of the operations that it stands for. */
export function engineArrive(
  by: Execution,
  barrier: Mbarrier,
  ops: readonly AsyncOp[] | Carried | null,
): void {
  const { race } = barrier.block;
  const carried = race === null || ops === null ? null : race.clocks.empty();
  if (ops instanceof Carried) carried?.join(ops);
  else for (const op of ops ?? []) if (carried !== null) race?.clocks.complete(op.engine, op.clock, carried);
  arrive(by, barrier, 1, carried, { block: barrier.block.index, warp: barrier.initialiser.id });
}
