/** Schedules for programs of several products, one of which multiplies what threads have made of the sums of another. */
import { dtypes, type Problem, type Schedule, type Target } from "@tilewright/core";
import { type Backend, defaultSchedule, type Machine, TENSOR_LANES } from "@tilewright/ir";
import { checkSchedule } from "./check.ts";
import { acceptedKind } from "./nest.ts";
import { scheduleModel } from "./schedule.ts";

/** Bytes of K in a chunk: a row of the widest swizzle. */
const CHUNK_BYTES = 128;

/** Widths of a part, widest first; how many columns registers hold beside the sums is seen when the program is put on the tile. Narrow ones are for want of others. */
const WIDTHS = [256, 128, 64] as const;
const NARROW = 32;

/** Groups of rows of a tile, rows of each, and whether correction warps scale the sums. */
interface Rows {
  readonly groups: 1 | 2;
  readonly rows: number;
  readonly corrected: boolean;
}

/** Rows of tiles, and what a row takes of the time of one of one group of 64 by the model's run, where tiles are enough for all SMs: beside sums of up to 64 columns, and of more. */
const TILES: readonly (Rows & { readonly narrow: number; readonly wide: number })[] = [
  { groups: 2, rows: TENSOR_LANES, corrected: true, narrow: 0.46, wide: 0.32 },
  { groups: 1, rows: TENSOR_LANES, corrected: true, narrow: 0.6, wide: 0.45 },
  { groups: 2, rows: TENSOR_LANES, corrected: false, narrow: 0.65, wide: 0.65 },
  { groups: 2, rows: TENSOR_LANES / 2, corrected: false, narrow: 0.77, wide: 0.56 },
  { groups: 1, rows: TENSOR_LANES, corrected: false, narrow: 0.92, wide: 0.92 },
  { groups: 1, rows: TENSOR_LANES / 2, corrected: false, narrow: 1, wide: 1 },
];
const NARROW_SUMS = 64;

/** Memory from which operands that threads make are multiplied: by tensor memory they take no shared memory, and cross it neither way. */
const OPERANDS = ["tensor", "shared"] as const;

/** Stages of the rings of operands: of products that follow each other neither is waited for long. */
const STAGES = 2;

/** Rows of a tile, and columns of a part; 0 where there are no parts. */
interface Form extends Rows {
  readonly width: number;
}

/** Forms that keep the SM with most tiles busy for the shortest time first, of each the widest parts; narrow parts last, but of two groups of an instruction's rows. */
function formsFor(
  { m, n, batch }: Problem,
  sms: number,
  { parts, products }: Parameters<NonNullable<Backend["chains"]>>[3],
): readonly Form[] {
  const of = ({ groups, rows, corrected }: Rows, widths: readonly number[]): readonly Form[] =>
    widths.map((width) => ({ groups, rows, corrected, width }));
  const single = TILES.filter(({ groups, corrected }) => groups === 1 && !corrected);
  if (!parts) return single.flatMap((each) => of(each, [0]));
  const count = batch.kind === "none" ? 1 : batch.count;
  const sums = n <= NARROW_SUMS ? "narrow" : "wide";
  // Tiles of a last wave cost as much as others.
  const time = (each: (typeof TILES)[number]): number => {
    const rows = each.groups * each.rows;
    return each[sums] * rows * Math.ceil((Math.ceil(m / rows) * count) / sms);
  };
  // A loop scales sums and adds to them where there are two products.
  const served = TILES.filter(({ corrected }) => !corrected || products.length === 2);
  return [
    ...served
      .toSorted((x, y) => time(x) - time(y))
      .flatMap((each) =>
        of(each, each.groups === 2 && each.rows === TENSOR_LANES ? [...WIDTHS, NARROW] : WIDTHS),
      ),
    ...single.flatMap((each) => of(each, [NARROW])),
  ];
}

/** Tiles of one instruction's rows or of two groups of them, in chunks of one swizzle's row. */
export function* chainSchedules(
  problem: Problem,
  target: Target,
  { sms }: Machine,
  program: Parameters<NonNullable<Backend["chains"]>>[3],
): Iterable<Schedule> {
  if (dtypes[problem.a.dtype].bits !== 16) return;
  const { n } = problem;
  const chunk = (CHUNK_BYTES / 32) * acceptedKind(problem).k;
  const base = {
    ...defaultSchedule(scheduleModel),
    ...{ ctaGroup: 1, stages: STAGES, accumulators: 1, sched: "tiles", storeStages: 1 },
  };
  for (const { groups: rowGroups, rows, corrected, width } of formsFor(problem, sms, program))
    for (const epi of rowGroups === 1 ? ["tma", "direct"] : ["direct"])
      for (const chainOperand of OPERANDS) {
        const chainTile = width === 0 ? "none" : [width, Math.min(width, chunk)];
        const pipelineProducts = program.parts ? "on" : "off";
        const schedule: Schedule = {
          ...base,
          ...{
            tile: [rowGroups * rows, n, chunk],
            chainTile,
            chainOperand,
            pipelineProducts,
            rowGroups,
            correctionWarps: corrected ? "on" : "off",
            epi,
          },
        };
        if (checkSchedule(problem, schedule, target).length === 0) yield schedule;
      }
}
