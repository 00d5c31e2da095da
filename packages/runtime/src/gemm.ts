/** One GEMM on a device, from host bytes to host bytes. */
import type { Counters, Finding } from "@tilewright/emulator";
import {
  type Checked,
  type Constraint,
  type Diagnostic,
  dtypes,
  err,
  type KernelSpec,
  type Operand,
  ok,
  operandShape,
  type Problem,
} from "@tilewright/ir";
import type { Device, DeviceBuffer, DeviceModule } from "./device.ts";
import { diagnose } from "./diagnostics.ts";
import { evaluate, type LaunchEnv } from "./launch-expr.ts";
import { type KernelLaunchOptions, launchKernel } from "./launch-kernel.ts";

/** The part of a compiled artefact that running it needs. */
export interface GemmArtifact {
  /** PTX text, or a cubin. */
  readonly ptx: string | Uint8Array;
  /** In launch order: the main kernel, then a reduction if there is one. */
  readonly kernels: readonly KernelSpec[];
  readonly problem: Problem;
  readonly constraints?: readonly Constraint[];
}

/** Host bytes of each operand in its layout, padding of the leading dimension included, batches at their strides. */
export interface GemmBuffers {
  readonly a: Uint8Array;
  readonly b: Uint8Array;
  /** Needed exactly when the problem has C. */
  readonly c?: Uint8Array | null;
}

export type GemmOptions = Omit<KernelLaunchOptions, "constraints"> & {
  /** Values of scalars that the problem leaves to the launch. */
  readonly alpha?: number;
  readonly beta?: number;
};

export interface GemmResult {
  /** Bytes of D in its layout. What no kernel wrote is 0xff on a GPU (NaN in every float type) and undefined on the emulator. */
  readonly d: Uint8Array;
  /** Sum over the kernels; see {@link LaunchResult.timeMs}. */
  readonly timeMs: number;
  readonly findings: readonly Finding[];
  /** Sum over the kernels; null on a GPU. */
  readonly counters: Counters | null;
  /** False when the emulator gave a launch up: `d` is then not finished. */
  readonly completed: boolean;
}

type Which = "a" | "b" | "c" | "d";

/** Makes every float NaN, in all the formats (f64 to e5m2), and every integer -1. */
const poison = 0xff;

/** Bytes from the first to the last element of an operand, all batches included. */
export function operandBytes(problem: Problem, which: Which, operand: Operand): number {
  const [rows, cols] = operandShape(problem, which);
  const [outer, inner] = operand.layout === "row" ? [rows, cols] : [cols, rows];
  const strides = {
    a: problem.batch.kind === "strided" ? problem.batch.strideA : 0,
    b: problem.batch.kind === "strided" ? problem.batch.strideB : 0,
    c: problem.batch.kind === "strided" ? problem.batch.strideC : 0,
    d: problem.batch.kind === "strided" ? problem.batch.strideD : 0,
  };
  const batches = problem.batch.kind === "strided" ? problem.batch.count : 1;
  const span = (outer - 1) * operand.ld + inner + (batches - 1) * strides[which];
  return Math.ceil((span * dtypes[operand.dtype].bits) / 8);
}

/** Names that a manifest's expressions may use. Absent operands have leading dimension 0. */
export function gemmEnv(problem: Problem, options: Pick<GemmOptions, "alpha" | "beta"> = {}): LaunchEnv {
  const { m, n, k, a, b, c, d, batch } = problem;
  const scalar = (value: Problem["alpha"], given: number | undefined, otherwise: number): number =>
    value === "runtime" ? (given ?? otherwise) : value;
  return {
    m,
    n,
    k,
    batch: batch.kind === "none" ? 1 : batch.count,
    lda: a.ld,
    ldb: b.ld,
    ldc: c?.ld ?? 0,
    ldd: d.ld,
    ...(batch.kind === "strided"
      ? { strideA: batch.strideA, strideB: batch.strideB, strideC: batch.strideC, strideD: batch.strideD }
      : {}),
    alpha: scalar(problem.alpha, options.alpha, 1),
    beta: scalar(problem.beta, options.beta, 0),
  };
}

/**
 * Allocate, upload, launch every kernel of `artifact`, download D, free.
 * D is poisoned first (uninitialised on the emulator), so that an element nobody writes cannot pass for a result; a workspace is zeroed.
 * Errors: operands that are missing or too small, all at once; then what the device says. Findings of the emulator are no errors here.
 */
export function runGemm(
  device: Device,
  artifact: GemmArtifact,
  host: GemmBuffers,
  options: GemmOptions = {},
): Checked<GemmResult> {
  const { alpha, beta, ...knobs } = options;
  const { problem } = artifact;
  const env: LaunchEnv = {
    numSms: device.numSms,
    ...gemmEnv(problem, {
      ...(alpha === undefined ? {} : { alpha }),
      ...(beta === undefined ? {} : { beta }),
    }),
  };
  const problems = hostProblems(problem, host, options);
  if (problems.length > 0) return err(problems);

  const alive: { free(): void }[] = [];
  try {
    const buffers = upload(device, artifact, host, env, (buffer) => alive.push(buffer));
    if (!buffers.ok) return buffers;
    const module = device.load(artifact.ptx);
    if (!module.ok) return module;
    alive.push({ free: () => module.value.unload() });
    return launchAll(device, artifact, module.value, env, buffers.value, {
      ...knobs,
      constraints: artifact.constraints ?? [],
    });
  } finally {
    for (const resource of alive.reverse()) resource.free();
  }
}

