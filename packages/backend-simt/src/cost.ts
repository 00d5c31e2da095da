/**
 * What a schedule costs: an explainable estimate of rounds of blocks, issue slots, waiting that nothing hides, bytes from L2 and memory, and the meeting of
 * blocks that share a tile.
 *
 * The form is the machine's; the constants were fitted to schedules measured on an H200 (docs/perf/simt.md says how many, and has the rank correlation).
 */
import type { MatrixLayout, Problem, Schedule, Target } from "@tilewright/core";
import {
  type StreamK,
  splitChunks,
  streamKFor,
  transposedBytes,
  transposedStrides,
  vectorsOf,
} from "@tilewright/ir";
import { blockBytes, estimateRegisters, threadsOf } from "./check.ts";
import { slicesBytes } from "./nest.ts";
import { readSchedule, type SimtSchedule } from "./schedule.ts";

/** Schedulers of an SM, each of which issues an instruction of 32 lanes a cycle. */
const SCHEDULERS = 4;

/** Fitted constants: cycles, or bytes per cycle of the whole GPU. */
const fitted = {
  /** Registers beside accumulators and fragments that count against occupancy. */
  registers: 72,
  /** Of a multiply-add, with its share of bank conflicts; of a vector of fragments; of a copy with its address; of a chunk's loop and barrier. */
  multiplyAdd: 1.06,
  fragment: 1.83,
  copy: 2.31,
  loop: 56.5,
  /** That one warp waits for in a K step with fragments loaded ahead, and without; in a chunk. */
  step: 4.02,
  bareStep: 9.76,
  chunk: 17.6,
  /** Of a chunk whose copies pass through registers; of each instruction of a main loop that is longer than what the instruction cache holds near. */
  through: 232,
  fetch: 0.146,
  /** Of a load from memory or L2. */
  latency: 774,
  /** Of a launch. */
  launch: 8490,
  /** Of blocks that meet; by the way they do: of each part, and of each accumulator of each part. */
  lastFixed: 5580,
  lastPart: 914,
  lastSum: 7.62,
  atomicsFixed: 3850,
  atomicsSum: 74.6,
  kernelFixed: 8070,
  kernelSum: 57.7,
  clusterFixed: 2810,
  clusterSum: 35.3,
  /**
   * Behind the fit: of the lines that a copy of single elements touches beside its slots, and of a kernel that transposes operands before this one, in all and bytes per
   * cycle of what it reads and writes. From the four layouts at 2048, 4096 and 8192, with and without such a kernel (docs/perf/simt.md).
   */
  line: 2,
  transposed: 2000,
  transposedBytes: 2000,
  l2Bytes: 3980,
  memoryBytes: 2340,
  /** How sharply the slowest of several things hides the others. */
  chunkNorm: 4.71,
  wholeNorm: 6.96,
} as const;

const norm = (power: number, ...terms: readonly number[]): number =>
  terms.reduce((sum, term) => sum + Math.max(0, term) ** power, 0) ** (1 / power);

/** Estimated cycles. Sizes of problem and tile in elements of f32. */
export function estimateTime(given: Problem, schedule: Schedule, target: Target, sms: number): number {
  const s = readSchedule(schedule);
  const problem = afterTransposing(given, s);
  const { m, n, k } = problem;
  const tiles = Math.ceil(m / s.tileM) * Math.ceil(n / s.tileN);
  const { splits, chunks } = splitChunks(k, s);
  const share = streamKFor(tiles, chunks, s.streamk);
  const work = (blocks: number, each: number): number => rounds(problem, s, target, blocks, each, sms);
  // Whole tiles in their rounds, and one round in which every block has its share of chunks.
  const arithmetic =
    share === null
      ? work(tiles * splits, chunks)
      : work(tiles - share.tiles, chunks) + work(s.streamk, share.each);
  const parts = partialTilesOf(s, tiles, splits, chunks, share);
  const l2 = (4 * ((s.tileM + s.tileN) * k * tiles + 2 * parts.handed * s.tileM * s.tileN)) / fitted.l2Bytes;
  const memory = (4 * (m * k + k * n + m * n)) / fitted.memoryBytes;
  return (
    fitted.launch +
    norm(fitted.wholeNorm, arithmetic, l2, memory) +
    meetingTime(s, parts, sms) +
    transposingTime(given, s)
  );
}

