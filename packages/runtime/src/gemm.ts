/** One GEMM on a device, from host bytes to host bytes. */

import {
  type Checked,
  checkPages,
  checkProblem,
  checkRunOffsets,
  type Diagnostic,
  err,
  given,
  type LaunchEnvironment,
  type LaunchSizes,
  launchEnvironment,
  type Manifest,
  ok,
  type Problem,
  problemAt,
  runsOf,
  workspaceBytes,
} from "@tilewright/core";
import type { Counters, Finding } from "@tilewright/emulator";
import { addCounters } from "./counters.ts";
import type { Device, DeviceBuffer, DeviceModule } from "./device.ts";
import { diagnose } from "./diagnostics.ts";
import { type KernelBuffers, type KernelLaunchOptions, launchKernel } from "./launch-kernel.ts";
import { type DeviceOperand, deviceOperands } from "./operands.ts";

/** The part of a compiled artefact that running it needs. */
export interface GemmArtifact {
  /** PTX text, or a cubin. */
  readonly ptx: string | Uint8Array;
  readonly manifest: Pick<Manifest, "request" | "kernels"> &
    Partial<Pick<Manifest, "workspace" | "constraints">>;
}

/** Host bytes of each operand in its layout, padding of the leading dimension included, batches at their strides. */
export interface GemmInputs {
  readonly a: Uint8Array;
  readonly b: Uint8Array;
  /** Needed exactly when the problem has C. */
  readonly c?: Uint8Array | null;
  /** Scale factors of A and B, needed exactly when they are block-scaled; in the order of `scaleOffset` (`@tilewright/core`). */
  readonly sfa?: Uint8Array | null;
  readonly sfb?: Uint8Array | null;
  /** What each epilogue step reads, by its position: bytes, or a number for a launch-time scalar. */
  readonly steps?: readonly (Uint8Array | number | null)[];
}

export type GemmOptions = Omit<KernelLaunchOptions, "constraints"> & {
  /** Values of scalars that the problem leaves to the launch. */
  readonly alpha?: number;
  readonly beta?: number;
  /** Sizes that the problem leaves to the launch; its own where left out. */
  readonly sizes?: LaunchSizes;
};

export interface GemmResult {
  /** Bytes of D in its layout. What no kernel wrote is 0xff on a GPU (NaN in every float type) and undefined on the emulator. */
  readonly d: Uint8Array;
  /** What `output` and `reduce` steps of the epilogue stored, by position. */
  readonly steps: ReadonlyMap<number, Uint8Array>;
  /** Sum over the kernels; see `LaunchResult.timeMs`. */
  readonly timeMs: number;
  readonly findings: readonly Finding[];
  /** Sum over the kernels; null on a GPU. */
  readonly counters: Counters | null;
  /** False when the emulator gave a launch up: `d` is then not finished. */
  readonly completed: boolean;
}

/** Makes every float NaN, in all formats from f64 to e5m2, and every integer -1. */
const poison = 0xff;

/**
 * Allocate, upload, launch every kernel of `artifact`, download, free.
 * D is poisoned first (uninitialised on the emulator), so that an element nobody writes cannot pass for a result; a workspace is set up as
 * the manifest says, zero where it says nothing.
 * Errors: operands that are missing or too small, all at once; then what the device says. Findings of the emulator are no errors here.
 */
export function runGemm(
  device: Device,
  artifact: GemmArtifact,
  inputs: GemmInputs,
  options: GemmOptions = {},
): Checked<GemmResult> {
  const { alpha, beta, sizes, ...knobs } = options;
  const { manifest } = artifact;
  if (manifest.request.batch.kind === "grouped")
    return err([
      diagnose("parameter", "batch", "a grouped problem has inputs for each of its groups", "use runGroups"),
    ]);
  const launched = problemAt(manifest.request, sizes ?? {});
  if (!launched.ok) return launched;
  const problem = launched.value;
  const malformed = checkProblem(problem);
  if (malformed.length > 0) return err(malformed);
  const operands = deviceOperands(problem);
  const problems = [...inputProblems(problem, operands, inputs, options), ...offsetProblems(problem, inputs)];
  if (problems.length > 0) return err(problems);
  const env: LaunchEnvironment = {
    ...launchEnvironment(problem, device, given({ alpha, beta })),
    ...stepScalars(inputs),
  };

  const owned: (() => void)[] = [];
  try {
    const buffers = prepare(device, manifest, operands, inputs, env, owned);
    if (!buffers.ok) return buffers;
    const module = device.load(artifact.ptx);
    if (!module.ok) return module;
    owned.push(() => module.value.unload());
    return launchAll(device, manifest, module.value, operands, env, buffers.value, knobs);
  } finally {
    for (const free of owned.reverse()) free();
  }
}

