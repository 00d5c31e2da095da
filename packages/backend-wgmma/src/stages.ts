/** How many stages a schedule gets. */
import { dtypes, type Problem, sizeOf } from "@tilewright/core";
import { chunkK } from "./instructions.ts";
import { mathGroups, type WgmmaSchedule } from "./schedule.ts";
import { blockBytes, stagedColumns } from "./sharedMemory.ts";
import { isTwoLevel } from "./twoLevel.ts";

/** Most stages: more of them than this were never faster. */
const MOST_STAGES = 8;

/**
 * The same of weights, fewest, and most of four warpgroups: 256x128x128 in two is half as slow again as in three; 16x64x128 in eight 14 % slower than in four; 16x256x128 by four
 * warpgroups 1 % slower in four and in eight than in six.
 */
const WEIGHT_STAGES = { fewest: 3, most: 4, mostOfFour: 6 } as const;

/** Bytes of the narrowest rows of boxes that store D. */
const LEAST_BOX = 32;

/** Fewest stages beside a wider tile for D. */
const FEW_STAGES = 3;

/**
 * Of persistent CTAs: sums that are promoted leave a long time between stages, so that one fewer serves where D then goes through wider parts: 128x256x128 in three takes 0.98 to 1.00 of the time
 * in four at 4096 rows (docs/perf/runs/2026-11-24-h200-block-scales.json).
 */
function stagesBesideD(problem: Problem, s: WgmmaSchedule, most: number): number {
  const fewer = { ...s, stages: s.stages - 1 };
  const widens = stagedColumns(problem, fewer, most) > stagedColumns(problem, s, most);
  return isTwoLevel(problem) && s.persistent && s.epi === "tma" && s.stages > FEW_STAGES && widens
    ? fewer.stages
    : s.stages;
}

/** The stages of a schedule's pipeline: as many as fit into `most` bytes of shared memory beside the tile of D; null where too few do. */
export function stagesThatFit(problem: Problem, s: WgmmaSchedule, most: number): number | null {
  const slot =
    chunkK(problem, s.tileK) *
    (s.tileM * sizeOf(problem.a.dtype) + (s.tileN * dtypes[problem.b.dtype].bits) / 8);
  const stored = s.epi === "tma" ? s.pingPong * s.tileM * s.groupsN * LEAST_BOX : 0;
  const beside = s.swapAB || s.reduction === "cluster" ? 0 : stored;
  const { fewest, most: few, mostOfFour } = WEIGHT_STAGES;
  const [least, wanted] =
    problem.weights === undefined ? [1, MOST_STAGES] : [fewest, mathGroups(s) < 4 ? few : mostOfFour];
  for (let stages = Math.min(wanted, Math.floor((most - beside) / slot)); stages >= least; stages--) {
    const fitted = { ...s, stages };
    if (blockBytes(problem, fitted, most) <= most) return stagesBesideD(problem, fitted, most);
  }
  return null;
}
