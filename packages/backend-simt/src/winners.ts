/**
 * Schedules that won a search on hardware: data, found by timing some hundred candidates a size and kept with what they were
 * measured on. docs/perf/simt.md tells how; sizes between are left to the model (cost.ts).
 */
import type { MatrixLayout } from "@tilewright/core";

export interface Winner {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Layouts of A and B that the search was for; row-major both unless said. Of those, a schedule that transposes A transposes what others want instead. */
  readonly layouts?: readonly [a: MatrixLayout, b: MatrixLayout];
  /** Fields that differ from the defaults. */
  readonly schedule: string;
  /** Time of cuBLAS fp32 over that of the winner, in one run. */
  readonly ratio: number;
}

/** Two blocks on each of 132 SMs; their copies by cp.async. */
const tile = "tile=128x128x8 thread=16x8 copy=cp.async registerPrefetch=off";
/** The order of multiply-adds that won among 1584 kernels timed at 4096, and again at all other sizes with this tile. */
const order = "walkLines=down walkAlong=flip:4";
const ab = `${tile} stages=4 drain=2 ${order} operandOrder=ab`;
const ba = `${tile} stages=3 drain=2 copySpread=4 ${order} operandOrder=ba`;
/** What won with operands that are contiguous along m and n, whose copies are wide. */
const wide = `${tile} stages=3 drain=2 copySpread=1 vectorsPerThread=2 walkLines=flip`;
/** The tiles of the last wave shared by all blocks. */
const shared = "streamk=264";
const async = "copy=cp.async registerPrefetch=off";
const small = `${async} stages=3 drain=2 copySpread=5`;

/**
 * For targets with cp.async; of several for one size the first that the target can have (clusters need sm_90). Measured on an NVIDIA H200, driver
 * 580.159.04, ptxas 13.0.88 for sm_90, 2026-11-21 and 22, beside torch 2.x's cuBLAS with TF32 off; those with `transpose` by `tilewright bench` beside cuBLASLt's first choice.
 */