/** What is wrong with offsets of runs that the host has: TW1020. A kernel takes any, and stays inside of its matrices. */
const offsetProblems = (problem: Problem, { steps = [] }: Pick<GemmInputs, "steps">): readonly Diagnostic[] =>
  runsOf(problem).flatMap((runs) => {
    const told = (step: number): Int32Array | null => {
      const bytes = steps[step];
      const given = bytes instanceof Uint8Array && bytes.byteLength % 4 === 0;
      return given ? new Int32Array(bytes.slice().buffer) : null;
    };
    const [offsets, { pages }] = [told(runs.step), runs];
    if (offsets === null) return [];
    if (pages === undefined) return checkRunOffsets(runs, offsets, `steps[${runs.step}]`);
    return checkPages(
      runs,
      offsets,
      told(pages.table),
      (of) => `steps[${of === "table" ? pages.table : runs.step}]`,
    );
  });

/** Launch-time scalars of the epilogue, under the names of their steps. */
export function stepScalars(inputs: Pick<GemmInputs, "steps">): LaunchEnvironment {
  const scalars: Record<string, number> = {};
  (inputs.steps ?? []).forEach((value, index) => {
    if (typeof value === "number") scalars[`epilogue${index}`] = value;
  });
  return scalars;
}

/** The host bytes of an operand that the kernel reads; null when none were given. */
export function inputBytes(operand: DeviceOperand, inputs: GemmInputs): Uint8Array | null {
  switch (operand.name) {
    case "a":
    case "b":
    case "c":
    case "sfa":
    case "sfb":
      return inputs[operand.name] ?? null;
    case "d":
      return null;
    default: {
      const value = inputs.steps?.[stepOf(operand)] ?? null;
      return value instanceof Uint8Array ? value : null;
    }
  }
}

const stepOf = (operand: DeviceOperand): number => Number(operand.name.slice("epilogue".length));

/** Inputs that are missing or too small. */
export function inputProblems(
  problem: Problem,
  operands: readonly DeviceOperand[],
  inputs: GemmInputs,
  options: GemmOptions,
): readonly Diagnostic[] {
  const problems: Diagnostic[] = [];
  for (const operand of operands) {
    if (operand.direction !== "in") continue;
    const data = inputBytes(operand, inputs);
    if (data !== null && data.byteLength >= operand.bytes) continue;
    const message =
      data === null
        ? `no data was given for ${operand.name}`
        : `${data.byteLength} B are too few for ${operand.name}`;
    problems.push(diagnose("operand", operand.name, message, `${operand.shape} needs ${operand.bytes} B`));
  }
  for (const name of ["alpha", "beta"] as const) {
    if (problem[name] === "runtime" && options[name] === undefined) {
      problems.push(
        diagnose("operand", name, `${name} is left to the launch and was not given`, `pass ${name}`),
      );
    }
  }
  return problems;
}

type Buffers = Readonly<Record<string, DeviceBuffer>>;

type Fill = (buffer: DeviceBuffer) => Checked<true>;

/** A buffer of its own, filled; what must be given back is entered in `owned` as soon as it exists. */
export function allocate(
  device: Device,
  size: number,
  fill: Fill,
  owned: (() => void)[],
): Checked<DeviceBuffer> {
  const buffer = device.alloc(size);
  if (!buffer.ok) return buffer;
  owned.push(() => buffer.value.free());
  const filled = fill(buffer.value);
  return filled.ok ? buffer : filled;
}

/** D before a launch. */
// The emulator knows of each byte whether it was written, and would forget it if it were poisoned.
export const spoil =
  (device: Device): Fill =>
  (buffer) =>
    device.kind === "cuda" ? buffer.fill(poison) : ok(true as const);

