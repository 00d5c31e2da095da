/** Schedules for programs of several products, one of which multiplies what threads have made of the sums of another. */
import { dtypes, type Problem, type Schedule, type Target } from "@tilewright/core";
import { type Backend, defaultSchedule, TENSOR_LANES } from "@tilewright/ir";
import { checkSchedule } from "./check.ts";
import { acceptedKind } from "./nest.ts";
import { scheduleModel } from "./schedule.ts";

/** Bytes of K in a chunk: a row of the widest swizzle. */
const CHUNK_BYTES = 128;

/** Rows of a tile of one instruction; of 64 two threads share each. */
const ROWS = [TENSOR_LANES, TENSOR_LANES / 2] as const;

/** Widths of a part, widest first; how many columns registers hold beside the sums is seen when the program is put on the tile. Narrow ones are for want of others. */
const WIDTHS = [256, 128, 64] as const;
const NARROW = 32;

/** Memory from which operands that threads make are multiplied: by tensor memory they take no shared memory, and cross it neither way. */
const OPERANDS = ["tensor", "shared"] as const;

/** Stages of the rings of operands: of products that follow each other neither is waited for long. */
const STAGES = 2;

/** Tiles of one instruction's rows, the most rows first, in chunks of one swizzle's row. */
export function* chainSchedules(
  problem: Problem,
  target: Target,
  _machine: unknown,
  { parts }: Parameters<NonNullable<Backend["chains"]>>[3],
): Iterable<Schedule> {
  if (dtypes[problem.a.dtype].bits !== 16) return;
  const { n } = problem;
  const chunk = (CHUNK_BYTES / 32) * acceptedKind(problem).k;
  const base = {
    ...defaultSchedule(scheduleModel),
    ...{ ctaGroup: 1, stages: STAGES, accumulators: 1, sched: "tiles", storeStages: 1 },
  };
  const widths: readonly (readonly [rows: number, width: number])[] = parts
    ? [
        ...ROWS.flatMap((rows) => WIDTHS.map((width) => [rows, width] as const)),
        ...ROWS.map((rows) => [rows, NARROW] as const),
      ]
    : ROWS.map((rows) => [rows, 0]);
  for (const [rows, width] of widths)
    for (const epi of ["tma", "direct"])
      for (const chainOperand of OPERANDS) {
        const chainTile = width === 0 ? "none" : [width, Math.min(width, chunk)];
        const pipelineProducts = parts ? "on" : "off";
        const schedule: Schedule = {
          ...base,
          ...{ tile: [rows, n, chunk], chainTile, chainOperand, pipelineProducts, epi },
        };
        if (checkSchedule(problem, schedule, target).length === 0) yield schedule;
      }
}
