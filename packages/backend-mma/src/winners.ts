/**
 * Schedules known to be best from measurements: data. Found by timing these kernels on one NVIDIA H200 (driver 580.159.04, 2026-11-21 and 22) beside cuBLASLt, in
 * f16, B contiguous along k; docs/perf/mma.md has the tables. Sizes between are left to the model (cost.ts).
 */
import type { DType, Feature } from "@tilewright/core";

export interface Winner {
  readonly sizes: readonly (readonly [m: number, n: number, k: number])[];
  /** Of A and B. */
  readonly dtypes: readonly DType[];
  /** Where: targets whose blocks copy by cp.async at best, or have bulk copies, too; those of the first are for the others as well where defaults copy by cp.async. */
  readonly where: "cp.async" | "tma";
  /** On targets that lack it only. */
  readonly lacks?: Feature;
  /** B's layout, where the schedule is for one only. */
  readonly layoutB?: "row" | "col";
  /** Fields that differ from the defaults. */
  readonly schedule: string;
}

const cubes = (...sizes: readonly number[]) => sizes.map((n) => [n, n, n] as const);

const dtypes = ["f16", "bf16"] as const satisfies readonly DType[];

/**
 * Two chunks out of the loop, so that nothing in it asks whether there is another to copy, and columns first. 0.666 and 0.687 of cuBLASLt at 4096 and 8192 beside 0.661
 * and 0.678 with one chunk, which had 0.738, 0.669 and 0.679 at 2048, 4096 and 8192 in a run before; rows first and nothing taken out 0.70, 0.63 and 0.65.
 * Sixteen rows of tiles to and fro 0.682 and 0.692 where eight had 0.679 and 0.690; since then the addresses of fragments stay in registers: 0.747, 0.694 and 0.699.
 */
const copied =
  "tile=128x256x64 warp=64x64 stages=3 copySpread=1 drain=2 walk=snake-cols raster=snake:16 storeElements=8";

/** What a warp of its own copies. */
const bulk = "tile=128x256x128 warp=64x64 stages=2 copy=tma sched=persistent frag=1 storeElements=8";

