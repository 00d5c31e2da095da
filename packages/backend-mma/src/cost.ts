/**
 * What a schedule costs: rounds of blocks on the SMs, the bytes that warps read from shared memory, and the bytes of L2 and memory.
 * An estimate to rank by, in cycles of an SM. Its constants are an H200's (tensor pipe and copy rates measured there with mma.sync).
 */
import { dtypes, type Problem, type Schedule, sizeOf, type Target } from "@tilewright/ir";
import { estimateRegisters, stagedBytes, threadsOf } from "./check.ts";
import { acceptedAtom, chunkK, interleaves, splitChunks } from "./nest.ts";
import { type MmaSchedule, readSchedule } from "./schedule.ts";

/** SMs to balance rounds for: an H100's or H200's. */
const TYPICAL_SMS = 132;

const machine = {
  /** Products of 16-bit elements a cycle: four tensor pipes, an m16n8k16 in 6.5 cycles each. */
  products: (4 * 16 * 8 * 16) / 6.5,
  /** Bytes that ldmatrix reads from shared memory a cycle. */
  sharedBytes: 128,
  /** Warps of an SM that keep the tensor pipes busy: two a pipe. */
  warps: 8,
  /** Of a chunk: barrier, first fragments. More stages hide more of it. */
  chunk: 90,
  /** Of a block: launch, first chunks, and the epilogue's stores for each element that a thread holds. */
  block: 2500,
  storeWide: 3,
  store: 12,
  /** Of a part that is handed over, for each accumulator of a thread; of blocks that meet. */
  part: 20,
  meeting: 2000,
  /** Bytes a cycle of the whole GPU. */
  l2Bytes: 2800,
  memoryBytes: 2400,
} as const;

/** Estimated cycles. Sizes of problem and tile in elements. */
export function estimateTime(problem: Problem, schedule: Schedule, target: Target): number {
  const atom = acceptedAtom(problem);
  const asked = readSchedule(schedule);
  const s = { ...asked, tileK: chunkK(problem, asked, atom) };
  const size = sizeOf(atom.a);
  const { m, n, k } = problem;
  const batch = problem.batch.kind === "strided" ? problem.batch.count : 1;
  const tiles = Math.ceil(m / s.tileM) * Math.ceil(n / s.tileN) * batch;
  const { splits, chunks } = splitChunks(k, s);
  const resident = blocksPerSm(s, problem, target);
  const perThread = (s.warpM * s.warpN) / 32;
  const stores =
    perThread * (interleaves(problem, s) || sizeOf(problem.d.dtype) > 2 ? machine.storeWide : machine.store);
  const meeting = splits > 1 ? machine.meeting + splits * perThread * machine.part : 0;

  const blocks = tiles * splits;
  const round = (count: number): number => {
    const warps = (count * threadsOf(s)) / 32;
    const work = count * chunks * s.tileM * s.tileN * s.tileK;
    const multiply = work / ((machine.products * 2) / size) / Math.min(1, warps / machine.warps);
    const fragments =
      (count * chunks * s.tileK * size * (s.warpM + s.warpN) * (threadsOf(s) / 32)) / machine.sharedBytes;
    const waiting = (chunks * machine.chunk) / (Math.max(1, s.stages - 1) * Math.max(1, count));
    return Math.max(multiply, fragments) + waiting + machine.block + stores + meeting;
  };
  const full = Math.floor(blocks / (TYPICAL_SMS * resident));
  const rest = blocks - full * TYPICAL_SMS * resident;
  const arithmetic = full * round(resident) + (rest > 0 ? round(Math.ceil(rest / TYPICAL_SMS)) : 0);

  const accBytes = dtypes[atom.acc].bits / 8;
  const parts = splits > 1 ? 2 * blocks * s.tileM * s.tileN * accBytes : 0;
  const l2 = (size * (s.tileM + s.tileN) * k * tiles + parts) / machine.l2Bytes;
  const memory = (batch * (size * (m * k + k * n) + sizeOf(problem.d.dtype) * m * n)) / machine.memoryBytes;
  return Math.max(arithmetic, l2, memory);
}

function blocksPerSm(s: MmaSchedule, problem: Problem, target: Target): number {
  const { limits } = target;
  const threads = threadsOf(s);
  const atom = acceptedAtom(problem);
  const bytes = stagedBytes(s, atom) + limits.reservedSmemPerBlock;
  return Math.max(
    1,
    Math.min(
      limits.maxBlocksPerSm,
      Math.floor(limits.maxThreadsPerSm / threads),
      Math.floor(limits.registersPerSm / (Math.ceil(estimateRegisters(s, atom) / 8) * 8 * threads)),
      Math.floor(limits.smemPerSm / bytes),
    ),
  );
}
