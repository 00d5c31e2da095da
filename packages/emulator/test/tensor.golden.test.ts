/** Kernels with tensor cores: the GPU's bits, and right numbers without findings. */
import { describe, expect, test } from "vitest";
import { fromF16, toF16 } from "../src/numerics/floats.ts";
import { clean, fixture, fixtureBytes, generator, machine, orders } from "./support.ts";

const halves = (count: number, next: () => number): Uint16Array =>
  Uint16Array.from({ length: count }, () => toF16(Math.fround(next())));

describe("mma_f16, which ran on an H200", () => {
  const [m, n, k] = [256, 256, 512];
  const next = generator(7);
  const a = halves(m * k, () => next() - 0.5);
  const b = halves(n * k, () => next() - 0.5);
  const golden = fixtureBytes("golden/mma_f16.f32");

  test("gives the GPU's 65 536 words bit for bit with the arithmetic of sm_90, in all three orders", () => {
    const device = machine(fixture("golden/mma_f16.ptx"));
    const c = device.blank(m * n * 4);
    const [pa, pb] = [device.put(a), device.put(b)];
    for (const order of orders) {
      device.emulator.write(c, new Uint8Array(m * n * 4).fill(0x7f));
      const params = [pa, pb, c, m, n, k];
      const report = device.launch("mma_f16", [n / 128, m / 128, 1], 128, params, {
        order,
        arithmetic: "sm_90",
      });
      clean(report);
      expect(Buffer.compare(device.emulator.read(c, m * n * 4), golden), order).toBe(0);
    }
  });
});

describe("best_mma_cpasync_128x256x64: 3 stages of cp.async, ldmatrix.x4, m16n8k16", () => {
  const text = fixture("golden/best_mma_cpasync_128x256x64.ptx");
  const run = (ptx: string, shape: readonly [number, number, number], seed: number, value: () => number) => {
    const [m, n, k] = shape;
    const device = machine(ptx);
    const a = halves(m * k, value);
    const b = halves(n * k, value);
    const [pa, pb] = [device.put(a), device.put(b)];
    return orders.map((order) => {
      const c = device.blank(m * n * 2);
      const tiles = (m / 128) * (n / 256);
      const params = [pa, pb, c, m, n, k];
      const report = device.launch("cp_S3_once", tiles, 256, params, { order, seed, dynamicSmem: 3 * 49152 });
      return { order, report, a, b, c: report.completed ? device.u16(c, m * n) : new Uint16Array(m * n) };
    });
  };
  /** Largest |error| in units of the bound of emulator results against exact sums. */
  const worst = (
    shape: readonly [number, number, number],
    a: Uint16Array,
    b: Uint16Array,
    c: Uint16Array,
  ) => {
    const [m, n, k] = shape;
    let most = 0;
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        let [sum, magnitude] = [0, 0];
        for (let q = 0; q < k; q++) {
          const product = fromF16(a[i * k + q] ?? 0) * fromF16(b[j * k + q] ?? 0);
          sum += product;
          magnitude += Math.abs(product);
        }
        // Truncated steps of 16, and the rounding of the result to f16.
        const bound = (k / 16 + 8) * 2 ** -23 * magnitude + 2 ** -11 * Math.abs(sum) + 2 ** -25;
        const error = Math.abs(fromF16(c[i * n + j] ?? 0) - sum);
        most = Math.max(most, Number.isNaN(error) ? Number.POSITIVE_INFINITY : error / bound);
      }
    return most;
  };

  test("multiplies integers exactly and random numbers within the bound, clean in all three orders", () => {
    const next = generator(11);
    const integer = (): number => Math.floor(next() * 3) - 1;
    for (const shape of [
      // Fewer chunks than stages would read ahead into stages that nothing was copied to.
      [128, 256, 192],
      [128, 512, 320],
    ] as const)
      for (const { report, a, b, c } of run(text, shape, 3, integer)) {
        clean(report);
        expect(report.counters.sharedConflicts).toBe(0);
        const [m, n, k] = shape;
        const want = Float64Array.from({ length: m * n }, (_, at) => {
          let sum = 0;
          const [row, column] = [Math.floor(at / n) * k, (at % n) * k];
          for (let q = 0; q < k; q++) sum += fromF16(a[row + q] ?? 0) * fromF16(b[column + q] ?? 0);
          return sum;
        });
        expect(Float64Array.from(c, fromF16)).toEqual(want);
      }
    const shape = [128, 256, 256] as const;
    const results = run(text, shape, 4, () => next() - 0.5);
    const bits = results.map(({ c }) => Buffer.from(c.buffer).toString("base64"));
    expect(new Set(bits).size).toBe(1);
    const [first] = results;
    if (first === undefined) throw new Error("no results");
    expect(worst(shape, first.a, first.b, first.c)).toBeLessThan(1);
  });

  const mutants: readonly (readonly [string, RegExp, string, RegExp])[] = [
    ["no wait before the first stage is read", /cp\.async\.wait_group 1;/, "", /^H01[35]/],
    ["waits for one group too few", /cp\.async\.wait_group 1;/g, "cp.async.wait_group 2;", /^H01[35]/],
    ["fragments of A transposed", /m8n8\.x4(\.shared\.b16 \{%a0_0_0)/, "m8n8.x4.trans$1", /^numbers/],
    ["two registers of a fragment swapped", /\{%a0_0_0,%a0_0_1,/, "{%a0_0_1,%a0_0_0,", /^numbers/],
    ["no barrier in the loop", /(LOOP:[\s\S]*?)bar\.sync 0;/, "$1", /^H01/],
    ["a fragment address off by two bytes", /(ldmatrix[^;]*\[%x[AB])\+0\]/, "$1+2]", /^H004/],
    ["a fragment of the next row", /(ldmatrix[^;]*\[%x[AB])\+2048\]/, "$1+2176]", /^numbers/],
    ["mma by half of the warp", /(mma\.sync)/, "setp.lt.u32 %pa, %lane, 16; @%pa $1", /^H0(23|30)/],
  ];
  test.each(mutants)("mutant: %s", (_name, pattern, replacement, found) => {
    const mutated = text.replace(pattern, replacement);
    expect(mutated).not.toBe(text);
    const next = generator(5);
    const shape = [128, 256, 256] as const;
    const verdicts = run(mutated, shape, 9, () => next() - 0.5).flatMap(({ report, a, b, c }) => [
      ...report.findings.map((f) => f.rule as string),
      ...(worst(shape, a, b, c) > 1 ? ["numbers"] : []),
    ]);
    expect(
      verdicts.some((v) => found.test(v)),
      `${[...new Set(verdicts)]}`,
    ).toBe(true);
  });
});
