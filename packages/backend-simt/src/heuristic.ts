/** Which schedule first: an explainable estimate of issue slots, waves and latency over a table of tile shapes. */
import { defaultSchedule, hasFeature, type Problem, type Schedule, type Target } from "@tilewright/ir";
import { estimateRegisters, stagedBytes, threadsOf } from "./check.ts";
import { readSchedule, type SimtSchedule, scheduleModel } from "./schedule.ts";

/** Tile shapes worth trying, large to small: tile, thread tile, lane grid, strip. */
const shapes: readonly Pick<Schedule, "tile" | "thread" | "lanes" | "strip">[] = [
  { tile: [128, 128, 8], thread: [16, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [64, 128, 8], thread: [8, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [64, 64, 8], thread: [8, 8], lanes: [4, 8], strip: [4, 4] },
  { tile: [64, 64, 16], thread: [8, 4], lanes: [4, 8], strip: [4, 4] },
  { tile: [32, 64, 16], thread: [4, 4], lanes: [4, 8], strip: [4, 4] },
  { tile: [32, 32, 16], thread: [4, 2], lanes: [4, 8], strip: [4, 2] },
  { tile: [16, 32, 32], thread: [2, 2], lanes: [4, 8], strip: [2, 2] },
  { tile: [4, 128, 16], thread: [4, 2], lanes: [1, 32], strip: [4, 2] },
  { tile: [128, 4, 16], thread: [2, 4], lanes: [32, 1], strip: [2, 4] },
  { tile: [1, 128, 32], thread: [1, 2], lanes: [1, 32], strip: [1, 2] },
  { tile: [128, 1, 32], thread: [2, 1], lanes: [32, 1], strip: [2, 1] },
];

/** SMs to balance waves for: an H100's or H200's. */
const TYPICAL_SMS = 132;
/** FP32 lanes of an SM (sm_70: 64, later 128); only ratios matter here. */
const FMA_LANES = 128;
/** Resident warps from which the four schedulers of an SM hide the latency of FFMA and shared loads. */
const ENOUGH_WARPS = 8;
/** Issue slots that a fragment load costs: the wavefronts of a 16-byte load by a 4 x 8 lane grid, measured with ncu. */
const FRAGMENT_LOAD_SLOTS = 3.3;

/** Relative time of a problem under a schedule: (tiles of the busiest SM) x (work of a tile) / (issue efficiency x latency hiding). */
export function estimateTime(problem: Problem, schedule: Schedule, target: Target): number {
  const s = readSchedule(schedule);
  const tiles = Math.ceil(problem.m / s.tileM) * Math.ceil(problem.n / s.tileN);
  const busiest = Math.ceil(tiles / TYPICAL_SMS);
  const perChunk = s.tileM * s.tileN * s.tileK;
  const chunks = Math.ceil(problem.k / s.tileK);
  const resident = Math.max(1, Math.min(busiest, blocksPerSm(s, target)));
  const hiding = Math.min(1, (resident * threadsOf(s)) / 32 / ENOUGH_WARPS);
  return (busiest * chunks * perChunk) / (FMA_LANES * issueShare(s) * hiding);
}

/** Share of issue slots that are multiply-adds: per K step TM*TN of them against fragment loads and turns, per chunk the copies and the loop. */
function issueShare(s: SimtSchedule): number {
  const fma = s.threadM * s.threadN * s.tileK;
  const loads =
    s.tileK *
    (Math.ceil(s.threadM / Math.min(s.vec, s.stripM)) + Math.ceil(s.threadN / Math.min(s.vec, s.stripN)));
  const copies = (2 * (s.tileM + s.tileN) * s.tileK) / threadsOf(s) / s.vec;
  // Each run of multiply-adds starts with three fresh register reads, which take a second cycle of the two banks.
  const turns = s.tileK * Math.min(s.threadM, s.threadN);
  const overhead = 12;
  return fma / (fma + loads * FRAGMENT_LOAD_SLOTS + copies + turns + overhead);
}

function blocksPerSm(s: SimtSchedule, target: Target): number {
  const { limits } = target;
  const threads = threadsOf(s);
  return Math.min(
    limits.maxBlocksPerSm,
    Math.floor(limits.maxThreadsPerSm / threads),
    Math.floor(limits.registersPerSm / (estimateRegisters(s) * threads)),
    Math.floor(limits.smemPerSm / (stagedBytes(s) + limits.reservedSmemPerBlock + 1)),
  );
}

/** Candidates by estimated time, best first; ties keep the table's order. */
export function rankSchedules(problem: Problem, target: Target): readonly Schedule[] {
  const base = defaultSchedule(scheduleModel);
  const candidates = shapes.flatMap((shape): Schedule[] => {
    const direct = { ...base, ...shape };
    // Spread copies put cp.async 3 % ahead of loads and stores in large tiles, 15 % in small ones (docs/perf/simt.md).
    const large = readSchedule(direct).threadM > 8;
    const ring = large ? { stages: 4, drain: 0, spread: 3 } : { stages: 3, drain: 2, spread: 5 };
    const asynchronous = { ...direct, ...ring, copy: "cp.async", prefetch: "off" };
    return hasFeature(target, "cp.async") ? [asynchronous, direct] : [direct];
  });
  return candidates
    .map((schedule) => ({ schedule, time: estimateTime(problem, schedule, target) }))
    .sort((x, y) => x.time - y.time)
    .map(({ schedule }) => schedule);
}
