/** runGemm's own part: sizes, workspace, several kernels, poison, the epilogue's buffers. */
import {
  defineProblem,
  type EpilogueStep,
  type GroupRow,
  type KernelSpec,
  type Problem,
} from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { addCounters } from "../src/counters.ts";
import { openCudaDevice } from "../src/cuda/device.ts";
import { type GemmArtifact, runGemm } from "../src/gemm.ts";
import { runGroups } from "../src/groups.ts";
import { deviceOperands } from "../src/operands.ts";
import { gemmArtifact, gemmProblem, gemmSpec, integers, row } from "./artifact.ts";
import { bytesOf, codesOf, must } from "./device-conformance.ts";
import { createFakeDriver } from "./fake/cuda/index.ts";
import { u64 } from "./kernels.ts";

const problem = gemmProblem({ m: 5, n: 7, k: 3, alpha: 1 });
const bytesOfD = (changed: Partial<Problem>) =>
  deviceOperands({ ...problem, ...changed }).find(({ name }) => name === "d")?.bytes;

describe("operand sizes", () => {
  const batch = { kind: "strided", count: 3, strideA: 0, strideB: 0, strideC: 0 } as const;
  test.each([
    ["dense row", { d: row(7) }, 35 * 4],
    ["padded row", { d: row(10) }, (4 * 10 + 7) * 4],
    ["padded column", { d: { ...row(8), layout: "col" } }, (6 * 8 + 5) * 4],
    ["f16", { d: { ...row(7), dtype: "f16" } }, 70],
    ["4-bit, odd count", { d: { ...row(7), dtype: "nvf4" } }, 18],
    ["batch", { batch: { ...batch, strideD: 40 } }, (80 + 35) * 4],
    ["shared batch", { batch: { ...batch, strideD: 0 } }, 35 * 4],
  ] as const)("%s", (_, changed, bytes) => {
    expect(bytesOfD(changed)).toBe(bytes);
  });

  test("every step of an epilogue has the buffer that it reads or stores", () => {
    const operand = { ...row(8), dtype: "f16" } as const;
    const epilogue: readonly EpilogueStep[] = [
      { kind: "bias", along: "m", dtype: "f32" },
      { kind: "bias", along: "n", dtype: "f16" },
      { kind: "scale", by: "scalar", dtype: "f32" },
      { kind: "scale", by: "tensor", dtype: "f32" },
      { kind: "activation", fn: "relu" },
      { kind: "residual", operand },
      { kind: "output", operand },
      { kind: "reduce", op: "amax", over: "n", dtype: "f32" },
      { kind: "reduce", op: "sum", over: "all", dtype: "f32" },
    ];
    const batch = { kind: "strided", count: 2, strideA: 15, strideB: 21, strideC: 0, strideD: 35 } as const;
    const operands = deviceOperands({ ...problem, epilogue, batch }).slice(3);
    const matrix = (5 * 8 + 4 * 8 + 7) * 2;
    expect(operands.map(({ name, bytes, direction }) => [name, bytes, direction])).toEqual([
      ["epilogue0", 20, "in"],
      ["epilogue1", 14, "in"],
      ["epilogue3", 4, "in"],
      ["epilogue5", matrix, "in"],
      ["epilogue6", matrix, "out"],
      ["epilogue7", 2 * 5 * 4, "reduced"],
      ["epilogue8", 2 * 4, "reduced"],
    ]);
  });
});

