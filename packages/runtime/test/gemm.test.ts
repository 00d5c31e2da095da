/** runGemm's own arithmetic: sizes, workspace, several kernels, poison. */
import type { KernelSpec, Problem } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { openCudaDevice } from "../src/cuda/device.ts";
import { createFakeDriver } from "../src/cuda/fake/index.ts";
import { addCounters, type GemmArtifact, gemmEnv, operandBytes, runGemm } from "../src/gemm.ts";
import { checkConstraints, evaluate } from "../src/launch-expr.ts";
import { gemmArtifact, gemmProblem, integers, row } from "./artifact.ts";
import { bytesOf, codesOf, must } from "./device-conformance.ts";
import { u64 } from "./kernels.ts";

const problem = gemmProblem({ m: 5, n: 7, k: 3, alpha: 1 });

describe("operand sizes", () => {
  test.each([
    ["dense row", row(7), { kind: "none" }, 35 * 4],
    ["padded row", row(10), { kind: "none" }, (4 * 10 + 7) * 4],
    ["padded column", { ...row(8), layout: "col" }, { kind: "none" }, (6 * 8 + 5) * 4],
    ["f16", { ...row(7), dtype: "f16" }, { kind: "none" }, 70],
    ["4-bit, odd count", { ...row(7), dtype: "nvf4" }, { kind: "none" }, 18],
    [
      "batch",
      row(7),
      { kind: "strided", count: 3, strideA: 0, strideB: 0, strideC: 0, strideD: 40 },
      (80 + 35) * 4,
    ],
    [
      "shared batch",
      row(7),
      { kind: "strided", count: 3, strideA: 0, strideB: 0, strideC: 0, strideD: 0 },
      35 * 4,
    ],
  ] as const)("%s", (_, operand, batch, bytes) => {
    expect(operandBytes({ ...problem, batch }, "d", operand)).toBe(bytes);
  });
});

test("the environment of the expressions", () => {
  const batch = { kind: "strided", count: 2, strideA: 1, strideB: 2, strideC: 3, strideD: 4 } as const;
  expect(gemmEnv({ ...problem, batch, beta: "runtime" }, { alpha: 9, beta: 0.5 })).toEqual({
    m: 5,
    n: 7,
    k: 3,
    batch: 2,
    lda: 3,
    ldb: 7,
    ldc: 0,
    ldd: 7,
    strideA: 1,
    strideB: 2,
    strideC: 3,
    strideD: 4,
    alpha: 1,
    beta: 0.5,
  });
});

describe("expressions", () => {
  test("integer arithmetic, rounding as the manifest says", () => {
    const env = { m: 7, n: 2 };
    const value = (expr: Parameters<typeof evaluate>[1]) => must(evaluate("e", expr, env));
    expect(value(["add", "m", ["mul", "n", 3]])).toBe(13);
    expect([value(["div", "m", "n"]), value(["ceilDiv", "m", "n"]), value(["mod", "m", "n"])]).toEqual([
      3, 4, 1,
    ]);
    expect([value(["min", "m", "n"]), value(["max", "m", "n"]), value(["sub", "n", "m"])]).toEqual([
      2, 7, -5,
    ]);
  });

  test("unknown names and divisions by zero are errors, all of them", () => {
    expect(codesOf(evaluate("e", ["add", "x", ["div", 1, 0]], {}))).toEqual(["TW6024", "TW6024"]);
    expect(codesOf(evaluate("e", "toString", {}))).toEqual(["TW6024"]);
  });

  test.each([
    ["eq", [false, true, false]],
    ["ne", [true, false, true]],
    ["lt", [true, false, false]],
    ["le", [true, true, false]],
    ["gt", [false, false, true]],
    ["ge", [false, true, true]],
  ] as const)("constraint %s", (relation, holds) => {
    const outcomes = [1, 2, 3].map((m) => checkConstraints([[relation, "m", 2]], { m }).length === 0);
    expect(outcomes).toEqual(holds);
  });
});

