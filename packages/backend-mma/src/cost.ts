/** A schedule as the cost model of `@tilewright/ir` sees it, and the blocks that an SM holds. */
import {
  copyBytes,
  dtypes,
  type Problem,
  roundUp,
  type Schedule,
  sizeOf,
  type Target,
} from "@tilewright/core";
import {
  epilogueLoadOf,
  type Machine,
  type ModelKernel,
  type Prediction,
  plainKernel,
  predict,
  splitChunks,
} from "@tilewright/ir";
import { acceptedAtom, chunkK, interleaves, interleavesWide } from "./atoms.ts";
import { estimateRegisters, isWidened } from "./registers.ts";
import { type MmaSchedule, readSchedule, threadsOf } from "./schedule.ts";
import { blockBytes } from "./sharedMemory.ts";
import { wordByWord } from "./space.ts";

/** What the model predicts of a schedule on a GPU. */
export const estimate = (
  problem: Problem,
  schedule: Schedule,
  target: Target,
  machine: Machine,
): Prediction => predict(problem, modelKernel(problem, schedule, target), machine);

function blocksPerSm(s: MmaSchedule, problem: Problem, target: Target): number {
  const { limits } = target;
  const threads = threadsOf(s);
  const atom = acceptedAtom(problem, target, s);
  // A warp beside those that multiply is dealt to a sub-partition of its own.
  const dealt = s.copy === "tma" ? roundUp(threads, 128) : threads;
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

/** Bytes of a sector of L2. */
export const SECTOR = 32;
/** Lanes of a warp that store to one row of D, two columns each. */
const ROW_LANES = 4;
const LANE_COLUMNS = 2;

/** Bytes of D next to each other that a store of a warp covers, at most a sector's. */
function storeBytes(problem: Problem, s: MmaSchedule): number {
  if (s.staged) return SECTOR;
  if (interleaves(problem, s)) return interleavesWide(problem) ? SECTOR : copyBytes(problem, "d");
  return (
    Math.min(SECTOR, ROW_LANES * LANE_COLUMNS * sizeOf(problem.d.dtype)) /
    (singly(problem) ? LANE_COLUMNS : 1)
  );
}

/** Whether lanes store their columns one by one, with gaps between them: rows of D begin at odd elements. */
const singly = (problem: Problem): boolean =>
  sizeOf(problem.d.dtype) === 4 && copyBytes(problem, "d") < LANE_COLUMNS * sizeOf(problem.d.dtype);

/** The kernel of a schedule as the cost model of `@tilewright/ir` sees it. */
export function modelKernel(problem: Problem, schedule: Schedule, target: Target): ModelKernel {
  const asked = readSchedule(schedule);
  const atom = acceptedAtom(problem, target, asked);
  const s = { ...asked, tileK: chunkK(problem, asked, atom) };
  const vector = (which: "a" | "b"): number =>
    (8 * movedBytes(problem, s, which)) / dtypes[problem[which].dtype].bits;
  return {
    ...plainKernel("mma", [s.tileM, s.tileN, s.tileK], [s.warpM, s.warpN]),
    threads: threadsOf(s),
    stages: s.stages,
    specialised: s.copy === "tma",
    copyVector: s.copy === "tma" ? null : [vector("a"), vector("b")],
    through: s.copy === "direct",
    words: s.copy === "cp.async" && wordByWord(problem),
    widened: isWidened(atom, target),
    residents: blocksPerSm(s, problem, target),
    sched: s.persistent ? "persistent" : "tiles",
    storeBytes: storeBytes(problem, s),
    storeGaps: !s.staged && singly(problem),
    addend: epilogueLoadOf(problem),
    raster: s.raster,
    split: splitChunks(problem.k, s).splits,
    streamk: s.streamk,
    combine: s.reduction,
  };
}

/** Bytes that a copy of an operand moves, as the schedule and the alignment leave it. */
export const movedBytes = (problem: Problem, s: MmaSchedule, which: "a" | "b"): number =>
  Math.min(s.copyBytes, copyBytes(problem, which));
