/**
 * Schedules that won on hardware: data, found by timing some twenty candidates a size beside cuBLASLt (docs/perf/wgmma.md). Sizes between are left to the
 * model (cost.ts). Only such as give the same bits every time: parts of a split K are added in their order.
 */
import type { DType } from "@tilewright/core";

export interface Winner {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** Of A and B; `winningDTypes` unless given. */
  readonly dtypes?: readonly DType[];
  /** Of sums that are promoted (`precision: "promoted"`), whose accumulators are held twice; of others unless given. */
  readonly promoted?: true;
  /** Fields that differ from the defaults. */
  readonly schedule: string;
  /** Time of cuBLASLt's first choice over that of the winner, in one run. */
  readonly ratio: number;
}

/** Of A and B; measured in bf16, whose instructions are f16's. A row-major, B column-major; the squares and the llm set in the other layouts, too. */
export const winningDTypes: readonly DType[] = ["bf16", "f16"];

const coop = "tile=128x256x64 warpgroups=2x1 stages=4";
/** Squares of 16 x 8 tiles, in which the blocks that are launched together share rows and columns alike. */
const coopPieces = `${coop} regs=40/232 raster=blocked:16`;
/** 64 columns of tiles, two blocks each: one round of 128. With 64 rows a tile, most of them zeros, the best was 0.98. */
const fewRows =
  "tile=8x64x256 warpgroups=1x1 swapAB=on stages=5 sched=tiles split=2 reduction=cluster epi=direct l2Promotion=128";
/** Few rows and a B that is read once or twice. */
const streamB = "cache=a:evict_last,b:evict_first";
/** D leaves L2 first. */
const keepAB = "cache=a:evict_last,b:evict_last,d:evict_first";
const coop8 = "tile=128x256x128 warpgroups=2x1 stages=4 regs=24/240";
const coop8Pieces = "tile=128x256x128 warpgroups=2x1 stages=4 regs=40/232 raster=blocked:16";
/** Sums that are promoted: a chunk is one row of 128, so that five fit. */
const twice = "tile=128x192x128 warpgroups=2x1 stages=5 regs=24/240";
const twiceNarrow = "tile=128x128x256 warpgroups=2x1 stages=3 regs=24/240 raster=blocked:16";
const coop32 = "tile=128x256x32 warpgroups=2x1 stages=4 regs=40/232";
const inTurn = "warpgroups=1x1 pingPong=2 delayedRelease=on";
const turns = `${inTurn} raster=grouped:8`;

