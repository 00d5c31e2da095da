/** Random legal schedules from a seed. */
import { pick } from "@tilewright/conformance";
import { type Problem, type Random, type Schedule, stepMatrix, type Target } from "@tilewright/core";
import { defaultSchedule, transposable } from "@tilewright/ir";
import { isLegal } from "../../src/check.ts";
import { atomK, needsKMajor, widthsOf } from "../../src/instructions.ts";
import { scheduleModel } from "../../src/schedule.ts";

/** A legal schedule: any instruction width and number of warpgroups, each optimisation on or off by itself. */
export function randomSchedule(random: Random, problem: Problem, target: Target): Schedule {
  const [least = 8, ...wider] = widthsOf(problem).filter((n) => n <= 2 * problem.n + 16);
  const readsMore = problem.c !== null || problem.epilogue.some((_, i) => stepMatrix(problem, i) !== null);
  const base = defaultSchedule(scheduleModel);
  const across = needsKMajor(problem) ? transposable(problem, "k") : "off";
  for (;;) {
    const groups = [pick(random, [1, 1, 2, 2, 3]), pick(random, [1, 1, 1, 2, 2, 3])];
    const [groupsM = 1, groupsN = 1] = groups;
    const copy = pick(random, ["tma", "tma", "tma", "tma", "cp.async", "direct"]);
    const swap = pick(random, ["off", "off", "off", "on"]);
    const pieces = pick(random, swap === "on" ? [1, 1, 2, 3, 4] : [1, 1, 2]);
    const [rows, columns] = [64 * pieces, pick(random, [least, ...wider])];
    const schedule: Schedule = {
      ...base,
      tile: [
        groupsM * (swap === "on" ? columns : rows),
        groupsN * (swap === "on" ? rows : columns),
        atomK(problem) * pick(random, [1, 2, 4, 4, 8]),
      ],
      warpgroups: groups,
      swapAB: swap,
      stages: random.integer(1, 5),
      copy,
      regs: pick(random, ["none", "none", [24, 240], [40, 232], [56, 224]]),
      pingPong: pick(random, [1, 1, 1, 1, 2, 3]),
      delayedRelease: pick(random, ["on", "off", "off"]),
      tail: pick(random, [0, 0, 1, 2, 3]),
      swizzle: pick(random, ["128B", "128B", "64B", "32B", "none"]),
      cluster: pick(random, [
        [1, 1],
        [1, 1],
        [1, 1],
        [2, 1],
        [1, 2],
        [2, 2],
        [4, 1],
      ]),
      multicast: pick(random, ["ab", "ab", "a", "b", "off"]),
      raster: pick(random, ["row", "col", "grouped:2", "grouped:16", "snake:2", "hilbert"]),
      sched: pick(random, ["persistent", "atomic", "tiles"]),
      schedulerStages: random.integer(1, 3),
      batchGroup: problem.batch.kind === "strided" ? random.integer(0, 2) : 0,
      split: pick(random, [1, 1, 1, 2, 3]),
      reduction: pick(random, ["last", "cluster", "slices"]),
      pdl: pick(random, ["off", "off", "on"]),
      earlyProducerStart: pick(random, ["on", "on", "off"]),
      peel: pick(random, ["on", "off"]),
      epi: pick(random, ["tma", "tma", "direct"]),
      storeElements: random.integer(1, 2),
      guards: pick(random, ["on", "on", "off"]),
      cache: pick(
        random,
        copy === "cp.async"
          ? ["none", "d:evict_first"]
          : ["none", "none", "a:evict_first,b:evict_last", "b:evict_unchanged,d:evict_first"],
      ),
      l2Promotion: pick(random, ["256", "128", "0"]),
      l2Prefetch: copy === "tma" ? pick(random, [0, 0, 0, 1, 5]) : 0,
      epilogueLoad: readsMore && copy === "tma" ? pick(random, ["direct", "tma"]) : "direct",
      transpose: across === "off" ? "off" : pick(random, ["off", across, across]),
    };
    if (isLegal(problem, schedule, target)) return schedule;
  }
}