describe("on the fake driver", () => {
  const inputs = { a: bytesOf(integers(15, 1)), b: bytesOf(integers(21, 2)) };
  const artifact = gemmArtifact({ m: 5, n: 7, k: 3, alpha: 1 });
  const launch = { ...gemmSpec.launch, grid: [1, 1, 1] } as const;
  const pointer = (name: "a" | "d" | "workspace" | `epilogue${number}`, offset: number) =>
    ({ kind: "pointer", name, offset, size: 8, align: 4, access: "readwrite" }) as const;
  const twoPointers =
    ".version 6.0\n.target sm_70\n.entry one(.param .u64 p) { ret; }\n.entry two(.param .u64 p, .param .u64 q) { ret; }";

  test("D is poisoned before the kernel runs", () => {
    const device = must(openCudaDevice(createFakeDriver()));
    expect(must(runGemm(device, artifact, inputs)).d).toEqual(new Uint8Array(140).fill(0xff));
  });

  test.each([
    [undefined, 0],
    ["zeroEach", 0],
    ["zeroOnce", 0],
    ["none", 0xff],
  ] as const)(
    "kernels run in order on one workspace (init %s), times add up, all is freed",
    (init, first) => {
      const seen: number[] = [];
      const driver = createFakeDriver({
        launchMs: 2,
        kernels: {
          one: ({ params, memory }) => {
            const bytes = memory(u64(params[0]), 64);
            seen.push(...new Set(bytes));
            bytes.fill(5);
            return undefined;
          },
          two: ({ params, memory }) => {
            seen.push(...new Set(memory(u64(params[0]), 64)));
            memory(u64(params[1]), 140).fill(1);
            return undefined;
          },
        },
      });
      const device = must(openCudaDevice(driver));
      const kernels: readonly KernelSpec[] = [
        {
          entry: "one",
          role: "main",
          launch,
          params: [pointer("workspace", 0)],
          workspaceBytes: ["mul", "m", 8],
        },
        {
          entry: "two",
          role: "reduce",
          launch,
          params: [pointer("workspace", 0), pointer("d", 8)],
          workspaceBytes: 64,
        },
      ];
      const before = driver.alive();
      const manifest = {
        request: problem,
        kernels,
        ...(init === undefined ? {} : { workspace: { bytes: 64, align: 16, init } }),
      };
      const result = must(runGemm(device, { ptx: twoPointers, manifest }, inputs));
      expect(seen).toEqual([first, 5]);
      expect(result).toMatchObject({ timeMs: 4, counters: null, completed: true, findings: [] });
      expect(result.d).toEqual(new Uint8Array(140).fill(1));
      expect(driver.alive()).toEqual(before);
    },
  );

  test("the epilogue's buffers go up and come down, reductions start from 0", () => {
    const driver = createFakeDriver({
      kernels: {
        two: ({ params, memory }) => {
          const sums = memory(u64(params[1]), 20);
          sums.set(memory(u64(params[0]), 20).map((byte, index) => byte + (sums[index] ?? 0)));
          return undefined;
        },
      },
    });
    const device = must(openCudaDevice(driver));
    const request: Problem = {
      ...problem,
      epilogue: [
        { kind: "bias", along: "m", dtype: "f32" },
        { kind: "reduce", op: "sum", over: "n", dtype: "f32" },
      ],
    };
    const kernels: readonly KernelSpec[] = [
      {
        entry: "two",
        role: "main",
        launch,
        params: [pointer("epilogue0", 0), pointer("epilogue1", 8)],
        workspaceBytes: 0,
      },
    ];
    const gemm = { ptx: twoPointers, manifest: { request, kernels } };
    const result = must(runGemm(device, gemm, { ...inputs, steps: [new Uint8Array(20).fill(3)] }));
    expect([...result.steps]).toEqual([[1, new Uint8Array(20).fill(3)]]);
    expect(codesOf(runGemm(device, gemm, inputs))).toEqual(["TW6021"]);
  });

  test("only the operand's bytes are uploaded, and C where there is one", () => {
    const driver = createFakeDriver();
    const device = must(openCudaDevice(driver));
    const withC = {
      ...artifact,
      manifest: { ...artifact.manifest, request: { ...problem, c: row(7), beta: 1 } },
    };
    must(runGemm(device, withC, { ...inputs, a: new Uint8Array(1000), c: new Uint8Array(140) }));
    expect(driver.callsOf("memcpyHtoD").map(({ args }) => args[1])).toEqual([60, 84, 140]);
    expect(codesOf(runGemm(device, withC, inputs))).toEqual(["TW6021"]);
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
    const wrong: GemmArtifact = {
      ...artifact,
      manifest: {
        request: problem,
        kernels: [{ ...gemmSpec, params: [...gemmSpec.params, map] }],
        constraints: [["eq", ["mod", "k", 4], 0]],
      },
    };
    expect(codesOf(runGemm(device, wrong, inputs))).toEqual(["TW1304", "TW1314", "TW1315"]);
    const grouped = {
      ...artifact.manifest,
      request: { ...problem, batch: { kind: "grouped", count: 2 } as const },
    };
    expect(codesOf(runGemm(device, { ...artifact, manifest: grouped }, inputs))).toEqual(["TW6022"]);
    expect(driver.alive()).toEqual(before);
    expect(driver.callsOf("launchKernel")).toEqual([]);
  });
});

