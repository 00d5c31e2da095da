/**
 * A fit that ranks the schedules of 8-bit and 32-bit operands that bulk copies take: the cost model is calibrated in 16 bits, and prefers small ping-pong tiles
 * there that are up to 36 % slower (docs/perf/wgmma.md). Waves of tiles over the SMs, each as long as the slowest of tensor cores, L2 and latency, and what an
 * epilogue or a reduction adds. Constants: least squares, in relative error, over 467 schedules of 18 sizes on an H200; microseconds there.
 */
import {
  BLOCK_SCALE,
  dtypes,
  type Problem,
  residentInClusters,
  type Schedule,
  sizeOf,
} from "@tilewright/core";
import { type Machine, splitChunks } from "@tilewright/ir";
import { blocksPerSm } from "./cost.ts";
import { chunkK, isTwoLevel } from "./nest.ts";
import { mathGroups, readSchedule, type WgmmaSchedule } from "./schedule.ts";

/** Products of 16-bit elements that an SM's tensor cores finish in 1000 cycles (m64n256k16 in 128 cycles). */
const PRODUCTS = 2048 * 1000;

/** Additions to accumulators that an SM's CUDA cores finish in 1000 cycles: what promotes a sum, with nothing to hide behind but another warpgroup's products. */
const ADDITIONS = 128 * 1000;

/** Of a launch: event to event, first loads, last store. */
const LAUNCH = 5.48;

/** A thousand cycles of the tensor cores at the clock that a full load leaves. */
const KILOCYCLE = 0.612;

/** Bytes a microsecond that an SM gets from L2; rows that begin inside a line of 128 bytes take more than twice as long. */
const L2_BYTES = 166_600;
/** The same by cp.async of 128 threads: 41 of 8 bytes each, 38 to 39 of 4, whatever the tile (H200, four tiles at 4096·4096·4100 and 4098). */
const COPIED_BYTES = 41e3;
const LINE_BYTES = 128;
const SPLIT_LINES = 2.38;

/** From asking for a chunk to having it; the slots of the ring share it out. */
const LATENCY = 0.78;

/** Of a chunk beside its products: waits and barriers, hidden by ping-pong. */
const CHUNK = 0.008;

/** Of a tile what does not overlap with products: barriers and stores, less where the other set multiplies meanwhile. */
const TILE = 1.07;
const PING_PONG_TILE = 0.49;

/**
 * Of that what hides behind the products of a tail's second half, where blocks have one tile: 0.32 to 0.44 with halves of 128 columns (H200, five sizes). Where they have several, the
 * board's power limit takes it back, and narrow instructions cost more than they hide: 0.16 with halves of 32 columns (1024³).
 */
const HIDDEN = 0.38;
const NARROW = 0.16;
const WIDE_HALF = 128;

/** Of an element of D that a thread stores, in words of four bytes and alone (where rows begin at odd addresses). */
const STORE_WORD = 0.093;
const STORE_HALF = 0.3;

/** Persistent CTAs wait for such stores before their next tile; new CTAs begin beside them. */
const PERSISTENT = 1.2;

/** Good kernels run into the board's power limit: SMs with nothing to do in the last round leave clock to the others, so this share of it costs nothing. */
const SHARED_POWER = 0.1;

/** Bytes a microsecond from memory. */
const MEMORY_BYTES = 3.83e6;

/**
 * Reductions: microseconds, and bytes of partial tiles a microsecond: of one tile's where its last CTA adds them, of all where memory takes them, of one partial tile where
 * each CTA sends its own. Slices: 2.4 µs for 4.2 MB, 3.9 for 8.4, of kernels of one round.
 */
const reductions = {
  last: { fixed: 7.26, bytes: 96_260, of: "tile" },
  atomics: { fixed: 1.29, bytes: 1.23e6, of: "all" },
  // As fast as atomics, within 1.5 %, wherever both were timed.
  bulk: { fixed: 1.29, bytes: 1.23e6, of: "all" },
  kernel: { fixed: 3.8, bytes: 2.57e6, of: "all" },
  cluster: { fixed: 1, bytes: 60_000, of: "part" },
  slices: { fixed: 0.9, bytes: 2.8e6, of: "all" },
} as const;

/** Of a cluster with few rows to exchange: 8x4096x4096, 32x4096x4096 and 16x4096x11008 gain 0.4 to 0.5 µs where two blocks share each of 64 tiles. */
const FEW_ROWS_REDUCTION = 0.1;

/** Copies by the threads are waited for: no ring hides them. */
const DIRECT = 2.5;

/** Of a cluster fewer blocks are resident, and equal requests of neighbours are merged without it. */
const CLUSTER = 0.012;

