import { defineProblem, findGpu, type Problem } from "@tilewright/core";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  kernelOf,
  type ModelKernel,
  machineOf,
  machines,
  plainKernel,
  predict,
} from "../../src/model/index.ts";
import { fixture, parse } from "../tile/support/fixtures.ts";
import { columnOf, factorOf, median, pointsOf, rankCorrelation } from "./compare.ts";
import { ladders } from "./ladders.ts";
import { measured } from "./measured.ts";
import { page, tables } from "./page.ts";

function f16(m: number, n: number, k: number): Problem {
  const problem = defineProblem({ m, n, k, a: { dtype: "f16" }, b: { dtype: "f16", layout: "col" } });
  if (!problem.ok) throw new TypeError("not a problem");
  return problem.value;
}

const machine = (gpu: string) => {
  const found = machines.find((each) => each.gpu === gpu);
  if (found === undefined) throw new RangeError(gpu);
  return found;
};

/** Pairs of 256 x 256 with everything on. */
const full: ModelKernel = {
  ...plainKernel("tcgen05", [256, 256, 64], [128, 256]),
  unit: 2,
  stages: 6,
  specialised: true,
  sched: "clc",
  overlap: true,
  raster: { kind: "grouped", group: 8 },
};

describe("published ladders", () => {
  for (const ladder of ladders.filter(({ steps }) => steps.length > 2))
    it(`${ladder.name}: ranks agree`, () => {
      expect(rankCorrelation(pointsOf(ladder))).toBeGreaterThanOrEqual(0.9);
    });

  it("the f16 ladders are within a factor of 1.7, half of them within 1.2", () => {
    const points = ladders.filter(({ gpu, dtype }) => gpu === "B200" && dtype !== "mxf8").flatMap(pointsOf);
    expect(Math.max(...points.map(factorOf))).toBeLessThan(1.7);
    expect(median(points.map(factorOf))).toBeLessThan(1.2);
  });
});

describe("measured on an H200", () => {
  const limits: Readonly<Record<string, readonly [median: number, worst: number]>> = {
    "wgmma, tiles": [1.05, 1.35],
    "wgmma, one change at a time": [1.05, 1.2],
    "mma.sync": [1.08, 1.25],
    "FFMA (backend-simt)": [1.2, 1.6],
  };
  for (const each of measured)
    it(each.name, () => {
      const factors = each.sizes.flatMap((_, i) => columnOf(each, i)).map(factorOf);
      const [middle, worst] = limits[each.name] ?? [1, 1];
      expect(median(factors)).toBeLessThan(middle);
      expect(Math.max(...factors)).toBeLessThan(worst);
    });

  it("picks a tile of wgmma that is within 5 % of the best measured, at all fourteen sizes", () => {
    const [tiles] = measured;
    if (tiles === undefined) throw new RangeError("tiles");
    for (const [i, [m, n, k]] of tiles.sizes.entries()) {
      const points = columnOf(tiles, i);
      const pick = points.reduce((best, point) =>
        point.prediction.tflops > best.prediction.tflops ? point : best,
      );
      const most = Math.max(...points.map(({ figure }) => figure));
      expect(pick.figure / most, `${m} x ${n} x ${k}: ${pick.name}`).toBeGreaterThan(0.95);
    }
  });
});

it("docs/perf/model.md and its tables are what the model says", async () => {
  await expect(page()).toMatchFileSnapshot("../../../../docs/perf/model.md");
  await expect(tables()).toMatchFileSnapshot("../../../../docs/perf/model-tables.md");
});

