/** Kernels in tensor memory, built up: from one slot without swizzle to wide pairs that ask the launch control for tiles. */
import { type Ladder, ladderSteps } from "@tilewright/ir";

const large = [4096, 4096, 4096] as const;

/** The steps that published Blackwell kernels took; copies, matrix instructions and epilogue are roles of their own from the first on. */
const steps: Ladder["steps"] = ladderSteps(`
    tiled | one chunk at a time: with one slot the roles wait for each other; operands without a swizzle in boxes of 16 bytes a row | tile=128x128x64 ctaGroup=1 stages=1 swizzle=none accumulators=1 sched=tiles raster=row loadColumns=8 earlyAccumulatorRelease=off epi=direct storeElements=2 guards=off
    swizzled | rows of 128 bytes: one TMA box per operand, no bank conflicts | swizzle=128B
    pipelined | warp-specialised: copies run four chunks ahead of the matrix instructions | stages=4
    stores | accumulators 32 columns a load, D 16 bytes a store, no predicates inside | loadColumns=32 storeElements=8 guards=on
    persistent | persistent CTAs; two accumulators, each released after its last load | sched=persistent accumulators=2 earlyAccumulatorRelease=on
    bulk stores | D through swizzled shared memory, by TMA stores that overlap the next tile | epi=tma storeStages=2
    clc | cluster launch control assigns the next work tile | sched=clc schedulerStages=2
    multicast | two CTAs along m multicast B | cluster=2x1
    pair | a CTA pair computes a tile; its leader issues the products | tile=256x128x64 ctaGroup=2 cluster=1x1
    wide pair | 256 columns: all of tensor memory | tile=256x256x64
    raster | a rasterisation of 8 tile rows, for reuse in L2 | raster=grouped:8
    macro tile | 512 rows: the pair's two accumulators share B | tile=512x256x64 accumulators=1 stages=4
  `);

export const ladders: readonly Ladder[] = [
  {
    name: "hgemm-k",
    summary: "f16, K contiguous in A and B: what each step of a Blackwell kernel is worth",
    request: { dtype: "f16", b: { layout: "col" } },
    sizes: { gpu: large, emulator: [512, 256, 192] },
    steps,
  },
  {
    name: "bf16-nn",
    summary: "bf16, all matrices row-major: N contiguous in B",
    request: { dtype: "bf16" },
    sizes: { gpu: large, emulator: [512, 256, 128] },
    steps,
  },
];
