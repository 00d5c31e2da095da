/** Kernels in tensor memory, built up: from one slot without swizzle to wide pairs that ask the launch control for tiles. */
import type { Ladder } from "@tilewright/ir";

const large = [4096, 4096, 4096] as const;

/** The steps that published Blackwell kernels took; copies, matrix instructions and epilogue are roles of their own from the first on. */
const steps: Ladder["steps"] = [
  {
    name: "tiled",
    summary:
      "one chunk at a time: with one slot the roles wait for each other; operands without a swizzle in boxes of 16 bytes a row",
    change:
      "tile=128x128x64 ctaGroup=1 stages=1 swizzle=none accumulators=1 sched=tiles raster=row loadColumns=8 earlyAccumulatorRelease=off epi=direct storeElements=2 guards=off",
  },
  {
    name: "swizzled",
    summary: "rows of 128 bytes: one TMA box per operand, no bank conflicts",
    change: "swizzle=128B",
  },
  {
    name: "pipelined",
    summary: "warp-specialised: copies run four chunks ahead of the matrix instructions",
    change: "stages=4",
  },
  {
    name: "stores",
    summary: "accumulators 32 columns a load, D 16 bytes a store, no predicates inside",
    change: "loadColumns=32 storeElements=8 guards=on",
  },
  {
    name: "persistent",
    summary: "persistent CTAs; two accumulators, each released after its last load",
    change: "sched=persistent accumulators=2 earlyAccumulatorRelease=on",
  },
  {
    name: "bulk stores",
    summary: "D through swizzled shared memory, by TMA stores that overlap the next tile",
    change: "epi=tma storeStages=2",
  },
  {
    name: "clc",
    summary: "cluster launch control assigns the next work tile",
    change: "sched=clc schedulerStages=2",
  },
  { name: "multicast", summary: "two CTAs along m multicast B", change: "cluster=2x1" },
  {
    name: "pair",
    summary: "a CTA pair computes a tile; its leader issues the products",
    change: "tile=256x128x64 ctaGroup=2 cluster=1x1",
  },
  { name: "wide pair", summary: "256 columns: all of tensor memory", change: "tile=256x256x64" },
  { name: "raster", summary: "a rasterisation of 8 tile rows, for reuse in L2", change: "raster=grouped:8" },
  {
    name: "macro tile",
    summary: "512 rows: the pair's two accumulators share B",
    change: "tile=512x256x64 accumulators=1 stages=4",
  },
];

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
