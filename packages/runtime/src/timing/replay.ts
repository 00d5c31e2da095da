/** A candidate of a benchmark as files that `tilewright emulate` runs. */
import { dtypes } from "@tilewright/core";
import { type LaunchFile, type Replay, replayOf } from "../isolation/replay.ts";
import type { DeviceOperand } from "../operands.ts";
import { operandDType } from "./buffers.ts";
import type { InputKind } from "./inputs.ts";
import { launchScalars } from "./kernels.ts";
import type { BenchJob, BenchStage } from "./outcome.ts";

/** Fills of a launch file: of the same distribution as the benchmark's inputs, which are gigabytes, and not the same numbers. */
const fills: Readonly<Record<InputKind, (seed: number) => unknown>> = {
  normal: (seed) => ({ normal: { seed } }),
  integers: (seed) => ({ integers: { seed } }),
  zeros: () => "zeros",
};

/** The replay of candidate `name`; null: the job has none of that name (a library's kernel is nothing that the emulator could run). */
function replayOfCandidate(job: BenchJob, name: string, device: { readonly numSms: number }): Replay | null {
  const candidate = job.candidates.find((one) => one.name === name);
  // A launch file has no int32 that tell rows of experts apart.
  if (candidate === undefined || job.problem.batch.kind === "grouped") return null;
  const { alpha, beta, step } = launchScalars;
  let seed = job.seed;
  const source = (operand: DeviceOperand): LaunchFile => {
    const dtype = operandDType(job.problem, operand.name);
    const elements = Math.floor((8 * operand.bytes) / dtypes[dtype].bits);
    return { dtype, shape: [elements], fill: fills[job.inputs](seed++) };
  };
  const steps = job.problem.epilogue.map(() => step);
  return replayOf(candidate.artifact, source, { alpha, beta, steps }, device);
}

/** Replays of those that may have been at work in `stage`: the one that it names, else every candidate; none before the first stage. */
export function benchReplays(
  job: BenchJob,
  stage: BenchStage | null,
  device: { readonly numSms: number },
): readonly Replay[] {
  if (stage === null) return [];
  const names = stage.name === null ? job.candidates.map(({ name }) => name) : [stage.name];
  return names.flatMap((name) => replayOfCandidate(job, name, device) ?? []);
}