/** Exponents of the norms that stand for "the slower of": what is close to the limit on two sides pays on both. */
const CHUNK_NORM = 4;
const WHOLE_NORM = 3;

const norm = (p: number, ...parts: readonly number[]): number =>
  parts.reduce((sum, x) => sum + x ** p, 0) ** (1 / p);

/** Microseconds on a GPU of `sms` SMs. Sizes of problem and tile in elements. */
export function fittedTime(problem: Problem, schedule: Schedule, { sms }: Pick<Machine, "sms">): number {
  const s = readSchedule(schedule);
  const [sizeA, size] = [sizeOf(problem.a.dtype), sizeOf(problem.b.dtype)];
  // Groups count as if all were as large as the largest.
  const batch = problem.batch.kind === "none" ? 1 : Math.max(1, problem.batch.count);
  const tileK = chunkK(problem, s.tileK);
  const { splits, chunks } = splitChunks(problem.k, { tileK, split: s.split });
  const along = (extent: number, tile: number, cluster: number): number =>
    Math.ceil(Math.ceil(extent / tile) / cluster) * cluster;
  const tiles = along(problem.m, s.tileM, s.clusterM) * along(problem.n, s.tileN, s.clusterN) * batch;
  const load = (tiles * splits) / reachable(s.reduction === "cluster" ? splits : 1, sms);
  const rounds = (1 - SHARED_POWER) * Math.ceil(load) + SHARED_POWER * Math.max(1, load);
  const beside = Math.min(blocksPerSm(s, problem), Math.max(1, Math.ceil(load)));
  const products = ((s.tileM * s.tileN * tileK) / PRODUCTS) * (size / 2) * KILOCYCLE;
  const lines = (problem.k * size) % LINE_BYTES === 0 ? 1 : SPLIT_LINES;
  const brought = (s.tileM * sizeA + s.tileN * size) * tileK;
  const arriving = s.copy === "cp.async" ? brought / COPIED_BYTES : (brought / L2_BYTES) * lines;
  const promoted = isTwoLevel(problem)
    ? ((s.tileM * s.tileN * Math.ceil(tileK / BLOCK_SCALE)) / ADDITIONS) * KILOCYCLE
    : 0;
  const hidden = mathGroups(s) > 1 || beside > 1;
  const chunk =
    norm(CHUNK_NORM, products, arriving, LATENCY / s.stages / beside) +
    (s.pingPong === 1 ? CHUNK : 0) +
    (hidden ? promoted / 2 : promoted);
  const waiting = (s.copy === "direct" ? DIRECT : 1) * (1 + CLUSTER * (s.clusterM * s.clusterN - 1));
  const main = rounds * (chunks * chunk * waiting + epilogueTime(problem, s) - hiddenTime(s, load));
  const bytes =
    batch *
    ((sizeA * problem.m + size * problem.n) * problem.k +
      (dtypes[problem.d.dtype].bits / 8) * problem.m * problem.n);
  return LAUNCH + norm(WHOLE_NORM, main, bytes / MEMORY_BYTES) + reductionTime(s, tiles, splits);
}

/** SMs that clusters of so many blocks can fill: of an H100 or H200, on which the fit was made. */
const reachable = (blocks: number, sms: number): number =>
  blocks === 1 ? sms : residentInClusters(blocks, 1);

/** Microseconds that a tile's epilogue adds to a round. */
function epilogueTime(problem: Problem, s: WgmmaSchedule): number {
  const fixed = s.pingPong === 1 ? TILE : PING_PONG_TILE;
  if (s.epi === "tma") return fixed;
  const elements = (s.tileM * s.tileN) / (128 * mathGroups(s));
  const { dtype, ld, align } = problem.d;
  const words = sizeOf(dtype) >= 4 || (align >= 4 && (ld * sizeOf(dtype)) % 4 === 0 && s.storeElements > 1);
  return fixed + elements * (words ? STORE_WORD : STORE_HALF) * (s.persistent ? PERSISTENT : 1);
}

/** Microseconds of a tile's epilogue that a tail hides. */
function hiddenTime(s: WgmmaSchedule, load: number): number {
  if (s.tail === 0) return 0;
  if (s.tileN / s.groupsN < 2 * WIDE_HALF) return -NARROW;
  return load <= 1 ? HIDDEN : 0;
}

function reductionTime(s: WgmmaSchedule, tiles: number, splits: number): number {
  if (splits === 1) return 0;
  const { bytes, of } = reductions[s.reduction];
  const fixed = s.swapAB && s.reduction === "cluster" ? FEW_ROWS_REDUCTION : reductions[s.reduction].fixed;
  const parts = { part: 1, tile: splits, all: splits * tiles }[of];
  return fixed + (parts * s.tileM * s.tileN * 4) / bytes;
}
