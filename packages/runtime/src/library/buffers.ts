/** Buffers of a launch against what its kernel reads and writes. */
import {
  type Checked,
  callerTensors,
  type Diagnostic,
  dtypes,
  expertRowsOf,
  type LaunchEnvironment,
  type Manifest,
  ok,
  type Problem,
  problemAt,
  sizeOf,
  symbolicSizes,
} from "@tilewright/core";
import { diagnose } from "../diagnostics.ts";
import type { KernelBuffers } from "../launch-kernel.ts";
import { type DeviceOperand, deviceOperands, expertOperands } from "../operands.ts";

/** Buffers that are too short for a launch, by name. Errors: sizes that its problem does not take. */
export function shortBuffers(
  operation: string,
  manifest: Manifest,
  environment: LaunchEnvironment,
  buffers: KernelBuffers,
): Checked<readonly Diagnostic[]> {
  if (manifest.tensors !== undefined) return ok(shortTensors(operation, manifest, buffers));
  const sizes = Object.fromEntries(
    symbolicSizes(manifest.request).flatMap((name) => {
      const value = environment[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
  const problem = problemAt(manifest.request, sizes);
  if (!problem.ok) return problem;
  return ok(
    operandsOf(problem.value).flatMap(({ name, bytes, shape }): readonly Diagnostic[] => {
      const buffer = buffers[name];
      if (buffer === undefined || buffer.size >= bytes) return [];
      const message = `${name} has ${buffer.size} bytes; ${shape} takes ${bytes}`;
      return [diagnose("operand", `${operation}.${name}`, message, "allocate it for these sizes")];
    }),
  );
}

/** What a launch takes: of experts one buffer of each operand for all of them, and the int32 that tell rows apart. */
function operandsOf(
  problem: Problem,
): readonly (Pick<DeviceOperand, "bytes" | "shape"> & { readonly name: string })[] {
  const { batch } = problem;
  const rows = expertRowsOf(problem);
  if (batch.kind !== "grouped" || rows === null) return deviceOperands(problem);
  const bytes = batch.count * sizeOf("s32");
  return [
    ...expertOperands(problem, new Array<number>(batch.count).fill(0)),
    { name: "groups", bytes, shape: `${rows} of ${batch.count} experts` },
  ];
}

/** Buffers that end before their tensor does. */
const shortTensors = (
  operation: string,
  { tensors = [] }: Manifest,
  buffers: KernelBuffers,
): readonly Diagnostic[] =>
  callerTensors(tensors).flatMap(({ operand, label, dtype, shape, strides }): readonly Diagnostic[] => {
    const last = shape.reduce((sum, extent, i) => sum + (extent - 1) * (strides[i] ?? 0), 1);
    const bytes = Math.ceil((last * dtypes[dtype].bits) / 8);
    const buffer = buffers[operand];
    if (buffer === undefined || buffer.size >= bytes) return [];
    const message = `${label} has ${buffer.size} bytes; [${shape.join(", ")}] ${dtype} takes ${bytes}`;
    return [diagnose("operand", `${operation}.${label}`, message, "allocate it for these sizes")];
  });
