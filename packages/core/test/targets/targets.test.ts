import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import { exitCodeOf, formatDiagnostic } from "../../src/diagnostics.ts";
import { isDType } from "../../src/dtype.ts";
import { editDistance, nearest } from "../../src/nearest.ts";
import { defineProblem } from "../../src/problem/request.ts";
import { type Feature, features, hasFeature } from "../../src/target.ts";
import { findGpu, findTarget, gpuFor, runsOn } from "../../src/targets/find.ts";
import { gpus } from "../../src/targets/gpus.ts";
import { occupancy } from "../../src/targets/occupancy.ts";
import { roofline } from "../../src/targets/roofline.ts";
import { targets, targetsSupporting } from "../../src/targets/table.ts";

const target = (arch: string) => {
  const found = findTarget(arch);
  if (!found.ok) throw new Error(arch);
  return found.value;
};
const gpu = (name: string) => {
  const found = findGpu(name);
  if (!found.ok) throw new Error(name);
  return found.value;
};
const refusal = (result: ReturnType<typeof findTarget> | ReturnType<typeof findGpu>): string =>
  result.ok ? "" : result.error.map(formatDiagnostic).join("\n");

test("the twelve targets, in order", () => {
  expect(targets.map((row) => row.arch)).toEqual([
    "sm_70",
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100f",
    "sm_100a",
    "sm_103a",
    "sm_120a",
  ]);
});

describe.each(targets.map((row) => ({ arch: row.arch, row })))("$arch is consistent", ({ row }) => {
  const { limits } = row;
  test("limits", () => {
    expect(limits.registersPerBlock).toBeLessThanOrEqual(limits.registersPerSm);
    expect(limits.maxThreadsPerBlock).toBeLessThanOrEqual(limits.maxThreadsPerSm);
    expect(limits.maxThreadsPerSm % 32).toBe(0);
    expect(limits.defaultSmemPerBlock).toBeLessThanOrEqual(limits.maxSmemPerBlock);
    expect(limits.maxSmemPerBlock + limits.reservedSmemPerBlock).toBe(limits.smemPerSm);
    expect(limits.maxClusterSize > 1).toBe(hasFeature(row, "cluster"));
    expect(limits.tensorMemoryColumns > 0).toBe(hasFeature(row, "tcgen05"));
    expect(`sm_${row.major}${row.minor}`).toBe(row.arch.replace(/[af]$/, ""));
    expect(row.portability).toBe(
      row.arch.endsWith("a") ? "arch" : row.arch.endsWith("f") ? "family" : "portable",
    );
  });

  test("features come with what they build on", () => {
    const needs: readonly (readonly [Feature, readonly Feature[]])[] = [
      ["stmatrix", ["ldmatrix"]],
      ["mma.bf16", ["mma.f16"]],
      ["mma.tf32", ["mma.bf16"]],
      ["mma.e4m3", ["mma.bf16"]],
      ["tma", ["mbarrier", "cluster", "cp.async"]],
      ["setmaxnreg", ["tma"]],
      ["wgmma", ["tma", "setmaxnreg"]],
      ["tcgen05", ["tma", "clc"]],
      ["tcgen05.i8", ["tcgen05"]],
      ["clc", ["cluster", "mbarrier"]],
      ["pdl", ["cp.async"]],
    ];
    for (const [feature, required] of needs)
      if (hasFeature(row, feature)) for (const other of required) expect(row.features).toContain(other);
    expect(new Set(row.features).size).toBe(row.features.length);
  });
});

test("every feature has a target, and only one generation has wgmma", () => {
  for (const feature of features) expect(targetsSupporting(feature).length).toBeGreaterThan(0);
  expect(targetsSupporting("wgmma").map((row) => row.arch)).toEqual(["sm_90a"]);
  expect(targetsSupporting("tcgen05").map((row) => row.arch)).toEqual(["sm_100f", "sm_100a", "sm_103a"]);
  expect(targetsSupporting("tcgen05.i8").map((row) => row.arch)).toEqual(["sm_100a"]);
  expect(targetsSupporting("cp.async")[0]?.arch).toBe("sm_80");
});

