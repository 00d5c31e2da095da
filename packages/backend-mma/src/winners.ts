/**
 * Schedules known to be best from measurements: data. Found by timing these kernels on one NVIDIA H200 (driver 580.159.04, 2026-11-21) beside cuBLASLt, in
 * f16, B contiguous along k; docs/perf/mma.md has the tables. Sizes between are left to the model (cost.ts).
 */
import type { DType } from "@tilewright/ir";

export interface Winner {
  readonly sizes: readonly (readonly [m: number, n: number, k: number])[];
  /** Of A and B. */
  readonly dtypes: readonly DType[];
  /** Where: targets whose blocks copy by cp.async at best, or by bulk copies. */
  readonly where: "cp.async" | "tma";
  /** Fields that differ from the defaults. */
  readonly schedule: string;
}

const cubes = (...sizes: readonly number[]) => sizes.map((n) => [n, n, n] as const);

const dtypes = ["f16", "bf16"] as const satisfies readonly DType[];

/** One chunk out of the loop, columns first: 0.738, 0.669 and 0.679 of cuBLASLt at 2048, 4096 and 8192; rows first and nothing taken out 0.70, 0.63 and 0.65. */
const copied =
  "tile=128x256x64 warp=64x64 stages=3 spread=1 drain=1 walk=snake-cols raster=grouped:8 store=8";

/** The first whose schedule is legal where it is asked for. */
export const winners: readonly Winner[] = [
  { sizes: cubes(2048, 4096, 6144, 8192), dtypes, where: "cp.async", schedule: copied },
  // 0.766, 0.720 and 0.722 at 2048, 4096 and 8192; 8 rows at a time 0.719 and 0.718, chunks of 64 elements 0.750, 0.710 and 0.712.
  {
    sizes: cubes(2048, 4096, 6144, 8192),
    dtypes,
    where: "tma",
    schedule:
      "tile=128x256x128 warp=64x64 stages=2 copy=tma sched=persistent frag=1 walk=snake-cols raster=grouped:16 store=8",
  },
];
