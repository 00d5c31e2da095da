/**
 * Published ladders of tcgen05 kernels, as far as a step can be expressed as a schedule. `published` is the author's figure; what the
 * author does not say of a step (tile, stages) is taken to be the usual one and stands in the schedule like the rest.
 */
import type { DType } from "@tilewright/core";
import { type ModelKernel, plainKernel } from "../../src/model/index.ts";

interface Step {
  readonly name: string;
  readonly size: readonly [m: number, n: number, k: number];
  readonly kernel: ModelKernel;
  /** TFLOP/s. */
  readonly published: number;
}

export interface Ladder {
  readonly name: string;
  readonly gpu: string;
  readonly dtype: DType;
  readonly steps: readonly Step[];
  /** Published steps that are no schedule, and why they are not here. */
  readonly left: string;
}

type Change = Partial<ModelKernel>;

/** Each step is the one before with something changed. */
function ladder(
  head: Omit<Ladder, "steps"> & { readonly size: readonly [number, number, number] },
  start: ModelKernel,
  steps: readonly (readonly [
    name: string,
    published: number,
    change: Change,
    size?: readonly [number, number, number],
  ])[],
): Ladder {
  let kernel = start;
  return {
    ...head,
    steps: steps.map(([name, published, change, size]) => {
      kernel = { ...kernel, ...change };
      return { name, published, kernel, size: size ?? head.size };
    }),
  };
}

const cube = (n: number): readonly [number, number, number] => [n, n, n];

/** One block of 128 x N, K chunks of 128 bytes of f16. */
const single = (n: number): ModelKernel => plainKernel("tcgen05", [128, n, 64], [128, n]);
/** A pair on 256 x N. */
const pair = (n: number): Change => ({ tile: [256, n, 64], instruction: [128, n], unit: 2 });
/** A persistent pair of a block-scaled kind on 256 x N x K. */
const scaledPair = (n: number, k: number): Change => ({
  tile: [256, n, k],
  instruction: [128, n],
  unit: 2,
  specialised: true,
  sched: "persistent",
  overlap: true,
});
const grouped: Change = { raster: { kind: "grouped", group: 8 } };