/** A buffer for each operand of one problem, filled as its direction wants. */
export function operandBuffers(
  device: Device,
  operands: readonly DeviceOperand[],
  inputs: GemmInputs,
  owned: (() => void)[],
): Checked<Record<string, DeviceBuffer>> {
  const buffers: Record<string, DeviceBuffer> = {};
  const fills = {
    in:
      (operand: DeviceOperand): Fill =>
      (buffer) =>
        buffer.write((inputBytes(operand, inputs) ?? new Uint8Array()).subarray(0, operand.bytes)),
    out: () => spoil(device),
    reduced: (): Fill => (buffer) => buffer.fill(0),
  };
  for (const operand of operands) {
    const made = allocate(device, operand.bytes, fills[operand.direction](operand), owned);
    if (!made.ok) return made;
    buffers[operand.name] = made.value;
  }
  return ok(buffers);
}

/** Every buffer of the launch, filled as its kind wants. What must be given back is entered in `owned` as soon as it exists. */
function prepare(
  device: Device,
  manifest: GemmArtifact["manifest"],
  operands: readonly DeviceOperand[],
  inputs: GemmInputs,
  env: LaunchEnvironment,
  owned: (() => void)[],
): Checked<Buffers> {
  const made = operandBuffers(device, operands, inputs, owned);
  if (!made.ok) return made;
  const buffers = made.value;
  const space = workspaceOf(device, manifest, env, owned);
  if (!space.ok) return space;
  if (space.value !== null) buffers.workspace = space.value;
  return ok(buffers);
}

/** The workspace of a launch, set up as the manifest says; null where it wants none. */
export function workspaceOf(
  device: Device,
  manifest: GemmArtifact["manifest"],
  env: LaunchEnvironment,
  owned: (() => void)[],
): Checked<DeviceBuffer | null> {
  const workspace = workspaceBytes(manifest, env);
  if (!workspace.ok) return workspace;
  if (workspace.value === 0) return ok(null);
  const init = manifest.workspace?.init ?? "zeroEach";
  const fill: Fill = init === "none" ? spoil(device) : (buffer) => buffer.fill(0);
  return allocate(device, workspace.value, fill, owned);
}

function launchAll(
  device: Device,
  manifest: GemmArtifact["manifest"],
  module: DeviceModule,
  operands: readonly DeviceOperand[],
  env: LaunchEnvironment,
  buffers: Buffers,
  knobs: Omit<KernelLaunchOptions, "constraints">,
): Checked<GemmResult> {
  const constraints = manifest.constraints ?? [];
  const ran = launchInOrder(device, manifest, module, env, buffers, { ...knobs, constraints });
  if (!ran.ok) return ran;
  const results = readResults(operands, buffers);
  return results.ok ? ok({ ...results.value, ...ran.value }) : results;
}

/** Launch the kernels of an artefact one after the other, until one does not end. Times and counters are sums. */
export function launchInOrder(
  device: Device,
  { kernels }: Pick<GemmArtifact["manifest"], "kernels">,
  module: DeviceModule,
  env: LaunchEnvironment,
  buffers: KernelBuffers,
  options: KernelLaunchOptions,
): Checked<Pick<GemmResult, "timeMs" | "findings" | "counters" | "completed">> {
  let timeMs = 0;
  let completed = true;
  let counters: Counters | null = null;
  const findings: Finding[] = [];
  for (const kernel of kernels) {
    const launched = launchKernel(device, kernel, module, env, buffers, options);
    if (!launched.ok) return launched;
    timeMs += launched.value.timeMs;
    findings.push(...launched.value.findings);
    counters = addCounters(counters, launched.value.counters);
    completed = launched.value.completed;
    if (!completed) break;
  }
  return ok({ timeMs, findings, counters, completed });
}

/** What a problem's buffers hold after its kernels. */
export function readResults(
  operands: readonly DeviceOperand[],
  buffers: Readonly<Record<string, DeviceBuffer>>,
): Checked<Pick<GemmResult, "d" | "steps">> {
  let d: Uint8Array = new Uint8Array();
  const steps = new Map<number, Uint8Array>();
  for (const operand of operands) {
    const buffer = buffers[operand.name];
    if (operand.direction === "in" || buffer === undefined) continue;
    const bytes = buffer.read();
    if (!bytes.ok) return bytes;
    if (operand.name === "d") d = bytes.value;
    else steps.set(stepOf(operand), bytes.value);
  }
  return ok({ d, steps });
}
