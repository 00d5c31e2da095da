/** Epilogue chains and strided batches on the emulator, every output against float64. */

import { fileCheck } from "@tilewright/conformance";
import {
  type Activation,
  bytesOfStorage,
  compareMatrix,
  compareWithBound,
  createCompiler,
  createRandom,
  formatDiagnostic,
  type OperandData,
  operandElements,
  type Problem,
  packedStride,
  printProblem,
  type Random,
  randomStorage,
  referenceGemm,
  storageFromBytes,
} from "@tilewright/ir";
import { type Device, deviceOperands, openDevice, runGemm } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { assemble, hasPtxas } from "./support/build.ts";
import { problemOf, randomSchedule, targetOf } from "./support/cases.ts";

const target = targetOf("sm_70");
const compiler = createCompiler({ backends: [simt] });
const activations: readonly Activation[] = ["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"];

let device: Device;
beforeAll(async () => {
  const opened = await openDevice({ kind: "emulator", arch: "sm_70" });
  if (!opened.ok) throw new Error(opened.error.map(formatDiagnostic).join("\n"));
  device = opened.value;
});
afterAll(() => device.close());

/** Compile, run and compare D and what the steps store; the largest error over its bound. */
function check(problem: Problem, seed: number): number {
  const schedule = randomSchedule(createRandom(seed), problem, target);
  const made = compiler.compile({ problem, target, schedule, verify: "each" });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  if (hasPtxas) assemble(made.value.ptx, "sm_70", made.value.schedule ?? "");
  const random = (count: number, stream: number) =>
    randomStorage("f32", count, { kind: "normal" }, seed * 32 + stream);
  const matrix = (which: "a" | "b" | "c", stream: number) => random(operandElements(problem, which), stream);
  const [a, b, c] = [matrix("a", 0), matrix("b", 1), problem.c ? matrix("c", 2) : null];
  const inputs = new Map(
    deviceOperands(problem)
      .filter((operand) => operand.direction === "in")
      .map((operand) => [operand.name, operand.bytes / 4]),
  );
  const steps = problem.epilogue.map((step, i): OperandData | number | null => {
    if (step.kind === "scale" && step.by === "scalar") return 0.75;
    const count = inputs.get(`epilogue${i}`);
    return count === undefined ? null : random(count, 3 + i);
  });
  const run = runGemm(
    device,
    { ptx: made.value.ptx, manifest: made.value.manifest },
    {
      a: bytesOfStorage(a),
      b: bytesOfStorage(b),
      c: c && bytesOfStorage(c),
      steps: steps.map((s) => (s instanceof Float32Array ? bytesOfStorage(s) : (s as number | null))),
    },
    { order: (["eager", "lazy", "random"] as const)[seed % 3] ?? "eager", seed },
  );
  if (!run.ok) throw new Error(run.error.map(formatDiagnostic).join("\n"));
  expect(run.value.findings, printProblem(problem)).toEqual([]);
  const reference = referenceGemm(problem, { a, b, c, steps });
  const floats = (bytes: Uint8Array) => storageFromBytes("f32", bytes, bytes.byteLength / 4);
  let worst = compareWithBound(problem, floats(run.value.d), reference).boundRatio;
  for (const [index, expected] of reference.steps) {
    const step = problem.epilogue[index];
    const bytes = run.value.steps.get(index);
    if (!step || !bytes) throw new Error(`step ${index} stored nothing`);
    const columns = step.kind === "output" ? problem.n : expected.values.length;
    const operand =
      step.kind === "output" ? step.operand : { ...problem.d, layout: "row" as const, ld: columns };
    const rows = step.kind === "output" ? reference.rows : [0];
    const stride = step.kind === "output" ? packedStride(operand, problem.m, problem.n) : 0;
    worst = Math.max(
      worst,
      compareMatrix(operand, floats(bytes), expected, { rows, columns, stride }).boundRatio,
    );
  }
  return worst;
}

