/** The corpus' GEMMs for sm_90a, set up to be launched. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { TensorMapSpec } from "@tilewright/core";
import type { LaunchConfig, LaunchReport } from "../src/index.ts";
import { generator, machine, value } from "./support.ts";

export interface Gemm {
  readonly file: string;
  /** Rows and columns of C that one tile (of a cluster) makes: what the kernel's first two counts are in. */
  readonly tile: readonly [number, number];
  /** Rows of the boxes of A and B; each is 64 wide, as C's, which has 64 rows. */
  readonly boxes: readonly [number, number];
  readonly threads: number;
  readonly cluster: 1 | 2;
  /** The warpgroups take turns by a named barrier, and the last one to pass leaves its arrival for a turn that never comes. */
  readonly turns?: true;
  /** Its blocks leave by a relaxed arrival, which does not cover the last slots that they give back to each other. */
  readonly leaves?: true;
}

export const gemms: readonly Gemm[] = [
  { file: "skel_sm90_wgmma_ws", tile: [256, 256], boxes: [128, 128], threads: 384, cluster: 2 },
  { file: "best_sm90_128x256_nocluster", tile: [128, 256], boxes: [128, 256], threads: 288, cluster: 1 },
  {
    file: "best_sm90_128x256_cluster2",
    tile: [256, 256],
    boxes: [128, 128],
    threads: 288,
    cluster: 2,
    leaves: true,
  },
  { file: "best_sm90_64x128_small", tile: [64, 128], boxes: [64, 128], threads: 288, cluster: 1 },
  {
    file: "best_sm90_pingpong_128x128",
    tile: [128, 128],
    boxes: [128, 128],
    threads: 288,
    cluster: 1,
    turns: true,
  },
  {
    file: "best_sm90_pingpong_128x192",
    tile: [128, 192],
    boxes: [128, 192],
    threads: 384,
    cluster: 1,
    turns: true,
  },
];

/** All that a block of sm_90 may have. */
const dynamicSmem = 227 * 1024;

/** bf16 of a small integer: the upper half of the f32. */
const bf16 = (x: number): number => (new Uint32Array(Float32Array.of(x).buffer)[0] ?? 0) >>> 16;

const map = (address: bigint, rows: number, columns: number, box: number): TensorMapSpec => ({
  dtype: "bf16",
  address,
  dims: [columns, rows],
  strides: [columns * 2],
  box: [64, box],
  elementStrides: [1, 1],
  interleave: "none",
  swizzle: "128B",
  l2: "none",
  fill: "zero",
});

/** A GEMM on a device of its own: how to launch it, and what C has to be. */
export function hopperGemm({ file, tile, boxes, threads, cluster }: Gemm, edit = (ptx: string) => ptx) {
  const path = new URL(`../../ptx/test/corpus/hand/${file}.ptx`, import.meta.url);
  const device = machine(edit(readFileSync(fileURLToPath(path), "utf8")));
  // Two tiles for each block, or pair, and more chunks of K than stages.
  const [m, n, k] = [tile[0] * 2, tile[1], 64 * 9];
  const next = generator(m + n);
  const small = (count: number): Float32Array =>
    Float32Array.from({ length: count }, () => Math.floor(next() * 3) - 1);
  const [a, b] = [small(m * k), small(n * k)];
  const want = new Float32Array(m * n);
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let q = 0; q < k; q++) sum += (a[i * k + q] ?? 0) * (b[j * k + q] ?? 0);
      want[i * n + j] = sum;
    }
  const c = device.blank(m * n * 2);
  const encoded = (spec: TensorMapSpec): Uint8Array => value(device.emulator.encodeTensorMap(spec));
  const maps = [
    encoded(map(device.put(Uint16Array.from(a, bf16)), m, k, boxes[0])),
    encoded(map(device.put(Uint16Array.from(b, bf16)), n, k, boxes[1])),
    encoded(map(c, m, n, 64)),
  ];
  const launch = (rest: Partial<LaunchConfig>): LaunchReport => {
    device.emulator.write(c, new Uint8Array(m * n * 2).fill(0xff));
    return device.launch("gemm", cluster, threads, [...maps, m / tile[0], n / tile[1], k / 64], {
      dynamicSmem,
      ...(cluster === 1 ? {} : { cluster: [2, 1, 1] as const }),
      ...rest,
    });
  };
  return { launch, result: () => device.u16(c, m * n), want: Uint16Array.from(want, bf16) };
}
