/** Tensor-core kernels, built up: from fragments loaded word by word to the pipelined kernel. */
import { type Ladder, ladderSteps } from "@tilewright/ir";

const large = [4096, 4096, 4096] as const;

export const ladders: readonly Ladder[] = [
  {
    name: "hgemm",
    summary: "f16, all matrices row-major: fragments, swizzle, stages, register pipeline, raster",
    request: { dtype: "f16" },
    sizes: { gpu: large, emulator: [256, 256, 128] },
    steps: ladderSteps(`
    direct | copies by the threads, fragments element by element | tile=128x128x64 warp=64x64 stages=1 copy=direct copyBytes=16 ldmatrix=off sharedLayout=plain frag=1 copySpread=1 drain=0 walk=rows raster=row interleave=off storeElements=1
    ldmatrix | fragments by ldmatrix.x4, B transposed on the way | ldmatrix=x4
    swizzle | rows swizzled against bank conflicts | sharedLayout=swizzle
    multistage | asynchronous copies run two chunks ahead | copy=cp.async stages=3
    pipelined | fragments of the next K step load while this one multiplies, across chunks too | frag=2
    spread | the copies of a chunk are spread over K steps | copySpread=2
    snake | a serpentine walk reuses one fragment at each turn | walk=snake-rows
    stores | a store of D moves two neighbouring elements of a lane | storeElements=2
    raster | a rasterisation of 16 tile rows, for reuse in L2 | raster=grouped:16
  `),
  },
  {
    name: "tf32",
    summary: "tf32, all matrices row-major: fragments, swizzle, stages, then tiles of 128 x 256",
    request: { dtype: "tf32" },
    sizes: { gpu: large, emulator: [256, 256, 128] },
    steps: ladderSteps(`
    direct | copies by the threads, fragments element by element | tile=128x128x16 warp=64x32 stages=1 copy=direct copyBytes=16 ldmatrix=off sharedLayout=plain frag=1 copySpread=1 drain=0 walk=rows raster=row interleave=off storeElements=1
    ldmatrix | A by ldmatrix; B has no transposing form in 32 bits and stays direct | ldmatrix=x4
    swizzle | rows swizzled against bank conflicts | sharedLayout=swizzle
    double-buffered | asynchronous copies of the next chunk | copy=cp.async stages=2
    stores | a store of D moves two neighbouring elements of a lane | storeElements=2
    multistage | three chunks ahead | stages=4
    large | tiles of 128 x 256: a third fewer bytes from shared memory per product | tile=128x256x32 warp=64x64 stages=3
    pipelined | fragments of the next K step load while this one multiplies | frag=2
    snake | a serpentine walk reuses one fragment at each turn | walk=snake-rows
    raster | a rasterisation of 8 tile rows, for reuse in L2 | raster=grouped:8
    drain | the last two chunks leave the main loop, which then needs no test for a next one | drain=2
  `),
  },
  {
    name: "hgemm-large",
    summary: "f16, B column-major, tiles of 128 x 256 x 64: the large kernel, optimisation by optimisation",
    request: { dtype: "f16", b: { layout: "col" } },
    sizes: { gpu: large, emulator: [256, 512, 192] },
    steps: ladderSteps(`
    ldmatrix | ldmatrix and swizzle, copies by the threads | tile=128x256x64 warp=64x64 stages=1 copy=direct copyBytes=16 ldmatrix=x4 sharedLayout=swizzle frag=1 copySpread=1 drain=0 walk=rows raster=row interleave=off storeElements=2
    multistage | asynchronous copies, two chunks ahead | copy=cp.async stages=3
    pipelined | fragments of the next K step load early | frag=2
    snake | a serpentine walk reuses one fragment at each turn | walk=snake-rows
    raster | a rasterisation of 8 tile rows, for reuse in L2 | raster=grouped:8
    interleave | columns of B interleaved so that a lane stores 16 bytes of D | interleave=on storeElements=8
  `),
  },
  {
    name: "hgemm-bulk",
    summary:
      "f16, B column-major, tiles of 128 x 256 x 64: from cp.async to a warp of its own for the copies",
    request: { dtype: "f16", b: { layout: "col" } },
    needs: "tma",
    sizes: { gpu: large, emulator: [256, 512, 192] },
    steps: ladderSteps(`
    cp.async | all warps copy; one barrier of the CTA per chunk | tile=128x256x64 warp=64x64 stages=3 copy=cp.async ldmatrix=x4 sharedLayout=swizzle frag=2 walk=snake-rows raster=grouped:8 interleave=off storeElements=2
    producer | a producer warp issues TMA copies; full and empty mbarriers instead of the CTA's barrier | copy=tma frag=1
    columns | the walk frees the fragments of B as it goes | walk=snake-cols
    persistent | persistent CTAs: the first chunks of the next work tile arrive during the epilogue | sched=persistent
    stages | a fourth stage | stages=4
  `),
  },
];