type GemmDeviceBuffers = Readonly<Partial<Record<Which | "workspace", DeviceBuffer>>> & {
  readonly d: DeviceBuffer;
};

function hostProblems(problem: Problem, host: GemmBuffers, options: GemmOptions): readonly Diagnostic[] {
  const problems: Diagnostic[] = [];
  for (const which of ["a", "b", "c"] as const) {
    const operand = problem[which];
    if (operand === null) continue;
    const data = host[which] ?? null;
    const needs = operandBytes(problem, which, operand);
    if (data === null) {
      problems.push(diagnose("operand", which, `the problem has an operand ${which} and no data was given`));
    } else if (data.byteLength < needs) {
      const shape = operandShape(problem, which).join(" x ");
      problems.push(
        diagnose(
          "operand",
          which,
          `${data.byteLength} B are too few for ${which}`,
          `${shape} ${operand.dtype} with leading dimension ${operand.ld} needs ${needs} B`,
        ),
      );
    }
  }
  for (const name of ["alpha", "beta"] as const) {
    if (problem[name] === "runtime" && options[name] === undefined) {
      problems.push(
        diagnose("operand", name, `${name} is left to the launch and was not given`, `pass ${name}`),
      );
    }
  }
  if (problem.batch.kind === "grouped") {
    problems.push(
      diagnose(
        "parameter",
        "batch",
        "grouped problems take their shapes from device memory",
        "launch with launchKernel",
      ),
    );
  }
  return problems;
}

/** Operands on the device. `own` is told of every buffer as soon as it exists. */
function upload(
  device: Device,
  artifact: GemmArtifact,
  host: GemmBuffers,
  env: LaunchEnv,
  own: (buffer: DeviceBuffer) => void,
): Checked<GemmDeviceBuffers> {
  const { problem } = artifact;
  const buffers: Partial<Record<Which | "workspace", DeviceBuffer>> = {};
  const make = (name: Which | "workspace", size: number, init: (buffer: DeviceBuffer) => Checked<true>) => {
    const buffer = device.alloc(size);
    if (!buffer.ok) return buffer;
    own(buffer.value);
    buffers[name] = buffer.value;
    return init(buffer.value);
  };
  for (const which of ["a", "b", "c"] as const) {
    const operand = problem[which];
    const data = host[which] ?? null;
    if (operand === null || data === null) continue;
    const size = operandBytes(problem, which, operand);
    const made = make(which, size, (buffer) => buffer.write(data.subarray(0, size)));
    if (!made.ok) return made;
  }
  const workspace = workspaceBytes(artifact.kernels, env);
  if (!workspace.ok) return workspace;
  if (workspace.value > 0) {
    const made = make("workspace", workspace.value, (buffer) => buffer.fill(0));
    if (!made.ok) return made;
  }
  const d = device.alloc(operandBytes(problem, "d", problem.d));
  if (!d.ok) return d;
  own(d.value);
  // The emulator knows of each byte whether it was written, and would forget it here.
  const poisoned = device.kind === "cuda" ? d.value.fill(poison) : ok(true as const);
  return poisoned.ok ? ok({ ...buffers, d: d.value }) : poisoned;
}

/** The kernels of an artefact share one workspace: the largest that any of them wants. */
function workspaceBytes(kernels: readonly KernelSpec[], env: LaunchEnv): Checked<number> {
  let most = 0;
  for (const kernel of kernels) {
    const bytes = evaluate(`${kernel.entry}.workspaceBytes`, kernel.workspaceBytes, env);
    if (!bytes.ok) return bytes;
    most = Math.max(most, bytes.value);
  }
  return ok(most);
}

function launchAll(
  device: Device,
  artifact: GemmArtifact,
  module: DeviceModule,
  env: LaunchEnv,
  buffers: GemmDeviceBuffers,
  options: KernelLaunchOptions,
): Checked<GemmResult> {
  let timeMs = 0;
  let completed = true;
  let counters: Counters | null = null;
  const findings: Finding[] = [];
  for (const kernel of artifact.kernels) {
    const launched = launchKernel(device, kernel, module, env, buffers, options);
    if (!launched.ok) return launched;
    timeMs += launched.value.timeMs;
    findings.push(...launched.value.findings);
    counters = addCounters(counters, launched.value.counters);
    completed = launched.value.completed;
    if (!completed) break;
  }
  const d = buffers.d.read();
  return d.ok ? ok({ d: d.value, timeMs, findings, counters, completed }) : d;
}

/** Sum of two counts; the other one where one is null. */
export function addCounters(a: Counters | null, b: Counters | null): Counters | null {
  if (a === null || b === null) return a ?? b;
  const instructions: Record<string, number> = { ...a.instructions };
  for (const [opcode, count] of Object.entries(b.instructions)) {
    instructions[opcode] = (instructions[opcode] ?? 0) + count;
  }
  return {
    instructions,
    warpInstructions: a.warpInstructions + b.warpInstructions,
    globalBytesRead: a.globalBytesRead + b.globalBytesRead,
    globalBytesWritten: a.globalBytesWritten + b.globalBytesWritten,
    sharedBytesRead: a.sharedBytesRead + b.sharedBytesRead,
    sharedBytesWritten: a.sharedBytesWritten + b.sharedBytesWritten,
    barriers: a.barriers + b.barriers,
    sharedWavefronts: a.sharedWavefronts + b.sharedWavefronts,
    sharedConflicts: a.sharedConflicts + b.sharedConflicts,
  };
}
