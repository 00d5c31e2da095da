/** Barriers of a cluster, and registers handed between warpgroups. PTX ISA 9.0, chapters 9.7.13.4 and 9.7.19.5. */

import { describeClusterBarrier, tryCompleteCluster } from "../machine/barriers.ts";
import { takeRegisters } from "../machine/registers.ts";
import type { Execution } from "../machine/state.ts";
import { together } from "./aligned.ts";
import type { Row, Table } from "./row.ts";
import { lanesOf } from "./warp.ts";

const clusterArrive: Row = (d) => {
  const members = d.flag("aligned") ? "warp" : "none";
  const relaxed = d.option("release", "relaxed") === "relaxed";
  return {
    kind: "wait",
    members,
    bind: () => (by, _group, mask) => {
      arriveAtCluster(by, mask, relaxed);
      return true;
    },
  };
};

const clusterWait: Row = (d) => {
  const members = d.flag("aligned") ? "warp" : "none";
  d.flag("acquire");
  return {
    kind: "wait",
    members,
    bind: () => (by, group, mask) => {
      const { warp, machine } = by;
      const { barrier } = warp.block.cluster;
      if (group.wait === null) {
        checkArrived(by, mask);
        group.wait = { generation: 0, describe: () => describeClusterBarrier(warp.block.cluster) };
      }
      const blocked = lanesOf(mask).some((l) => (warp.clusterArrivals[l] ?? 0) > barrier.generation);
      if (blocked) return false;
      group.wait = null;
      const on = { kind: "cluster", generation: barrier.generation - 1 } as const;
      machine.trace?.awaited(warp, on, barrier.completedAt);
      for (const l of lanesOf(mask)) warp.clusterArrivals[l] = 0;
      if (barrier.completed !== null) warp.block.race?.clocks.acquire(warp.agent, barrier.completed);
      return true;
    },
  };
};

function checkArrived(by: Execution, mask: number): void {
  const lane = lanesOf(mask).find((l) => by.warp.clusterArrivals[l] === 0);
  if (lane !== undefined)
    by.report(
      "H049",
      () => `lane ${lane} of warp ${by.warp.id} waits at the cluster barrier and has not arrived at it`,
    );
}

function arriveAtCluster(by: Execution, mask: number, relaxed: boolean): void {
  const { warp, instruction, machine } = by;
  const { cluster, race } = warp.block;
  const { barrier } = cluster;
  for (const l of lanesOf(mask)) {
    if (warp.clusterArrivals[l] !== 0)
      by.report(
        "H049",
        () => `lane ${l} of warp ${warp.id} arrives at the cluster barrier again with no wait in between`,
      );
    warp.clusterArrivals[l] = barrier.generation + 1;
  }
  barrier.arrived.set(warp, (barrier.arrived.get(warp) ?? 0) | mask);
  if (race !== null) {
    barrier.carried ??= race.clocks.empty();
    if (relaxed) race.clocks.releaseRelaxed(warp.agent, barrier.carried, instruction.index);
    else race.clocks.release(warp.agent, barrier.carried);
  }
  machine.countBarrier();
  machine.touch();
  const { trace } = machine;
  barrier.gathered = Math.max(barrier.gathered, warp.clock);
  trace?.barrier(warp, instruction, "arrive", "cluster", barrier);
  if (tryCompleteCluster(cluster)) trace?.barrier(warp, instruction, "complete", "cluster", barrier);
}

/** setmaxnreg: registers of a warpgroup's warps to and from the block's pool (machine/registers.ts). */
const setmaxnreg: Row = (d) => {
  const kind = d.choice("inc", "dec");
  const count = d.literal(0);
  if (count < 24 || count > 256 || count % 8 !== 0)
    d.refuse(`${count} registers; it has to be a multiple of 8 from 24 to 256`);
  return together(() => (by, group) => takeRegisters(by, group, kind, count));
};

export const clusterTable: Table = {
  setmaxnreg,
  "barrier.cluster.arrive": clusterArrive,
  "barrier.cluster.wait": clusterWait,
};
