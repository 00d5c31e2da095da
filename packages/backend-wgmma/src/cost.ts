/**
 * What a schedule costs: rounds of tiles over the SMs, each as long as its products take, and what an epilogue does not hide. Fitted to an H200's
 * measurements of eleven tiles and fourteen shapes in bf16 (docs/perf/wgmma.md); an estimate to rank by, in microseconds there.
 */
import { dtypes, type Problem, type Schedule, sizeOf, type Target } from "@tilewright/ir";
import { chunkK, splitChunks } from "./nest.ts";
import { mathGroups, readSchedule, type WgmmaSchedule } from "./schedule.ts";

/** SMs to balance rounds for: an H100's or H200's. */
const SMS = 132;

/** Of a launch: event to event, first loads, last store. */
const LAUNCH = 4.5;

/** Blocks that meet: microseconds for the counter, and bytes of parts that one block moves in one. An estimate, nothing of it is measured. */
const MEETING = 1.5;
const PART_BYTES = 60_000;

/** Products of 16-bit elements that an SM's tensor cores finish a cycle (m64n256k16 in 128 cycles). */
const PRODUCTS = 2048;

/**
 * Good kernels run into the board's power limit, so that SMs which have nothing to do in the last round leave clock to the others: this share of a
 * round that is not full costs nothing.
 */
const SHARED_POWER = 0.25;

/** A microsecond per thousand cycles at the clock that a full load leaves, and the epilogue's microseconds, by tile. */
interface Fit {
  readonly perKilocycle: number;
  readonly perTile: number;
}

/** By tile and warpgroups: `128x256/2`. Of others the nearest accumulator count counts. */
const fits: Readonly<Record<string, Fit>> = {
  "128x256": { perKilocycle: 0.62, perTile: 1.18 },
  "128x320": { perKilocycle: 0.611, perTile: 1.71 },
  "256x192": { perKilocycle: 0.607, perTile: 1.74 },
  "128x224": { perKilocycle: 0.629, perTile: 1.19 },
  "128x192": { perKilocycle: 0.631, perTile: 1.09 },
  "128x128": { perKilocycle: 0.653, perTile: 0.58 },
  "64x128": { perKilocycle: 0.8, perTile: 0 },
};

/** Smaller tiles read more shared memory a product; below 64 columns the pipes wait for it. */
function fitOf(s: WgmmaSchedule): Fit {
  const known = fits[`${s.tileM}x${s.tileN}`];
  if (known) return known;
  const perGroup = (s.tileM * s.tileN) / mathGroups(s);
  const columns = s.tileN / s.groupsN;
  const thin = columns < 64 ? 64 / columns : 1;
  return { perKilocycle: (perGroup >= 8192 ? 0.65 : 0.86) * thin, perTile: perGroup / 16_384 };
}

/** Microseconds. Sizes of problem and tile in elements. */
export function estimateTime(problem: Problem, schedule: Schedule, _target: Target): number {
  const s = readSchedule(schedule);
  const batch = problem.batch.kind === "strided" ? Math.max(1, problem.batch.count) : 1;
  const tileK = chunkK(problem, s.tileK);
  const { splits, chunks } = splitChunks(problem.k, { tileK, split: s.split });
  const k = chunks * tileK;
  const along = (size: number, tile: number, cluster: number): number =>
    Math.ceil(Math.ceil(size / tile) / cluster) * cluster;
  const tiles = along(problem.m, s.tileM, s.clusterM) * along(problem.n, s.tileN, s.clusterN) * batch;
  const resident = blocksPerSm(s, problem);
  const busy = (tiles * splits) / (SMS * resident);
  const rounds = ((1 - SHARED_POWER) * Math.ceil(busy) + SHARED_POWER * Math.max(1, busy)) * resident;
  const { perKilocycle, perTile } = fitOf(s);
  const rate = (PRODUCTS * 2) / sizeOf(problem.a.dtype);
  const cycles = (s.tileM * s.tileN * k) / rate;
  // Fewer slots than four leave the tensor cores waiting for memory; without a producer they wait for every chunk.
  const waiting =
    s.copy === "direct" ? 2.5 : s.stages >= 4 ? 1 : s.stages === 3 ? 1.006 : s.stages === 2 ? 1.35 : 2;
  // Of two clusters' worth fewer are resident, and equal requests of neighbours are merged without them.
  const clustered = 1 + 0.012 * (s.clusterM * s.clusterN - 1);
  // A part is written and read once, by all blocks of a tile at about the same time.
  const meeting = splits > 1 ? MEETING + (splits * s.tileM * s.tileN * 4) / PART_BYTES : 0;
  const store = (s.epi === "tma" && s.persistent ? perTile : 1.5 * perTile + 0.3) + meeting;
  const bytes =
    batch *
    (sizeOf(problem.a.dtype) * (problem.m + problem.n) * problem.k +
      (dtypes[problem.d.dtype].bits / 8) * problem.m * problem.n);
  /** 4 TB/s, what an H200 reaches. */
  const memory = bytes / 4e6;
  return LAUNCH + Math.max(memory, rounds * ((perKilocycle * cycles * waiting * clustered) / 1000 + store));
}

/** Small blocks of few accumulators stand two to an SM. */
const blocksPerSm = (s: WgmmaSchedule, problem: Problem): number => {
  const slot = (s.tileM + s.tileN) * chunkK(problem, s.tileK) * sizeOf(problem.a.dtype);
  return s.persistent ? 1 : slot * s.stages <= 110_000 && mathGroups(s) === 1 ? 2 : 1;
};