describe("predict", () => {
  it("never beats the tensor rate at boost, nor DRAM", () => {
    const size = fc.integer({ min: 1, max: 40 }).map((n) => n * 200);
    fc.assert(
      fc.property(size, size, size, fc.constantFrom("B200", "B300"), (m, n, k, gpu) => {
        const { sms, boostGHz, memoryGBs, flopsPerCycle } = machine(gpu);
        const { timeUs, tflops } = predict(f16(m, n, k), full, machine(gpu));
        expect(tflops).toBeLessThan((sms * boostGHz * (flopsPerCycle.tcgen05 ?? 0)) / 1e3);
        expect(timeUs).toBeGreaterThan((2 * (m * k + n * k + m * n)) / (memoryGBs * 1e3));
      }),
    );
  });

  it("a further stage, a role of its own, overlap and wider stores never cost time", () => {
    const better: readonly Partial<ModelKernel>[] = [
      { specialised: true },
      { storeBytes: 32 },
      { boxBytes: 128 },
    ];
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.constantFrom(16, 32),
        fc.integer({ min: 0, max: better.length - 1 }),
        fc.constantFrom(1000, 4096),
        (stages, narrow, which, size) => {
          const base: ModelKernel = {
            ...full,
            stages,
            specialised: false,
            storeBytes: narrow,
            boxBytes: narrow,
          };
          const time = (change: Partial<ModelKernel>) =>
            predict(f16(size, size, size), { ...base, ...change }, machine("B200")).timeUs;
          // The clock is found by bisection to a part in a million.
          const slack = 1 + 1e-5;
          expect(time({ stages: stages + 1 })).toBeLessThanOrEqual(time({}) * slack);
          expect(time(better[which] ?? {})).toBeLessThanOrEqual(time({}) * slack);
          expect(time({ overlap: true })).toBeLessThanOrEqual(time({ overlap: false }) * slack);
        },
      ),
    );
  });

  it("stays under the power cap, at boost where it can", () => {
    const large = predict(f16(8192, 8192, 8192), full, machine("B200"));
    expect(large.watts).toBeLessThanOrEqual(1000);
    expect(large.watts).toBeGreaterThan(995);
    expect(large.ghz).toBeLessThan(1.6);
    const small = predict(f16(256, 256, 4096), full, machine("B200"));
    expect(small.ghz).toBe(1.965);
    expect(small.watts).toBeLessThan(400);
  });

  it("names what limits a kernel", () => {
    const b200 = machine("B200");
    const problem = f16(4096, 4096, 4096);
    expect(predict(problem, full, b200).bound).toBe("multiply");
    expect(predict(problem, { ...full, stages: 1 }, b200).bound).toBe("ring");
    expect(predict(problem, { ...full, boxBytes: 16 }, b200).bound).toBe("copy engine");
    expect(
      predict(problem, { ...full, unit: 1, tile: [128, 128, 64], instruction: [128, 128] }, b200).bound,
    ).toBe("L2");
    expect(predict(f16(128, 16384, 1024), full, b200).bound).not.toBe("copy engine");
    expect(predict(f16(16384, 16384, 64), full, b200).bound).toBe("DRAM");
  });

  it("splits K where there are few tiles", () => {
    const few = f16(256, 256, 65536);
    const time = (split: number) => predict(few, { ...full, split }, machine("B200")).timeUs;
    expect(time(8)).toBeLessThan(time(1) / 4);
  });

  it("the last block takes up all parts, atomics their sum, a second kernel what many blocks have left", () => {
    const time = (split: number, combine: "last" | "atomics" | "kernel") =>
      predict(f16(256, 256, 65536), { ...full, split, combine }, machine("B200")).timeUs;
    expect(time(64, "atomics")).toBeLessThan(time(64, "last"));
    expect(time(64, "kernel")).toBeLessThan(time(64, "last"));
    expect(time(2, "last")).toBeLessThan(time(2, "kernel"));
    for (const by of ["last", "atomics", "kernel"] as const) expect(time(1, by)).toBe(time(1, "last"));
  });

  it("an engine that the machine lacks is a bug of the caller", () => {
    expect(() => predict(f16(64, 64, 64), { ...full, engine: "wgmma" }, machine("B200"))).toThrow(RangeError);
  });
});

describe("kernelOf", () => {
  it("reads tile, ring, ownership, copies and raster off a bound program", () => {
    expect(kernelOf(parse(fixture("bound")), 3)).toEqual({
      ...plainKernel("fma", [16, 16, 4], [2, 2]),
      addend: "direct",
      threads: 64,
      stages: 3,
      copyVector: [1, 1],
      residents: 3,
      storeBytes: 32,
    });
  });

  it("has nothing to say of a program without owners, or with an atom that it does not know", () => {
    expect(kernelOf(parse(fixture("nest")), 1)).toBeNull();
    expect(kernelOf(parse(fixture("bound").replace("atom fma", "atom other")), 1)).toBeNull();
  });
});

it("machines are GPUs of the table, with its numbers", () => {
  for (const { gpu, sms, boostGHz, memoryGBs, l2Bytes } of machines) {
    const found = findGpu(gpu);
    if (!found.ok) throw new TypeError(gpu);
    expect(machineOf(found.value)).not.toBeNull();
    const { boostMHz } = found.value;
    expect({ sms, boost: boostGHz * 1000, memoryGBs, l2Bytes }).toEqual({
      sms: found.value.sms,
      boost: boostMHz,
      memoryGBs: found.value.memoryGBs,
      l2Bytes: found.value.l2Bytes,
    });
  }
});
