/**
 * Schedules that won a search on hardware: data, found by timing several dozen candidates a size and kept with what they were
 * measured on. docs/perf/simt.md tells how; sizes between are left to the model (cost.ts).
 */

export interface Winner {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Fields that differ from the defaults. */
  readonly schedule: string;
  /** Time of cuBLAS fp32 over that of the winner, in one run. */
  readonly ratio: number;
}

/** The order of multiply-adds that won among 1584 kernels timed at 4096, and again at 2048 and 8192 (docs/perf/simt.md). */
const large = "copy=cp.async prefetch=off stages=3 drain=2 spread=4 lines=down along=flip:4 factors=ba";
/** The same with tiles swizzled: another allocation of registers. */
const swizzled =
  "tile=128x128x8 thread=16x8 copy=cp.async prefetch=off spread=6 smem=swizzle lines=down along=flip:4";
const former = "copy=cp.async prefetch=off stages=4 drain=0 spread=3";
const small = "copy=cp.async prefetch=off stages=3 drain=2 spread=5";
/** Through registers, and the tiles of the last wave shared by all blocks; the walk won an earlier search over 200 orders. */
const shared =
  "copy=direct prefetch=on stages=2 drain=0 spread=1 tile=128x128x8 thread=16x8 lines=flip:8 streamk=264";

/**
 * For targets with cp.async. Measured on an NVIDIA H200, driver 580.159.04, ptxas 13.0.88 for sm_90, 2026-11-21, row-major operands, beside torch
 * 2.x's cuBLAS with TF32 off.
 */
export const winners: readonly Winner[] = [
  { m: 512, n: 512, k: 512, schedule: `tile=32x64x16 thread=4x4 ${small}`, ratio: 1.128 },
  { m: 1024, n: 1024, k: 1024, schedule: `tile=64x128x8 thread=8x8 ${small}`, ratio: 1.123 },
  { m: 2048, n: 2048, k: 2048, schedule: `${swizzled} stages=3 drain=2 raster=grouped:4`, ratio: 1.071 },
  {
    m: 4096,
    n: 4096,
    k: 4096,
    schedule: `tile=128x128x8 thread=16x8 ${large} raster=grouped:16`,
    ratio: 1.081,
  },
  { m: 8192, n: 8192, k: 8192, schedule: `${swizzled} stages=4 drain=3 raster=snake:8`, ratio: 1.078 },
  { m: 4096, n: 14336, k: 4096, schedule: `${shared} raster=grouped:16`, ratio: 1.048 },
  { m: 8192, n: 8192, k: 1024, schedule: shared, ratio: 1.05 },
  { m: 4096, n: 1536, k: 24576, schedule: `tile=128x128x8 thread=16x8 ${former} split=2`, ratio: 1.116 },
  { m: 4096, n: 4096, k: 14336, schedule: `tile=128x128x8 thread=16x8 ${former}`, ratio: 1.04 },
  {
    m: 1,
    n: 4096,
    k: 4096,
    schedule:
      "tile=1x128x16 thread=1x4 lanes=1x32 strip=1x4 stage=a copy=direct prefetch=off stages=2 frag=1 split=32",
    ratio: 0.843,
  },
  {
    m: 8,
    n: 4096,
    k: 4096,
    schedule: `tile=16x128x16 thread=8x4 lanes=2x16 strip=4x4 ${small} split=8`,
    ratio: 1.757,
  },
  {
    m: 16,
    n: 14336,
    k: 4096,
    schedule: `tile=16x128x16 thread=8x4 lanes=2x16 strip=4x4 ${small} split=4`,
    ratio: 1.777,
  },
  { m: 64, n: 4096, k: 14336, schedule: `tile=64x128x8 thread=8x8 ${small} split=8`, ratio: 1.027 },
  { m: 128, n: 8192, k: 8192, schedule: shared, ratio: 0.993 },
  {
    m: 128,
    n: 128,
    k: 16384,
    schedule: "tile=32x64x16 thread=4x4 copy=cp.async prefetch=off stages=3 spread=3 streamk=264",
    ratio: 0.76,
  },
  { m: 512, n: 512, k: 32768, schedule: `tile=128x128x8 thread=16x8 ${former} split=16`, ratio: 0.99 },
  { m: 1000, n: 1000, k: 1000, schedule: `tile=32x128x8 thread=8x8 ${small} split=3`, ratio: 1.006 },
  { m: 4095, n: 4097, k: 4104, schedule: `tile=128x128x8 thread=16x8 ${former}`, ratio: 1.014 },
  { m: 8191, n: 8190, k: 8184, schedule: `tile=128x128x8 thread=16x8 ${former}`, ratio: 1.056 },
  { m: 3001, n: 2999, k: 3000, schedule: shared, ratio: 1.118 },
  { m: 257, n: 8193, k: 4096, schedule: `tile=64x128x8 thread=8x8 ${small} split=2`, ratio: 1.016 },
];
