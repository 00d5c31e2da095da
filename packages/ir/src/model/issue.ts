/**
 * Chunks of engines whose warps issue every product and wait for what they read: FFMA and mma.sync. Constants are cycles of an SM unless said, fitted on an H200 in relative
 * error: those of FFMA to 75 schedules of 32 sizes and layouts (docs/perf/simt.md), those of mma.sync to 379 schedules of 11 sizes in f16; then launches, blocks, stores, latencies
 * and FFMA's copies to half of 145 unseen problems, of which the other half is predicted about as well (docs/perf/model.md). The clock that a full load leaves is in them.
 */
import { dtypes, type Problem, packedSize, WARP } from "@tilewright/core";
import type { ModelKernel } from "./kernel.ts";
import type { Machine } from "./machine.ts";
import { norm } from "./norm.ts";
import { madeCycles, weightRatio } from "./weights.ts";

/** Schedulers of an SM, each of which issues an instruction of 32 lanes a cycle. */
const SCHEDULERS = 4;

/** Copies by threads: cycles of the load and store unit for each instruction of a lane, through registers or asynchronous; what a chunk through registers waits for once, and a thread for each of its copies where a block has 128, nanoseconds. */
export interface CopyCosts {
  readonly through: number;
  readonly asynchronous: number;
  readonly chunkNs: number;
  readonly copyNs: number;
}

/** What differs between the two engines beside a chunk. */
export interface IssueEngine {
  /** Of a launch beyond the one with nothing in it, nanoseconds. */
  readonly launchNs: number;
  /** Of a block beside its chunks: launch, first chunks, barriers; of one that is persistent. */
  readonly block: number;
  readonly tile: number;
  /** Of a store of a warp to a sector where rows of D begin at sectors, and to the part of one at either end of a run where they do not (`apart` null: of that store there, of elements of two bytes at most and of four). */
  readonly stored: readonly [whole: number, end: number, wide: number];
  /** Cycles of each sector of which lanes store some elements, where rows of D do not begin at sectors; null: as of any store that leaves gaps. */
  readonly apart: number | null;
  /** Exponent of the stores of blocks beside what others on their SM do. */
  readonly stores: number;
  /**
   * From the request of a chunk to the next into the same slot, nanoseconds: what the stages ahead have to last for, whatever the blocks beside do. Null: none waits so long [fit, H200: 1,033 kernels
   * of f16; docs/perf/model.md].
   */
  readonly slotNs: number | null;
  /** Bytes a cycle and SM that L2 gives to all SMs. */
  readonly l2Bytes: number;
  /** Of the bytes of the first chunks, the share that nothing hides. */
  readonly first: number;
  /** Of the blocks of the last round, the share that lie as many on an SM as in the rounds before. */
  readonly paired: number;
  /** Exponent of the SMs beside L2 and DRAM. */
  readonly norm: number;
  /** Bytes that DRAM could read in the time in which it writes one, beyond that one. */
  readonly writes: number;
  /** What DRAM takes longer for operands along K, for each line that a chunk leaves to later ones, in lines. */
  readonly leftOfLine: number;
  readonly copies: CopyCosts;
}

const engines: Readonly<Partial<Record<ModelKernel["engine"], IssueEngine>>> = {
  fma: {
    launchNs: 1337,
    block: 16,
    tile: 16,
    stored: [0.26, 3.71, 3.71],
    apart: 2.93,
    stores: 16,
    slotNs: null,
    l2Bytes: 25,
    first: 0.71,
    paired: 0.95,
    norm: 1.53,
    writes: 0.078,
    leftOfLine: 0.23,
    // What its chunks wait for is counted with them.
    copies: { through: 0.137, asynchronous: 0.175, chunkNs: 0, copyNs: 0 },
  },
  mma: {
    launchNs: 834,
    block: 1329,
    tile: 1005,
    stored: [1.64, 2.07, 4.68],
    apart: null,
    stores: 1,
    slotNs: 929,
    l2Bytes: 48.6,
    first: 4.62,
    paired: 0,
    norm: 4.93,
    writes: 0.64,
    leftOfLine: 0,
    copies: { through: 0.2, asynchronous: 0.294, chunkNs: 150, copyNs: 24 },
  },
};

/** The costs of an engine whose warps issue products; undefined of those that multiply beside the warps. */
export const issueEngine = ({ engine }: Pick<ModelKernel, "engine">): IssueEngine | undefined =>
  engines[engine];

/** Sums of a thread below which, and rows or columns of a tile up to which, nothing waits for the slots of asynchronous copies. */
const THIN = { sums: 4, lines: 4 } as const;

