/** `tune --calibrate`: kernels of all backends at sizes that the constants decide, timed on the GPU, and the constants that predict them best. */
import { type Checked, type Diagnostic, defineProblem, type Problem, type Target } from "@tilewright/core";
import {
  type Backend,
  type Calibration,
  calibrate,
  type Machine,
  rankCandidates,
  type TimedKernel,
} from "@tilewright/ir";
import type { Bench } from "@tilewright/runtime";
import type { CompilePool } from "./compile.ts";
import { type Contestant, type Effort, measureBatch } from "./measure.ts";

/** Launches, starts and loads decide the first ones, DRAM and L2 the next, products the last. */
const sizes: readonly (readonly [m: number, n: number, k: number])[] = [
  [16, 16, 64],
  [64, 64, 256],
  [128, 1024, 64],
  [1024, 1024, 128],
  [256, 256, 2048],
  [4096, 4096, 64],
  [8192, 8192, 64],
  [1, 8192, 8192],
  [16, 16384, 4096],
  [64, 8192, 8192],
  [384, 3072, 768],
  [512, 512, 8192],
  [1000, 1000, 1000],
  [2048, 2048, 2048],
  [1536, 6144, 4096],
  [4096, 4096, 4096],
];

/** Kernels of a size: the model's first ones, each of another tile. */
const PER_SIZE = 5;
/** Candidates looked at for them. */
const MOST_LOOKED_AT = 120;

const effort: Effort = { budgetMs: 60, warmupMs: 30, minRounds: 7, algorithms: null };

/** Fewer kernels than this say nothing of seven constants. */
export const LEAST_KERNELS = 16;

export interface CalibrationBed {
  readonly bench: Bench;
  readonly backends: readonly Backend[];
  readonly pool: CompilePool;
  readonly target: Target;
  /** The GPU with its shipped constants. */
  readonly machine: Machine;
  assemble(ptx: string): Promise<string | Uint8Array>;
  progress(done: number, of: number): void;
  readonly seed: number;
}

export interface Calibrating {
  /** Null where too few kernels were timed. */
  readonly found: Calibration | null;
  readonly timed: number;
  readonly failures: readonly Diagnostic[];
}

/** f16 where the target's backends multiply it beside FFMA, B along k. */
function problemsFor(backends: readonly Backend[], target: Target): readonly Problem[] {
  return sizes.flatMap(([m, n, k]) => {
    const half = problemOf(m, n, k, "f16");
    const serves =
      half.ok && backends.some((one) => one.supports(target).ok && one.accepts(half.value, target).ok);
    const problem = serves ? half : problemOf(m, n, k, "f32");
    return problem.ok ? [problem.value] : [];
  });
}

const problemOf = (m: number, n: number, k: number, dtype: "f16" | "f32"): Checked<Problem> =>
  defineProblem({ m, n, k, a: { dtype }, b: { dtype, layout: "col" } });

/** Measures and fits. A kernel that fails costs itself alone; `hopeless` machines end it. */
export async function calibrateOn(bed: CalibrationBed): Promise<Calibrating> {
  const { bench, backends, pool, target, machine, seed } = bed;
  const problems = problemsFor(backends, target);
  const timed: TimedKernel[] = [];
  const failures: Diagnostic[] = [];
  for (const [index, problem] of problems.entries()) {
    const chosen = candidatesOf(backends, problem, target, machine);
    const contestants: Contestant[] = [];
    for (const [place, { backend, text }] of chosen.entries()) {
      const made = await pool.compile({ problem, arch: target.arch, backend: backend.id, schedule: text });
      if (!made.ok) failures.push(...made.error);
      else
        contestants.push({
          name: String(place),
          kernel: made.value,
          image: await bed.assemble(made.value.ptx),
        });
    }
    const measured = await measureBatch(bench, { problem }, contestants, effort, seed);
    failures.push(...measured.failures);
    for (const [name, { us }] of measured.times) {
      const candidate = chosen[Number(name)];
      const kernel = candidate?.backend.kernel?.(problem, candidate.schedule, target);
      if (kernel !== undefined) timed.push({ problem, kernel, us: us.median });
    }
    bed.progress(index + 1, problems.length);
    if (measured.hopeless) break;
  }
  const found = timed.length < LEAST_KERNELS ? null : calibrate(machine, timed);
  return { found, timed: timed.length, failures };
}

function candidatesOf(backends: readonly Backend[], problem: Problem, target: Target, machine: Machine) {
  const tiles = new Set<string>();
  let looked = 0;
  const found = [];
  for (const candidate of rankCandidates(backends, problem, target, { machine })) {
    if (looked++ >= MOST_LOOKED_AT || found.length >= PER_SIZE) break;
    const tile = `${candidate.backend.id} ${candidate.schedule.tile}`;
    if (candidate.prediction === null || tiles.has(tile)) continue;
    tiles.add(tile);
    found.push(candidate);
  }
  return found;
}
