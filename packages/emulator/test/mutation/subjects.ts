/** The kernels that faults are planted in: all four generations, each at a shape that fills every stage twice. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Launch, MapRecipe } from "./launch.ts";

export type Generation = "SIMT" | "sm_80" | "sm_90a" | "sm_100a";

export interface Subject {
  readonly name: string;
  readonly generation: Generation;
  readonly text: string;
  readonly launch: Launch;
  /** Clusters at once, for kernels with cluster launch control: so few that the others are taken over. */
  readonly residentClusters?: number;
  /** A run takes so long that the tests' sample leaves out what cheaper subjects show. */
  readonly costly?: boolean;
}

const read = (path: string): string => readFileSync(fileURLToPath(new URL(path, import.meta.url)), "utf8");
const golden = (name: string): string => read(`../../../ptx/test/corpus/golden/${name}.ptx`);
const corpus = (name: string): string => read(`../../../ptx/test/corpus/hand/${name}.ptx`);

const elementBytes = { f32: 4, f16: 2, bf16: 2 } as const;

/** A matrix, row by row, in boxes. */
const matrix = (
  of: MapRecipe["of"],
  dtype: keyof typeof elementBytes,
  [columns, rows]: readonly [number, number],
  box: readonly [number, number],
  swizzle: MapRecipe["swizzle"] = "128B",
): MapRecipe => ({
  of,
  dtype,
  dims: [columns, rows],
  strides: [columns * elementBytes[dtype]],
  box,
  elementStrides: [1, 1],
  interleave: "none",
  swizzle,
  l2: "none",
  fill: "zero",
});

/**
 * B of best_mma_ws: within 32 rows the box takes rows 8t + 2j + e as 2t + e + 8j, so that a thread's results for four n8 tiles lie
 * side by side in C.
 */
const permutedRows = (n: number, k: number): MapRecipe => ({
  of: "b",
  dtype: "f16",
  dims: [k, 2, 4, 4, n / 32],
  strides: [2 * k, 16 * k, 4 * k, 64 * k],
  box: [64, 2, 4, 4, 8],
  elementStrides: [1, 1, 1, 1, 1],
  interleave: "none",
  swizzle: "128B",
  l2: "none",
  fill: "zero",
});

const simt = (): Launch => ({
  entry: "simt_f32",
  shape: [128, 128, 24],
  input: "f32",
  output: "f32",
  b: "kn",
  grid: [1, 1, 1],
  block: 256,
  dynamicSmem: 0,
  params: [{ pointer: "a" }, { pointer: "b" }, { pointer: "c" }, 128, 128, 24],
});

const ampere = (
  entry: string,
  block: number,
  shape: Launch["shape"],
  output: "f16" | "f32",
  dynamicSmem: number,
): Launch => ({
  entry,
  shape,
  input: "f16",
  output,
  b: "nk",
  grid: [1, 1, 1],
  block,
  dynamicSmem,
  params: [{ pointer: "a" }, { pointer: "b" }, { pointer: "c" }, ...shape],
});

/** Kernels with one block or one cluster of 2, operands by tensor maps and C by a pointer. */
const byMaps = (options: {
  readonly entry: string;
  readonly shape: Launch["shape"];
  readonly block: number;
  readonly boxB: number;
  readonly dynamicSmem: number;
  readonly grid?: Launch["grid"];
  readonly cluster?: Launch["cluster"];
  readonly store?: MapRecipe;
}): Launch => {
  const [m, n, k] = options.shape;
  return {
    entry: options.entry,
    shape: options.shape,
    input: "f16",
    output: "f32",
    b: "nk",
    grid: options.grid ?? [1, 1, 1],
    block: options.block,
    ...(options.cluster === undefined ? {} : { cluster: options.cluster }),
    dynamicSmem: options.dynamicSmem,
    params: [
      { map: matrix("a", "f16", [k, m], [64, 128]) },
      { map: matrix("b", "f16", [k, n], [64, options.boxB]) },
      ...(options.store === undefined ? [] : [{ map: options.store }]),
      { pointer: "c" },
      m,
      n,
      k,
    ],
  };
};

