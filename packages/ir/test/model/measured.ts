/**
 * Kernels on an H200 beside cuBLAS in the same loop, random normal data: hand-made PTX (wgmma and mma.sync), and backend-simt's own first
 * table (docs/perf/simt.md). Rows of one table compare with each other; boards differ between tables. Data, not to be edited.
 */
import { type ModelKernel, plainKernel } from "../../src/model/index.ts";

type Size = readonly [m: number, n: number, k: number];
const cube = (n: number): Size => [n, n, n];

export interface Measured {
  readonly name: string;
  readonly provenance: string;
  readonly dtype: "bf16" | "f16" | "f32";
  readonly sizes: readonly Size[];
  /** cuBLAS, TFLOP/s, for each size. */
  readonly cublas: readonly number[];
  /** Ratios to cuBLAS for each size; null where there is none. */
  readonly rows: readonly (readonly [
    name: string,
    ratios: readonly (number | null)[],
    kernel: ModelKernel,
  ])[];
}

const tflops = (size: Size, us: number): number => (2 * size[0] * size[1] * size[2]) / us / 1e6;

/** Both warpgroups on one tile of m x n, 64 rows each instruction. */
const coop = (m: number, n: number, stages: number, instruction: number = n): ModelKernel => ({
  ...plainKernel("wgmma", [m, n, 64], [64, instruction]),
  stages,
  specialised: true,
  sets: 2,
  storeBox: 128,
  sched: "persistent",
  raster: { kind: "grouped", group: 16 },
});

/** Warpgroups in turn, each on a tile of its own. */
const pingPong = (m: number, n: number, stages: number): ModelKernel => ({
  ...coop(m, n, stages),
  overlap: true,
});

const tileSizes: readonly Size[] = [
  cube(4096),
  cube(8192),
  cube(2048),
  [4096, 14336, 4096],
  [8192, 8192, 1024],
  cube(1024),
  cube(1536),
  cube(3072),
  cube(5120),
  cube(6144),
  [512, 8192, 8192],
  [4096, 4096, 16384],
  [16384, 4096, 4096],
  [128, 8192, 8192],
];
const tileCublas = [
  178.6, 1371.8, 27.0, 596.6, 197.2, 8.7, 15.4, 78.2, 336.5, 567.9, 92.8, 661.0, 696.2, 39.5,
];

const tiles: Measured = {
  name: "wgmma, tiles",
  provenance: "hand-made PTX on an H200",
  dtype: "bf16",
  sizes: tileSizes,
  cublas: tileSizes.map((size, i) => tflops(size, tileCublas[i] ?? 0)),
  rows: [
    [
      "128x256",
      [1.024, 1.044, 1.006, 1.027, 1.058, 0.567, 0.748, 0.812, 0.943, 1.02, 1.014, 1.015, 1.047, 0.491],
      coop(128, 256, 4),
    ],
    [
      "128x320",
      [0.854, 1.035, 0.869, 1.027, 1.019, 0.482, 0.635, 0.923, 1.025, 0.939, 0.864, 0.869, 1.028, 0.4],
      coop(128, 320, 3, 160),
    ],
    [
      "256x192",
      [0.932, 1.021, 0.76, 0.98, 1.028, 0.425, 0.556, 0.813, 0.905, 1.025, 0.751, 0.934, 1.02, 0.339],
      coop(256, 192, 3),
    ],
    [
      "128x224",
      [0.935, 1.022, 0.667, 1.01, 1.027, 0.616, 0.818, 0.885, 1.018, 0.942, 0.652, 0.926, 0.986, 0.555],
      coop(128, 224, 4),
    ],
    [
      "128x192",
      [0.912, 1.015, 0.761, 0.976, 1.025, 0.676, 0.899, 0.995, 0.948, 0.997, 0.743, 0.906, 0.981, 0.636],
      coop(128, 192, 5),
    ],
    [
      "in turn 128x192",
      [0.931, 1.033, 0.776, 0.998, 1.106, 0.664, 0.889, 1.032, 0.964, 1.011, 0.747, 0.908, 1.013, 0.63],
      pingPong(128, 192, 4),
    ],
    [
      "in turn 128x160",
      [0.947, 0.97, 0.884, 1.008, 1.079, 0.703, 0.965, 0.917, 1.013, 0.957, 0.847, 0.911, 1.015, 0.728],
      pingPong(128, 160, 5),
    ],
    [
      "in turn 128x128",
      [0.996, 0.994, 1.03, 0.993, 1.082, 0.821, 0.763, 0.92, 0.965, 0.98, 0.985, 0.964, 1.007, 0.881],
      pingPong(128, 128, 6),
    ],
    [
      "in turn 64x256",
      [1.006, 0.988, 1.015, 1.008, 1.075, 0.803, 0.75, 0.919, 0.957, 0.975, 0.972, 0.961, 1.023, 0.822],
      pingPong(64, 256, 5),
    ],
    [
      "128x128",
      [0.986, 0.983, 1.024, 0.979, 1.046, 0.826, 0.747, 0.902, 0.954, 0.962, 0.983, 0.957, 0.994, 0.88],
      coop(128, 128, 6),
    ],
    [
      "64x128",
      [0.887, 0.597, 0.966, 0.643, 0.852, 1.063, 0.87, 0.915, 0.91, 0.634, 0.914, 0.766, 0.627, 1.016],
      coop(64, 128, 8, 64),
    ],
  ],
};

