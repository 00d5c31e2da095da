/** What a schedule is predicted to take: the analytic model of `@tilewright/ir`. Nothing of it was measured by this project on a Blackwell. */
import { type Problem, type Schedule, sizeOf } from "@tilewright/core";
import {
  epilogueLoadOf,
  type Machine,
  type ModelKernel,
  plainKernel,
  splitChunks,
  TENSOR_LANES,
} from "@tilewright/ir";
import { readSchedule, type TensorSchedule } from "./schedule.ts";

/** Bytes of a row of each swizzle in shared memory. */
const rows: Readonly<Record<string, number>> = { "128B": 128, "64B": 64, "32B": 32, none: 16 };

/** Bytes of a sector of global memory. */
const SECTOR = 32;

/** Blocks, or pairs, that a GPU holds at once: as many as stream-K shares the last wave out to. */
export const persistentUnits = ({ clusters, sms }: Machine, cta: 1 | 2): number =>
  cta === 1 ? sms : (clusters[cta] ?? Math.floor(sms / cta));

/**
 * Bytes that the lanes of a warp store side by side. Bulk stores write whole sectors, and so do lanes that hold columns of a row; of 16 lanes the fragment
 * puts four pairs of columns side by side; else a lane has a row to itself.
 */
function storedBytes(problem: Problem, s: TensorSchedule, rowsOfBlock: number): number {
  if (s.epi === "tma" || s.swapAB) return SECTOR;
  const half = s.ctaGroup === 1 && rowsOfBlock < TENSOR_LANES;
  return Math.min(
    SECTOR,
    (half ? 4 * Math.min(2, s.storeElements) : s.storeElements) * sizeOf(problem.d.dtype),
  );
}

/** The schedule as the model sees it. */
export function modelKernel(problem: Problem, schedule: Schedule): ModelKernel {
  const s = readSchedule(schedule);
  const [inLanes, across] = s.swapAB ? [s.tileN, s.tileM] : [s.tileM, s.tileN];
  const rowsOfBlock = inLanes / s.ctaGroup;
  const plain = plainKernel(
    "tcgen05",
    [s.tileM, s.tileN, s.tileK],
    [Math.min(TENSOR_LANES, rowsOfBlock), across],
  );
  const stays = s.sched !== "tiles";
  return {
    ...plain,
    swapped: s.swapAB,
    unit: s.ctaGroup,
    multicast: [s.clusterM, s.clusterN],
    stages: s.stages,
    specialised: true,
    boxBytes: rows[s.swizzle] ?? 128,
    sched: s.sched === "clc" || s.sched === "atomic" ? "clc" : stays ? "persistent" : "tiles",
    overlap: stays && s.accumulators > 1,
    storeBytes: storedBytes(problem, s, rowsOfBlock),
    split: splitChunks(problem.k, s).splits,
    combine: s.reduction,
    streamk: stays ? s.streamk : 0,
    addend: epilogueLoadOf(problem, { c: s.epilogueLoad === "tma", steps: false }),
    raster: s.raster,
  };
}
