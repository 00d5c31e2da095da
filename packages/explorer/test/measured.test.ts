import { compiler } from "tilewright";
import { describe, expect, test } from "vitest";
import { ladderRun, measuredOf, parseRun } from "../src/model/measured.ts";
import { runs } from "../src/model/runs.ts";

test("a file of runs: facts, notes, and cells with commas and quotes", () => {
  const run = parseRun(
    '# Tiles\n# where: NVIDIA H200, 2026-11-22\n# gpu: H200\n# a note: kept\nsize,"a, b"\n1x2x3,"say ""x"""\n',
  );
  expect(run).toMatchObject({ title: "Tiles", where: "NVIDIA H200, 2026-11-22", notes: ["a note: kept"] });
  expect(run.rows).toEqual([{ size: "1x2x3", "a, b": 'say "x"' }]);
});

describe("what is stored", () => {
  test("bf16 with B column-major on an H200, in TFLOP/s at its intensity", () => {
    const points = measuredOf(runs, { dtype: "bf16", b: { layout: "col" } }).get("H200") ?? [];
    const square = points.find(({ size }) => size.every((each) => each === 4096));
    // 2 * 4096^3 FLOP in 177.1 us, over three matrices of two bytes an element.
    expect(square).toMatchObject({
      tflops: expect.closeTo(776, 0),
      intensity: expect.closeTo(4096 / 3, 0),
      ratio: 1.027,
    });
    expect(points).toHaveLength(25);
  });

  test("nothing of layouts that were not timed", () => {
    expect(measuredOf(runs, { dtype: "bf16" }).size).toBe(0);
    expect(measuredOf(runs, { dtype: "f32" }).size).toBe(1);
  });

  test("nothing of requests that say more than the product that was timed", () => {
    const plain = { m: 4096, n: 4096, k: 4096, dtype: "bf16", b: { layout: "col" } };
    const count = (more: Readonly<Record<string, unknown>>): number =>
      measuredOf(runs, { ...plain, ...more }).size;
    expect(
      [{}, { op: "gemm" }, { alpha: 1, beta: 0 }, { epilogue: [] }, { epilogue: "" }].map(count),
    ).toEqual([1, 1, 1, 1, 1]);
    const others = [
      { epilogue: "relu(acc)" },
      { weights: { dtype: "s4", group: 64 } },
      { op: "ffn", act: "silu" },
      { beta: 1 },
      { batch: { kind: "strided", count: 2 } },
      { d: { dtype: "f32" } },
      { b: { layout: "col", ld: 8192 } },
    ];
    expect(others.map(count)).toEqual(others.map(() => 0));
  });

  test("every step of a ladder that was timed has its figure", () => {
    const ladders = compiler.backends.flatMap((backend) => backend.ladders ?? []);
    const timed = ladders.filter(({ name }) => ladderRun(runs, name) !== null);
    expect(timed.map(({ name }) => name)).toEqual([
      "hopper",
      "cluster",
      "hgemm",
      "tf32",
      "hgemm-large",
      "hgemm-bulk",
      "sgemm",
      "sgemm-async",
    ]);
    for (const { name, steps } of timed)
      expect(ladderRun(runs, name)?.rows.map(({ step }) => step)).toEqual(steps.map((step) => step.name));
  });
});