describe("look-up", () => {
  test.each([
    ["sm_100", "did you mean sm_100f or sm_100a?"],
    ["120", "did you mean sm_120a?"],
    ["compute_80", "did you mean sm_80?"],
    ["SM_75", "did you mean sm_75?"],
    ["9.0", "did you mean sm_90 or sm_90a?"],
    ["sm_88", "did you mean sm_87 or sm_89?"],
    ["sm_60", "did you mean sm_70?"],
    ["sm_121a", "did you mean sm_120a?"],
    ["h100", "did you mean sm_90a (H100 SXM)?"],
    ["sn_80", "did you mean sm_80?"],
    ["quux", "known: sm_70, sm_75"],
  ])("no target %s", (name, hint) => {
    const text = refusal(findTarget(name));
    expect(text).toContain(`TW1101 (invalid) at arch: there is no target '${name}'`);
    expect(text).toContain(hint);
  });

  test("GPUs by any usual spelling", () => {
    expect(gpu("NVIDIA H100-SXM").name).toBe("H100 SXM");
    expect(gpu("geforce rtx 4090").name).toBe("RTX 4090");
    expect(gpu("5090").arch).toBe("sm_120a");
    expect(refusal(findGpu("h100"))).toBe(
      "TW1102 (invalid) at gpu: there is no GPU 'h100' in the table\n  hint: did you mean H100 SXM or H100 PCIe?",
    );
    expect(refusal(findGpu("RTX 4091"))).toContain("did you mean RTX 4090?");
    expect(refusal(findGpu("Radeon"))).toContain("known: V100 SXM2, T4");
    expect(gpuFor("sm_90a")?.name).toBe("H100 SXM");
    expect(gpuFor("sm_90")?.name).toBe("H100 SXM");
    expect(gpuFor("sm_1")).toBeNull();
  });

  property.prop([fc.string()])("no text makes it throw", (name) => {
    expect(typeof findTarget(name).ok).toBe("boolean");
    expect(typeof findGpu(name).ok).toBe("boolean");
  });

  test("where code runs", () => {
    expect(runsOn(target("sm_70"), 9, 0)).toBe(true);
    expect(runsOn(target("sm_80"), 7, 5)).toBe(false);
    expect(runsOn(target("sm_90a"), 9, 0)).toBe(true);
    expect(runsOn(target("sm_90a"), 10, 0)).toBe(false);
    expect(runsOn({ ...target("sm_100a"), portability: "family" }, 10, 3)).toBe(true);
    expect(runsOn({ ...target("sm_100a"), portability: "family" }, 12, 0)).toBe(false);
  });
});

describe.each(gpus.map((row) => ({ name: row.name, row })))("$name", ({ row }) => {
  test("has a target, dtypes that exist, and the FFMA peak that its SMs and clock give", () => {
    const { major, minor } = target(row.arch);
    expect(Object.keys(row.peakTflops).every(isDType)).toBe(true);
    // fp32 lanes of an SM: 64 in Volta, Turing and A100, 128 in everything else.
    const lanes = (major === 7 || (major === 8 && minor === 0) ? 64 : 128) * 2;
    const peak = (row.sms * lanes * row.boostMHz) / 1e6;
    expect(Math.abs((row.peakTflops.f32 ?? 0) / peak - 1)).toBeLessThan(0.03);
  });

  test("tensor peaks double with every halving of the width, or stay", () => {
    const { f16 = 0, tf32, e4m3, nvf4, bf16 } = row.peakTflops;
    if (bf16 !== undefined) expect(bf16).toBe(f16);
    if (tf32 !== undefined) expect(Math.abs(f16 / tf32 - 2)).toBeLessThan(0.05);
    if (e4m3 !== undefined) expect(Math.abs(e4m3 / f16 - 2)).toBeLessThan(0.05);
    if (nvf4 !== undefined && e4m3 !== undefined) expect(nvf4 / e4m3).toBeGreaterThan(1.9);
    if (e4m3 !== undefined) expect(hasFeature(target(row.arch), "mma.e4m3")).toBe(true);
  });
});

