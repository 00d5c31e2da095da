/** Hopper kernels, built up: from warps that do everything to warp specialisation, large tiles and persistent CTAs. */
import type { Ladder } from "@tilewright/ir";

const large = [4096, 4096, 4096] as const;
const kMajor = { b: { layout: "col" } } as const;

export const ladders: readonly Ladder[] = [
  {
    name: "hopper",
    summary:
      "bf16, A row-major and B column-major: wgmma, TMA by a producer warp, 128x256 tiles, TMA stores, persistent CTAs",
    request: { dtype: "bf16", ...kMajor },
    sizes: { gpu: large, emulator: [256, 256, 128] },
    steps: [
      {
        name: "threads",
        summary: "one warpgroup copies, synchronises and multiplies by wgmma",
        change:
          "tile=64x128x64 warpgroups=1x1 stages=1 copy=direct regs=none swizzle=128B cluster=1x1 multicast=off raster=row sched=tiles peel=off epi=direct storeElements=2 guards=on",
      },
      {
        name: "bulk",
        summary: "a producer warp issues TMA copies into a pipeline of four stages",
        change: "copy=tma stages=4",
      },
      {
        name: "two groups",
        summary: "two consumer warpgroups cooperate on a tile of 128 x 128",
        change: "tile=128x128x64 warpgroups=2x1",
      },
      {
        name: "wide",
        summary: "128 x 256: the widest instruction, the fewest operand bytes per product",
        change: "tile=128x256x64",
      },
      { name: "store", summary: "D through swizzled shared memory, by TMA stores", change: "epi=tma" },
      {
        name: "persistent",
        summary: "persistent CTAs: the copies of the next work tile run during the epilogue",
        change: "sched=persistent",
      },
      {
        name: "raster",
        summary: "a rasterisation of 16 tile rows, for reuse in L2",
        change: "raster=grouped:16",
      },
      {
        name: "peel",
        summary: "the first K chunk overwrites the accumulator instead of a fill",
        change: "peel=on",
      },
    ],
  },
  {
    name: "cluster",
    summary: "bf16 as above: what clusters and register budgets change",
    request: { dtype: "bf16", ...kMajor },
    sizes: { gpu: large, emulator: [256, 512, 128] },
    steps: [
      { name: "alone", summary: "the default: no cluster, one producer warp", change: "tile=128x256x64" },
      {
        name: "budgets",
        summary: "a producer warpgroup gives its registers to the consumers (setmaxnreg)",
        change: "regs=24/240",
      },
      { name: "multicast", summary: "two CTAs multicast B", change: "cluster=2x1 multicast=b" },
      {
        name: "other",
        summary: "two CTAs multicast A instead",
        change: "cluster=1x2 multicast=a",
      },
    ],
  },
];
