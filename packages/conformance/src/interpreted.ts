/** A tile program on the interpreter, its results as a device would have stored them. */
import {
  bytesOfStorage,
  type Checked,
  decodeArray,
  encodeArray,
  isIndex,
  type Operand,
  type OperandData,
  ok,
  operandElements,
  operandSpan,
  packedStride,
  stepExtents,
} from "@tilewright/core";
import { interpret, type TileProgram } from "@tilewright/ir";
import type { CaseData } from "./data.ts";
import type { Stored } from "./judge.ts";

type Order = "eager" | "lazy" | "random";

/** Errors are the interpreter's: out of bounds, uninitialised reads, a broken protocol, elements never written. */
export function interpreted(
  program: TileProgram,
  data: CaseData,
  { order, seed, turns }: { readonly order: Order; readonly seed: number; readonly turns?: number },
): Checked<Stored> {
  const { problem } = program;
  const values = (which: "a" | "b" | "c"): Float64Array =>
    decodeArray(
      problem[which]?.dtype ?? "f32",
      data[which] ?? new Float32Array(),
      operandElements(problem, which),
    );
  /** Words of four factors, or factors in f32. */
  const words = (bytes: Uint8Array): Int32Array | Float32Array | Float64Array =>
    problem.weights === undefined
      ? new (problem.blockScales === undefined ? Int32Array : Float32Array)(bytes.slice().buffer)
      : decodeArray(problem.a.dtype, new Uint16Array(bytes.slice().buffer));
  const epilogue = data.steps.map((step, i) => {
    if (step === null || typeof step === "number") return step ?? undefined;
    const described = problem.epilogue[i];
    const dtype = described && "operand" in described ? described.operand.dtype : undefined;
    if (isIndex(described)) return Int32Array.from(step, Number);
    return decodeArray(dtype ?? (described && "dtype" in described ? described.dtype : "f32"), step);
  });
  const run = interpret(
    program,
    {
      a: values("a"),
      b:
        problem.weights === undefined
          ? values("b")
          : new Int32Array(bytesOfStorage(data.b as Uint8Array).slice().buffer),
      ...(problem.c ? { c: values("c") } : {}),
      ...(data.sfa ? { sfa: words(data.sfa) } : {}),
      ...(data.sfb ? { sfb: words(data.sfb) } : {}),
      epilogue,
    },
    { order, seed, alpha: data.alpha, beta: data.beta, ...(turns === undefined ? {} : { turns }) },
  );
  if (!run.ok) return run;
  const steps = new Map<number, OperandData>();
  problem.epilogue.forEach((step, i) => {
    const parts = run.value.outputs.flatMap((outputs) => outputs[i] ?? []);
    if (step.kind === "output" || step.kind === "quantize")
      steps.set(i, encodeArray(step.operand.dtype, batched(step.operand, stepExtents(problem, step), parts)));
    const result = run.value.results.get(i);
    if (step.kind === "result" && result !== undefined) steps.set(i, encodeArray(step.operand.dtype, result));
    if (step.kind === "reduce")
      steps.set(i, encodeArray(step.dtype, Float64Array.from(parts.flatMap((part) => [...part]))));
  });
  return ok({ d: encodeArray(problem.d.dtype, run.value.d), steps });
}

/** Second outputs of a batch at their packed stride. */
function batched(
  operand: Operand,
  extents: readonly [number, number],
  parts: readonly ArrayLike<number>[],
): Float64Array {
  const stride = packedStride(operand, ...extents);
  const all = new Float64Array((parts.length - 1) * stride + operandSpan(operand, ...extents)).fill(
    Number.NaN,
  );
  parts.forEach((part, i) => {
    all.set(Array.from(part), i * stride);
  });
  return all;
}
