/** A candidate of a benchmark as files that `tilewright emulate` runs. */
import { dtypes } from "@tilewright/ir";
import { type KeptReplay, keepReplay, type LaunchFile, replayFolder, replayOf } from "../isolation/replay.ts";
import type { DeviceOperand } from "../operands.ts";
import { operandDType } from "./buffers.ts";
import type { InputKind } from "./inputs.ts";
import { launchScalars } from "./kernels.ts";
import type { BenchJob } from "./session.ts";

/** Fills of a launch file: of the same distribution as the benchmark's inputs, which are gigabytes, and not the same numbers. */
const fills: Readonly<Record<InputKind, (seed: number) => unknown>> = {
  normal: (seed) => ({ normal: { seed } }),
  integers: (seed) => ({ integers: { seed } }),
  zeros: () => "zeros",
};

/**
 * Write candidate `name` of `job` into a folder of its own under `root`. Null: the job has no candidate of that name (a library's kernel is
 * nothing that the emulator could run).
 */
export function keepBenchReplay(
  job: BenchJob,
  name: string,
  device: { readonly numSms: number },
  root = replayFolder(),
): KeptReplay | null {
  const candidate = job.candidates.find((one) => one.name === name);
  if (candidate === undefined) return null;
  const { alpha, beta, step } = launchScalars;
  let seed = job.seed;
  const source = (operand: DeviceOperand): LaunchFile => {
    const dtype = operandDType(job.problem, operand.name);
    const elements = Math.floor((8 * operand.bytes) / dtypes[dtype].bits);
    return { dtype, shape: [elements], fill: fills[job.inputs](seed++) };
  };
  const steps = job.problem.epilogue.map(() => step);
  return keepReplay(replayOf(candidate.artifact, source, { alpha, beta, steps }, device), root);
}