describe("on the fake driver", () => {
  const host = { a: bytesOf(integers(15, 1)), b: bytesOf(integers(21, 2)) };
  const artifact = gemmArtifact({ m: 5, n: 7, k: 3, alpha: 1 });

  test("D is poisoned before the kernel runs", () => {
    const device = must(openCudaDevice(createFakeDriver()));
    expect(must(runGemm(device, artifact, host)).d).toEqual(new Uint8Array(140).fill(0xff));
  });

  test("kernels run in order on one zeroed workspace, times add up, and all of it is freed", () => {
    const seen: string[] = [];
    const driver = createFakeDriver({
      launchMs: 2,
      kernels: {
        gemm: ({ params, memory }) => {
          const bytes = memory(u64(params[0]), 64);
          seen.push(`main ${bytes.every((byte) => byte === 0)}`);
          bytes.fill(5);
          return undefined;
        },
        finish: ({ params, memory }) => {
          seen.push(`reduce ${memory(u64(params[0]), 64)[63]}`);
          memory(u64(params[1]), 140).fill(1);
          return undefined;
        },
      },
    });
    const device = must(openCudaDevice(driver));
    const workspace = {
      kind: "pointer",
      name: "workspace",
      offset: 0,
      size: 8,
      align: 16,
      access: "readwrite",
    } as const;
    const d = { kind: "pointer", name: "d", offset: 8, size: 8, align: 4, access: "write" } as const;
    const launch = {
      grid: [1, 1, 1],
      block: [32, 1, 1],
      cluster: [1, 1, 1],
      dynamicSmem: 0,
      staticSmem: 0,
      cooperative: false,
    } as const;
    const kernels: readonly KernelSpec[] = [
      { entry: "gemm", role: "main", launch, params: [workspace], workspaceBytes: ["mul", "m", 8] },
      { entry: "finish", role: "reduce", launch, params: [workspace, d], workspaceBytes: 64 },
    ];
    const ptx =
      ".version 6.0\n.target sm_70\n.entry gemm(.param .u64 w) { ret; }\n.entry finish(.param .u64 w, .param .u64 d) { ret; }";
    const before = driver.alive();
    const result = must(runGemm(device, { ptx, kernels, problem }, host));
    expect(seen).toEqual(["main true", "reduce 5"]);
    expect(result).toMatchObject({ timeMs: 4, counters: null, completed: true, findings: [] });
    expect(result.d).toEqual(new Uint8Array(140).fill(1));
    expect(driver.alive()).toEqual(before);
  });

  test("only the operand's bytes are uploaded, and C where there is one", () => {
    const driver = createFakeDriver();
    const device = must(openCudaDevice(driver));
    const withC: Problem = { ...problem, c: row(7), beta: 1 };
    const long = { ...host, a: new Uint8Array(1000), c: new Uint8Array(140) };
    must(runGemm(device, { ...artifact, problem: withC }, long));
    expect(driver.callsOf("memcpyHtoD").map(({ args }) => args[1])).toEqual([60, 84, 140]);
    expect(codesOf(runGemm(device, { ...artifact, problem: withC }, host))).toEqual(["TW6021"]);
  });

  test("a broken constraint and what this runtime cannot launch are refused, and nothing is left", () => {
    const driver = createFakeDriver();
    const device = must(openCudaDevice(driver));
    const before = driver.alive();
    const map = {
      kind: "tensorMap",
      name: "map",
      offset: 40,
      size: 128,
      tensorMap: {
        operand: "a",
        dtype: "f32",
        dims: ["k", "m"],
        strides: ["lda"],
        box: [1, 1],
        elementStrides: [1, 1],
        interleave: "none",
        swizzle: "none",
        l2: "none",
        oob: "zero",
      },
    } as const;
    const [main] = artifact.kernels;
    if (main === undefined) throw new Error("no kernel");
    const wrong: GemmArtifact = {
      ...artifact,
      kernels: [{ ...main, params: [...main.params, map] }],
      constraints: [["eq", ["mod", "k", 4], 0]],
    };
    expect(codesOf(runGemm(device, wrong, host))).toEqual(["TW6020", "TW6022"]);
    expect(
      codesOf(
        runGemm(device, { ...artifact, problem: { ...problem, batch: { kind: "grouped", count: 2 } } }, host),
      ),
    ).toEqual(["TW6022"]);
    expect(driver.alive()).toEqual(before);
    expect(driver.callsOf("launchKernel")).toEqual([]);
  });
});

test("counters add up, and null is none", () => {
  const one = {
    instructions: { add: 1, mul: 2 },
    warpInstructions: 3,
    globalBytesRead: 4,
    globalBytesWritten: 5,
    sharedBytesRead: 6,
    sharedBytesWritten: 7,
    barriers: 8,
    sharedWavefronts: 9,
    sharedConflicts: 10,
  };
  expect(addCounters(one, null)).toBe(one);
  expect(addCounters(null, null)).toBeNull();
  expect(addCounters(one, { ...one, instructions: { mul: 1, ret: 1 } })).toEqual({
    instructions: { add: 1, mul: 3, ret: 1 },
    warpInstructions: 6,
    globalBytesRead: 8,
    globalBytesWritten: 10,
    sharedBytesRead: 12,
    sharedBytesWritten: 14,
    barriers: 16,
    sharedWavefronts: 18,
    sharedConflicts: 20,
  });
});
