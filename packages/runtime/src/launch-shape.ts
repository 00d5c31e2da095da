/** Grid, block, cluster and shared memory of a launch against a device's limits: all that does not fit, at once. */

import type { Diagnostic } from "@tilewright/core";
import { roundUp } from "@tilewright/core";
import type { Dim3, LaunchRequest } from "./device.ts";
import { diagnose } from "./diagnostics.ts";

export interface LaunchLimits {
  readonly maxThreadsPerBlock: number;
  readonly maxBlock: Dim3;
  readonly maxGrid: Dim3;
  /** Bytes of static and dynamic shared memory that a block may have with opt-in. */
  readonly maxSmemPerBlock: number;
  /** Blocks of the largest cluster, the non-portable ones included; 1 where there are no clusters. */
  readonly maxClusterSize: number;
}

const axes = ["x", "y", "z"] as const;
const product = (dim: Dim3): number => dim[0] * dim[1] * dim[2];

/** `staticSmem`: bytes the kernel itself declares. `maxThreads`: what the kernel was compiled for, null when unknown. */
export function checkLaunchShape(
  entry: string,
  request: LaunchRequest,
  limits: LaunchLimits,
  kernel: { readonly staticSmem: number; readonly maxThreads: number | null },
): readonly Diagnostic[] {
  const problems: Diagnostic[] = [];
  const report = (at: string, message: string, hint: string): void => {
    problems.push(diagnose("shape", `${entry}.${at}`, message, hint));
  };
  const cluster = request.cluster ?? [1, 1, 1];
  const maxima: readonly [string, Dim3, Dim3][] = [
    ["grid", request.grid, limits.maxGrid],
    ["block", request.block, limits.maxBlock],
    ["cluster", cluster, [limits.maxClusterSize, limits.maxClusterSize, limits.maxClusterSize]],
  ];
  for (const [name, dim, max] of maxima) {
    axes.forEach((axis, index) => {
      const extent = dim[index] ?? 0;
      const most = max[index] ?? 0;
      if (Number.isInteger(extent) && extent >= 1 && extent <= most) return;
      report(`${name}.${axis}`, `${extent} is no ${name} extent here`, `take an integer from 1 to ${most}`);
    });
  }
  const threads = product(request.block);
  const most = Math.min(limits.maxThreadsPerBlock, kernel.maxThreads ?? limits.maxThreadsPerBlock);
  if (threads > most) {
    report(
      "block",
      `${request.block.join(" x ")} is ${threads} threads`,
      `this kernel can have at most ${most} a block`,
    );
  }
  const blocks = product(cluster);
  if (blocks > limits.maxClusterSize) {
    report(
      "cluster",
      `${cluster.join(" x ")} is ${blocks} blocks`,
      `a cluster has at most ${limits.maxClusterSize} here`,
    );
  }
  axes.forEach((axis, index) => {
    const extent = cluster[index] ?? 1;
    const grid = request.grid[index] ?? 1;
    if (extent >= 1 && grid % extent !== 0) {
      report(
        `cluster.${axis}`,
        `${extent} does not divide the grid's ${grid}`,
        `round the grid up to ${roundUp(grid, extent)}`,
      );
    }
  });
  const preferred = request.preferredCluster;
  if (preferred !== undefined) {
    axes.forEach((axis, index) => {
      const extent = preferred[index] ?? 0;
      const least = cluster[index] ?? 1;
      const grid = request.grid[index] ?? 1;
      if (Number.isInteger(extent) && extent >= 1 && extent % least === 0 && grid % extent === 0) return;
      report(
        `preferredCluster.${axis}`,
        `${extent} is no multiple of the cluster's ${least} that divides the grid's ${grid}`,
        `take a multiple of ${least}, and a grid that it divides`,
      );
    });
    if (product(preferred) > limits.maxClusterSize) {
      report(
        "preferredCluster",
        `${preferred.join(" x ")} is ${product(preferred)} blocks`,
        `a cluster has at most ${limits.maxClusterSize} here`,
      );
    }
  }
  const dynamic = request.dynamicSmem ?? 0;
  if (!Number.isInteger(dynamic) || dynamic < 0) {
    report("dynamicSmem", `${dynamic} is no byte count`, "take an integer of at least 0");
  } else if (dynamic + kernel.staticSmem > limits.maxSmemPerBlock) {
    report(
      "dynamicSmem",
      `${dynamic} B of dynamic and ${kernel.staticSmem} B of static shared memory are more than a block has`,
      kernel.staticSmem > limits.maxSmemPerBlock
        ? `the kernel declares more than the ${limits.maxSmemPerBlock} B of a block by itself: declare less`
        : `at most ${limits.maxSmemPerBlock - kernel.staticSmem} B of dynamic shared memory fit`,
    );
  }
  return problems;
}