/** The problem that is left to the main kernel: copies along the other axis, in whole lines of L2. */
function afterTransposing(problem: Problem, { transpose }: SimtSchedule): Problem {
  const copied = (which: "a" | "b", layout: MatrixLayout) =>
    transpose.includes(which)
      ? { ...problem[which], layout, ld: Math.max(...transposedStrides(problem, which)) }
      : problem[which];
  return transpose === "off" ? problem : { ...problem, a: copied("a", "col"), b: copied("b", "row") };
}

function transposingTime(problem: Problem, { transpose }: SimtSchedule): number {
  if (transpose === "off") return 0;
  const bytes = (["a", "b"] as const).reduce(
    (sum, which) => (transpose.includes(which) ? sum + transposedBytes(problem, which) : sum),
    0,
  );
  return fitted.transposed + (2 * bytes) / fitted.transposedBytes;
}

/** Parts that a tile has, and parts in all. */
interface Parts {
  readonly together: number;
  readonly handed: number;
}

function partialTilesOf(
  s: SimtSchedule,
  tiles: number,
  splits: number,
  chunks: number,
  share: Pick<StreamK, "each" | "tiles"> | null,
): Parts {
  if (share !== null)
    return { together: Math.ceil(chunks / share.each) + 1, handed: s.streamk + share.tiles };
  return { together: splits, handed: splits > 1 ? tiles * splits : 0 };
}

/**
 * Shared memory of an SM that blocks of clusters get by default: with 90 KB each, two of them were as slow as one on an SM (docs/perf/simt.md), though the SM has
 * room for both.
 */
const CLUSTER_SMEM = 164 * 1024;

/** Instructions of a main loop beyond which fetching them shows: loops of 1150 run at full speed, those of 2200 do not (docs/perf/simt.md). */
const NEAR_INSTRUCTIONS = 1400;

/** Registers of parts that the last block has in flight together (codegen's `partialTiles.ts`). */
const PARTS_TOGETHER = 64;

function meetingTime(s: SimtSchedule, { together, handed }: Parts, sms: number): number {
  if (handed === 0) return 0;
  const sums = s.threadM * s.threadN;
  switch (s.reduction) {
    case "last": {
      const turns = together / Math.max(1, Math.floor(PARTS_TOGETHER / sums));
      return fitted.lastFixed + turns * fitted.lastPart + together * sums * fitted.lastSum;
    }
    case "atomics":
      return fitted.atomicsFixed + sums * fitted.atomicsSum;
    case "kernel":
      return fitted.kernelFixed + (together * sums * fitted.kernelSum * handed) / together / sms;
    case "cluster":
      return fitted.clusterFixed + sums * fitted.clusterSum;
    default:
      return s.reduction satisfies never;
  }
}

/** Blocks that are resident at once on a GPU of `sms` SMs: those that shares are for. */
export const residentBlocks = (problem: Problem, schedule: Schedule, target: Target, sms: number): number =>
  sms * blocksPerSm(problem, readSchedule(schedule), target);

/** Blocks come in rounds of all that are resident; the last round lasts as long as its busiest SM. */
function rounds(
  problem: Problem,
  s: SimtSchedule,
  target: Target,
  blocks: number,
  chunks: number,
  sms: number,
): number {
  if (blocks <= 0) return 0;
  const resident = blocksPerSm(problem, s, target);
  const round = (count: number): number => fitted.latency + chunks * chunkTime(problem, s, count);
  const full = Math.floor(blocks / (sms * resident));
  const rest = blocks - full * sms * resident;
  return full * round(resident) + (rest > 0 ? round(Math.ceil(rest / sms)) : 0);
}

