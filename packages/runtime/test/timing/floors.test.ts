/** Floors and peaks against arithmetic done by hand. */
import { gpus, type Problem, readProblemRequest } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { floorOf, flopsPerClock, gpuByDeviceName, peakAtClock } from "../../src/timing/floors.ts";

const problem = (m: number, n: number, k: number, dtype = "f32"): Problem => {
  const made = readProblemRequest({ m, n, k, dtype });
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  return made.value;
};
const h200 = { name: "NVIDIA H200", numSms: 132, l2Bytes: 50 * 2 ** 20, memoryGBs: 4800, maxClockMHz: 1980 };

test("device names of the driver find their row", () => {
  const names = [
    "NVIDIA H200",
    "NVIDIA H100 80GB HBM3",
    "NVIDIA H100 PCIe",
    "NVIDIA A100-SXM4-40GB",
    "Tesla V100-SXM2-16GB",
  ];
  expect(names.map((name) => gpuByDeviceName(name)?.name)).toEqual([
    "H200",
    "H100 SXM",
    "H100 PCIe",
    "A100 SXM",
    "V100 SXM2",
  ]);
  expect(gpuByDeviceName("NVIDIA Z9000")).toBeNull();
});

test("f32 in three products of tf32 has a third of their peak, not that of the cores", () => {
  const parts = { ...problem(8192, 8192, 8192), precision: "3xtf32" } as const;
  const [whole, third] = [problem(8192, 8192, 8192, "tf32"), parts].map(
    (p) => floorOf(p, h200, 2 ** 40).flopUs,
  );
  expect(third).toBeCloseTo(3 * (whole ?? 0), 6);
  // 67 TFLOP/s of the cores would be 16.4 ms, which kernels were measured below.
  expect(third).toBeLessThan(8000);
});

describe("FLOP per clock", () => {
  test.each([
    ["V100 SXM2", "f16", 1024],
    ["A100 SXM", "bf16", 2048],
    ["H200", "f32", 256],
    ["H200", "bf16", 4096],
    ["H200", "tf32", 2048],
    ["H200", "e4m3", 8192],
    ["B200", "bf16", 8192],
    ["B300", "mxf4", 49_152],
  ])("%s, %s: %i in a multiprocessor", (name, dtype, expected) => {
    const gpu = gpus.find((one) => one.name === name);
    expect(gpu && flopsPerClock(gpu, dtype)).toBe(expected);
  });

  test("every datasheet peak is within 9 % of what its units do at the table's clock", () => {
    for (const gpu of gpus)
      for (const [dtype, peak] of Object.entries(gpu.peakTflops)) {
        const made = ((flopsPerClock(gpu, dtype) ?? 0) * gpu.sms * gpu.boostMHz) / 1e6;
        expect(Math.abs(Math.log(made / peak)), `${gpu.name} ${dtype}`).toBeLessThan(0.09);
      }
  });

  test("the peak follows the clock", () => {
    expect(peakAtClock(h200, "f32", 1980)).toBeCloseTo(66.9, 1);
    expect(peakAtClock(h200, "bf16", 1500)).toBeCloseTo(811, 0);
    expect(peakAtClock({ ...h200, name: "NVIDIA Z9000" }, "f32", 1980)).toBeNull();
  });
});

describe("floors", () => {
  test("4096^3 in fp32 is bound by FLOP: 2.05 ms at 66.9 TFLOP/s", () => {
    const floor = floorOf(problem(4096, 4096, 4096), h200, 2 ** 30);
    expect(floor.us).toBe(floor.flopUs);
    expect(floor.us).toBeCloseTo((2 * 4096 ** 3) / 66.9e6, -1);
  });

  test("a vector times a matrix is bound by bytes, of which the L2 may hold its share", () => {
    const vector = problem(1, 16384, 16384);
    const cold = floorOf(vector, h200, 1e12).us;
    expect(cold).toBeCloseTo((4 * 16384 ** 2) / 4.8e6, 0);
    // Rotating over just twice the L2, half of the reads may hit.
    expect(floorOf(vector, h200, 2 * h200.l2Bytes).us / cold).toBeCloseTo(0.5, 2);
    expect(floorOf(vector, h200, h200.l2Bytes).byteUs).toBe(0);
  });

  test("nothing is known of an unknown GPU but its memory", () => {
    const unknown = { ...h200, name: "NVIDIA Z9000" };
    expect(floorOf(problem(4096, 4096, 4096), unknown, 1e12).flopUs).toBe(0);
    expect(floorOf(problem(4096, 4096, 4096), { ...unknown, memoryGBs: 0 }, 1e12).us).toBe(0);
  });
});
