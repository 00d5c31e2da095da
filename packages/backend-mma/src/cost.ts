/**
 * What a schedule costs: rounds of blocks on the SMs, the bytes that warps read from shared memory, and the bytes of L2 and memory.
 * An estimate to rank by, in cycles of an SM. Those constants that no table gives are a fit, in relative error, to 379 schedules of 11 sizes timed on an H200 in f16 with
 * B along k, from one row to 8192 (7 % root of the mean square; a launch adds 4.4 µs).
 */
import {
  copyBytes,
  dtypes,
  type Problem,
  residentInClusters,
  type Schedule,
  sizeOf,
  type Target,
} from "@tilewright/core";
import { type Machine, type ModelKernel, plainKernel, splitChunks } from "@tilewright/ir";
import { acceptedAtom, blockBytes, chunkK, interleaves } from "./nest.ts";
import { estimateRegisters } from "./registers.ts";
import { type MmaSchedule, mathWarps, readSchedule, threadsOf } from "./schedule.ts";

const machine = {
  /** Products of 16-bit elements a cycle: four tensor pipes, an m16n8k16 in 6.5 cycles each. */
  products: (4 * 16 * 8 * 16) / 6.5,
  /**
   * Of products in parts: three instructions and their share of the additions, and taking a fragment's register apart, four instructions. Whatever stands beside
   * the tensor pipe's 6.8 cycles comes on top of them, an instruction a cycle (docs/perf/mma.md).
   */
  inParts: 3.44,
  splitting: 18.8,
  /** Bytes that ldmatrix reads from shared memory a cycle. */
  sharedBytes: 128,
  /** Warps of an SM that keep the tensor pipes busy, two a pipe; what fewer do is that share to a power, smaller where a warp of its own copies. */
  warps: 8,
  few: { tma: 0.1, "cp.async": 0.33, direct: 0.33 },
  /** Of the bytes that copies write to shared memory, the share that keeps fragments from being read. */
  written: 0.66,
  /** Of a chunk: barrier, first fragments. Blocks on one SM hide it from each other. A warp that waits for copies alone waits less. */
  barrier: 78,
  arrival: 10,
  /** Chunks of less than a row of banks: 2 to 3 % behind at 128 x 256; 128 x 128 x 32 in f16 took 374 µs at 4352x4096x4096 where 1.06 had 337. */
  bankRow: 128,
  narrow: 1.18,
  /** From the issue of a chunk's copies to its arrival. Later stages hide it as far as their arithmetic lasts. */
  latency: 800,
  /** Of a block: launch, first chunks, and the epilogue's stores for each element that a thread holds. */
  block: 3550,
  /** The same where blocks stay: the first chunks of the next tile arrive meanwhile. */
  tile: 710,
  storeWide: 3,
  store: 12,
  /** Of a part that is handed over, for each accumulator of a thread; of blocks that meet. */
  part: 16.7,
  meeting: 2830,
  /** Of blocks that add up slices, and the bytes of its part that each writes, finds and reads a cycle. */
  slices: 4730,
  sharedParts: 15,
  /** The same of blocks that exchange slices in a cluster. */
  cluster: 680,
  sentParts: 14,
  /** Bytes a cycle of the whole GPU. L2: 64 for each SM, of which neighbours that ask for the same have one answer. */
  l2Bytes: 8000,
  memoryBytes: 2300,
  /** Exponents of the norms that stand for "the slower of": what is close to the limit on two sides pays on both. */
  norm: 5,
  chunkNorm: 3,
} as const;

/** Where the estimated cycles of a schedule go. */
export interface Cost {
  /** A little more than the most of `arithmetic`, `l2` and `memory`, which `bound` names. */
  readonly cycles: number;
  readonly bound: "arithmetic" | "l2" | "memory";
  /** Cycles of an SM from its first block to its last. */
  readonly arithmetic: number;
  readonly l2: number;
  readonly memory: number;
  /** Rounds of blocks on the SMs, the last one counted as far as it is filled. */
  readonly rounds: number;
  /** Blocks that share an SM. */
  readonly resident: number;
  /** Cycles of one full round. */
  readonly round: Round;
}

