/** Schedules for programs of several products, one of which multiplies what threads have made of the sums of another. */
import type { Problem, Schedule, Target } from "@tilewright/core";
import { defaultSchedule, type Machine } from "@tilewright/ir";
import { checkSchedule } from "./check.ts";
import { ATOM_ROWS } from "./nest.ts";
import { scheduleModel } from "./schedule.ts";

/**
 * Warpgroups of a block, each with whole rows, and the register budgets of producer and consumers (TW2307: 504 or 512 for each lane of a warpgroup). `columns`: most of which a
 * thread then holds the sums of two products, and the factor made of one of them, for each of the 64 rows of its warpgroup: 160 of 240 registers, or 80 of 160.
 */
const arrangements = [
  { groups: 3, regs: [32, 160], columns: 64 },
  { groups: 2, regs: [24, 240], columns: 128 },
  { groups: 1, regs: [24, 240], columns: 128 },
] as const;

/** Columns of parts, and the chunk in which they are multiplied: of narrow sums twice as many. */
const widths = (n: number): readonly (number[] | "none")[] => (n <= 64 ? [[128, 128], "none"] : ["none"]);

/**
 * Tiles whose warpgroups have whole rows, so that sums become the next product's factor in registers, with chunks as long as rows, so that a product is one group of
 * instructions; the most rows first, where they leave no SM without a tile.
 */
export function* chainSchedules(problem: Problem, target: Target, { sms }: Machine): Iterable<Schedule> {
  const { m, n, k, batch } = problem;
  const held = arrangements.filter(({ columns }) => n <= columns);
  const count = batch.kind === "none" ? 1 : batch.count;
  const fills = ({ groups }: (typeof arrangements)[number]): boolean =>
    Math.ceil(m / (groups * ATOM_ROWS)) * count >= sms;
  const ordered = held.some(fills) ? held.filter(fills) : held.toReversed();
  // Products of several chunks are not issued ahead.
  for (const chunk of k > 64 ? [128, 64] : [64])
    for (const pipelineProducts of chunk >= k && chunk >= n ? ["on", "off"] : ["off"])
      for (const [{ groups, regs }, chainTile] of ordered.flatMap((each) =>
        widths(n).map((width) => [each, width] as const),
      )) {
        const schedule = {
          ...defaultSchedule(scheduleModel),
          tile: [groups * ATOM_ROWS, n, chunk],
          chainTile,
          warpgroups: [groups, 1],
          stages: 2 * (128 / chunk),
          regs: [...regs],
          pipelineProducts,
          // Masks leave later tiles more to do, or fewer.
          sched: "zigzag",
        };
        if (checkSchedule(problem, schedule, target).length === 0) yield schedule;
      }
}
