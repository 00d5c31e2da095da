/** Kernels with tensor cores: the GPU's bits, and right numbers without findings. */
import { describe, expect, test } from "vitest";
import { fromF16, toF16 } from "../src/numerics/floats.ts";
import { clean, corpus, fixtureBytes, generator, machine, orders } from "./support.ts";

const halves = (count: number, next: () => number): Uint16Array =>
  Uint16Array.from({ length: count }, () => toF16(Math.fround(next())));

describe("mma_f16, which ran on an H200", () => {
  const [m, n, k] = [256, 256, 512];
  const next = generator(7);
  const a = halves(m * k, () => next() - 0.5);
  const b = halves(n * k, () => next() - 0.5);
  const golden = fixtureBytes("golden/mma_f16.f32");

  test("gives the GPU's 65 536 words bit for bit with the arithmetic of sm_90, in all three orders", () => {
    const device = machine(corpus("golden/mma_f16"));
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
  const text = corpus("hand/best_mma_cpasync_128x256x64");
  const run = (ptx: string, shape: readonly [number, number, number], seed: number, value: () => number) => {
    const [m, n, k] = shape;
    const device = machine(ptx);
    const a = halves(m * k, value);
    const b = halves(n * k, value);
    const [pa, pb] = [device.put(a), device.put(b)];
    const runs = orders.map((order) => {
      const c = device.blank(m * n * 2);
      const tiles = (m / 128) * (n / 256);
      const params = [pa, pb, c, m, n, k];
      const report = device.launch("cp_S3_once", tiles, 256, params, { order, seed, dynamicSmem: 3 * 49152 });
      return { report, c: report.completed ? device.u16(c, m * n) : new Uint16Array(m * n) };
    });
    return { a, b, runs };
  };
  /** Sums of products and of their magnitudes in double, an element of C after the other; exact for small integers. */
  const sums = ([m, n, k]: readonly [number, number, number], a: Uint16Array, b: Uint16Array) => {
    const [x, y] = [Float64Array.from(a, fromF16), Float64Array.from(b, fromF16)];
    const [exact, magnitudes] = [new Float64Array(m * n), new Float64Array(m * n)];
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        let [sum, magnitude] = [0, 0];
        for (let p = i * k, q = j * k; p < (i + 1) * k; p++, q++) {
          const product = (x[p] as number) * (y[q] as number);
          sum += product;
          magnitude += Math.abs(product);
        }
        exact[i * n + j] = sum;
        magnitudes[i * n + j] = magnitude;
      }
    return { exact, magnitudes };
  };
  /** Largest |error| in units of the bound of emulator results against exact sums. */
  const worst = ({ exact, magnitudes }: ReturnType<typeof sums>, k: number, c: Uint16Array): number => {
    let most = 0;
    for (const [at, code] of c.entries()) {
      const sum = exact[at] ?? 0;
      // Truncated steps of 16, and the rounding of the result to f16.
      const bound = (k / 16 + 8) * 2 ** -23 * (magnitudes[at] ?? 0) + 2 ** -11 * Math.abs(sum) + 2 ** -25;
      const error = Math.abs(fromF16(code) - sum);
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
    ] as const) {
      const { a, b, runs } = run(text, shape, 3, integer);
      const want = sums(shape, a, b).exact;
      for (const { report, c } of runs) {
        clean(report);
        expect(report.counters.sharedConflicts).toBe(0);
        expect(Float64Array.from(c, fromF16)).toEqual(want);
      }
    }
    const shape = [128, 256, 256] as const;
    const { a, b, runs } = run(text, shape, 4, () => next() - 0.5);
    const bits = runs.map(({ c }) => Buffer.from(c.buffer).toString("base64"));
    expect(new Set(bits).size).toBe(1);
    const [first] = runs;
    if (first === undefined) throw new Error("no results");
    expect(worst(sums(shape, a, b), shape[2], first.c)).toBeLessThan(1);
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
    const { a, b, runs } = run(mutated, shape, 9, () => next() - 0.5);
    const exact = sums(shape, a, b);
    const verdicts = runs.flatMap(({ report, c }) => [
      ...report.findings.map((f) => f.rule as string),
      ...(worst(exact, shape[2], c) > 1 ? ["numbers"] : []),
    ]);
    expect(
      verdicts.some((v) => found.test(v)),
      `${[...new Set(verdicts)]}`,
    ).toBe(true);
  });
});