const sizes = [
  { m: 1, n: 1, k: 1 },
  { m: 33, n: 17, k: 9 },
  { m: 64, n: 48, k: 32 },
  { m: 70, n: 101, k: 20 },
] as const;

describe("each step alone", () => {
  const steps: readonly object[] = [
    { kind: "bias", along: "m" },
    { kind: "bias", along: "n" },
    ...["scalar", "m", "n", "tensor"].map((by) => ({ kind: "scale", by })),
    ...activations.map((fn) => ({ kind: "activation", fn })),
    { kind: "clamp", min: -0.5, max: 1.5 },
    { kind: "residual", operand: { layout: "col" } },
    { kind: "gate", operand: {} },
    { kind: "output", operand: {} },
    ...["sum", "amax"].flatMap((op) => ["m", "n", "all"].map((over) => ({ kind: "reduce", op, over }))),
  ].map((step) => ("by" in step || "along" in step || "over" in step ? { ...step, dtype: "f32" } : step));
  test.each(steps.map((step, i) => [JSON.stringify(step), step, i] as const))("%s", (_name, step, i) => {
    for (const [j, size] of sizes.entries())
      expect(check(problemOf({ ...size, dtype: "f32", epilogue: [step] }), i * 10 + j)).toBeLessThanOrEqual(
        1,
      );
  });
});

const randomChain = (random: Random): object[] =>
  Array.from({ length: random.integer(1, 4) }, () => {
    const pick = random.integer(0, 6);
    const axis = random.integer(0, 1) ? "m" : "n";
    const layout = random.integer(0, 1) ? "row" : "col";
    const all: readonly object[] = [
      { kind: "bias", along: axis, dtype: "f32" },
      { kind: "scale", by: axis, dtype: "f32" },
      { kind: "activation", fn: activations[random.integer(0, 5)] },
      { kind: "residual", operand: { layout } },
      { kind: "gate", operand: { layout } },
      { kind: "output", operand: { layout } },
      { kind: "reduce", op: random.integer(0, 1) ? "sum" : "amax", over: axis, dtype: "f32" },
    ];
    return all[pick] ?? {};
  });

test("random chains, batches, alpha and beta", () => {
  const random = createRandom(11);
  for (let i = 0; i < 40; i++) {
    const layout = () => (random.integer(0, 1) ? "row" : "col");
    const problem = problemOf({
      m: random.integer(1, 60),
      n: random.integer(1, 60),
      k: random.integer(1, 40),
      dtype: "f32",
      a: { layout: layout() },
      b: { layout: layout() },
      d: { layout: layout() },
      alpha: 1.5,
      beta: random.integer(0, 1),
      batch: i % 2 ? { kind: "strided", count: random.integer(1, 4) } : { kind: "none" },
      epilogue: randomChain(random),
    });
    expect(check(problem, 1000 + i), printProblem(problem)).toBeLessThanOrEqual(1);
  }
});

test("a batch may share one of its matrices", () => {
  const batch = { kind: "strided", count: 3, strideB: 0 };
  expect(check(problemOf({ m: 40, n: 30, k: 20, dtype: "f32", batch }), 5)).toBeLessThanOrEqual(1);
});

test("the epilogue loads each bias value once and stores once", () => {
  const problem = problemOf({
    m: 128,
    n: 128,
    k: 8,
    dtype: "f32",
    epilogue: [
      { kind: "bias", along: "n", dtype: "f32" },
      { kind: "activation", fn: "relu" },
    ],
  });
  const made = compiler.compile({ problem, target, schedule: "tile=128x128x8" });
  if (!made.ok) throw new Error("compiles");
  fileCheck(
    made.value.ptx,
    `
    CHECK: .param .u64 p_epilogue0
    CHECK: ld.param.u64 [[P:%ptr\\d+]], [p_epilogue0];
    COUNT-8: ld.global.f32 %b
    COUNT-128: st.global.f32
    COUNT-128: selp.f32`,
  );
});
