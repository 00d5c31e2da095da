/** Hopper kernels, built up: from warps that do everything to warp specialisation, large tiles and persistent CTAs. */
import { type Ladder, ladderSteps } from "@tilewright/ir";

const large = [4096, 4096, 4096] as const;
const kMajor = { b: { layout: "col" } } as const;

export const ladders: readonly Ladder[] = [
  {
    name: "hopper",
    summary:
      "bf16, A row-major and B column-major: wgmma, TMA by a producer warp, 128x256 tiles, TMA stores, persistent CTAs",
    request: { dtype: "bf16", ...kMajor },
    sizes: { gpu: large, emulator: [256, 256, 128] },
    steps: ladderSteps(`
    threads | one warpgroup copies, synchronises and multiplies by wgmma | tile=64x128x64 warpgroups=1x1 stages=1 copy=direct regs=none swizzle=128B cluster=1x1 multicast=off raster=row sched=tiles peel=off epi=direct storeElements=2 guards=on
    bulk | a producer warp issues TMA copies into a pipeline of four stages | copy=tma stages=4
    two groups | two consumer warpgroups cooperate on a tile of 128 x 128 | tile=128x128x64 warpgroups=2x1
    wide | 128 x 256: the widest instruction, the fewest operand bytes per product | tile=128x256x64
    store | D through swizzled shared memory, by TMA stores | epi=tma
    persistent | persistent CTAs: the copies of the next work tile run during the epilogue | sched=persistent
    raster | a rasterisation of 16 tile rows, for reuse in L2 | raster=grouped:16
    peel | the first K chunk overwrites the accumulator instead of a fill | peel=on
  `),
  },
  {
    name: "cluster",
    summary: "bf16 as above: what clusters and register budgets change",
    request: { dtype: "bf16", ...kMajor },
    sizes: { gpu: large, emulator: [256, 512, 128] },
    steps: ladderSteps(`
    alone | the default: no cluster, one producer warp | tile=128x256x64
    budgets | a producer warpgroup gives its registers to the consumers (setmaxnreg) | regs=24/240
    multicast | two CTAs multicast B | cluster=2x1 multicast=b
    other | two CTAs multicast A instead | cluster=1x2 multicast=a
  `),
  },
];