/** FFMA: issue slots, and what one warp waits for alone. */
const fma = {
  /** Slots of a multiply-add, with its share of bank conflicts; of a vector of fragments; of a copy with its address, and where threads have few sums [fit: 111 kernels of 7 products of few rows]; of a chunk. */
  multiplyAdd: 0.752,
  fragment: 0.062,
  copy: 5.48,
  thinCopy: 0.545,
  /** Where threads have few sums, the power of a block's warps that a chunk takes: all wait for the last one's copies. */
  meeting: 0.053,
  loop: 24.7,
  /** Waited for in a K step with fragments loaded ahead, and without; in a chunk; in one whose copies pass through registers. */
  step: 0,
  bareStep: 9.76,
  chunk: 41.7,
  through: 332,
  /** Of each slot of a main loop beyond those that are near: what ptxas's order and the instruction cache leave of long ones. */
  fetch: 0.985,
  near: 728,
  /** Of a load from memory or L2. */
  latency: 977,
  norm: 2.44,
  /** Exponent of issued instructions beside reads of fragments. */
  beside: 2.02,
} as const;

/** mma.sync: what keeps four tensor pipes from its rate. */
const mma = {
  /** What fewer warps than pipes do is that share of the rate to a power, smaller where a warp of its own copies. */
  few: { specialised: 0.1, alone: 1.52 },
  /** Of the bytes that copies write to shared memory, the share that keeps fragments from being read. */
  written: 0.72,
  /** Of a chunk: barrier, first fragments; blocks of an SM hide it from each other. A warp that waits for copies alone waits less. */
  barrier: 67.7,
  arrival: 10,
  /** Chunks of less than a row of banks. */
  bankRow: 128,
  narrow: 1.06,
  /** A chunk of a loop that nothing leaves, as that of shares: it asks whether there is another. */
  asks: 1.087,
  /** From the issue of a chunk's copies to its arrival; later stages hide it as far as their arithmetic lasts. */
  latency: 310,
  /** Reads of fragments of four bytes that come word by word, and are rounded on the way, over those by matrices [fit, H200: kernels of tf32 at 24 sizes, docs/perf/runs/2026-11-29-h200-unseen-tf32.json]. */
  words: 2.12,
  /** f32 in parts: three instructions and their share of the additions; taking a fragment's register apart. */
  inParts: 3.44,
  splitting: 18.8,
  /** What makes weights takes so much longer than its instructions, which follow from each other [fit, H200: 160 kernels at two sizes, 1 to 4096 rows]. */
  weights: 2,
  norm: 2.64,
} as const;

/** Exponent of products of warps beside reads of their fragments. */
export const FRAGMENTS_BESIDE = mma.norm;

/** What of a chunk of one block `chunkCost` has counted: cycles at the engine's rate, bytes of operands along K. */
interface Counted {
  readonly multiply: number;
  readonly kBytes: number;
  readonly sharedBytes: number;
}

/** Cycles of `count` blocks of an SM that do a chunk each. */
export interface IssuedChunk {
  readonly cycles: number;
  readonly multiply: number;
  readonly shared: number;
}

export const issuedChunk = (
  machine: Machine,
  kernel: ModelKernel,
  problem: Problem,
  counted: Counted,
  count: number,
): IssuedChunk =>
  kernel.engine === "fma"
    ? fmaChunk(machine, kernel, counted, count)
    : mmaChunk(machine, kernel, problem, counted, count);

function fmaChunk(
  machine: Machine,
  kernel: ModelKernel,
  { sharedBytes }: Counted,
  count: number,
): IssuedChunk {
  const [tm, tn] = kernel.instruction;
  const [m, n, k] = kernel.tile;
  const [vectorA, vectorB] = kernel.copyVector ?? [4, 4];
  const { fragmentLoads, copies, fragments, ahead, staged } = kernel.work ?? {
    fragmentLoads: Math.ceil(tm / 4) + Math.ceil(tn / 4),
    copies: ((kernel.through ? 2 : 1) * (m / vectorA + n / vectorB) * k) / kernel.threads,
    fragments: 2,
    ahead: kernel.stages - 1,
    staged: true,
  };
  const thin = tm * tn < THIN.sums && Math.min(m, n) <= THIN.lines && !kernel.through;
  const slots =
    k * (tm * tn * fma.multiplyAdd + fragmentLoads * fma.fragment) +
    copies * (thin ? fma.thinCopy : fma.copy) +
    fma.loop;
  const warps = Math.ceil((count * kernel.threads) / WARP / SCHEDULERS);
  // Where an SM has fewer lanes than its schedulers issue for, they are busy longer than the slots.
  const lanes = (machine.flopsPerCycle.fma ?? 0) / 2;
  const busy = Math.max(slots, (k * tm * tn * fma.multiplyAdd * WARP * SCHEDULERS) / lanes);
  // Fragments that come from memory are waited for in each step that loads them, or once where ptxas loads all of a chunk.
  const straight = staged ? 0 : fragments > 1 ? (k * fma.latency) / 2 : fma.latency;
  const far = Math.max(0, slots - fma.near) * fma.fetch;
  const through = kernel.through ? fma.through : 0;
  const bare = ahead === 0 && staged ? fma.latency : 0;
  const alone = busy + k * (fragments > 1 ? fma.step : fma.bareStep) + fma.chunk + straight + bare + through;
  const multiply = warps * (busy + far + through / 2);
  // All warps of a block wait for the last one's copies.
  const together = thin ? (kernel.threads / WARP) ** fma.meeting : 1;
  const shared = (count * sharedBytes) / machine.sharedBytes;
  const issued = together * norm(fma.norm, multiply, alone, staged && ahead > 0 ? fma.latency / ahead : 0);
  return { cycles: norm(fma.beside, issued, shared), multiply, shared };
}

