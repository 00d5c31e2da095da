/** Activations by tanh.approx: right within the instruction's error, and with it, where the target has it. */
import { bytesOfStorage, formatDiagnostic, storageFromBytes } from "@tilewright/core";
import { createCompiler } from "@tilewright/ir";
import { openDevice, runGemm } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { problemOf, targetOf } from "./support/cases.ts";

const compiler = createCompiler({ backends: [simt] });
const COUNT = 512;
/** From -8 to 8: multiples of 2^-5, which f32 holds. */
const xs = Float32Array.from({ length: COUNT }, (_, i) => (i - COUNT / 2) / 32);

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const gelu = (x: number): number =>
  (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

// PTX ISA, tanh: relative error at most 2^-11; f32's own roundings beside it.
const OWN = 2 ** -22;
const rows = [
  ["tanh_approx", Math.tanh, (x: number) => 2 ** -11 * Math.abs(Math.tanh(x))],
  ["sigmoid_approx", sigmoid, () => 2 ** -12],
  ["silu_approx", (x: number) => x * sigmoid(x), (x: number) => 2 ** -12 * Math.abs(x)],
  ["gelu_tanh_approx", gelu, (x: number) => 2 ** -12 * Math.abs(x)],
] as const;

async function evaluate(fn: string, arch: "sm_70" | "sm_80") {
  const problem = problemOf({
    m: COUNT,
    n: 1,
    k: 1,
    dtype: "f32",
    epilogue: [{ kind: "activation", fn }],
  });
  const made = compiler.compile({ problem, target: targetOf(arch) });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  const device = await openDevice({ kind: "emulator", arch });
  if (!device.ok) throw new Error(device.error.map(formatDiagnostic).join("\n"));
  const run = await runGemm(
    device.value,
    { ptx: made.value.ptx, manifest: made.value.manifest },
    { a: bytesOfStorage(xs), b: bytesOfStorage(Float32Array.of(1)), c: null, steps: [null] },
  );
  await device.value.close();
  if (!run.ok) throw new Error(run.error.map(formatDiagnostic).join("\n"));
  return { ptx: made.value.ptx, d: storageFromBytes("f32", run.value.d, COUNT) };
}

test.each(rows)("%s", async (fn, exact, most) => {
  const { ptx, d } = await evaluate(fn, "sm_80");
  expect(ptx).toContain("tanh.approx.f32");
  expect(ptx).not.toContain("ex2.approx");
  const errors = [...xs].map((x, i) => Math.abs(Number(d[i]) - exact(x)));
  errors.forEach((error, i) => {
    const x = xs[i] ?? 0;
    expect(error, `${fn}(${x})`).toBeLessThanOrEqual(most(x) + OWN * (1 + Math.abs(x)));
  });
  // The exact form is nearer than this; the units of sm_80 and sm_90 are nearer than the bound.
  expect(Math.max(...errors)).toBeGreaterThan(2 ** -19);
});

test("sm_70 has no tanh.approx", async () => {
  const { ptx, d } = await evaluate("silu_approx", "sm_70");
  expect(ptx).not.toContain("tanh.approx");
  xs.forEach((x, i) => {
    expect(Number(d[i])).toBeCloseTo(x * sigmoid(x), 5);
  });
});
