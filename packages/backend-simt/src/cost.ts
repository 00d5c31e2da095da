/**
 * What a schedule costs: an explainable estimate of rounds of blocks, issue slots, latency, and bytes from L2 and memory.
 *
 * The form is the machine's; the constants were fitted to 455 schedules over twelve problems measured on an H200
 * (docs/perf/simt.md has the comparison: rank correlation 0.93; the pick is on average within a tenth of the best measured).
 */
import { type Problem, type Schedule, shareFor, splitChunks, type Target } from "@tilewright/ir";
import { estimateRegisters, stagedBytes, threadsOf } from "./check.ts";
import { readSchedule, type SimtSchedule } from "./schedule.ts";

/** SMs to balance rounds for: an H100's or H200's. */
const TYPICAL_SMS = 132;
/** FP32 lanes of an SM (sm_70: 64, later 128); only ratios matter here. */
const FMA_LANES = 128;

/** Fitted constants: cycles of an SM, or bytes per cycle of the whole GPU. */
const fitted = {
  /** Registers beside accumulators and fragments that count against occupancy. */
  registers: 72,
  /** Issue slots of a fragment load: the wavefronts of a 16-byte load by a 4 x 8 lane grid. */
  fragmentLoad: 4.2,
  /** Issue slots of a vector that a thread copies, with its address and predicate. */
  copy: 21,
  /** Of a chunk: barrier, counter, branch. */
  loop: 27,
  /** Warps of an SM from which latency is hidden, and how fast it shows below. */
  warps: 4.8,
  hiding: 1.23,
  /** Least time of a chunk, whatever its size. */
  chunk: 11,
  /** Of a launch; of blocks that meet; of handing over one accumulator of one part. */
  launch: 143,
  meeting: 92,
  part: 9.3,
  l2Bytes: 1230,
  memoryBytes: 1180,
  /** Share of the traffic's time that nothing hides. */
  exposed: 0.15,
} as const;

/** Estimated cycles. Sizes of problem and tile in elements of f32. */
export function estimateTime(problem: Problem, schedule: Schedule, target: Target): number {
  const s = readSchedule(schedule);
  const { m, n, k } = problem;
  const tiles = Math.ceil(m / s.tileM) * Math.ceil(n / s.tileN);
  const { splits, chunks } = splitChunks(k, s);
  const resident = blocksPerSm(s, target);
  const share = shareFor(tiles, chunks, s.streamk);
  // Whole tiles in their rounds, and one round in which every block has its share of chunks.
  const arithmetic =
    share === null
      ? rounds(s, tiles * splits, chunks, resident)
      : rounds(s, tiles - share.tiles, chunks, resident) + rounds(s, s.streamk, share.each, resident);
  const accumulators = s.threadM * s.threadN;
  // Parts that a tile has, and parts in all.
  const [together, handed] =
    share === null
      ? [splits, splits > 1 ? tiles * splits : 0]
      : [Math.ceil(chunks / share.each) + 1, s.streamk + share.tiles];
  // Atomics leave one part to read; a second kernel is one more launch.
  const read = s.combine === "atomics" ? 1 : together;
  const launches = handed > 0 && s.combine === "kernel" ? 2 : 1;
  const meeting = handed > 0 ? fitted.meeting + read * accumulators * fitted.part : 0;
  const parts = 2 * handed * s.tileM * s.tileN;
  const l2 = (4 * ((s.tileM + s.tileN) * k * tiles + parts)) / fitted.l2Bytes;
  const memory = (4 * (m * k + k * n + m * n)) / fitted.memoryBytes;
  const busy = Math.max(arithmetic + launches * fitted.launch + meeting, l2, memory);
  return busy + fitted.exposed * (l2 + memory);
}

/** Blocks that are resident at once on the GPU that rounds are balanced for: those that shares are for. */
export const residentBlocks = (schedule: Schedule, target: Target): number =>
  TYPICAL_SMS * blocksPerSm(readSchedule(schedule), target);

/** Blocks come in rounds of all that are resident; the last round lasts as long as its busiest SM. */
function rounds(s: SimtSchedule, blocks: number, chunks: number, resident: number): number {
  const block = (chunks * s.tileM * s.tileN * s.tileK) / (FMA_LANES * issueShare(s));
  const round = (count: number): number => {
    const hiding = Math.min(1, (count * threadsOf(s)) / 32 / fitted.warps) ** fitted.hiding;
    return Math.max((count * block) / hiding, chunks * fitted.chunk);
  };
  const full = Math.floor(blocks / (TYPICAL_SMS * resident));
  const rest = blocks - full * TYPICAL_SMS * resident;
  return full * round(resident) + (rest > 0 ? round(Math.ceil(rest / TYPICAL_SMS)) : 0);
}

/** Share of issue slots that are multiply-adds: per K step TM*TN of them against fragment loads, per chunk the copies and the loop. */
function issueShare(s: SimtSchedule): number {
  const multiplyAdds = s.threadM * s.threadN * s.tileK;
  const width = Math.min(4, s.vec);
  const loads =
    s.tileK *
    (Math.ceil(s.threadM / Math.min(width, s.stripM)) + Math.ceil(s.threadN / Math.min(width, s.stripN)));
  const copies = (2 * (s.tileM + s.tileN) * s.tileK) / threadsOf(s) / s.vec;
  const other = loads * fitted.fragmentLoad + copies * fitted.copy + fitted.loop;
  return multiplyAdds / (multiplyAdds + other);
}

function blocksPerSm(s: SimtSchedule, target: Target): number {
  const { limits } = target;
  const threads = threadsOf(s);
  const registers = Math.max(
    estimateRegisters(s),
    s.threadM * s.threadN + (s.threadM + s.threadN) * s.frag + fitted.registers,
  );
  return Math.max(
    1,
    Math.min(
      limits.maxBlocksPerSm,
      Math.floor(limits.maxThreadsPerSm / threads),
      Math.floor(limits.registersPerSm / (registers * threads)),
      Math.floor(limits.smemPerSm / (stagedBytes(s) + limits.reservedSmemPerBlock + 1)),
    ),
  );
}
