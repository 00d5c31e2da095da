import { describe, expect, test } from "vitest";
import { clean, corpus, fixtureBytes, generator, machine, orders } from "./support.ts";

describe("kernels that ran on hardware", () => {
  test("simt_f32 gives the GPU's 65 536 words bit for bit, in all three orders", () => {
    const [m, n, k] = [256, 256, 512];
    const next = generator(1);
    const random = (): number => Math.fround(next() - 0.5);
    const a = Float32Array.from({ length: m * k }, random);
    const b = Float32Array.from({ length: k * n }, random);
    const device = machine(corpus("golden/simt_f32"));
    const c = device.blank(m * n * 4);
    const [pa, pb] = [device.put(a), device.put(b)];
    const golden = fixtureBytes("golden/simt_f32.f32");
    for (const order of orders) {
      device.emulator.write(c, new Uint8Array(m * n * 4).fill(0x7f));
      clean(device.launch("simt_f32", [n / 128, m / 128, 1], 256, [pa, pb, c, m, n, k], { order }));
      expect(Buffer.compare(device.emulator.read(c, m * n * 4), golden), order).toBe(0);
    }
  });

  const gemms = [
    { file: "best_simt_sm70_plain", shared: 20480, grid: (tiles: number) => tiles, streamK: false },
    { file: "best_simt_sm80_plain", shared: 66560, grid: (tiles: number) => tiles, streamK: false },
    // Fewer blocks than tiles, and not a divisor: tiles are cut and their parts handed over by flags in global memory.
    { file: "best_simt_sm70_streamk", shared: 20480, grid: () => 3, streamK: true },
  ];
  for (const { file, shared, grid, streamK } of gemms)
    test(`${file} multiplies integers exactly in all three orders`, () => {
      const device = machine(corpus(`hand/${file}`));
      for (const [m, n, k] of [
        [128, 128, 40],
        [256, 256, 64],
      ] as const) {
        const next = generator(m);
        const small = (): number => Math.floor(next() * 9) - 4;
        const a = Float32Array.from({ length: m * k }, small);
        const b = Float32Array.from({ length: k * n }, small);
        const want = new Float32Array(m * n);
        for (let i = 0; i < m; i++)
          for (let q = 0; q < k; q++)
            for (let j = 0; j < n; j++)
              want[i * n + j] = (want[i * n + j] ?? 0) + (a[i * k + q] ?? 0) * (b[q * n + j] ?? 0);
        const [pa, pb] = [device.put(a), device.put(b)];
        for (const order of orders) {
          const c = device.blank(m * n * 4);
          const blocks = grid((m / 128) * (n / 128));
          const extra = streamK ? [device.blank(blocks * 65536), device.put(new Uint32Array(1024))] : [];
          const report = device.launch("sgemm", blocks, 128, [pa, pb, c, m, n, k, 1, ...extra], {
            order,
            dynamicSmem: shared,
            seed: 5,
          });
          clean(report);
          expect(device.f32(c, m * n), `${m}x${n}x${k} ${order}`).toEqual(want);
        }
      }
    });
});