/** NVIDIA H200, driver 580.159.04, cuBLAS 13.1, 2026-11-21 and 22, idle regime; those with `h100` on an H100 80GB HBM3 the same day. */
export const winners: readonly Winner[] = [
  {
    m: 512,
    n: 512,
    k: 512,
    schedule: "tile=64x32x256 warpgroups=1x1 stages=2 raster=row sched=tiles",
    ratio: 1.126,
  },
  {
    m: 1024,
    n: 1024,
    k: 1024,
    schedule:
      "tile=64x128x64 warpgroups=1x2 stages=8 delayedRelease=on raster=row sched=tiles cache=a:evict_first,b:evict_first",
    ratio: 1.089,
  },
  {
    m: 1536,
    n: 1536,
    k: 1536,
    schedule: "tile=192x96x64 warpgroups=3x1 stages=5 raster=grouped:4",
    ratio: 1.032,
  },
  {
    m: 2048,
    n: 2048,
    k: 2048,
    schedule: `${coop} regs=24/240 raster=grouped:4 sched=tiles tail=3 ${keepAB}`,
    ratio: 1.044,
  },
  { m: 3072, n: 3072, k: 3072, schedule: `tile=128x192x64 stages=4 regs=24/240 ${turns}`, ratio: 1.02 },
  { m: 4096, n: 4096, k: 4096, schedule: coopPieces, ratio: 1.033 },
  { m: 8192, n: 8192, k: 8192, schedule: coopPieces, ratio: 1.046 },
  {
    m: 16384,
    n: 16384,
    k: 16384,
    schedule:
      "tile=256x192x64 warpgroups=2x1 stages=3 regs=24/240 raster=snake:4 tail=2 cache=a:evict_last,d:evict_first",
    ratio: 1.036,
  },
  { m: 8192, n: 8192, k: 1024, schedule: `tile=128x192x64 stages=4 regs=24/240 ${turns}`, ratio: 1.108 },
  {
    m: 4096,
    n: 14336,
    k: 4096,
    schedule: "tile=128x320x64 warpgroups=1x2 stages=3 regs=24/240",
    ratio: 1.025,
  },
  { m: 4096, n: 7168, k: 16384, schedule: coopPieces, ratio: 1.019 },
  { m: 4096, n: 4096, k: 14336, schedule: coopPieces, ratio: 1.02 },
  { m: 2048, n: 28672, k: 8192, schedule: coop, ratio: 1.023 }, // h100
  {
    m: 4096,
    n: 1536,
    k: 24576,
    schedule: "tile=256x192x64 warpgroups=2x1 stages=3 regs=24/240 raster=grouped:8",
    ratio: 1.047,
  }, // h100
  { m: 1, n: 4096, k: 4096, schedule: fewRows, ratio: 1.181 },
  { m: 8, n: 4096, k: 4096, schedule: fewRows, ratio: 1.192 },
  {
    m: 16,
    n: 14336,
    k: 4096,
    schedule: `tile=16x64x128 warpgroups=1x1 swapAB=on stages=5 sched=tiles l2Promotion=128 ${streamB}`,
    ratio: 1.102,
  },
  {
    m: 16,
    n: 4096,
    k: 11008,
    schedule: `tile=16x64x256 warpgroups=1x1 swapAB=on stages=5 sched=tiles split=2 reduction=cluster l2Promotion=128 ${streamB}`,
    ratio: 1.198,
  },
  {
    m: 32,
    n: 4096,
    k: 4096,
    schedule: `tile=32x64x256 warpgroups=1x1 swapAB=on stages=4 sched=tiles split=2 reduction=cluster l2Promotion=128 ${streamB}`,
    ratio: 1.202,
  },
  {
    m: 32,
    n: 14336,
    k: 4096,
    schedule: `tile=32x64x128 warpgroups=1x1 swapAB=on stages=4 sched=tiles ${streamB}`,
    ratio: 1.043,
  },
  {
    m: 64,
    n: 4096,
    k: 14336,
    schedule: `tile=64x64x256 warpgroups=1x1 stages=3 sched=tiles split=2 reduction=cluster ${streamB}`,
    ratio: 1.142,
  },
  {
    m: 128,
    n: 8192,
    k: 8192,
    schedule: `tile=64x128x128 warpgroups=1x2 stages=4 sched=tiles ${streamB}`,
    ratio: 1.024,
  },
  {
    m: 2048,
    n: 2048,
    k: 2048,
    dtypes: ["e4m3"],
    schedule: "tile=128x256x128 warpgroups=2x1 stages=4 raster=grouped:4 sched=tiles tail=3",
    ratio: 1.105,
  },
  { m: 4096, n: 4096, k: 4096, dtypes: ["e4m3"], schedule: coop8Pieces, ratio: 1.047 },
  {
    m: 8192,
    n: 8192,
    k: 8192,
    dtypes: ["e4m3"],
    schedule: `tile=128x192x128 stages=5 regs=24/240 ${inTurn} raster=blocked:16`,
    ratio: 1.029,
  },
  {
    m: 16384,
    n: 16384,
    k: 16384,
    dtypes: ["e4m3"],
    schedule:
      "tile=256x192x128 warpgroups=2x1 stages=3 regs=24/240 raster=snake:4 tail=2 cache=a:evict_last,d:evict_first",
    ratio: 1.033,
  },
  { m: 4096, n: 7168, k: 16384, dtypes: ["e4m3"], schedule: coop8Pieces, ratio: 1.021 },
  { m: 4096, n: 4096, k: 14336, dtypes: ["e4m3"], schedule: coop8Pieces, ratio: 1.016 },
  { m: 4096, n: 4096, k: 4096, dtypes: ["e4m3"], promoted: true, schedule: twiceNarrow, ratio: 1.006 },
  {
    m: 8192,
    n: 8192,
    k: 8192,
    dtypes: ["e4m3"],
    promoted: true,
    schedule: `${twice} raster=blocked:16`,
    ratio: 1.019,
  },
  {
    m: 16384,
    n: 16384,
    k: 16384,
    dtypes: ["e4m3"],
    promoted: true,
    schedule: `${twice} raster=snake:8 cache=a:evict_last,d:evict_first`,
    ratio: 1.014,
  },
  {
    m: 4096,
    n: 14336,
    k: 4096,
    dtypes: ["e4m3"],
    promoted: true,
    schedule: `${twice} raster=blocked:16`,
    ratio: 1.025,
  },
  {
    m: 2048,
    n: 28672,
    k: 8192,
    dtypes: ["e4m3"],
    promoted: true,
    schedule: `${twice} raster=blocked:16`,
    ratio: 1.02,
  },
  {
    m: 4096,
    n: 1536,
    k: 24576,
    dtypes: ["e4m3"],
    promoted: true,
    schedule: `${twice} raster=blocked:16`,
    ratio: 1.07,
  },
  {
    m: 2048,
    n: 8192,
    k: 28672,
    dtypes: ["e4m3"],
    promoted: true,
    schedule: `${twice} raster=blocked:16`,
    ratio: 0.959,
  },
  { m: 4096, n: 4096, k: 14336, dtypes: ["e4m3"], promoted: true, schedule: twiceNarrow, ratio: 0.987 },
  {
    m: 4096,
    n: 4096,
    k: 4096,
    dtypes: ["s8"],
    schedule: `tile=128x128x128 stages=6 regs=24/240 ${inTurn} raster=blocked:8 ${keepAB}`,
    ratio: 1.063,
  },
  {
    m: 4096,
    n: 14336,
    k: 4096,
    dtypes: ["s8"],
    schedule: `tile=128x176x128 stages=4 regs=24/240 ${inTurn} raster=blocked:16 ${keepAB}`,
    ratio: 1.042,
  },
  {
    m: 2048,
    n: 28672,
    k: 8192,
    dtypes: ["s8"],
    schedule: `tile=128x176x128 stages=4 regs=24/240 ${inTurn} raster=grouped:16 ${keepAB}`,
    ratio: 1.019,
  },
  {
    m: 8192,
    n: 8192,
    k: 1024,
    dtypes: ["s8"],
    schedule: `tile=128x192x128 stages=4 regs=24/240 ${inTurn} ${keepAB}`,
    ratio: 1.306,
  },
  {
    m: 4096,
    n: 1536,
    k: 24576,
    dtypes: ["s8"],
    schedule: "tile=256x192x128 warpgroups=2x1 stages=3 regs=24/240 raster=grouped:4 sched=tiles",
    ratio: 1.098,
  },
  { m: 4096, n: 7168, k: 16384, dtypes: ["s8"], schedule: coop8, ratio: 1.057 },
  { m: 4096, n: 4096, k: 14336, dtypes: ["s8"], schedule: coop8, ratio: 1.086 },
  { m: 2048, n: 8192, k: 28672, dtypes: ["s8"], schedule: coop8, ratio: 1.06 },
  {
    m: 8192,
    n: 8192,
    k: 8192,
    dtypes: ["tf32"],
    schedule: "tile=128x256x32 warpgroups=2x1 stages=4 regs=24/240",
    ratio: 1.037,
  },
  { m: 4096, n: 7168, k: 16384, dtypes: ["tf32"], schedule: coop32, ratio: 1.018 },
  { m: 4096, n: 4096, k: 14336, dtypes: ["tf32"], schedule: coop32, ratio: 1.018 },
  { m: 2048, n: 8192, k: 28672, dtypes: ["tf32"], schedule: coop32, ratio: 1.016 },
  {
    m: 16384,
    n: 16384,
    k: 16384,
    dtypes: ["tf32"],
    schedule: "tile=256x192x32 warpgroups=2x1 stages=3 regs=24/240 raster=grouped:6",
    ratio: 1.056,
  },
  {
    m: 128,
    n: 128,
    k: 16384,
    schedule: "tile=64x32x256 warpgroups=1x1 stages=4 sched=tiles split=8 reduction=cluster",
    ratio: 1.156,
  },
  {
    m: 512,
    n: 512,
    k: 32768,
    schedule:
      "tile=64x128x64 warpgroups=1x2 stages=8 delayedRelease=on raster=row sched=tiles split=4 reduction=slices epi=direct cache=a:evict_first,b:evict_first",
    ratio: 1.216,
  },
  {
    m: 1000,
    n: 1000,
    k: 1000,
    schedule: "tile=64x128x128 warpgroups=1x2 stages=4 cluster=2x1 multicast=b sched=tiles l2Promotion=128",
    ratio: 1.022,
  },
];
