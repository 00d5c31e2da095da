/** The SIMT kernel, built up: from one element a thread in global memory to double-buffered register tiles. */
import type { Ladder } from "@tilewright/ir";

export const ladders: readonly Ladder[] = [
  {
    name: "sgemm",
    summary: "fp32 from one element a thread to double-buffered register tiles",
    request: { dtype: "f32" },
    sizes: { gpu: [4096, 4096, 4096], emulator: [256, 256, 64] },
    steps: [
      {
        name: "naive",
        summary: "a thread makes one element from global memory",
        change:
          "tile=16x16x8 thread=1x1 lanes=4x8 strip=1x1 stage=off stages=1 prefetch=off frag=1 vec=1 smem=plain walk=rows raster=row store=1",
      },
      { name: "tiled", summary: "operands pass through shared memory", change: "stage=ab" },
      {
        name: "register-tiled",
        summary: "a thread accumulates 16 x 8 elements",
        change: "tile=128x128x8 thread=16x8 strip=4x4",
      },
      { name: "vectorised", summary: "loads and stores of shared memory move 16 bytes", change: "vec=4" },
      { name: "conflict-free", summary: "padding against bank conflicts", change: "smem=pad" },
      {
        name: "double-buffered",
        summary: "the next chunk and the next fragments load while this one multiplies",
        change: "stages=2 prefetch=on frag=2",
      },
      { name: "stores", summary: "stores of D move 16 bytes", change: "store=4" },
      { name: "raster", summary: "blocks that run together share tiles in L2", change: "raster=grouped:8" },
    ],
  },
];
