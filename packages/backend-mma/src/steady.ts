/** Loops whose chunks cp.async brings: their walk, and how many of their last chunks leave them. */
import type { DType, Problem, Schedule } from "@tilewright/core";
import { readSchedule } from "./schedule.ts";

/**
 * Walks of warp tiles whose chunks cp.async brings, by what is multiplied, beside as many chunks out of the loop as it copies ahead, so that nothing in it asks
 * whether there is another. Measured with both, only the walk, only the chunks and neither: f16 0.693, 0.669, 0.660 and 0.651 (4224x4096x4096; warps of 64 x 32 at 3072
 * 0.520, 0.493, 0.500 and 0.488); s8 at 4096 0.627, 0.605, 0.609 and 0.599; tf32, whose fragments are rounded in between, 0.528, 0.500 and by rows 0.576 and 0.519.
 */
const walks: Readonly<Partial<Record<DType, string>>> = {
  f16: "snake-cols",
  bf16: "snake-cols",
  s8: "snake-cols",
  u8: "snake-cols",
  tf32: "snake-rows",
};

/** Elements of the smallest warp tile that walks so; smaller ones walk rows, but lose the chunks all the same. */
const STEADY_WARP = 64 * 32;

/** Most chunks that leave the loop. */
const MOST_DRAINED = 16;

/** Copies of a thread and chunk up to which the bounds of both loops leave registers for it (48 copies of 4 bytes spill). */
const MOST_STEADY_COPIES = 24;

/** The schedule with the walk of its dtype, and the last chunks out of the loop where they leave it registers. */
export function steady(problem: Problem, schedule: Schedule, copies: number): Schedule {
  const s = readSchedule(schedule);
  const walk = walks[problem.a.dtype];
  if (walk === undefined || s.copy !== "cp.async") return schedule;
  const ahead = s.stages - 1;
  // Where k comes with the launch, the last chunks would be a loop of their own; what an epilogue reads would be loaded among them, and spill (300 to 900 bytes).
  const known = problem.symbolic?.k === undefined && problem.epilogue.length === 0;
  const drained = known && s.streamk === 0 && ahead <= MOST_DRAINED && copies <= MOST_STEADY_COPIES;
  return {
    ...schedule,
    ...(s.warpM * s.warpN < STEADY_WARP ? {} : { walk }),
    ...(drained ? { drain: ahead } : {}),
  };
}
