/** Random legal schedules from a seed. */
import { pick } from "@tilewright/conformance";
import {
  hasFeature,
  type Problem,
  type Random,
  SCALE_ROWS,
  type Schedule,
  type Target,
  WEIGHT_K,
} from "@tilewright/core";
import { defaultSchedule } from "@tilewright/ir";
import { atomOf } from "../../src/atoms.ts";
import { isLegal } from "../../src/check.ts";
import { scheduleModel } from "../../src/schedule.ts";

/** A legal schedule: any number of atoms and warps each way, powers of two or not, each optimisation on or off by itself. */
export function randomSchedule(random: Random, problem: Problem, target: Target): Schedule {
  const atom = atomOf(problem, target);
  if (!atom) throw new Error("no instruction");
  const base = defaultSchedule(scheduleModel);
  for (;;) {
    const scaled = atom.scaledForm !== null;
    const [warpM, warpN] = scaled
      ? [atom.m * pick(random, [1, 2, 4, 8]), atom.n * pick(random, [2, 4, 8, 16])]
      : [atom.m * random.integer(1, 3), atom.n * pick(random, [1, 2, 3, 4, 8])];
    const [tileM, tileN] = scaled
      ? [SCALE_ROWS * pick(random, [1, 1, 2]), SCALE_ROWS * (problem.gated === undefined ? 1 : 2)]
      : [warpM * random.integer(1, 3), warpN * random.integer(1, 3)];
    // A block tile far beyond the problem only repeats masked work.
    if (!scaled && (tileM > 2 * problem.m + 64 || tileN > 2 * problem.n + 64)) continue;
    const frag = random.integer(1, 2);
    const copy = pick(
      random,
      hasFeature(target, "tma") && !scaled
        ? ["tma", "tma", "tma", "cp.async", "direct"]
        : hasFeature(target, "cp.async")
          ? ["cp.async", "cp.async", "direct"]
          : ["direct"],
    );
    const stages = random.integer(1, 4);
    const { weights } = problem;
    // Weights are made of whole blocks and groups.
    const tileK =
      weights === undefined
        ? atom.k * frag * random.integer(1, 4 / frag)
        : Math.max(WEIGHT_K, weights.group) * random.integer(1, 2);
    const schedule: Schedule = {
      ...base,
      tile: [tileM, tileN, tileK],
      warp: [warpM, warpN],
      stages,
      copy,
      sched: copy === "tma" ? pick(random, ["persistent", "tiles"]) : "tiles",
      registerPrefetch: copy === "direct" && stages > 1 ? pick(random, ["on", "off"]) : "off",
      copyBytes: pick(random, ["16", "16", "8", "4"]),
      ldmatrix: pick(random, ["x4", "x4", "x2", "x1", "off"]),
      sharedLayout: pick(random, ["swizzle", "swizzle", "pad", "auto", "plain"]),
      frag: weights === undefined ? frag : 1,
      firstOperand: pick(random, ["a", "b"]),
      copySpread: pick(random, [1, 1, 2, 3]),
      refill: pick(random, ["step", "barrier"]),
      drain: copy === "tma" ? 0 : random.integer(0, 3),
      walk: pick(random, ["snake-rows", "snake-cols", "rows", "cols"]),
      raster: pick(random, ["row", "col", "grouped:2", "grouped:8", "snake:2", "hilbert"]),
      split: pick(random, [1, 1, 1, 2, 3, 7]),
      ...(hasFeature(target, "cluster") ? { reduction: pick(random, ["last", "cluster", "cluster"]) } : {}),
      streamk: pick(random, [0, 0, 0, 5]),
      interleave: pick(random, ["on", "off"]),
      cache: hasFeature(target, "cp.async")
        ? pick(random, ["none", "none", copy === "cp.async" ? "d:evict_last" : "a:evict_first,d:evict_last"])
        : "none",
      l2Promotion: pick(random, ["256", "128"]),
      l2PrefetchBytes: pick(random, ["0", "0", "64", "128"]),
      l1: pick(random, ["keep", "skip"]),
      epi: pick(random, ["smem", "direct"]),
      storeElements: pick(random, [1, 2, 4, 8]),
      guards: pick(random, ["on", "on", "off"]),
    };
    if (isLegal(problem, schedule, target)) return schedule;
  }
}