export const ladders: readonly Ladder[] = [
  ladder(
    { name: "gau-nernst learn-cuda 02e", gpu: "B200", dtype: "bf16", size: cube(4096), left: "" },
    single(256),
    [
      ["16-byte boxes", 255, { boxBytes: 16 }],
      ["128-byte swizzled boxes", 710, { boxBytes: 128 }],
      ["pipelined", 914, { stages: 4 }],
      ["warp specialised", 1053, { specialised: true }],
      ["CTA pair", 1169, { ...pair(256), stages: 6 }],
      ["persistent, two accumulators", 1273, { sched: "persistent", overlap: true, storeBytes: 16 }],
      ["64 pairs instead of 74", 1304, { workers: 64 }],
      ["stores of 32 bytes", 1326, { storeBytes: 32 }],
    ],
  ),
  ladder(
    { name: "tilus", gpu: "B200", dtype: "f16", size: cube(8192), left: "minimal (no TMA)" },
    single(256),
    [
      ["TMA", 454, {}],
      ["pipelined", 1103, { stages: 4 }],
      ["warp specialised", 1351, { specialised: true }],
      ["grouped raster", 1416, grouped],
      ["CLC, persistent, epilogue overlapped", 1506, { sched: "clc", overlap: true }],
      ["CTA pair", 1610, { ...pair(256), stages: 6 }],
    ],
  ),
  ladder(
    { name: "ThunderKittens, educational", gpu: "B200", dtype: "bf16", size: cube(4096), left: "" },
    single(128),
    [
      ["tcgen05 + TMA", 293, {}],
      ["pipelined, warp specialised", 731, { stages: 4, specialised: true }],
      [
        "epilogue overlapped",
        1050,
        { sched: "persistent", overlap: true, tile: [128, 256, 64], instruction: [128, 256] },
      ],
      ["CTA pair", 1285, { ...pair(256) }],
      ["full kernel: 512 x 256", 1540, { tile: [512, 256, 64], ...grouped, sched: "clc" }],
    ],
  ),
  ladder(
    {
      name: "JAX Pallas (share of the tensor rate)",
      gpu: "B200",
      dtype: "f16",
      size: [4096, 8192, 4096],
      left: "",
    },
    single(256),
    [
      ["pipelined", 0.59 * 0.634 * 2250, { stages: 4, storeBytes: 8 }],
      ["warp specialised", 0.72 * 0.634 * 2250, { specialised: true }],
      ["tiled epilogue", 0.88 * 0.634 * 2250, { storeBytes: 32 }],
      ["CTA pair", 0.94 * 0.634 * 2250, { ...pair(256), stages: 6 }],
      ["persistent", 0.97 * 0.634 * 2250, { sched: "persistent" }],
      ["epilogue warpgroup", 1.0 * 0.634 * 2250, { overlap: true }],
      ["planar snake raster", 1.095 * 0.634 * 2250, grouped],
    ],
  ),
  ladder(
    { name: "cuda-oxide gemm_sol", gpu: "B200", dtype: "f16", size: cube(4096), left: "" },
    single(128),
    [
      ["128-byte swizzle", 280, { storeBytes: 4 }],
      ["warp specialised", 496, { stages: 2, specialised: true }],
      ["persistent", 542, { sched: "persistent", overlap: true }],
      ["CLC", 475, { sched: "clc-late" }],
      ["CLC, multicast, cluster barrier each chunk", 287, { multicast: [2, 2], meets: true }],
      ["CTA pair, four stages", 868, { ...pair(128), stages: 4, multicast: [1, 1], meets: false }],
      ["256 x 256", 868 * 1.5, { ...pair(256) }],
    ],
  ),
  ladder(
    { name: "Modular", gpu: "B200", dtype: "bf16", size: cube(4096), left: "four-line kernel" },
    single(256),
    [
      ["TMA, tcgen05, one stage", 300, {}],
      [
        "pair, multicast, pipelined, specialised",
        0.85 * 1763,
        { ...pair(256), stages: 5, specialised: true },
      ],
      ["CLC, double-buffered accumulators", 1772.9, { sched: "clc", overlap: true, ...grouped }],
    ],
  ),
  ...[4096, 8192].map((size) =>
    ladder(
      {
        name: `danielvegamyhre mxfp8, ${size}`,
        gpu: "B200",
        dtype: "mxf8",
        size: cube(size),
        left: "barrier addresses that went through local memory (2199 / 2370 without), Hilbert, L1::no_allocate",
      },
      { ...single(128), ...scaledPair(128, 128), stages: 4, storeBytes: 16 },
      [
        ["256 x 128", size === 4096 ? 878 : 1171, {}],
        ["N = 256, accumulators overlapped", size === 4096 ? 1444 : 1901, scaledPair(256, 128)],
        ["stores of 32 bytes", size === 4096 ? 1543 : 1956, { storeBytes: 32 }],
        ["K chunks of 256", size === 4096 ? 1790 : 2126, { ...scaledPair(256, 256), stages: 3 }],
      ],
    ),
  ),
  ladder(
    {
      name: "fast.cu nvfp4",
      gpu: "B300",
      dtype: "nvf4",
      size: cube(8192),
      left: "addresses in uniform registers (3270 before), cache hints, .reqntid, dead tail, L2 sides",
    },
    { ...single(256), ...scaledPair(256, 128), stages: 12, boxBytes: 64, overlap: false, storeBytes: 16 },
    [
      ["K chunks of 128", 5810, {}],
      ["K chunks of 256", 6680, { ...scaledPair(256, 256), overlap: false, stages: 6, boxBytes: 128 }],
      ["accumulators overlapped", 6820, { overlap: true }],
      ["stores of 32 bytes", 7330, { storeBytes: 32 }],
    ],
  ),
  ladder(
    { name: "cuda-oxide gemm_sol_final", gpu: "B300", dtype: "f16", size: cube(4096), left: "" },
    { ...single(256), ...pair(256), stages: 4, specialised: true, sched: "clc", overlap: true, ...grouped },
    [
      ["4096, 256 x 256", 1524, {}],
      ["8192, 256 x 256", 1868, {}, cube(8192)],
      ["16384, 512 x 256", 2162, { tile: [512, 256, 64], overlap: false }, cube(16384)],
    ],
  ),
  ladder(
    { name: "Triton Gluon, one block", gpu: "B200", dtype: "f16", size: cube(8192), left: "" },
    { ...single(256), stages: 4, specialised: true, sched: "persistent", overlap: true },
    [
      ["static", 1040, {}],
      ["CLC", 1081, { sched: "clc" }],
    ],
  ),
  ladder(
    { name: "Triton Gluon, pair", gpu: "B200", dtype: "f16", size: [8192, 8192, 4096], left: "" },
    { ...single(256), ...pair(256), stages: 6, specialised: true, sched: "clc", overlap: true, ...grouped },
    [
      ["K = 4096", 1444, {}],
      ["K = 8192", 1302, {}, cube(8192)],
    ],
  ),
];