/** Cycles of the blocks that run together on one SM. */
interface Round {
  readonly multiply: number;
  /** Reading fragments from shared memory, and writing them there, beside the arithmetic. */
  readonly fragments: number;
  /** Barriers, and copies that arithmetic does not hide. */
  readonly waiting: number;
  /** Launch, first chunks, epilogue. */
  readonly fixed: number;
  /** Blocks that share a tile hand over their parts. */
  readonly meeting: number;
}

const norm = (p: number, ...parts: readonly number[]): number =>
  parts.reduce((sum, x) => sum + x ** p, 0) ** (1 / p);

const cyclesOf = (r: Round): number =>
  norm(machine.chunkNorm, r.multiply, r.fragments) + r.waiting + r.fixed + r.meeting;

/** Estimated cost. Sizes of problem and tile in elements, results in cycles. */
export function estimateCost(problem: Problem, schedule: Schedule, target: Target, gpu: Machine): Cost {
  const asked = readSchedule(schedule);
  const atom = acceptedAtom(problem, target, asked);
  const s = { ...asked, tileK: chunkK(problem, asked, atom) };
  const size = sizeOf(atom.a);
  const { m, n, k } = problem;
  const batch = problem.batch.kind === "strided" ? problem.batch.count : 1;
  const tiles = Math.ceil(m / s.tileM) * Math.ceil(n / s.tileN) * batch;
  const { splits } = splitChunks(k, s);
  const resident = blocksPerSm(s, problem, target);
  const blocks = tiles * splits;
  const inClusters = s.reduction === "cluster" && splits > 1;
  const sms = inClusters ? residentInClusters(splits, resident) / resident : gpu.sms;
  const full = Math.floor(blocks / (sms * resident));
  const rest = blocks - full * sms * resident;
  const roundOf = (count: number): Round => roundCost(problem, s, count);
  const last = rest > 0 ? cyclesOf(roundOf(Math.ceil(rest / sms))) : 0;
  const arithmetic = full * cyclesOf(roundOf(resident)) + last;

  const accBytes = dtypes[atom.acc].bits / 8;
  const parts = splits > 1 && !inClusters ? 2 * blocks * s.tileM * s.tileN * accBytes : 0;
  const l2 = (size * (s.tileM + s.tileN) * k * tiles + parts) / machine.l2Bytes;
  const memory = (batch * (size * (m * k + k * n) + sizeOf(problem.d.dtype) * m * n)) / machine.memoryBytes;
  // Memory is at rest while blocks meet, and while the first of them begin.
  const { fixed, meeting } = roundOf(1);
  const apart = Math.min(arithmetic, fixed + meeting);
  const cycles = apart + norm(machine.norm, arithmetic - apart, l2, memory);
  const most = Math.max(arithmetic, l2, memory);
  const bound = most === arithmetic ? "arithmetic" : most === l2 ? "l2" : "memory";
  const rounds = blocks / (sms * resident);
  return { cycles, bound, arithmetic, l2, memory, rounds, resident, round: roundOf(resident) };
}

/** Cycles until parts are handed over and added: by the block that comes last, by all that are there, or by those of a cluster. */
function meetingTime(s: MmaSchedule, splits: number): number {
  if (splits === 1) return 0;
  const perThread = (s.warpM * s.warpN) / LANES;
  const bytes = s.tileM * s.tileN * PART_BYTES;
  if (s.reduction === "slices") return machine.slices + bytes / machine.sharedParts;
  if (s.reduction === "cluster") return machine.cluster + bytes / machine.sentParts;
  return machine.meeting + splits * perThread * machine.part;
}

const LANES = 32;
/** Bytes of an accumulator. */
const PART_BYTES = 4;