function mmaChunk(
  machine: Machine,
  kernel: ModelKernel,
  problem: Problem,
  { multiply: one, kBytes, sharedBytes }: Counted,
  count: number,
): IssuedChunk {
  const [warpM, warpN] = kernel.instruction;
  const [m, n, k] = kernel.tile;
  const warps = (count * m * n) / (warpM * warpN);
  const few = Math.min(1, (warps / SCHEDULERS) ** mma.few[kernel.specialised ? "specialised" : "alone"]);
  // Of six warps two pipes have two, and the others wait for these.
  const busy = warps > SCHEDULERS ? warps / SCHEDULERS / Math.ceil(warps / SCHEDULERS) : few;
  const times = problem.precision === "3xtf32" ? mma.inParts + mma.splitting * (1 / warpM + 1 / warpN) : 1;
  const narrow = kBytes < mma.bankRow && problem.k > k ? mma.narrow : 1;
  const multiply = (count * one * times * narrow) / busy;
  const written = mma.written * (m + n * weightRatio(problem)) * kBytes;
  const shared = (count * (sharedBytes * (kernel.words ? mma.words : 1) + written)) / machine.sharedBytes;
  const made = mma.weights * madeCycles(problem, warps * warpN * k);
  const exposed = Math.max(0, mma.latency - (kernel.stages - 1) * Math.max(multiply, shared));
  const cycles =
    norm(mma.norm, multiply, shared, made) * (kernel.streamk > 0 ? mma.asks : 1) +
    (kernel.specialised ? mma.arrival : mma.barrier) / count +
    exposed;
  return { cycles, multiply, shared };
}

/** Cycles of a block beside its chunks and its stores. */
export function blockCycles(kernel: ModelKernel): number {
  const costs = issueEngine(kernel);
  return costs === undefined ? 0 : kernel.sched === "tiles" ? costs.block : costs.tile;
}

/**
 * Of a store of a warp that leaves gaps: parts of two sectors for each row, 3.1 cycles of L2 each. mma.sync into four bytes takes 638 us at 7836x14533x40 and 55 at 16135x517x35, where rows of sectors
 * would take 207 and 23 [measured, H200: docs/perf/runs/2026-11-28-h200-unseen.json].
 */
const GAPS = 5.06;

/**
 * Cycles of an SM for the stores of a block, sector by sector; one that several stores write in parts counts as often. Rows that begin inside a sector are stored over one more, whose ends, or
 * all of which where a store leaves gaps, L2 takes in parts. Blocks that share a tile store it once.
 */
export function storedCycles(kernel: ModelKernel, problem: Problem): number {
  const costs = issueEngine(kernel);
  if (costs === undefined) return 0;
  const [m, n] = kernel.tile;
  const size = packedSize(problem.d.dtype);
  const bytes = m * n * size;
  const split = splitRows(problem);
  const [whole, narrow, wide] = kernel.storeGaps ? [GAPS, GAPS, GAPS] : costs.stored;
  const end = size > 2 ? wide : narrow;
  const { storeBytes, storeSpan } = kernel;
  if (costs.apart === null)
    return ((bytes / storeBytes) * ((1 - split) * whole + split * end)) / kernel.split;
  const gaps = Math.min(SECTOR, storeSpan) / storeBytes;
  const stores = (bytes * gaps) / storeSpan;
  const sectors = (storeSpan - size) / SECTOR + 1;
  const apart =
    stores *
    (gaps > 1 ? sectors * costs.apart : Math.max(0, sectors - 2) * whole + Math.min(2, sectors) * end);
  return (((1 - split) * bytes * whole) / storeBytes + split * apart) / kernel.split;
}

/** Bytes of a sector of L2. */
export const SECTOR = 32;

/** Share of the rows of D that begin inside a sector. */
export function splitRows({ d }: Problem): number {
  const pitch = (d.ld * dtypes[d.dtype].bits) / 8;
  // Places in a sector at which rows begin: multiples of the largest power of two that divides the pitch.
  let step = 1;
  while (step < SECTOR && pitch % (2 * step) === 0) step *= 2;
  return 1 - step / SECTOR;
}
