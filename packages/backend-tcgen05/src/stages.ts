/** How many stages a schedule gets. */
import type { Problem, Target } from "@tilewright/core";
import { sharedBytes, stageBytes } from "./footprint.ts";
import type { TensorSchedule } from "./schedule.ts";

/** More stages bring nothing that could be seen in the published ladders. */
const MOST_STAGES = 8;

/** The most stages, up to `most`, with which a block fits the target; 0 where none does. */
export function stagesThatFit(s: TensorSchedule, problem: Problem, target: Target, most: number): number {
  let stages = Math.min(
    MOST_STAGES,
    most,
    Math.floor(target.limits.maxSmemPerBlock / stageBytes(s, problem)),
  );
  while (stages > 0 && sharedBytes({ ...s, stages }, problem) > target.limits.maxSmemPerBlock) stages--;
  return stages;
}

/** The stages of a schedule's pipeline: as many as fit, up to the chunks that a tile has; at least one. */
export const stagesFor = (s: TensorSchedule, problem: Problem, target: Target, chunks: number): number =>
  Math.max(1, stagesThatFit(s, problem, target, Math.min(MOST_STAGES, chunks)));
