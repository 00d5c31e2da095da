/**
 * Schedules known to be best from measurements: data. They were found by timing some forty hand-made PTX kernels of this structure on one
 * H200 (cp.async, B contiguous along k); docs/perf/mma.md has the table. Sizes between are left to the model (cost.ts).
 */
import type { DType } from "@tilewright/ir";

export interface Winner {
  readonly sizes: readonly (readonly [m: number, n: number, k: number])[];
  /** Of A and B. */
  readonly dtypes: readonly DType[];
  /** Fields that differ from the defaults. */
  readonly schedule: string;
}

const cubes = [2048, 4096, 6144, 8192].map((n) => [n, n, n] as const);

/** The first whose schedule is legal where it is asked for. */
export const winners: readonly Winner[] = [
  // Three stages, all copies of a chunk at its first K step; a fourth stage and copies spread over the steps were 0.1 to 1 % behind.
  {
    sizes: cubes,
    dtypes: ["f16", "bf16"],
    schedule: "tile=128x256x64 warp=64x64 stages=3 spread=1 walk=snake-rows raster=grouped:8 store=8",
  },
];
