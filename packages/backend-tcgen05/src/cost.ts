/**
 * What a schedule costs: rounds of tiles on the SMs. A prediction to rank by, in cycles of an SM, from rates that NVIDIA publishes for a B200;
 * nothing of it was measured by this project.
 */
import { dtypes, type Problem, type Schedule } from "@tilewright/ir";
import { readSchedule } from "./schedule.ts";

/** Shared memory beside the operands, in bytes. */
export const OVERHEAD = 1024;

/** SMs to balance rounds for: a B200's. */
const TYPICAL_SMS = 148;

const machine = {
  /** Products of 16-bit elements a cycle and SM: an M 128, N 256, K 16 takes 128 cycles. */
  products: (128 * 256 * 16) / 128,
  /** Bytes of L2 that an SM reads a cycle. */
  l2Bytes: 64,
  /** Of a tile: what does not hide behind another's multiplications; of a chunk: barrier and issue. */
  tile: 600,
  chunk: 16,
} as const;

/** Estimated cycles. Sizes of problem and tile in elements. */
export function estimateTime(problem: Problem, schedule: Schedule): number {
  const s = readSchedule(schedule);
  const size = dtypes[problem.a.dtype].bits / 8;
  const batch = problem.batch.kind === "strided" ? problem.batch.count : 1;
  const tiles = Math.ceil(problem.m / s.tileM) * Math.ceil(problem.n / s.tileN) * batch;
  const chunks = Math.ceil(problem.k / s.tileK);
  const rounds = Math.ceil(tiles / Math.floor(TYPICAL_SMS / s.cta));
  const work = (s.tileM * s.tileN * s.tileK) / s.cta / (machine.products * (2 / size));
  const bytes = ((s.tileM + s.tileN) / s.cta) * s.tileK * size;
  const chunk = Math.max(work, bytes / machine.l2Bytes) + machine.chunk;
  return rounds * (chunks * chunk + machine.tile);
}
