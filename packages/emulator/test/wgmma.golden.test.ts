/** Kernels of TMA, mbarriers and wgmma that ran on an H200: its 65 536 words, in all orders, without findings. */
import type { TensorMapSpec } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { toF16 } from "../src/numerics/floats.ts";
import { clean, corpus, fixtureBytes, generator, machine, orders, value } from "./support.ts";

const [m, n, k] = [256, 256, 512];

const map = (
  dtype: "f16" | "f32",
  address: bigint,
  dims: readonly [number, number],
  box: readonly [number, number],
): TensorMapSpec => ({
  dtype,
  address,
  dims,
  strides: [dims[0] * (dtype === "f16" ? 2 : 4)],
  box,
  elementStrides: [1, 1],
  interleave: "none",
  swizzle: dtype === "f16" ? "128B" : "none",
  l2: "none",
  fill: "zero",
});

interface Golden {
  readonly file: string;
  readonly grid: readonly [number, number, number];
  readonly shared: number;
  readonly bBox: number;
  readonly cluster?: readonly [number, number, number];
  /** The results leave through shared memory and a tensor map. */
  readonly stores?: boolean;
}

/** A's box is 64 by 128; 1024 bytes more of shared memory than the kernel lays out, since it aligns its start. */
const kernels: readonly Golden[] = [
  { file: "wgmma_f16", grid: [2, 2, 1], shared: 131200, bBox: 128 },
  { file: "wgmma_f16_n256", grid: [1, 2, 1], shared: 196736, bBox: 256 },
  { file: "wgmma_tmaepi", grid: [2, 2, 1], shared: 163968, bBox: 128, stores: true },
  { file: "wgmma_cluster2", grid: [2, 2, 1], shared: 131200, bBox: 64, cluster: [2, 1, 1] },
];

describe("kernels that ran on an H200", () => {
  const next = generator(7);
  const halves = (count: number): Uint16Array =>
    Uint16Array.from({ length: count }, () => toF16(Math.fround(next() - 0.5)));
  const a = halves(m * k);
  const b = halves(n * k);

  test.each(kernels)("$file", ({ file, grid, shared, bBox, cluster, stores }) => {
    const device = machine(corpus(`golden/${file}`));
    const golden = fixtureBytes(`golden/${file}.f32`);
    const c = device.blank(m * n * 4);
    const encoded = (spec: TensorMapSpec): Uint8Array => value(device.emulator.encodeTensorMap(spec));
    const maps = [
      encoded(map("f16", device.put(a), [k, m], [64, 128])),
      encoded(map("f16", device.put(b), [k, n], [64, bBox])),
      ...(stores === true ? [encoded(map("f32", c, [n, m], [128, 64]))] : []),
    ];
    for (const order of orders) {
      device.emulator.write(c, new Uint8Array(m * n * 4).fill(0x7f));
      const report = device.launch("wgmma_f16", grid, 384, [...maps, c, m, n, k], {
        order,
        seed: 11,
        dynamicSmem: shared + 1024,
        ...(cluster === undefined ? {} : { cluster }),
      });
      clean(report);
      expect(Buffer.compare(device.emulator.read(c, m * n * 4), golden), order).toBe(0);
    }
  });
});