describe("groups", () => {
  const row: GroupRow = { bytes: 8, fields: [{ kind: "size", name: "m", offset: 0, value: "m" }] };
  const grouped: GemmArtifact = {
    ...gemmArtifact({ m: 5, n: 7, k: 3, alpha: 1 }),
    manifest: {
      request: must(defineProblem({ m: 5, n: 7, k: 3, batch: { kind: "grouped", count: 2 } })),
      kernels: [{ ...gemmSpec, groups: row }],
      constraints: [["le", "m", 5]],
    },
  };
  const none = { sizes: { m: 0, n: 0, k: 0 } };
  const full = (m: number, bytes = 400) => ({
    sizes: { m, n: 7, k: 3 },
    a: new Uint8Array(bytes),
    b: new Uint8Array(bytes),
  });
  test.each([
    ["as many as the kernel is for", [none], ["TW6021 groups"]],
    [
      "operands of each",
      [full(5, 4), full(4, 3)],
      ["groups[0].a", "groups[0].b", "groups[1].a", "groups[1].b"],
    ],
    ["sizes within the kernel's", [none, full(6)], ["TW1304 groups[1]"]],
  ] as const)("%s", (_, groups, expected) => {
    const found = runGroups(must(openCudaDevice(createFakeDriver())), grouped, groups);
    const said = found.ok ? [] : found.error.map(({ code, at }) => `${code} ${at}`);
    expect(said.length).toBe(expected.length);
    expected.forEach((each, i) => {
      expect(said[i]).toContain(each);
    });
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
    tensorBytesRead: 14,
    tensorBytesWritten: 15,
    localBytesRead: 11,
    localBytesWritten: 12,
    barriers: 8,
    sharedWavefronts: 9,
    sharedConflicts: 10,
    sharedAccesses: [
      { instruction: "ld.shared", location: null, samples: 4, wavefronts: 9, conflicts: 5, worst: 3 },
    ],
    waits: [{ instruction: "bar.sync", location: null, executions: 8, blocked: 2, polls: 3 }],
    mbarriers: [{ offset: 64, completed: 2, ends: 30 }],
    blockTurns: 13,
  };
  const other = {
    ...one,
    instructions: { mul: 1, ret: 1 },
    sharedAccesses: [
      { instruction: "ld.shared", location: null, samples: 1, wavefronts: 4, conflicts: 3, worst: 4 },
    ],
    waits: [{ instruction: "mbarrier.try_wait", location: null, executions: 1, blocked: 0, polls: 0 }],
    mbarriers: [
      { offset: 64, completed: 1, ends: 5 },
      { offset: 72, completed: 1, ends: 7 },
    ],
  };
  expect(addCounters(one, null)).toBe(one);
  expect(addCounters(null, null)).toBeNull();
  expect(addCounters(one, other)).toEqual({
    instructions: { add: 1, mul: 3, ret: 1 },
    warpInstructions: 6,
    globalBytesRead: 8,
    globalBytesWritten: 10,
    sharedBytesRead: 12,
    sharedBytesWritten: 14,
    tensorBytesRead: 28,
    tensorBytesWritten: 30,
    localBytesRead: 22,
    localBytesWritten: 24,
    barriers: 16,
    sharedWavefronts: 18,
    sharedConflicts: 20,
    sharedAccesses: [
      { instruction: "ld.shared", location: null, samples: 5, wavefronts: 13, conflicts: 8, worst: 4 },
    ],
    waits: [...one.waits, ...other.waits],
    mbarriers: [
      { offset: 64, completed: 3, ends: 35 },
      { offset: 72, completed: 1, ends: 7 },
    ],
    blockTurns: 26,
  });
});
