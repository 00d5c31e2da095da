/** Random problems and schedules from a seed: the same seed gives the same case everywhere. */
import {
  createRandom,
  defaultSchedule,
  defineProblem,
  findTarget,
  formatDiagnostic,
  type Problem,
  type Random,
  type Schedule,
  type Target,
} from "@tilewright/ir";
import { checkSchedule } from "../../src/check.ts";
import { scheduleModel } from "../../src/schedule.ts";

export interface Case {
  readonly seed: number;
  readonly problem: Problem;
  readonly schedule: Schedule;
  readonly target: Target;
}

/** A target of the table. Throws on one that is not there. */
export function targetOf(arch: string): Target {
  const found = findTarget(arch);
  if (!found.ok) throw new Error(found.error.map(formatDiagnostic).join("\n"));
  return found.value;
}

/** A problem from a request. Throws on one that is refused. */
export function problemOf(request: unknown): Problem {
  const made = defineProblem(request);
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  return made.value;
}

const pick = <T>(random: Random, list: readonly [T, ...T[]]): T =>
  list[random.integer(0, list.length - 1)] ?? list[0];

/** Sizes 1 to `most`, small ones and neighbours of multiples of 16 more often. */
function randomSize(random: Random, most: number): number {
  const kind = random.integer(0, 3);
  if (kind === 0) return random.integer(1, Math.min(8, most));
  if (kind === 1)
    return Math.min(most, Math.max(1, random.integer(1, most >> 4) * 16 + random.integer(-1, 1)));
  return random.integer(1, most);
}

export function randomProblem(random: Random, most: number): Problem {
  const [m, n, k] = [randomSize(random, most), randomSize(random, most), randomSize(random, most)];
  const operand = (rows: number, columns: number) => {
    const layout = pick(random, ["row", "col"]);
    const packed = layout === "row" ? columns : rows;
    return { layout, ld: packed + pick(random, [0, 0, 1, 4, 7]), align: pick(random, [16, 16, 8, 4]) };
  };
  const beta = pick(random, [0, 0, 1, -0.5, "runtime"]);
  return problemOf({
    m,
    n,
    k,
    dtype: "f32",
    a: operand(m, k),
    b: operand(k, n),
    d: operand(m, n),
    ...(beta === 0 ? {} : { c: operand(m, n) }),
    alpha: pick(random, [1, 1, 2, -0.75, "runtime"]),
    beta,
  });
}

/** A legal schedule: any factorisation, powers of two or not, each optimisation on or off by itself. */
export function randomSchedule(random: Random, problem: Problem, target: Target): Schedule {
  const divisorOf = (n: number): number => {
    const divisors = Array.from({ length: n }, (_, i) => i + 1).filter((d) => n % d === 0);
    return divisors[random.integer(0, divisors.length - 1)] ?? 1;
  };
  for (;;) {
    const lanesM = pick(random, [1, 2, 4, 8, 16, 32]);
    const lanesN = 32 / lanesM;
    const [threadM, threadN] = [random.integer(1, 8), random.integer(1, 8)];
    const [warpsM, warpsN] = [random.integer(1, 3), random.integer(1, 3)];
    const [tileM, tileN] = [warpsM * lanesM * threadM, warpsN * lanesN * threadN];
    // A block tile far beyond the problem only repeats masked work.
    if (tileM > 2 * problem.m + 64 || tileN > 2 * problem.n + 64) continue;
    const stage = pick(random, ["ab", "ab", "ab", "a", "b", "off"]);
    const copy = pick(random, ["direct", "cp.async"]);
    const schedule: Schedule = {
      ...defaultSchedule(scheduleModel),
      tile: [tileM, tileN, random.integer(1, 20)],
      thread: [threadM, threadN],
      lanes: [lanesM, lanesN],
      strip: [divisorOf(threadM), divisorOf(threadN)],
      stage,
      stages: stage === "off" ? 1 : random.integer(1, 4),
      copy,
      prefetch: copy === "direct" ? pick(random, ["on", "off"]) : "off",
      frag: random.integer(1, 2),
      spread: pick(random, [1, 1, 2, 5]),
      drain: random.integer(0, 3),
      vec: pick(random, [1, 2, 4]),
      smem: pick(random, ["auto", "pad", "swizzle", "plain"]),
      walk: pick(random, ["snake-rows", "snake-cols", "rows", "cols"]),
      raster: pick(random, ["row", "col", "grouped:2", "grouped:8"]),
      store: pick(random, [1, 2, 4]),
      guards: pick(random, ["on", "on", "off"]),
      split: pick(random, [1, 1, 1, 2, 3, 7]),
    };
    if (checkSchedule(problem, schedule, target).length === 0) return schedule;
  }
}

/** Case number `seed`: sizes from 1 to `most` in each dimension. */
export function randomCase(seed: number, arch: string, most = 300): Case {
  const random = createRandom(seed);
  const target = targetOf(arch);
  const problem = randomProblem(random, most);
  return { seed, problem, schedule: randomSchedule(random, problem, target), target };
}
