/** Candidates on the bench: all of a batch in the same rounds, and each that fails without the others. */
import type { Diagnostic } from "@tilewright/core";
import {
  type Bench,
  type BenchJob,
  type BenchOutcome,
  type BenchTime,
  measureSurvivors,
} from "@tilewright/runtime";
import { programOfJob } from "../bench/program.ts";
import type { CompiledKernel } from "./compile.ts";
import type { Task } from "./tasks.ts";

/** A candidate with its kernel: as text, or as machine code where an assembler has made it already. */
export interface Contestant {
  readonly name: string;
  readonly kernel: CompiledKernel;
  readonly image: string | Uint8Array;
}

/** How long and beside what a batch is measured. */
export interface Effort {
  readonly budgetMs: number;
  readonly warmupMs: number;
  readonly minRounds: number;
  /** Algorithms of cuBLASLt to try; null leaves it out. */
  readonly algorithms: number | null;
}

/** What came of a batch. */
export interface Measurements {
  readonly times: ReadonlyMap<string, BenchTime>;
  readonly outcome: BenchOutcome | null;
  readonly failures: readonly Diagnostic[];
  /** The machine itself fails: nothing more can be measured. */
  readonly hopeless: boolean;
}

/** A failure of the machine or of the queue to it, not of one kernel: every other measurement would end the same way. */
export const hopeless = /^TW(60(0[1-6]|26)|705[45])$/;

const jobOf = (
  { problem, program }: Omit<Task, "count">,
  contestants: readonly Contestant[],
  effort: Effort,
  seed: number,
): BenchJob => ({
  problem,
  ...(program === undefined ? {} : { program: programOfJob(problem, program, { inputs: "normal", seed }) }),
  candidates: contestants.map(({ name, kernel, image }) => ({
    name,
    artifact: { ptx: image, manifest: kernel.manifest },
  })),
  cublas: effort.algorithms === null ? null : { algorithms: effort.algorithms },
  regimes: ["idle"],
  inputs: "normal",
  seed,
  measure: { budgetMs: effort.budgetMs, warmupMs: effort.warmupMs, minRounds: effort.minRounds },
});

/**
 * Measure a batch. A candidate that fails by itself is left out; where nobody knows who it was, as when the process was lost while all ran in turns, halves are measured
 * by themselves, so that it costs one candidate and not the batch.
 */
export async function measureBatch(
  bench: Bench,
  task: Omit<Task, "count">,
  contestants: readonly Contestant[],
  effort: Effort,
  seed: number,
): Promise<Measurements> {
  const { outcome, failures } = await measureSurvivors(bench, jobOf(task, contestants, effort, seed));
  const lost = failures.some(({ code }) => hopeless.test(code));
  if (outcome !== null || lost || contestants.length <= 1) {
    const times = new Map((outcome?.regimes[0]?.times ?? []).map((time) => [time.name, time]));
    return { times, outcome, failures, hopeless: lost };
  }
  const middle = Math.ceil(contestants.length / 2);
  const first = await measureBatch(bench, task, contestants.slice(0, middle), effort, seed);
  if (first.hopeless) return first;
  const second = await measureBatch(bench, task, contestants.slice(middle), effort, seed);
  return {
    times: new Map([...first.times, ...second.times]),
    outcome: first.outcome ?? second.outcome,
    failures: [...first.failures, ...second.failures],
    hopeless: second.hopeless,
  };
}
