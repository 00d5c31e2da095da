/** Special registers that the emulator has: the expression of each in generated code, for lane `l` of warp `w`. */

import { reservedBytes } from "../load/layout.ts";

interface SpecialRegister {
  /** Low word. */
  readonly low: string;
  /** High word, for 64-bit registers. */
  readonly high: string;
}

const word = (low: string): SpecialRegister => ({ low, high: "0" });

// `G` is the launch's geometry (compile/environment.ts): ntid, nctaid, cluster dimensions, clusters in the grid.
export const geometryIndex = { ntid: 0, nctaid: 3, clusterCtas: 6, clusters: 9 } as const;

const axes = ["x", "y", "z"] as const;

const perAxis = (
  name: string,
  expression: (axis: number) => string,
): readonly (readonly [string, SpecialRegister])[] =>
  axes.map((axis, k) => [`%${name}.${axis}`, word(expression(k))] as const);

/**
 * PTX ISA 9.0, chapter 10. Clocks count warp-instructions of the launch: monotonic, with no claim to be time. One block is
 * one SM's worth, so `%smid` is the block's place among those resident.
 */
export const specialRegisters: Readonly<Record<string, SpecialRegister>> = Object.fromEntries([
  ...perAxis("tid", (k) => `T${"XYZ"[k]}[w.firstThread+l]`),
  ...perAxis("ntid", (k) => `G[${geometryIndex.ntid + k}]`),
  ...perAxis("ctaid", (k) => `w.block.index[${k}]`),
  ...perAxis("nctaid", (k) => `G[${geometryIndex.nctaid + k}]`),
  ...perAxis("cluster_ctaid", (k) => `w.block.inCluster[${k}]`),
  ...perAxis("cluster_nctaid", (k) => `G[${geometryIndex.clusterCtas + k}]`),
  ...perAxis("clusterid", (k) => `w.block.clusterIndex[${k}]`),
  ...perAxis("nclusterid", (k) => `G[${geometryIndex.clusters + k}]`),
  ...[
    ...["tid", "ntid", "ctaid", "nctaid"],
    ...["cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid"],
  ].map((name) => [`%${name}.w`, word("0")] as const),
  ["%laneid", word("l")],
  ["%warpid", word("w.id")],
  ["%nwarpid", word("32")],
  ["%smid", word("w.block.slot")],
  ["%nsmid", word("w.block.slots")],
  ["%gridid", word("1")],
  ["%cluster_ctarank", word("w.block.rank")],
  [
    "%cluster_nctarank",
    word(
      `(G[${geometryIndex.clusterCtas}]*G[${geometryIndex.clusterCtas + 1}]*G[${geometryIndex.clusterCtas + 2}])`,
    ),
  ],
  ["%is_explicit_cluster", word("w.block.explicitCluster")],
  ["%lanemask_eq", word("(1<<l)")],
  ["%lanemask_le", word("(-1>>>(31-l))")],
  ["%lanemask_lt", word("((1<<l)-1)")],
  ["%lanemask_ge", word("(-1<<l)")],
  ["%lanemask_gt", word("(-2<<l)")],
  ["%clock", word("clock(w)")],
  ["%clock_hi", word("0")],
  ["%clock64", word("clock(w)")],
  ["%globaltimer", word("clock(w)")],
  ["%globaltimer_lo", word("clock(w)")],
  ["%globaltimer_hi", word("0")],
  ["%dynamic_smem_size", word("w.block.dynamicShared")],
  // An H200 rounds the former to the unit of allocation, and adds to what the program has itself in the latter.
  ["%total_smem_size", word("((w.sharedSize-w.block.reservedShared+127)&-128)")],
  ["%aggr_smem_size", word(`(w.sharedSize-w.block.reservedShared+${reservedBytes})`)],
  ["%reserved_smem_offset_cap", word(String(reservedBytes))],
]);