const ladderSizes: readonly Size[] = [
  cube(4096),
  cube(8192),
  cube(2048),
  [4096, 14336, 4096],
  [8192, 8192, 1024],
];
const ladderCublas = [181.0, 1398.6, 27.3, 609.9, 199.8];
const best = coop(128, 256, 4);
const changes: Measured = {
  name: "wgmma, one change at a time",
  provenance: "hand-made PTX on an H200",
  dtype: "bf16",
  sizes: ladderSizes,
  cublas: ladderSizes.map((size, i) => tflops(size, ladderCublas[i] ?? 0)),
  rows: [
    ["best", [1.027, 1.041, 1.015, 1.03, 1.059], best],
    ["cluster of 2", [1.014, 1.028, 1.01, 1.013, 1.05], { ...best, multicast: [2, 1] }],
    ["3 stages", [1.023, 1.04, 1.016, 1.026, 1.038], { ...best, stages: 3 }],
    ["2 stages", [0.797, 0.818, 1.014, 0.794, 0.814], { ...best, stages: 2 }],
    ["one block a tile", [0.97, 1.005, 1.002, 0.972, 0.925], { ...best, sched: "tiles" }],
    [
      "raster group 1",
      [1.001, 0.994, 1.005, 0.947, 1.054],
      { ...best, raster: { kind: "grouped", group: 1 } },
    ],
  ],
};

const warp = (
  m: number,
  n: number,
  k: number,
  stages: number,
  change: Partial<ModelKernel> = {},
): ModelKernel => ({
  ...plainKernel("mma", [m, n, k], [64, 64]),
  stages,
  storeBytes: 16,
  copyVector: [8, 8],
  raster: { kind: "grouped", group: 8 },
  ...change,
});
const producer: Partial<ModelKernel> = {
  specialised: true,
  sched: "persistent",
  copyVector: null,
  storeBytes: 64,
};
const wide: Partial<ModelKernel> = { storeBytes: 64 };

const warps: Measured = {
  name: "mma.sync",
  provenance: "hand-made PTX on an H200",
  dtype: "f16",
  sizes: [cube(4096), cube(8192), cube(6144), cube(2048)],
  cublas: [747.1, 768.4, 783, 611],
  rows: [
    ["producer warp, persistent, 4 stages", [0.703, 0.711, 0.691, 0.748], warp(128, 256, 64, 4, producer)],
    [
      "producer warp, one block a tile",
      [0.689, 0.7, 0.681, 0.746],
      warp(128, 256, 64, 4, { ...producer, sched: "tiles" }),
    ],
    [
      "producer warp, 128x128, 2 blocks an SM",
      [0.678, 0.669, 0.656, 0.743],
      warp(128, 128, 64, 3, { ...producer, sched: "tiles", residents: 2 }),
    ],
    ["cp.async, 3 stages", [0.667, 0.681, 0.662, 0.724], warp(128, 256, 64, 3, wide)],
    ["cp.async, 4-byte stores", [0.624, 0.657, 0.631, 0.631], warp(128, 256, 64, 4)],
    ["cp.async, BK 32, 3 stages, 4-byte stores", [0.58, 0.615, 0.591, 0.631], warp(128, 256, 32, 3)],
    ["cp.async, BK 32, 4 stages, 4-byte stores", [0.616, 0.644, 0.619, 0.628], warp(128, 256, 32, 4)],
    [
      "cp.async, 128x128, 2 blocks an SM",
      [0.641, 0.648, 0.626, 0.713],
      warp(128, 128, 64, 3, { ...wide, residents: 2 }),
    ],
    [
      "cp.async, 16 warps of 64x32",
      [0.552, 0.573, 0.554, 0.605],
      { ...warp(128, 256, 64, 3, wide), instruction: [64, 32] },
    ],
  ],
};

const thread = (
  m: number,
  n: number,
  tm: number,
  tn: number,
  residents: number,
  change: Partial<ModelKernel> = {},
): ModelKernel => ({
  ...plainKernel("fma", [m, n, 8], [tm, tn]),
  threads: (m * n) / tm / tn,
  stages: 2,
  copyVector: [4, 4],
  residents,
  raster: { kind: "grouped", group: 8 },
  ...change,
});

const threads: Measured = {
  name: "FFMA (backend-simt)",
  provenance: "first measurement of docs/perf/simt.md",
  dtype: "f32",
  sizes: [cube(1024), cube(2048), cube(4096), cube(8192)],
  cublas: [38.2, 50.5, 51.2, 51.3],
  rows: [
    ["default 128x128x8", [0.567, 1.005, 1.008, 1.012], thread(128, 128, 16, 8, 2)],
    ["raster=row", [0.566, 1.002, 1.005, 1.012], thread(128, 128, 16, 8, 2, { raster: { kind: "row" } })],
    ["stages=1", [0.441, 0.739, 0.827, 0.832], thread(128, 128, 16, 8, 2, { stages: 1 })],
    ["copyBytes=1", [0.394, 0.741, 0.722, 0.712], thread(128, 128, 16, 8, 2, { copyVector: [1, 1] })],
    ["tile=64x64x8 thread=8x8", [0.973, 0.827, 0.914, 0.947], thread(64, 64, 8, 8, 8)],
  ],
};

export const measured: readonly Measured[] = [tiles, changes, warps, threads];
