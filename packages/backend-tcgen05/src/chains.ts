/** Schedules for programs of several products, one of which multiplies what threads have made of the sums of another. */
import { dtypes, type Problem, type Schedule, type Target } from "@tilewright/core";
import { type Backend, defaultSchedule, type Machine, TENSOR_LANES } from "@tilewright/ir";
import { checkSchedule } from "./check.ts";
import { acceptedKind } from "./nest.ts";
import { scheduleModel } from "./schedule.ts";

/** Bytes of K in a chunk: a row of the widest swizzle. */
const CHUNK_BYTES = 128;

/** Rows of one instruction; of 64 two threads share each. */
const ROWS = [TENSOR_LANES, TENSOR_LANES / 2] as const;

/** Widths of a part, widest first; how many columns registers hold beside the sums is seen when the program is put on the tile. Narrow ones are for want of others. */
const WIDTHS = [256, 128, 64] as const;
const NARROW = 32;

/**
 * What rows of two groups take of the time of rows of one, whose products and work on sums wait for each other: 0.67 to 0.76 of 64 and 128 columns by the model's run, where tiles
 * are many.
 */
const IN_TURN = 0.75;

/** Memory from which operands that threads make are multiplied: by tensor memory they take no shared memory, and cross it neither way. */
const OPERANDS = ["tensor", "shared"] as const;

/** Stages of the rings of operands: of products that follow each other neither is waited for long. */
const STAGES = 2;

/** Groups of rows of a tile, rows of each, and columns of a part; 0 where there are no parts. */
interface Form {
  readonly groups: 1 | 2;
  readonly rows: number;
  readonly width: number;
}

/** Forms of two groups where tiles of one do not keep an SM less busy, then those of one; the most rows first, and narrow parts last. */
function formsFor({ m, batch }: Problem, sms: number, parts: boolean): readonly Form[] {
  const of = (groups: 1 | 2, rows: readonly number[], widths: readonly number[]): readonly Form[] =>
    rows.flatMap((each) => widths.map((width) => ({ groups, rows: each, width })));
  if (!parts) return of(1, ROWS, [0]);
  const one = [...of(1, ROWS, WIDTHS), ...of(1, ROWS, [NARROW])];
  const count = batch.kind === "none" ? 1 : batch.count;
  // Rows that the SM with the most tiles computes: those of a last wave cost as much as others.
  const busiest = (rows: number): number => rows * Math.ceil((Math.ceil(m / rows) * count) / sms);
  const least = Math.min(...ROWS.map(busiest));
  const two = ROWS.filter((rows) => IN_TURN * busiest(2 * rows) < least);
  // Narrow parts of half an instruction's rows take longer than wide ones of one group.
  return [
    ...two.flatMap((rows) => of(2, [rows], rows === TENSOR_LANES ? [...WIDTHS, NARROW] : WIDTHS)),
    ...one,
  ];
}

/** Tiles of one instruction's rows or of two groups of them, in chunks of one swizzle's row. */
export function* chainSchedules(
  problem: Problem,
  target: Target,
  { sms }: Machine,
  { parts }: Parameters<NonNullable<Backend["chains"]>>[3],
): Iterable<Schedule> {
  if (dtypes[problem.a.dtype].bits !== 16) return;
  const { n } = problem;
  const chunk = (CHUNK_BYTES / 32) * acceptedKind(problem).k;
  const base = {
    ...defaultSchedule(scheduleModel),
    ...{ ctaGroup: 1, stages: STAGES, accumulators: 1, sched: "tiles", storeStages: 1 },
  };
  for (const { groups: rowGroups, rows, width } of formsFor(problem, sms, parts))
    for (const epi of rowGroups === 1 ? ["tma", "direct"] : ["direct"])
      for (const chainOperand of OPERANDS) {
        const chainTile = width === 0 ? "none" : [width, Math.min(width, chunk)];
        const pipelineProducts = parts ? "on" : "off";
        const schedule: Schedule = {
          ...base,
          ...{
            tile: [rowGroups * rows, n, chunk],
            chainTile,
            chainOperand,
            pipelineProducts,
            rowGroups,
            epi,
          },
        };
        if (checkSchedule(problem, schedule, target).length === 0) yield schedule;
      }
}
