/** Tensor-core kernels, built up: from fragments loaded word by word to the pipelined kernel. */
import type { Ladder } from "@tilewright/ir";

const large = [4096, 4096, 4096] as const;

export const ladders: readonly Ladder[] = [
  {
    name: "hgemm",
    summary: "f16, all matrices row-major: fragments, swizzle, stages, register pipeline, raster",
    request: { dtype: "f16" },
    sizes: { gpu: large, emulator: [256, 256, 128] },
    steps: [
      {
        name: "direct",
        summary: "copies by the threads, fragments element by element",
        change:
          "tile=128x128x64 warp=64x64 stages=1 copy=direct copyBytes=16 ldmatrix=off sharedLayout=plain frag=1 copySpread=1 drain=0 walk=rows raster=row interleave=off storeElements=1",
      },
      {
        name: "ldmatrix",
        summary: "fragments by ldmatrix.x4, B transposed on the way",
        change: "ldmatrix=x4",
      },
      {
        name: "swizzle",
        summary: "rows swizzled against bank conflicts",
        change: "sharedLayout=swizzle",
      },
      {
        name: "multistage",
        summary: "asynchronous copies run two chunks ahead",
        change: "copy=cp.async stages=3",
      },
      {
        name: "pipelined",
        summary: "fragments of the next K step load while this one multiplies, across chunks too",
        change: "frag=2",
      },
      { name: "spread", summary: "the copies of a chunk are spread over K steps", change: "copySpread=2" },
      {
        name: "snake",
        summary: "a serpentine walk reuses one fragment at each turn",
        change: "walk=snake-rows",
      },
      {
        name: "stores",
        summary: "a store of D moves two neighbouring elements of a lane",
        change: "storeElements=2",
      },
      {
        name: "raster",
        summary: "a rasterisation of 16 tile rows, for reuse in L2",
        change: "raster=grouped:16",
      },
    ],
  },
  {
    name: "tf32",
    summary: "tf32, all matrices row-major, tiles of 128 x 128 x 16",
    request: { dtype: "tf32" },
    sizes: { gpu: large, emulator: [256, 256, 64] },
    steps: [
      {
        name: "direct",
        summary: "copies by the threads, fragments element by element",
        change:
          "tile=128x128x16 warp=64x32 stages=1 copy=direct copyBytes=16 ldmatrix=off sharedLayout=plain frag=1 copySpread=1 drain=0 walk=rows raster=row interleave=off storeElements=1",
      },
      {
        name: "ldmatrix",
        summary: "A by ldmatrix; B has no transposing form in 32 bits and stays direct",
        change: "ldmatrix=x4",
      },
      {
        name: "swizzle",
        summary: "rows swizzled against bank conflicts",
        change: "sharedLayout=swizzle",
      },
      {
        name: "double-buffered",
        summary: "asynchronous copies of the next chunk",
        change: "copy=cp.async stages=2",
      },
      {
        name: "raster",
        summary: "a rasterisation of 8 tile rows, for reuse in L2",
        change: "raster=grouped:8",
      },
      {
        name: "pipelined",
        summary: "fragments of the next K step load while this one multiplies",
        change: "frag=2",
      },
      {
        name: "stores",
        summary: "a store of D moves two neighbouring elements of a lane",
        change: "storeElements=2",
      },
    ],
  },
  {
    name: "hgemm-large",
    summary: "f16, B column-major, tiles of 128 x 256 x 64: the large kernel, optimisation by optimisation",
    request: { dtype: "f16", b: { layout: "col" } },
    sizes: { gpu: large, emulator: [256, 512, 192] },
    steps: [
      {
        name: "ldmatrix",
        summary: "ldmatrix and swizzle, copies by the threads",
        change:
          "tile=128x256x64 warp=64x64 stages=1 copy=direct copyBytes=16 ldmatrix=x4 sharedLayout=swizzle frag=1 copySpread=1 drain=0 walk=rows raster=row interleave=off storeElements=2",
      },
      {
        name: "multistage",
        summary: "asynchronous copies, two chunks ahead",
        change: "copy=cp.async stages=3",
      },
      { name: "pipelined", summary: "fragments of the next K step load early", change: "frag=2" },
      {
        name: "snake",
        summary: "a serpentine walk reuses one fragment at each turn",
        change: "walk=snake-rows",
      },
      {
        name: "raster",
        summary: "a rasterisation of 8 tile rows, for reuse in L2",
        change: "raster=grouped:8",
      },
      {
        name: "interleave",
        summary: "columns of B interleaved so that a lane stores 16 bytes of D",
        change: "interleave=on storeElements=8",
      },
    ],
  },
  {
    name: "hgemm-bulk",
    summary:
      "f16, B column-major, tiles of 128 x 256 x 64: from cp.async to a warp of its own for the copies",
    request: { dtype: "f16", b: { layout: "col" } },
    needs: "tma",
    sizes: { gpu: large, emulator: [256, 512, 192] },
    steps: [
      {
        name: "cp.async",
        summary: "all warps copy; one barrier of the CTA per chunk",
        change:
          "tile=128x256x64 warp=64x64 stages=3 copy=cp.async ldmatrix=x4 sharedLayout=swizzle frag=2 walk=snake-rows raster=grouped:8 interleave=off storeElements=2",
      },
      {
        name: "producer",
        summary: "a producer warp issues TMA copies; full and empty mbarriers instead of the CTA's barrier",
        change: "copy=tma frag=1",
      },
      {
        name: "columns",
        summary: "the walk frees the fragments of B as it goes",
        change: "walk=snake-cols",
      },
      {
        name: "persistent",
        summary: "persistent CTAs: the first chunks of the next work tile arrive during the epilogue",
        change: "sched=persistent",
      },
      { name: "stages", summary: "a fourth stage", change: "stages=4" },
    ],
  },
];
