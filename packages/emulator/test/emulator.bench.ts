/**
 * Times of whole matrix products, with and without checks: fp32 FFMA, mma.sync, wgmma with TMA, tcgen05 by pairs of blocks; and of
 * fifty small kernel runs in one process. `npx vitest bench --project unit packages/emulator`; nothing here is asserted but that
 * the runs are clean.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { TensorMapSpec } from "@tilewright/ir";
import { test } from "vitest";
import type { LaunchConfig } from "../src/index.ts";
import { fixture, machine, value } from "./support.ts";

const corpus = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`../../ptx/test/corpus/hand/${name}`, import.meta.url)), "utf8");

type Device = ReturnType<typeof machine>;
type Checks = NonNullable<LaunchConfig["checks"]>;
/** One launch of a kernel whose buffers are in place. */
type Run = (checks: Checks) => void;

function launcher(
  device: Device,
  entry: string,
  grid: readonly [number, number, number],
  block: number,
  params: LaunchConfig["params"],
  rest: Partial<LaunchConfig> = {},
): Run {
  return (checks) => {
    const report = device.launch(entry, grid, block, params, { checks, ...rest });
    if (!report.completed || report.findings.length > 0) throw new Error(`${entry} is not clean`);
  };
}

function simt(size: number, device = machine(fixture("golden/simt_f32.ptx"))): Run {
  const data = Float32Array.from({ length: size * size }, (_, k) => ((k * 7919) % 1000) / 1000 - 0.5);
  const [a, b, c] = [device.put(data), device.put(data), device.blank(size * size * 4)];
  return launcher(device, "simt_f32", [size / 128, size / 128, 1], 256, [a, b, c, size, size, size]);
}

/** Bits of f16 or bf16 between 1 and 2 in size, both signs. */
const narrow = (size: number): Uint16Array =>
  Uint16Array.from({ length: size * size }, (_, k) => 0x3f80 | ((k * 7919) & 0x7f) | ((k & 1) << 15));

function mma(size: number): Run {
  const device = machine(fixture("golden/mma_f16.ptx"));
  const [a, b, c] = [device.put(narrow(size)), device.put(narrow(size)), device.blank(size * size * 4)];
  return launcher(device, "mma_f16", [size / 128, size / 128, 1], 128, [a, b, c, size, size, size]);
}

const map = (
  device: Device,
  dtype: "f16" | "bf16",
  address: bigint,
  size: number,
  box: readonly [number, number],
): Uint8Array => {
  const spec: TensorMapSpec = {
    dtype,
    address,
    dims: [size, size],
    strides: [2 * size],
    box,
    elementStrides: [1, 1],
    interleave: "none",
    swizzle: "128B",
    l2: "none",
    fill: "zero",
  };
  return value(device.emulator.encodeTensorMap(spec));
};

function wgmma(size: number): Run {
  const device = machine(fixture("golden/wgmma_f16.ptx"));
  const [a, b] = [device.put(narrow(size)), device.put(narrow(size))];
  const maps = [map(device, "f16", a, size, [64, 128]), map(device, "f16", b, size, [64, 128])];
  const params = [...maps, device.blank(size * size * 4), size, size, size];
  const grid = [size / 128, size / 128, 1] as const;
  return launcher(device, "wgmma_f16", grid, 384, params, { dynamicSmem: 132_224 });
}

function tcgen05(size: number): Run {
  const device = machine(corpus("skel_sm100_2cta_clc.ptx"));
  const maps = [device.put(narrow(size)), device.put(narrow(size)), device.blank(2 * size * size)].map(
    (address) => map(device, "bf16", address, size, [64, 128]),
  );
  const blocks = 2 * (size / 256) ** 2;
  const params = [...maps, size / 256, size / 64];
  return launcher(device, "gemm", [blocks, 1, 1], 224, params, { cluster: [2, 1, 1], dynamicSmem: 229_584 });
}

const products: readonly (readonly [string, (size: number) => Run, readonly number[]])[] = [
  ["simt_f32", simt, [512]],
  ["mma_f16", mma, [512]],
  ["wgmma_f16", wgmma, [512, 1024]],
  ["tcgen05 bf16, pairs of blocks", tcgen05, [512, 1024]],
];

const few = { iterations: 3, time: 0, warmupIterations: 1 };

for (const [name, make, sizes] of products)
  test(name, { timeout: 300_000 }, async ({ bench }) => {
    for (const size of sizes) {
      const run = make(size);
      await bench(`${size}^3, all checks`, () => run("all")).run(few);
      await bench(`${size}^3, no checks`, () => run("none")).run(few);
    }
  });

test("small runs", { timeout: 300_000 }, async ({ bench }) => {
  const source = fixture("golden/simt_f32.ptx");
  // A different kernel text each time, so that each is loaded and compiled anew, as tests over many schedules do.
  await bench("fifty runs at 128^3, module loaded anew, all checks", () => {
    for (let k = 0; k < 50; k++) simt(128, machine(`${source}\n// ${k}\n`))("all");
  }).run({ iterations: 1, time: 0, warmupIterations: 0 });
  await bench("load 700 instructions", () => void machine(source)).run(few);
});
