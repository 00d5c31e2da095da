/** Schedules for programs of several products, one of which multiplies what threads have made of the sums of another. */
import type { Problem, Schedule, Target } from "@tilewright/core";
import { defaultSchedule, type Machine } from "@tilewright/ir";
import { checkSchedule } from "./check.ts";
import { ATOM_ROWS } from "./instructions.ts";
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

/** Columns of D up to which parts of an axis are wider than the tile, and the width of a part, which is one chunk. */
const NARROW = 64;
const WIDE_PART = 128;

/**
 * Tiles whose warpgroups have whole rows, so that sums become the next product's factor in registers, with chunks as long as rows, so that a product is one group of
 * instructions; the most rows first, where they leave no SM without a tile.
 */
export function* chainSchedules(
  problem: Problem,
  target: Target,
  { sms }: Machine,
  selects = false,
): Iterable<Schedule> {
  const { m, n, k, batch } = problem;
  const held = arrangements.filter(({ columns }) => n <= columns);
  const count = batch.kind === "none" ? 1 : batch.count;
  const fills = ({ groups }: (typeof arrangements)[number]): boolean =>
    Math.ceil(m / (groups * ATOM_ROWS)) * count >= sms;
  const ordered = held.some(fills) ? held.filter(fills) : held.toReversed();
  // Masks leave later tiles more to do, or fewer. Whether warps vote where nothing is masked: of head dim 128 that takes 1 % longer, of 64 it saves 2 % (H200).
  const conditionalRescale = selects || n <= NARROW ? "on" : "off";
  const base = { ...defaultSchedule(scheduleModel), conditionalRescale, sched: "zigzag" };
  const formOf = ({ groups, regs }: (typeof arrangements)[number], chunk: number): Schedule => ({
    ...base,
    tile: [groups * ATOM_ROWS, n, chunk],
    warpgroups: [groups, 1],
    stages: 2 * (128 / chunk),
    regs: [...regs],
  });
  const legal = (schedule: Schedule): boolean => checkSchedule(problem, schedule, target).length === 0;
  if (n <= NARROW)
    for (const arrangement of ordered)
      for (const pipelineProducts of ["on", "off"])
        yield* [
          { ...formOf(arrangement, NARROW), chainTile: [WIDE_PART, WIDE_PART], pipelineProducts },
        ].filter(legal);
  // Products of several chunks are not issued ahead.
  for (const chunk of k > 64 ? [128, 64] : [64])
    for (const pipelineProducts of chunk >= k && chunk >= n ? ["on", "off"] : ["off"])
      for (const arrangement of ordered)
        yield* [{ ...formOf(arrangement, chunk), pipelineProducts }].filter(legal);
}