/** The first whose schedule is legal where it is asked for. */
export const winners: readonly Winner[] = [
  { sizes: cubes(2048, 4096, 6144, 8192), dtypes, where: "cp.async", schedule: copied },
  // By rows to and fro 1.267 and 1.310 at 2048 and 4096 in sm_80 text, by rows 1.246 and 1.299 beside it, by columns 1.231 and 1.289 in a run before; texts that clamp by one instruction
  // spill 12 bytes by rows.
  {
    sizes: cubes(2048, 4096, 8192),
    dtypes: ["f32"],
    where: "cp.async",
    lacks: "min.xorsign",
    layoutB: "col",
    schedule: "tile=64x64x32 warp=64x32 stages=3 frag=1 firstLevelK=32 walk=snake-rows",
  },
  // f32 in parts, B along k: 1.353, 1.408 and 1.438 of cuBLAS SGEMM in sm_90 text, where sums of 16 have 1.277, 1.319 and 1.345; errors a quarter of SGEMM's. With a row-major B it spills.
  {
    sizes: cubes(2048, 4096, 8192),
    dtypes: ["f32"],
    where: "cp.async",
    layoutB: "col",
    schedule: "tile=64x64x32 warp=64x32 stages=3 frag=1 firstLevelK=32 walk=cols",
  },
  // 1.205; 128 x 64 x 32 with the same warps 1.182.
  {
    sizes: cubes(4096),
    dtypes: ["f32"],
    where: "cp.async",
    layoutB: "row",
    schedule: "tile=64x64x32 warp=64x32 stages=3 frag=1",
  },
  // Eight rows and fewer: one block a tile and 144 KiB of chunks under way (16 x 64 x 64, four blocks a tile, 7 % less). With all chunks that are copied ahead out of the loop 1.191 and
  // 1.182, with none 1.170 and 1.164 beside them.
  {
    sizes: [
      [1, 4096, 4096],
      [8, 4096, 4096],
    ],
    dtypes,
    where: "cp.async",
    schedule: "tile=16x32x256 warp=16x8 stages=6 drain=5",
  },
  // Few rows: 1.029, with no chunks out of the loop 1.016; 0.996, 0.989; 1.056, 1.052 (64 x 128 x 64, eight blocks a tile, 1.024 beside 1.081).
  {
    sizes: [[16, 14336, 4096]],
    dtypes,
    where: "cp.async",
    schedule: "tile=16x128x64 warp=16x32 stages=6 drain=5",
  },
  {
    sizes: [[16, 8192, 8192]],
    dtypes,
    where: "cp.async",
    schedule: "tile=16x64x128 warp=16x16 stages=5 drain=4",
  },
  // Where there are clusters 1.113 and 1.108; copied by cp.async 1.079 and 1.108, and what comes next, without clusters, 1.065 beside them.
  {
    sizes: [[64, 4096, 14336]],
    dtypes,
    where: "tma",
    schedule:
      "tile=64x64x128 warp=32x32 stages=6 copy=tma frag=2 split=2 reduction=cluster cache=a:evict_last,b:evict_first",
  },
  {
    sizes: [[64, 4096, 14336]],
    dtypes,
    where: "cp.async",
    schedule: "tile=64x64x128 warp=32x32 stages=3 drain=2 split=4 reduction=slices",
  },
  // 1.065, and 1.049 in a run before; 64 x 64 x 128 in four stages 1.053, with no chunks out of the loop 1.038; 32 x 64 x 128 with sixteen blocks a tile 1.038.
  ...(["cp.async", "tma"] as const).map(
    (where): Winner => ({
      sizes: [[128, 128, 16384]],
      dtypes,
      where,
      schedule: "tile=64x64x64 warp=32x32 stages=8 drain=7 split=32 interleave=off reduction=slices",
    }),
  ),
  // 0.901 and 0.764: a chunk more is under way, and L2 fetches 128 bytes. Copies in the first K step 0.890 and 0.751 beside them, 128 x 256 x 32 in six stages with sixteen blocks a tile 0.754.
  {
    sizes: [[128, 8192, 8192]],
    dtypes,
    where: "cp.async",
    schedule:
      "tile=128x128x64 warp=64x64 stages=5 refill=barrier drain=5 walk=snake-cols split=2 reduction=slices l2PrefetchBytes=128",
  },
  {
    sizes: [[512, 512, 32768]],
    dtypes,
    where: "cp.async",
    schedule:
      "tile=128x128x64 warp=64x64 stages=5 refill=barrier drain=5 walk=snake-cols split=8 reduction=slices",
  },
  // 0.797 and 0.802; without policies, rows of tiles by eight 0.790 and 0.800, by the last block alone 7 % less.
  {
    sizes: [[512, 512, 32768]],
    dtypes,
    where: "tma",
    schedule:
      "tile=128x128x128 warp=64x64 stages=3 copy=tma frag=2 raster=row split=8 reduction=slices cache=a:evict_first,b:evict_first",
  },
  // 1.014 and 1.030; without policies 0.965, with B's alone 1.012, 128 x 64 x 128 1.013, 128 x 128 x 128 with two blocks a tile 0.985.
  {
    sizes: [[128, 8192, 8192]],
    dtypes,
    where: "tma",
    schedule:
      "tile=64x128x128 warp=32x64 stages=4 copy=tma sched=persistent frag=2 cache=a:evict_last,b:evict_first",
  },
  // 0.764 to 0.769 at 2048, with 16 rows at a time 0.760; by rows 0.7652 beside 0.7678.
  { sizes: cubes(2048), dtypes, where: "tma", schedule: `${bulk} walk=snake-cols raster=grouped:8` },
  // Tiles along a Hilbert curve 0.680 and 0.671 at 4096 and 8192, eight rows at a time 0.677 and 0.671; in a run before to and fro 0.684 and 0.686, Hilbert 0.684 and 0.686.
  {
    sizes: cubes(4096, 8192),
    dtypes: ["tf32"],
    where: "tma",
    schedule:
      "tile=128x256x64 warp=64x64 stages=2 copy=tma sched=persistent frag=1 walk=snake-cols raster=hilbert storeElements=8",
  },
  // By rows, with the fragments of B first, 0.715 and 0.726 at 4096 and 8192 beside 0.714 and 0.718 by columns, bf16 0.698 and 0.715 beside 0.697 and 0.709 (another run:
  // 0.723 and 0.730, 0.720 and 0.723); 8 rows of tiles at a time 0.716 and 0.722.
  {
    sizes: cubes(4096, 6144, 8192),
    dtypes,
    where: "tma",
    schedule: `${bulk} walk=snake-rows firstOperand=b raster=snake:16`,
  },
];