export const winners: readonly Winner[] = [
  {
    m: 512,
    n: 512,
    k: 512,
    schedule: `tile=32x128x16 thread=8x4 ${async} stages=3 drain=2 copySpread=4 sharedLayout=swizzle walkLines=flip walkAlong=flip operandOrder=ba raster=col split=2 reduction=cluster`,
    ratio: 1.41,
  },
  {
    m: 512,
    n: 512,
    k: 512,
    schedule: `tile=32x128x16 thread=8x4 ${small} walkLines=flip walkAlong=up:4 operandOrder=ba raster=col streamk=132`,
    ratio: 1.173,
  },
  {
    m: 1024,
    n: 1024,
    k: 1024,
    schedule: `tile=64x128x16 thread=8x8 ${async} stages=4 drain=2 copySpread=5 ${order} operandOrder=ba split=2 reduction=cluster`,
    ratio: 1.285,
  },
  { m: 1024, n: 1024, k: 1024, schedule: `${ab} copySpread=5 ${shared}`, ratio: 1.158 },
  {
    m: 2048,
    n: 2048,
    k: 2048,
    schedule: `${tile} stages=3 drain=2 copySpread=6 sharedLayout=swizzle ${order} raster=grouped:4`,
    ratio: 1.071,
  },
  {
    m: 2048,
    n: 2048,
    k: 2048,
    layouts: ["row", "col"],
    schedule: `${tile} stages=4 drain=2 copySpread=6 walkLines=down:4 walkAlong=flip:4 operandOrder=ba raster=grouped:16`,
    ratio: 1.07,
  },
  {
    m: 2048,
    n: 2048,
    k: 2048,
    layouts: ["col", "row"],
    schedule: `${wide} walkAlong=flip:4 raster=grouped:4`,
    ratio: 1.056,
  },
  {
    m: 4096,
    n: 4096,
    k: 4096,
    schedule: `${wide} walkAlong=up:4 raster=grouped:16 ${shared} transpose=a`,
    ratio: 1.106,
  },
  {
    m: 4096,
    n: 4096,
    k: 4096,
    layouts: ["row", "col"],
    schedule: `${wide} walkAlong=up:4 raster=grouped:16 ${shared} transpose=ab`,
    ratio: 1.101,
  },
  {
    m: 4096,
    n: 4096,
    k: 4096,
    layouts: ["col", "row"],
    schedule: `${wide} walkAlong=up:4 raster=row ${shared}`,
    ratio: 1.115,
  },
  {
    m: 4096,
    n: 4096,
    k: 4096,
    layouts: ["col", "col"],
    schedule: `${wide} walkAlong=up:4 raster=grouped:16 ${shared} transpose=b`,
    ratio: 1.149,
  },
  {
    m: 8192,
    n: 8192,
    k: 8192,
    schedule: `${wide} walkAlong=up:4 raster=row ${shared} transpose=a`,
    ratio: 1.125,
  },
  {
    m: 8192,
    n: 8192,
    k: 8192,
    layouts: ["row", "col"],
    schedule: `${wide} walkAlong=up:4 raster=grouped:16 ${shared} transpose=ab`,
    ratio: 1.118,
  },
  {
    m: 8192,
    n: 8192,
    k: 8192,
    layouts: ["col", "row"],
    schedule: `${wide} walkAlong=up:4 raster=row ${shared}`,
    ratio: 1.091,
  },
  {
    m: 4096,
    n: 14336,
    k: 4096,
    schedule: `${wide} walkAlong=up:4 raster=row ${shared} transpose=a`,
    ratio: 1.127,
  },
  {
    m: 4096,
    n: 4096,
    k: 14336,
    schedule: `${wide} walkAlong=up:4 raster=row ${shared} transpose=a`,
    ratio: 1.118,
  },
  {
    m: 2048,
    n: 28672,
    k: 8192,
    schedule: `${wide} walkAlong=up:4 raster=row ${shared} transpose=a`,
    ratio: 1.123,
  },
  {
    m: 2048,
    n: 8192,
    k: 28672,
    schedule: `${wide} walkAlong=up:4 raster=grouped:16 ${shared} transpose=a`,
    ratio: 1.125,
  },
  {
    m: 8192,
    n: 8192,
    k: 1024,
    schedule: `${wide} walkAlong=up:4 raster=grouped:16 ${shared} transpose=a`,
    ratio: 1.119,
  },
  {
    m: 4096,
    n: 7168,
    k: 16384,
    schedule: `${wide} walkAlong=up:4 raster=grouped:16 ${shared} transpose=a`,
    ratio: 1.124,
  },
  { m: 4096, n: 1536, k: 24576, schedule: `${ab} copySpread=5 raster=grouped:16 ${shared}`, ratio: 1.171 },
  {
    m: 1,
    n: 4096,
    k: 4096,
    schedule: `tile=1x64x32 thread=1x2 lanes=1x32 strip=1x2 frag=1 ${async} stages=4 sharedLayout=plain raster=row split=4 reduction=cluster`,
    ratio: 1.086,
  },
  {
    m: 1,
    n: 4096,
    k: 4096,
    schedule: `tile=1x64x32 thread=1x2 lanes=1x32 strip=1x2 frag=1 ${async} stages=5 drain=1 sharedLayout=plain raster=row streamk=264 reduction=atomics`,
    ratio: 1.04,
  },
  {
    m: 8,
    n: 4096,
    k: 4096,
    schedule: `tile=8x128x16 thread=4x2 lanes=2x16 strip=4x2 ${async} stages=4 drain=1 sharedLayout=swizzle raster=col split=7 reduction=cluster`,
    ratio: 2.255,
  },
  {
    m: 8,
    n: 4096,
    k: 4096,
    schedule: `tile=8x128x16 thread=4x2 lanes=2x16 strip=4x2 ${async} stages=4 drain=1 copySpread=2 sharedLayout=swizzle raster=col split=8 reduction=atomics`,
    ratio: 2.177,
  },
  {
    m: 16,
    n: 14336,
    k: 4096,
    schedule: `tile=16x128x8 thread=8x4 lanes=2x16 ${async} stages=4 drain=2 copySpread=2 sharedLayout=swizzle raster=col split=4 reduction=cluster`,
    ratio: 2.082,
  },
  {
    m: 16,
    n: 14336,
    k: 4096,
    schedule: `tile=16x128x8 thread=4x8 ${async} stages=3 drain=1 copySpread=2 sharedLayout=swizzle raster=col split=7 reduction=atomics`,
    ratio: 2.036,
  },
  {
    m: 64,
    n: 4096,
    k: 14336,
    schedule: `tile=64x256x8 thread=16x8 ${async} stages=4 drain=2 copySpread=2 sharedLayout=swizzle ${order} raster=col streamk=264 reduction=atomics`,
    ratio: 1.101,
  },
  {
    m: 128,
    n: 8192,
    k: 8192,
    schedule: `${tile} stages=4 drain=2 copySpread=4 walkLines=flip:8 walkAlong=flip raster=row ${shared}`,
    ratio: 1.061,
  },
  {
    m: 128,
    n: 128,
    k: 16384,
    schedule: `tile=32x128x16 thread=8x4 lanes=2x16 ${async} stages=3 sharedLayout=swizzle walkLines=flip operandOrder=ba raster=row split=132 reduction=atomics`,
    ratio: 1.335,
  },
  {
    m: 512,
    n: 512,
    k: 32768,
    schedule: `${tile} stages=4 drain=3 copySpread=4 walkLines=flip:8 walkAlong=flip operandOrder=ba raster=row ${shared}`,
    ratio: 1.052,
  },
  {
    m: 1000,
    n: 1000,
    k: 1000,
    schedule: `tile=32x128x8 thread=8x8 ${async} stages=3 drain=2 copySpread=4 sharedLayout=swizzle ${order} raster=col split=2 reduction=cluster`,
    ratio: 1.208,
  },
  {
    m: 1000,
    n: 1000,
    k: 1000,
    schedule: `tile=32x128x8 thread=8x8 ${async} stages=4 drain=2 copySpread=2 walkLines=down walkAlong=flip raster=row`,
    ratio: 1.163,
  },
  {
    m: 4095,
    n: 4097,
    k: 4104,
    schedule: `${tile} stages=4 drain=2 copySpread=4 ${order} operandOrder=ba`,
    ratio: 1.098,
  },
  { m: 8191, n: 8190, k: 8184, schedule: `${ba} raster=row ${shared}`, ratio: 1.083 },
  { m: 3001, n: 2999, k: 3000, schedule: `${ba} raster=row ${shared}`, ratio: 1.169 },
  {
    m: 257,
    n: 8193,
    k: 4096,
    schedule: `tile=96x128x8 thread=12x8 ${async} stages=3 drain=2 copySpread=6 ${order} operandOrder=ba raster=col split=2`,
    ratio: 1.214,
  },
];