describe("occupancy, as the vendor's calculator gives it", () => {
  test.each([
    ["sm_70", { threads: 256, registers: 128, smem: 33_000 }, 2, ["registers", "smem"]],
    ["sm_70", { threads: 256, registers: 64, smem: 0 }, 4, ["registers"]],
    ["sm_70", { threads: 64, registers: 32, smem: 0 }, 32, ["threads", "blocks", "registers"]],
    ["sm_80", { threads: 1024, registers: 32, smem: 0 }, 2, ["threads", "registers"]],
    ["sm_80", { threads: 128, registers: 255, smem: 0 }, 2, ["registers"]],
    ["sm_86", { threads: 256, registers: 40, smem: 0 }, 6, ["threads", "registers"]],
    ["sm_90a", { threads: 384, registers: 168, smem: 230_000 }, 1, ["registers", "smem"]],
    ["sm_90a", { threads: 32, registers: 24, smem: 0 }, 32, ["blocks"]],
    ["sm_75", { threads: 256, registers: 64, smem: 40_000 }, 1, ["smem"]],
    // 3 warps take the registers of 3, but a 4-partition SM holds 4 per round: 65 -> 72 registers, 7 warps a partition, 28 in all.
    ["sm_80", { threads: 96, registers: 65, smem: 0 }, 9, ["registers"]],
  ] as const)("%s %j", (arch, use, blocks, limiters) => {
    const result = occupancy(use, target(arch));
    expect(result.blocksPerSm).toBe(blocks);
    expect(result.limiters).toEqual(limiters);
    expect(result.fraction).toBe(
      (blocks * Math.ceil(use.threads / 32) * 32) / target(arch).limits.maxThreadsPerSm,
    );
  });

  test("a block that does not fit", () => {
    expect(occupancy({ threads: 1024, registers: 128, smem: 0 }, target("sm_80"))).toMatchObject({
      blocksPerSm: 0,
      limiters: ["registers"],
    });
    expect(occupancy({ threads: 32, registers: 32, smem: 98_305 }, target("sm_70"))).toMatchObject({
      blocksPerSm: 0,
      limiters: ["smem"],
    });
    expect(occupancy({ threads: 2048, registers: 16, smem: 0 }, target("sm_70"))).toMatchObject({
      blocksPerSm: 0,
      limiters: ["threads"],
    });
  });
});

describe("roofline", () => {
  const problem = (request: object) => {
    const defined = defineProblem({ m: 4096, n: 4096, k: 4096, ...request });
    if (!defined.ok) throw new Error("problem");
    return defined.value;
  };

  test("a large fp32 GEMM on an H100 is bound by its 66.9 TFLOP/s", () => {
    const line = roofline(problem({}), gpu("H100 SXM"));
    expect(line.flops).toBe(2 * 4096 ** 3);
    expect(line.bytes).toBe(3 * 4096 * 4096 * 4);
    expect(line.bound).toBe("compute");
    expect(line.attainableTflops).toBeCloseTo(66.9, 6);
    expect(line.timeUs).toBeCloseTo(2054.4, 0);
  });

  test("a matrix-vector product is bound by memory", () => {
    const line = roofline(problem({ n: 1, dtype: "bf16" }), gpu("H200"));
    expect(line.bound).toBe("memory");
    expect(line.bytes).toBe(2 * (4096 * 4096 + 4096 + 4096));
    expect(line.timeUs).toBeCloseTo((line.bytes / 4.8e12) * 1e6, 9);
  });

  test("C, batches, shared matrices and epilogue matrices count", () => {
    const batched = problem({
      m: 16,
      n: 16,
      k: 16,
      beta: 1,
      batch: { kind: "strided", count: 10, strideB: 0 },
      epilogue: [{ kind: "residual", operand: {} }],
    });
    expect(roofline(batched, gpu("V100 SXM2")).bytes).toBe(256 * 4 * (10 + 1 + 10 + 10 + 10));
  });

  test("a dtype that the GPU has no peak for: only memory bounds the time", () => {
    expect(roofline(problem({ dtype: "e4m3" }), gpu("A100 SXM"))).toMatchObject({
      peakTflops: null,
      computeUs: null,
      bound: "memory",
    });
  });
});

describe("suggestions", () => {
  test("edit distance", () => {
    expect(editDistance("kitten", "sitting")).toBe(3);
    expect(editDistance("ab", "ba")).toBe(1);
    expect(editDistance("", "abc")).toBe(3);
  });
  property.prop([fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 })])(
    "distance is symmetric, 0 for equals only, at most the longer length",
    (x, y) => {
      const distance = editDistance(x, y);
      expect(distance).toBe(editDistance(y, x));
      expect(distance === 0).toBe(x === y);
      expect(distance).toBeGreaterThanOrEqual(Math.abs(x.length - y.length));
      expect(distance).toBeLessThanOrEqual(Math.max(x.length, y.length));
    },
  );
  test("nearest names", () => {
    expect(nearest("stge", ["stages", "tile", "stage"])).toEqual(["stage"]);
    expect(nearest("zzz", ["stages", "tile"])).toEqual([]);
  });
});

test("exit codes by kind", () => {
  expect((["internal", "invalid", "unsupported", "toolchain", "check"] as const).map(exitCodeOf)).toEqual([
    1, 2, 3, 4, 5,
  ]);
});
