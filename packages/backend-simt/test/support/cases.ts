/** Random legal schedules from a seed, and problems to go with them. */
import { type DTypes, pick, problemOf, randomProblem, targetOf } from "@tilewright/conformance";
import {
  createRandom,
  hasFeature,
  type Problem,
  type Random,
  type Schedule,
  sizeOf,
  type Target,
} from "@tilewright/core";
import { defaultSchedule, transposable } from "@tilewright/ir";
import { checkSchedule } from "../../src/check.ts";
import { scheduleModel } from "../../src/schedule.ts";

export { problemOf, targetOf };

export interface Case {
  readonly seed: number;
  readonly problem: Problem;
  readonly schedule: Schedule;
  readonly target: Target;
}

/** A problem of f32 matrices with sizes up to `most`. */
export const randomF32 = (random: Random, most: number): Problem =>
  randomProblem(random, { dtypes: { dtype: "f32" } satisfies DTypes, most });

/** A legal schedule: any factorisation, powers of two or not, each optimisation on or off by itself. */
export function randomSchedule(random: Random, problem: Problem, target: Target): Schedule {
  const divisorOf = (n: number): number => {
    const divisors = Array.from({ length: n }, (_, i) => i + 1).filter((d) => n % d === 0);
    return divisors[random.integer(0, divisors.length - 1)] ?? 1;
  };
  const along = transposable(problem, "mn");
  for (;;) {
    const lanesM = pick(random, [1, 2, 4, 8, 16, 32]);
    const lanesN = 32 / lanesM;
    const [threadM, threadN] = [random.integer(1, 8), random.integer(1, 8)];
    const [warpsM, warpsN] = [random.integer(1, 3), random.integer(1, 3)];
    const [tileM, tileN] = [warpsM * lanesM * threadM, warpsN * lanesN * threadN];
    // A block tile far beyond the problem only repeats masked work.
    if (tileM > 2 * problem.m + 64 || tileN > 2 * problem.n + 64) continue;
    const stage = pick(random, ["ab", "ab", "ab", "a", "b", "off"]);
    const copy = sizeOf(problem.a.dtype) < 4 ? "direct" : pick(random, ["direct", "cp.async"]);
    const schedule: Schedule = {
      ...defaultSchedule(scheduleModel),
      tile: [tileM, tileN, random.integer(1, 20)],
      thread: [threadM, threadN],
      lanes: [lanesM, lanesN],
      strip: [divisorOf(threadM), divisorOf(threadN)],
      stagedOperands: stage,
      stages: stage === "off" ? 1 : random.integer(1, 4),
      copy,
      registerPrefetch: copy === "direct" ? pick(random, ["on", "off"]) : "off",
      frag: random.integer(1, 2),
      copySpread: pick(random, [1, 1, 2, 5]),
      registerStoreStep: pick(random, [0, 0, 1, 4]),
      drain: random.integer(0, 3),
      copyElements: pick(random, [1, 2, 4]),
      sharedLayout: pick(random, ["auto", "pad", "swizzle", "plain"]),
      walk: pick(random, ["snake-rows", "snake-cols", "rows", "cols"]),
      walkLines: pick(random, ["up", "down", "flip:4", "up:2"]),
      walkAlong: pick(random, ["up", "flip", "down:1"]),
      operandOrder: pick(random, ["ab", "ba"]),
      raster: pick(random, ["row", "col", "grouped:2", "grouped:8", "snake:2", "hilbert"]),
      storeElements: pick(random, [1, 2, 4]),
      guards: pick(random, ["on", "on", "off"]),
      split: pick(random, [1, 1, 1, 2, 3, 7]),
      ...(stage === "off" ? {} : { vectorsPerThread: pick(random, [1, 1, 2, 4, 8]) }),
      transpose: pick(random, ["off", "off", "off", along]),
      ...(hasFeature(target, "cluster") ? { reduction: pick(random, ["last", "cluster", "cluster"]) } : {}),
    };
    if (checkSchedule(problem, schedule, target).length === 0) return schedule;
  }
}

/** Case number `seed`: sizes from 1 to `most` in each dimension. */
export function randomCase(seed: number, arch: string, most = 300): Case {
  const random = createRandom(seed);
  const target = targetOf(arch);
  const problem = randomF32(random, most);
  return { seed, problem, schedule: randomSchedule(random, problem, target), target };
}
