/** Which schedule first: the candidates, by an estimate of their time. */
import { defaultSchedule, type Problem, type Schedule, sizeOf, type Target } from "@tilewright/ir";
import { checkSchedule } from "./check.ts";
import { estimateTime } from "./cost.ts";
import { scheduleModel } from "./schedule.ts";

/** Tile and warpgroups, large to small; thin ones serve problems of few rows or columns. */
const shapes: readonly {
  readonly tile: readonly [number, number];
  readonly groups: readonly [number, number];
  readonly regs?: readonly [number, number];
}[] = [
  { tile: [128, 256], groups: [2, 1] },
  { tile: [128, 320], groups: [1, 2], regs: [24, 240] },
  { tile: [256, 192], groups: [2, 1], regs: [24, 240] },
  { tile: [128, 224], groups: [2, 1] },
  { tile: [128, 192], groups: [2, 1] },
  { tile: [128, 128], groups: [2, 1] },
  { tile: [256, 128], groups: [2, 1] },
  { tile: [64, 256], groups: [1, 1] },
  { tile: [64, 128], groups: [1, 2] },
  { tile: [128, 64], groups: [2, 1] },
  { tile: [64, 64], groups: [1, 1] },
  { tile: [64, 32], groups: [1, 1] },
  { tile: [64, 16], groups: [1, 1] },
  { tile: [64, 8], groups: [1, 1] },
];

const stageCounts = [8, 6, 5, 4, 3, 2, 1] as const;

/** Blocks that may share a tile, where there are fewer tiles than SMs, and the least k that each has. */
const splits = [2, 3, 4, 6, 8, 12, 16] as const;
const SPLIT_TILES = 100;
const MIN_SPLIT_K = 512;

/** Bytes of K in a chunk: a row of the widest swizzle. */
const CHUNK_BYTES = 128;

/**
 * Candidates by estimated time, best first; ties keep the order of the table. Each has as many stages as fit, up to eight; where bulk copies or stores
 * cannot take an operand, the threads do it.
 */
export function rankSchedules(problem: Problem, target: Target): readonly Schedule[] {
  const base = defaultSchedule(scheduleModel);
  const chunk = CHUNK_BYTES / sizeOf(problem.a.dtype);
  const legal = (schedule: Schedule): boolean => checkSchedule(problem, schedule, target).length === 0;
  const ways: readonly Partial<Schedule>[] = [
    {},
    { epi: "direct" },
    { copy: "direct", epi: "direct", sched: "tiles" },
  ];
  const candidates = shapes.flatMap(({ tile: [m, n], groups, regs }): Schedule[] => {
    const tiles = Math.ceil(problem.m / m) * Math.ceil(problem.n / n);
    const found: Schedule[] = [];
    for (const way of ways)
      for (const stages of stageCounts) {
        const budget = regs && way.copy !== "direct" ? { regs: [...regs] } : {};
        const schedule = {
          ...base,
          tile: [m, n, chunk],
          groups: [...groups],
          stages,
          ...budget,
          ...way,
        } as Schedule;
        if (!legal(schedule)) continue;
        found.push(schedule);
        // Few tiles of a long K: blocks share them.
        if (tiles <= SPLIT_TILES)
          for (const split of splits) {
            const shared = { ...schedule, sched: "tiles", split };
            if (problem.k >= split * MIN_SPLIT_K && legal(shared)) found.push(shared);
          }
        return found;
      }
    return found;
  });
  return candidates
    .map((schedule) => ({ schedule, time: estimateTime(problem, schedule, target) }))
    .sort((x, y) => x.time - y.time)
    .map(({ schedule }) => schedule);
}
