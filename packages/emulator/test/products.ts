/**
 * Whole matrix products whose time is measured: fp32 FFMA, mma.sync, wgmma with TMA, tcgen05 by pairs of blocks. Buffers and
 * tensor maps are in place; a run is one launch, which has to be clean.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Checked, TensorMapSpec } from "@tilewright/core";
import {
  createEmulator,
  type Emulator,
  type LaunchConfig,
  type LaunchPort,
  type LaunchReport,
} from "../src/index.ts";

type Checks = NonNullable<LaunchConfig["checks"]>;

/** One launch of a product, in one piece or by the threads of its device. */
export interface Product {
  launch(checks: Checks): void;
  divided(checks: Checks): Promise<void>;
}

const textOf = (path: string): string => readFileSync(fileURLToPath(new URL(path, import.meta.url)), "utf8");

function value<T>(checked: Checked<T>): T {
  if (!checked.ok) throw new Error(checked.error.map((d) => d.message).join("\n"));
  return checked.value;
}

function put(emulator: Emulator, data: Float32Array | Uint16Array): bigint {
  const pointer = value(emulator.alloc(data.byteLength));
  emulator.write(pointer, new Uint8Array(data.buffer));
  return pointer;
}

function launcher(
  emulator: Emulator,
  text: string,
  entry: string,
  config: Omit<LaunchConfig, "checks">,
): Product {
  const module = value(emulator.load(text));
  const clean = (report: Checked<LaunchReport>): void => {
    const { completed, findings } = value(report);
    if (!completed || findings.length > 0) throw new Error(`${entry} is not clean`);
  };
  return {
    launch: (checks) => clean(emulator.launch(module, entry, { ...config, checks })),
    divided: async (checks) => clean(await emulator.launchParallel(module, entry, { ...config, checks })),
  };
}

export const simtText = textOf("../../ptx/test/corpus/golden/simt_f32.ptx");

/** `text` is the kernel's, perhaps with a comment that makes it another module. */
export function simt(size: number, threads: readonly LaunchPort[] = [], text = simtText): Product {
  const emulator = createEmulator({ threads });
  const data = Float32Array.from({ length: size * size }, (_, k) => ((k * 7919) % 1000) / 1000 - 0.5);
  const [a, b, c] = [put(emulator, data), put(emulator, data), value(emulator.alloc(4 * size * size))];
  const grid = [size / 128, size / 128, 1] as const;
  return launcher(emulator, text, "simt_f32", {
    grid,
    block: [256, 1, 1],
    params: [a, b, c, size, size, size],
  });
}

/** Bits of f16 or bf16 between 1 and 2 in size, both signs. */
const narrow = (size: number): Uint16Array =>
  Uint16Array.from({ length: size * size }, (_, k) => 0x3f80 | ((k * 7919) & 0x7f) | ((k & 1) << 15));

function mma(size: number, threads: readonly LaunchPort[] = []): Product {
  const emulator = createEmulator({ threads });
  const [a, b] = [put(emulator, narrow(size)), put(emulator, narrow(size))];
  const params = [a, b, value(emulator.alloc(4 * size * size)), size, size, size];
  const grid = [size / 128, size / 128, 1] as const;
  return launcher(emulator, textOf("../../ptx/test/corpus/golden/mma_f16.ptx"), "mma_f16", {
    grid,
    block: [128, 1, 1],
    params,
  });
}

/** The map of a square matrix, boxes of 128 rows of 128 bytes. */
function mapOf(emulator: Emulator, dtype: "f16" | "bf16", address: bigint, size: number): Uint8Array {
  const spec: TensorMapSpec = {
    dtype,
    address,
    dims: [size, size],
    strides: [2 * size],
    box: [64, 128],
    elementStrides: [1, 1],
    interleave: "none",
    swizzle: "128B",
    l2: "none",
    fill: "zero",
  };
  return value(emulator.encodeTensorMap(spec));
}

function wgmma(size: number, threads: readonly LaunchPort[] = []): Product {
  const emulator = createEmulator({ threads });
  const maps = [0, 1].map(() => mapOf(emulator, "f16", put(emulator, narrow(size)), size));
  return launcher(emulator, textOf("../../ptx/test/corpus/golden/wgmma_f16.ptx"), "wgmma_f16", {
    grid: [size / 128, size / 128, 1],
    block: [384, 1, 1],
    params: [...maps, value(emulator.alloc(4 * size * size)), size, size, size],
    dynamicSmem: 132_224,
  });
}

function tcgen05(size: number, threads: readonly LaunchPort[] = []): Product {
  const emulator = createEmulator({ threads });
  const operands = [put(emulator, narrow(size)), put(emulator, narrow(size))];
  const maps = [...operands, value(emulator.alloc(2 * size * size))].map((at) =>
    mapOf(emulator, "bf16", at, size),
  );
  return launcher(emulator, textOf("../../ptx/test/corpus/hand/skel_sm100_2cta_clc.ptx"), "gemm", {
    grid: [2 * (size / 256) ** 2, 1, 1],
    block: [224, 1, 1],
    cluster: [2, 1, 1],
    params: [...maps, size / 256, size / 64],
    dynamicSmem: 229_584,
  });
}

type Make = (size: number, threads?: readonly LaunchPort[]) => Product;

/** Kernels by name, each with the cubes that are measured. */
export const products: readonly (readonly [string, Make, readonly number[]])[] = [
  ["simt_f32", simt, [512]],
  ["mma_f16", mma, [512]],
  ["wgmma_f16", wgmma, [512, 1024]],
  ["tcgen05 bf16, pairs of blocks", tcgen05, [512, 1024]],
];
