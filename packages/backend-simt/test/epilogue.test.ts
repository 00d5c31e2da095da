/** Each step of an epilogue alone, in f32 on sm_70, every output against float64: chains, batches and other dtypes are rows of the conformance suite. */

import { fileCheck } from "@tilewright/conformance";
import {
  activationNames,
  bytesOfStorage,
  compareMatrix,
  compareWithBound,
  createRandom,
  formatDiagnostic,
  type OperandData,
  operandElements,
  type Problem,
  packedStride,
  printProblem,
  randomStorage,
  referenceGemm,
  storageFromBytes,
} from "@tilewright/core";
import { createCompiler } from "@tilewright/ir";
import { type Device, deviceOperands, openDevice, runGemm } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { assemble, hasPtxas } from "./support/build.ts";
import { problemOf, randomSchedule, targetOf } from "./support/cases.ts";

const target = targetOf("sm_70");
const compiler = createCompiler({ backends: [simt] });

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

describe("each step alone", () => {
  const steps: readonly object[] = [
    { kind: "bias", along: "m" },
    { kind: "bias", along: "n" },
    ...["scalar", "m", "n", "tensor"].map((by) => ({ kind: "scale", by })),
    ...activationNames.map((fn) => ({ kind: "activation", fn })),
    { kind: "clamp", min: -0.5, max: 1.5 },
    { kind: "residual", operand: { layout: "col" } },
    { kind: "gate", operand: {} },
    { kind: "output", operand: {} },
    ...["sum", "amax"].flatMap((op) => ["m", "n", "all"].map((over) => ({ kind: "reduce", op, over }))),
  ].map((step) => ("by" in step || "along" in step || "over" in step ? { ...step, dtype: "f32" } : step));
  test.each(steps.map((step, i) => [JSON.stringify(step), step, i] as const))("%s", (_name, step, i) => {
    const problem = problemOf({ m: 70, n: 101, k: 20, dtype: "f32", epilogue: [step] });
    expect(check(problem, i * 10 + 3)).toBeLessThanOrEqual(1);
  });
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
    COUNT-4: ld.global.v2.f32 {%b
    COUNT-128: st.global.f32
    COUNT-128: selp.f32`,
  );
});
