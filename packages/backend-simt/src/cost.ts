/** A schedule as the cost model of `@tilewright/ir` sees it: the instructions of a thread, and the blocks that an SM holds. */
import { copyBytes, type Problem, type Schedule, sizeOf, type Target } from "@tilewright/core";
import {
  afterTransposing,
  epilogueLoadOf,
  type ModelKernel,
  plainKernel,
  splitChunks,
  transposingBytes,
  vectorsOf,
} from "@tilewright/ir";
import { blockBytes, estimateRegisters, threadsOf } from "./check.ts";
import { slicesBytes } from "./nest.ts";
import { readSchedule, type SimtSchedule } from "./schedule.ts";

/**
 * Registers beside accumulators and fragments that count against occupancy: addresses and what ptxas keeps (138 kernels: 72 in all for 8 x 4 sums, 128 for 8 x 8, 168 for 12 x 8), and where copies pass
 * through registers, what is on its way.
 */
const REGISTERS: Readonly<Record<SimtSchedule["copy"], number>> = { "cp.async": 32, direct: 72 };

/**
 * Shared memory of an SM that blocks of clusters get by default: with 90 KB each, two of them were as slow as one on an SM (docs/perf/simt.md), though the SM has
 * room for both.
 */
const CLUSTER_SMEM = 164 * 1024;

/** The kernel of a schedule. */
export function modelKernel(given: Problem, schedule: Schedule, target: Target): ModelKernel {
  const s = readSchedule(schedule);
  const problem = afterTransposing(given, s.transpose);
  const width = Math.min(4, s.copyElements);
  const through = s.copy === "direct" && s.stagedOperands !== "off";
  return {
    ...plainKernel("fma", [s.tileM, s.tileN, s.tileK], [s.threadM, s.threadN]),
    threads: threadsOf(s),
    stages: s.stages,
    copyVector: [width, width],
    through,
    work: {
      fragmentLoads:
        Math.ceil(s.threadM / Math.min(width, s.stripM)) + Math.ceil(s.threadN / Math.min(width, s.stripN)),
      fragments: s.frag,
      copies: copiesOf(problem, s),
      ahead: s.copy === "cp.async" ? s.stages - 1 : prefetches(problem, s) ? 1 : 0,
      staged: s.stagedOperands === "ab",
    },
    transposedBytes: transposingBytes(given, s.transpose),
    residents: blocksPerSm(problem, s, target),
    storeBytes: storeBytes(given, s),
    storeSpan: Math.max(SECTOR, rowBytes(given, s)),
    addend: epilogueLoadOf(given),
    raster: s.raster,
    split: splitChunks(problem.k, s).splits,
    streamk: s.streamk,
    combine: s.reduction,
  };
}

/**
 * Whether loads of the next chunk are under way while one is multiplied: where a chunk may lie beyond K, their registers are zeroed before, and ptxas 13.0 moves both to the stores (32 registers
 * instead of 93 for 1 x 256 at 1x8192x8192, where twelve parts take 119 us on an H200 and eight 93).
 */
const prefetches = (problem: Problem, s: SimtSchedule): boolean =>
  s.registerPrefetch && s.stages > 1 && splitsEvenly(problem, s);

/** Every block that shares a tile has as many whole chunks. */
export function splitsEvenly(
  { k }: Problem,
  { tileK, split }: Pick<SimtSchedule, "tileK" | "split">,
): boolean {
  const { splits, chunks } = splitChunks(k, { tileK, split });
  return k === splits * chunks * tileK;
}

const SECTOR = 32;

/** Bytes of a sector that one store of a warp writes: strips of neighbouring lanes lie side by side, of which each store takes one vector. */
function storeBytes(problem: Problem, s: SimtSchedule): number {
  const { d } = problem;
  const bytes = sizeOf(d.dtype);
  const vector =
    d.layout === "row" ? Math.min(s.storeElements, s.stripN, copyBytes(problem, "d") / bytes) : 1;
  return Math.min(SECTOR, rowBytes(problem, s)) * (vector / s.stripN);
}

/** Bytes of D that the lanes of a row have side by side. */
const rowBytes = ({ d }: Problem, s: SimtSchedule): number => s.lanesN * s.stripN * sizeOf(d.dtype);

/** Blocks that are resident at once on a GPU of `sms` SMs: those that shares are for. */
export const residentBlocks = (problem: Problem, schedule: Schedule, target: Target, sms: number): number =>
  sms * blocksPerSm(problem, readSchedule(schedule), target);

/**
 * Copies of a thread in a chunk, as many as take the same slots with a pointer each: of single elements where rows are not aligned, and by cp.async where the
 * tile lies across them. Of three slots two are the 64-bit pointer's, which the pieces of a row share.
 */
function copiesOf({ m, n, k, a, b }: Problem, s: SimtSchedule): number {
  const [rows, columns, depth] = [Math.min(s.tileM, m), Math.min(s.tileN, n), Math.min(s.tileK, k)];
  const of = (ld: number, run: number, across: boolean, other: number): number => {
    const width = ld % s.copyElements !== 0 || (across && s.copy === "cp.async") ? 1 : s.copyElements;
    const each = (run * other) / width / threadsOf(s);
    const together = Math.max(1, Math.min(vectorsOf(s.vectorsPerThread, 4 * run), each));
    return (each * (1 + 2 / together)) / 3;
  };
  const ofA = a.layout === "row" ? of(a.ld, depth, true, rows) : of(a.ld, rows, false, depth);
  const ofB = b.layout === "col" ? of(b.ld, depth, true, columns) : of(b.ld, columns, false, depth);
  const staged = s.stagedOperands === "off" ? "" : s.stagedOperands;
  const all = (staged.includes("a") ? ofA : 0) + (staged.includes("b") ? ofB : 0);
  return s.copy === "cp.async" ? all : 2 * all;
}

function blocksPerSm(problem: Problem, s: SimtSchedule, target: Target): number {
  const { limits } = target;
  const threads = threadsOf(s);
  // What is copied 16 bytes at a time has few addresses: ptxas gives 168 registers to 12 x 8 sums, and 190 where elements come one by one.
  const wide =
    s.copy === "cp.async" &&
    s.stagedOperands === "ab" &&
    Math.min(copyBytes(problem, "a"), copyBytes(problem, "b")) === 16;
  const registers = Math.max(
    wide ? 0 : estimateRegisters(s),
    s.threadM * s.threadN + (s.threadM + s.threadN) * s.frag + REGISTERS[s.copy],
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
