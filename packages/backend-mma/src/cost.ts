/**
 * What a schedule costs: rounds of blocks on the SMs, the bytes that warps read from shared memory, and the bytes of L2 and memory.
 * An estimate to rank by, in cycles of an SM. Its constants are an H200's (tensor pipe and copy rates measured there with mma.sync).
 */
import {
  copyBytes,
  dtypes,
  type Problem,
  type Schedule,
  sizeOf,
  splitChunks,
  type Target,
} from "@tilewright/ir";
import { acceptedAtom, blockBytes, chunkK, interleaves } from "./nest.ts";
import { estimateRegisters } from "./registers.ts";
import { type MmaSchedule, mathWarps, readSchedule, threadsOf } from "./schedule.ts";

/** SMs to balance rounds for: an H100's or H200's. */
export const TYPICAL_SMS = 132;

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
  /** Warps of an SM that keep the tensor pipes busy: two a pipe. */
  warps: 8,
  /** Of a chunk: barrier, first fragments. Blocks on one SM hide it from each other. A warp that waits for copies alone waits less. */
  barrier: 60,
  arrival: 20,
  /** From the issue of a chunk's copies to its arrival. Later stages hide it as far as their arithmetic lasts. */
  latency: 1000,
  /** Of a block: launch, first chunks, and the epilogue's stores for each element that a thread holds. */
  block: 2500,
  /** The same where blocks stay: the first chunks of the next tile arrive meanwhile. */
  tile: 1000,
  storeWide: 3,
  store: 12,
  /** Of a part that is handed over, for each accumulator of a thread; of blocks that meet. */
  part: 20,
  meeting: 2000,
  /** Of blocks that add up slices: looking for each other, and as much read as handed over (8.7 µs at 128 accumulators a thread, where the last block alone needs 20 for 16 parts). */
  slices: 6000,
  /** Bytes a cycle of the whole GPU. L2: what the large tiles drew at 4096 in the measured time, and a little more. */
  l2Bytes: 4000,
  memoryBytes: 2400,
} as const;

/** Where the estimated cycles of a schedule go. */
export interface Cost {
  /** The most of `arithmetic`, `l2` and `memory`. */
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
  /** Reading fragments from shared memory, beside the arithmetic. */
  readonly fragments: number;
  /** Barriers, and copies that arithmetic does not hide. */
  readonly waiting: number;
  /** Launch, first chunks, epilogue. */
  readonly fixed: number;
  /** Blocks that share a tile hand over their parts. */
  readonly meeting: number;
}

const cyclesOf = (r: Round): number => Math.max(r.multiply, r.fragments) + r.waiting + r.fixed + r.meeting;

/** Estimated cost. Sizes of problem and tile in elements, results in cycles. */
export function estimateCost(problem: Problem, schedule: Schedule, target: Target): Cost {
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
  const full = Math.floor(blocks / (TYPICAL_SMS * resident));
  const rest = blocks - full * TYPICAL_SMS * resident;
  const roundOf = (count: number): Round => roundCost(problem, s, count);
  const last = rest > 0 ? cyclesOf(roundOf(Math.ceil(rest / TYPICAL_SMS))) : 0;
  const arithmetic = full * cyclesOf(roundOf(resident)) + last;

  const accBytes = dtypes[atom.acc].bits / 8;
  const parts = splits > 1 ? 2 * blocks * s.tileM * s.tileN * accBytes : 0;
  const l2 = (size * (s.tileM + s.tileN) * k * tiles + parts) / machine.l2Bytes;
  const memory = (batch * (size * (m * k + k * n) + sizeOf(problem.d.dtype) * m * n)) / machine.memoryBytes;
  const cycles = Math.max(arithmetic, l2, memory);
  const bound = cycles === arithmetic ? "arithmetic" : cycles === l2 ? "l2" : "memory";
  const rounds = blocks / (TYPICAL_SMS * resident);
  return { cycles, bound, arithmetic, l2, memory, rounds, resident, round: roundOf(resident) };
}

/** Cycles until parts are handed over and added: by the block that comes last, or by all that are there. */
const last = (splits: number, perThread: number): number =>
  machine.meeting + splits * perThread * machine.part;
const slices = (perThread: number): number => machine.meeting + machine.slices + 2 * perThread * machine.part;

/** Cycles of `count` blocks on one SM. `s.tileK` is the chunk as it will be. */
function roundCost(problem: Problem, s: MmaSchedule, count: number): Round {
  const { splits, chunks } = splitChunks(problem.k, s);
  const size = sizeOf(problem.a.dtype);
  const perThread = (s.warpM * s.warpN) / 32;
  const warps = count * mathWarps(s);
  const work = count * s.tileM * s.tileN * s.tileK;
  // Three instructions of tf32 and their sums.
  const times =
    problem.precision !== "3xtf32" ? 1 : machine.inParts + machine.splitting * (1 / s.warpM + 1 / s.warpN);
  const chunk = (times * work) / ((machine.products * 2) / size) / Math.min(1, warps / machine.warps);
  const fragments = (s.tileK * size * (s.warpM + s.warpN) * warps) / machine.sharedBytes;
  const exposed = Math.max(0, machine.latency - (s.stages - 1) * Math.max(chunk, fragments));
  const wide = s.staged || interleaves(problem, s) || sizeOf(problem.d.dtype) > 2;
  return {
    multiply: chunks * chunk,
    fragments: chunks * fragments,
    waiting: chunks * ((s.copy === "tma" ? machine.arrival : machine.barrier) / count + exposed),
    fixed:
      (s.persistent ? machine.tile : machine.block) + perThread * (wide ? machine.storeWide : machine.store),
    meeting: splits === 1 ? 0 : s.combine === "slices" ? slices(perThread) : last(splits, perThread),
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

/** Bytes that a copy of an operand moves, as the schedule and the alignment leave it. */
export const movedBytes = (problem: Problem, s: MmaSchedule, which: "a" | "b"): number =>
  Math.min(s.vec, copyBytes(problem, which));