/** Kernels of the corpus in bf16 that store C through a tensor map too. */
const bf16 = (
  shape: Launch["shape"],
  block: number,
  grid: number,
  dynamicSmem: number,
  boxC: readonly [number, number],
  rest: readonly number[],
): Launch => {
  const [m, n, k] = shape;
  return {
    entry: "gemm",
    shape,
    input: "bf16",
    output: "bf16",
    b: "nk",
    grid: [grid, 1, 1],
    block,
    cluster: [2, 1, 1],
    dynamicSmem,
    params: [
      { map: matrix("a", "bf16", [k, m], [64, 128]) },
      { map: matrix("b", "bf16", [k, n], [64, 128]) },
      { map: matrix("c", "bf16", [n, m], boxC) },
      ...rest,
    ],
  };
};

export const subjects: readonly Subject[] = [
  { name: "simt_f32", generation: "SIMT", text: golden("simt_f32"), launch: simt() },
  {
    name: "mma_f16",
    generation: "sm_80",
    text: golden("mma_f16"),
    launch: ampere("mma_f16", 128, [128, 128, 128], "f32", 0),
  },
  {
    name: "best_mma_cpasync",
    costly: true,
    generation: "sm_80",
    text: corpus("best_mma_cpasync_128x256x64"),
    launch: ampere("cp_S3_once", 256, [128, 256, 320], "f16", 3 * 49152),
  },
  {
    name: "best_mma_ws",
    generation: "sm_90a",
    text: corpus("best_mma_ws_128x256x64"),
    launch: {
      ...ampere("ws", 288, [128, 256, 512], "f16", 196_672),
      params: [
        { pointer: "a" },
        { pointer: "b" },
        { pointer: "c" },
        128,
        256,
        512,
        { map: matrix("a", "f16", [512, 128], [64, 128]) },
        { map: permutedRows(256, 512) },
      ],
    },
  },
  {
    name: "wgmma_f16",
    generation: "sm_90a",
    text: golden("wgmma_f16"),
    launch: byMaps({
      entry: "wgmma_f16",
      shape: [128, 128, 512],
      block: 384,
      boxB: 128,
      dynamicSmem: 132_224,
    }),
  },
  {
    name: "wgmma_cluster2",
    generation: "sm_90a",
    text: golden("wgmma_cluster2"),
    launch: byMaps({
      entry: "wgmma_f16",
      shape: [256, 128, 512],
      block: 384,
      boxB: 64,
      dynamicSmem: 132_224,
      grid: [2, 1, 1],
      cluster: [2, 1, 1],
    }),
  },
  {
    name: "wgmma_tmaepi",
    generation: "sm_90a",
    text: golden("wgmma_tmaepi"),
    launch: byMaps({
      entry: "wgmma_f16",
      shape: [128, 128, 384],
      block: 384,
      boxB: 128,
      dynamicSmem: 164_992,
      store: matrix("c", "f32", [128, 128], [128, 64], "none"),
    }),
  },
  {
    name: "skel_sm90_wgmma_ws",
    costly: true,
    generation: "sm_90a",
    text: corpus("skel_sm90_wgmma_ws"),
    launch: bf16([512, 256, 256], 384, 2, 229_440, [64, 64], [2, 1, 4]),
  },
  {
    name: "tcgen05_1cta",
    generation: "sm_100a",
    text: corpus("tcgen05_1cta"),
    launch: byMaps({
      entry: "tcgen_f16",
      shape: [128, 256, 512],
      block: 256,
      boxB: 256,
      dynamicSmem: 197_760,
    }),
  },
  {
    name: "tcgen05_2cta",
    costly: true,
    generation: "sm_100a",
    text: corpus("tcgen05_2cta"),
    launch: byMaps({
      entry: "tcgen_f16",
      shape: [256, 256, 512],
      block: 256,
      boxB: 128,
      dynamicSmem: 132_224,
      grid: [2, 1, 1],
      cluster: [2, 1, 1],
    }),
  },
  {
    name: "skel_sm100_2cta_clc",
    generation: "sm_100a",
    text: corpus("skel_sm100_2cta_clc"),
    launch: bf16([1024, 256, 192], 224, 8, 229_584, [64, 128], [4, 3]),
    residentClusters: 1,
    costly: true,
  },
];