/** Cycles of `count` blocks on one SM. `s.tileK` is the chunk as it will be. */
function roundCost(problem: Problem, s: MmaSchedule, count: number): Round {
  const { splits, chunks } = splitChunks(problem.k, s);
  const size = sizeOf(problem.a.dtype);
  const perThread = (s.warpM * s.warpN) / LANES;
  const warps = count * mathWarps(s);
  const busy = Math.min(1, (warps / machine.warps) ** machine.few[s.copy]);
  const work = count * s.tileM * s.tileN * s.tileK;
  // Three instructions of tf32 and their sums.
  const times =
    problem.precision !== "3xtf32" ? 1 : machine.inParts + machine.splitting * (1 / s.warpM + 1 / s.warpN);
  const narrow = s.tileK * size < machine.bankRow && problem.k > s.tileK ? machine.narrow : 1;
  const chunk = (narrow * times * work) / ((machine.products * 2) / size) / busy;
  const moved = (s.warpM + s.warpN) * warps + machine.written * count * (s.tileM + s.tileN);
  const fragments = (s.tileK * size * moved) / machine.sharedBytes;
  const exposed = Math.max(0, machine.latency - (s.stages - 1) * Math.max(chunk, fragments));
  const wide = s.staged || interleaves(problem, s) || sizeOf(problem.d.dtype) > 2;
  return {
    multiply: chunks * chunk,
    fragments: chunks * fragments,
    waiting: chunks * ((s.copy === "tma" ? machine.arrival : machine.barrier) / count + exposed),
    fixed:
      (s.persistent ? machine.tile : machine.block) + perThread * (wide ? machine.storeWide : machine.store),
    meeting: meetingTime(s, splits),
  };
}

function blocksPerSm(s: MmaSchedule, problem: Problem, target: Target): number {
  const { limits } = target;
  const threads = threadsOf(s);
  const atom = acceptedAtom(problem, target, s);
  // A warp beside those that multiply is dealt to a sub-partition of its own.
  const dealt = s.copy === "tma" ? Math.ceil(threads / 128) * 128 : threads;
  const bytes = blockBytes(problem, s, atom, target) + limits.reservedSmemPerBlock;
  return Math.max(
    1,
    Math.min(
      limits.maxBlocksPerSm,
      Math.floor(limits.maxThreadsPerSm / threads),
      Math.floor(limits.registersPerSm / (Math.ceil(estimateRegisters(s, atom, target) / 8) * 8 * dealt)),
      Math.floor(limits.smemPerSm / bytes),
    ),
  );
}

const SECTOR = 32;
/** Lanes of a warp that store to one row of D, two columns each. */
const ROW_LANES = 4;
const LANE_COLUMNS = 2;

/** The kernel of a schedule as the cost model of `@tilewright/ir` sees it. */
export function modelKernel(problem: Problem, schedule: Schedule, target: Target): ModelKernel {
  const asked = readSchedule(schedule);
  const atom = acceptedAtom(problem, target, asked);
  const s = { ...asked, tileK: chunkK(problem, asked, atom) };
  const bytes = Math.min(movedBytes(problem, s, "a"), movedBytes(problem, s, "b"));
  const whole = s.staged || interleaves(problem, s);
  return {
    ...plainKernel("mma", [s.tileM, s.tileN, s.tileK], [s.warpM, s.warpN]),
    threads: threadsOf(s),
    stages: s.stages,
    specialised: s.copy === "tma",
    copyVector: s.copy === "tma" ? 0 : bytes / sizeOf(problem.a.dtype),
    through: s.copy === "direct",
    residents: blocksPerSm(s, problem, target),
    sched: s.persistent ? "persistent" : "tiles",
    storeBytes: whole ? SECTOR : Math.min(SECTOR, ROW_LANES * LANE_COLUMNS * sizeOf(problem.d.dtype)),
    addend: problem.c === null ? "none" : "direct",
    raster: s.raster,
    split: splitChunks(problem.k, s).splits,
    streamk: s.persistent ? s.streamk : 0,
    combine: s.reduction,
  };
}

/** Bytes that a copy of an operand moves, as the schedule and the alignment leave it. */
export const movedBytes = (problem: Problem, s: MmaSchedule, which: "a" | "b"): number =>
  Math.min(s.copyBytes, copyBytes(problem, which));
