/** The SIMT kernel, built up: from one element a thread in global memory to double-buffered register tiles. */
import { type Ladder, ladderSteps } from "@tilewright/ir";

export const ladders: readonly Ladder[] = [
  {
    name: "sgemm",
    summary: "fp32 from one element a thread to stream-K over register tiles",
    request: { dtype: "f32" },
    sizes: { gpu: [4096, 4096, 4096], emulator: [256, 256, 64] },
    steps: ladderSteps(`
    naive | a thread computes one element from global memory | tile=16x16x8 thread=1x1 lanes=4x8 strip=1x1 stagedOperands=off stages=1 registerPrefetch=off frag=1 copyElements=1 sharedLayout=plain walk=rows raster=row storeElements=1
    tiled | operands are staged in shared memory | stagedOperands=ab
    register-tiled | a thread accumulates 16 x 8 elements | tile=128x128x8 thread=16x8 strip=4x4
    vectorised | loads and stores of shared memory move 16 bytes | copyElements=4
    conflict-free | padding against bank conflicts | sharedLayout=pad
    double-buffered | the next chunk and the next fragments load while this one multiplies | stages=2 registerPrefetch=on frag=2
    raster | a rasterisation of 8 tile rows, for reuse in L2 | raster=grouped:8
    snake | each run of multiply-adds begins with the operand that the one before ended with | walk=snake-rows
    order | multiply-adds in an order for which ptxas finds good register banks | walkLines=flip walkAlong=up:4 operandOrder=ba
    drain | the last chunk is peeled: no predicates in the main loop | drain=1
    stream-K | all CTAs of a wave divide the tiles of the last wave along K | streamk=264
  `),
  },
  {
    name: "sgemm-async",
    summary: "the same tiles filled by cp.async, as they are by default from sm_80 on",
    needs: "cp.async",
    request: { dtype: "f32" },
    sizes: { gpu: [4096, 4096, 4096], emulator: [256, 256, 64] },
    steps: ladderSteps(`
    ring | cp.async fills four stages, all copies of a chunk issued together | tile=128x128x8 thread=16x8 strip=4x4 stagedOperands=ab stages=4 copy=cp.async registerPrefetch=off frag=2 copySpread=1 copyElements=4 sharedLayout=pad walk=snake-rows raster=grouped:16 storeElements=1
    spread | a few copies before each of the first K steps | copySpread=5
    drain | the last chunks are peeled: no predicates in the main loop | drain=2
    order | multiply-adds in an order for which ptxas finds good register banks | walkLines=down walkAlong=flip:4
    stream-K | all CTAs of a wave divide the tiles of the last wave along K | streamk=264
  `),
  },
];