/** Cycles in which `count` blocks of an SM do a chunk each: their issue slots, or what a warp waits for alone, or memory behind a ring that is too short. */
function chunkTime(problem: Problem, s: SimtSchedule, count: number): number {
  const warps = Math.ceil((count * threadsOf(s)) / 32 / SCHEDULERS);
  const slots = slotsOf(problem, s);
  const staged = s.stagedOperands === "ab";
  const ahead = s.copy === "cp.async" ? s.stages - 1 : s.registerPrefetch && s.stages > 1 ? 1 : 0;
  const steps = s.tileK * (s.frag > 1 ? fitted.step : fitted.bareStep);
  // Fragments that come from memory are waited for in each step that loads them, or once where ptxas loads all of a chunk.
  const straight = staged ? 0 : s.frag > 1 ? (s.tileK * fitted.latency) / 2 : fitted.latency;
  const far = Math.max(0, slots - NEAR_INSTRUCTIONS) * fitted.fetch;
  const through = s.copy === "direct" && s.stagedOperands !== "off" ? fitted.through : 0;
  const bare = ahead === 0 && staged ? fitted.latency : 0;
  const alone = slots + steps + fitted.chunk + straight + bare + through;
  return norm(
    fitted.chunkNorm,
    warps * (slots + far + through / 2),
    alone,
    staged && ahead > 0 ? fitted.latency / ahead : 0,
  );
}

/** Issue slots of a warp in a chunk. */
function slotsOf(problem: Problem, s: SimtSchedule): number {
  const width = Math.min(4, s.copyElements);
  const loads =
    Math.ceil(s.threadM / Math.min(width, s.stripM)) + Math.ceil(s.threadN / Math.min(width, s.stripN));
  return (
    s.tileK * (s.threadM * s.threadN * fitted.multiplyAdd + loads * fitted.fragment) +
    copiesOf(problem, s) * fitted.copy +
    singlesOf(problem, s) * fitted.line +
    fitted.loop
  );
}

/**
 * Copies of a thread in a chunk, as many as take the same slots with a pointer each: of single elements where rows are not aligned, and by cp.async where the
 * tile lies across them. Of three slots two are the 64-bit pointer's, which the pieces of a row share.
 */
function copiesOf({ a, b }: Problem, s: SimtSchedule): number {
  const of = (ld: number, run: number, across: boolean, other: number): number => {
    const width = ld % s.copyElements !== 0 || (across && s.copy === "cp.async") ? 1 : s.copyElements;
    const each = (run * other) / width / threadsOf(s);
    const together = Math.max(1, Math.min(vectorsOf(s.vectorsPerThread, 4 * run), each));
    return (each * (1 + 2 / together)) / 3;
  };
  const ofA = a.layout === "row" ? of(a.ld, s.tileK, true, s.tileM) : of(a.ld, s.tileM, false, s.tileK);
  const ofB = b.layout === "col" ? of(b.ld, s.tileK, true, s.tileN) : of(b.ld, s.tileN, false, s.tileK);
  const staged = s.stagedOperands === "off" ? "" : s.stagedOperands;
  const all = (staged.includes("a") ? ofA : 0) + (staged.includes("b") ? ofB : 0);
  return s.copy === "cp.async" ? all : 2 * all;
}

/** Copies by cp.async of a thread in a chunk that bring single elements, for they lie across the tile: each touches as many lines as it has rows. */
function singlesOf({ a, b }: Problem, s: SimtSchedule): number {
  if (s.copy !== "cp.async") return 0;
  const elements =
    (a.layout === "row" && s.stagedOperands.includes("a") ? s.tileM : 0) +
    (b.layout === "col" && s.stagedOperands.includes("b") ? s.tileN : 0);
  return s.stagedOperands === "off" ? 0 : (elements * s.tileK) / threadsOf(s);
}

function blocksPerSm(problem: Problem, s: SimtSchedule, target: Target): number {
  const { limits } = target;
  const threads = threadsOf(s);
  const registers = Math.max(
    estimateRegisters(s),
    s.threadM * s.threadN + (s.threadM + s.threadN) * s.frag + fitted.registers,
  );
  const smem = slicesBytes(problem, s) === 0 ? limits.smemPerSm : Math.min(limits.smemPerSm, CLUSTER_SMEM);
  return Math.max(
    1,
    Math.min(
      limits.maxBlocksPerSm,
      Math.floor(limits.maxThreadsPerSm / threads),
      Math.floor(limits.registersPerSm / (registers * threads)),
      Math.floor(smem / (blockBytes(problem, s, 4) + limits.reservedSmemPerBlock + 1)),
    ),
  );
}
