/** The SIMT kernel, built up: from one element a thread in global memory to double-buffered register tiles. */
import type { Ladder } from "@tilewright/ir";

export const ladders: readonly Ladder[] = [
  {
    name: "sgemm",
    summary: "fp32 from one element a thread to stream-K over register tiles",
    request: { dtype: "f32" },
    sizes: { gpu: [4096, 4096, 4096], emulator: [256, 256, 64] },
    steps: [
      {
        name: "naive",
        summary: "a thread computes one element from global memory",
        change:
          "tile=16x16x8 thread=1x1 lanes=4x8 strip=1x1 stagedOperands=off stages=1 registerPrefetch=off frag=1 copyElements=1 sharedLayout=plain walk=rows raster=row storeElements=1",
      },
      { name: "tiled", summary: "operands are staged in shared memory", change: "stagedOperands=ab" },
      {
        name: "register-tiled",
        summary: "a thread accumulates 16 x 8 elements",
        change: "tile=128x128x8 thread=16x8 strip=4x4",
      },
      {
        name: "vectorised",
        summary: "loads and stores of shared memory move 16 bytes",
        change: "copyElements=4",
      },
      { name: "conflict-free", summary: "padding against bank conflicts", change: "sharedLayout=pad" },
      {
        name: "double-buffered",
        summary: "the next chunk and the next fragments load while this one multiplies",
        change: "stages=2 registerPrefetch=on frag=2",
      },
      {
        name: "raster",
        summary: "a rasterisation of 8 tile rows, for reuse in L2",
        change: "raster=grouped:8",
      },
      {
        name: "snake",
        summary: "each run of multiply-adds begins with the operand that the one before ended with",
        change: "walk=snake-rows",
      },
      {
        name: "order",
        summary: "multiply-adds in an order for which ptxas finds good register banks",
        change: "walkLines=flip walkAlong=up:4 operandOrder=ba",
      },
      {
        name: "drain",
        summary: "the last chunk is peeled: no predicates in the main loop",
        change: "drain=1",
      },
      {
        name: "stream-K",
        summary: "all CTAs of a wave divide the tiles of the last wave along K",
        change: "streamk=264",
      },
    ],
  },
  {
    name: "sgemm-async",
    summary: "the same tiles filled by cp.async, as they are by default from sm_80 on",
    needs: "cp.async",
    request: { dtype: "f32" },
    sizes: { gpu: [4096, 4096, 4096], emulator: [256, 256, 64] },
    steps: [
      {
        name: "ring",
        summary: "cp.async fills four stages, all copies of a chunk issued together",
        change:
          "tile=128x128x8 thread=16x8 strip=4x4 stagedOperands=ab stages=4 copy=cp.async registerPrefetch=off frag=2 copySpread=1 copyElements=4 sharedLayout=pad walk=snake-rows raster=grouped:16 storeElements=1",
      },
      { name: "spread", summary: "a few copies before each of the first K steps", change: "copySpread=5" },
      {
        name: "drain",
        summary: "the last chunks are peeled: no predicates in the main loop",
        change: "drain=2",
      },
      {
        name: "order",
        summary: "multiply-adds in an order for which ptxas finds good register banks",
        change: "walkLines=down walkAlong=flip:4",
      },
      {
        name: "stream-K",
        summary: "all CTAs of a wave divide the tiles of the last wave along K",
        change: "streamk=264",
      },
    ],
  },
];
