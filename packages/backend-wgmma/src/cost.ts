/** What a schedule is predicted to take: its kernel as the cost model of `@tilewright/ir` sees it. docs/perf/model.md has the model beside measurements. */
import {
  BLOCK_SCALE,
  copyBytes,
  occupancy,
  type Problem,
  packedSize,
  type Schedule,
  sizeOf,
  type Target,
} from "@tilewright/core";
import {
  afterTransposing,
  commonRows,
  epilogueLoadOf,
  type ModelKernel,
  plainKernel,
  splitChunks,
  transposingBytes,
} from "@tilewright/ir";
import { chunkK, factorType, needsKMajor, widensB } from "./instructions.ts";
import { alternates } from "./nest.ts";
import { weightRegisters } from "./rules/resources.ts";
import { mathGroups, readSchedule, threadsOf, type WgmmaSchedule } from "./schedule.ts";
import { blockBytes, storedBox } from "./sharedMemory.ts";
import { bringsFactors, isTwoLevel } from "./twoLevel.ts";

const SECTOR = 32;
/** Rows of a warpgroup's instruction. */
const ROWS = 64;
/** Lanes of a warp that store to one row of D. */
const ROW_LANES = 4;
/** Lanes of a warp that have neighbouring rows of an instruction. */
const COLUMN_LANES = 8;

/** The kernel of a schedule. */
export const modelKernel = (problem: Problem, schedule: Schedule, target: Target): ModelKernel =>
  kernelOf(problem, readSchedule(schedule), target);

/** The same of a schedule that was read. */
export function kernelOf(
  given: Problem,
  s: WgmmaSchedule,
  target: Target,
  room = roomOf(given, s, target),
): ModelKernel {
  const problem = afterTransposing(given, s.transpose);
  const tileK = chunkK(problem, s.tileK);
  const { splits } = splitChunks(problem.k, { tileK, split: s.split });
  const vector = Math.min(copyBytes(problem, "a"), copyBytes(problem, "b")) / sizeOf(factorType(problem));
  const across = s.swapAB ? s.tileM / s.groupsM : s.tileN / s.groupsN;
  return {
    ...plainKernel("wgmma", [s.tileM, s.tileN, tileK], [ROWS, across]),
    swapped: s.swapAB,
    threads: threadsOf(s),
    stages: s.stages,
    specialised: s.copy !== "direct",
    copyVector: s.copy === "tma" ? null : [vector, vector],
    through: s.copy === "direct" || s.copy === "load",
    across:
      (s.copy === "direct" && needsKMajor(problem) ? acrossElements(problem, s, tileK) : 0) +
      // To widen an element takes as many instructions as to store it alone.
      (widensB(problem) ? s.tileN * tileK : 0),
    madeAhead: alternates(problem, s),
    promotions: isTwoLevel(problem) ? s.tileM * s.tileN * Math.ceil(tileK / BLOCK_SCALE) : 0,
    factors: scaleFactors(problem, s),
    transposedBytes: transposingBytes(given, s.transpose),
    sets: mathGroups(s),
    halves: s.tail === 0 ? 0 : s.tileN / s.groupsN / 2,
    multicast: [s.clusterM, s.clusterN],
    residents: s.persistent ? 1 : room.residents,
    sched: s.sched === "tiles" ? "tiles" : s.sched === "atomic" ? "clc" : "persistent",
    overlap: s.pingPong > 1,
    storeBytes: s.epi === "tma" ? SECTOR : storedBytes(problem, s),
    storeBox: room.box,
    addend: epilogueLoadOf(problem, { c: s.epilogueLoad === "tma", steps: s.epilogueLoad === "tma" }),
    raster: s.raster,
    split: splits,
    streamk: s.persistent ? s.streamk : 0,
    combine: s.reduction,
  };
}

/** Elements of a chunk that do not lie along k. */
const acrossElements = ({ a, b }: Problem, s: WgmmaSchedule, tileK: number): number =>
  ((a.layout === "row" ? 0 : s.tileM) + (b.layout === "col" ? 0 : s.tileN)) * tileK;

/** How a thread comes by factors of blocks: squares are few, and cheap where all others come with the chunk. */
function scaleFactors(problem: Problem, s: WgmmaSchedule): ModelKernel["factors"] {
  const { blockScales } = problem;
  if (blockScales === undefined) return null;
  const columns = s.tileN / s.groupsN;
  return {
    by: !bringsFactors(problem, s) ? "threads" : blockScales.b === "1x128" ? "columns" : "rows",
    columns: blockScales.b === "1x128" ? columns / ROW_LANES : columns / commonRows(columns, BLOCK_SCALE),
  };
}

/** Bytes that the lanes of a row store side by side: a lane alone where rows of D begin at odd elements. */
function storedBytes({ d }: Problem, s: WgmmaSchedule): number {
  const size = packedSize(d.dtype);
  // Rows of the instruction lie along n: its fragments have one column of D in eight lanes.
  if (s.swapAB) return Math.min(SECTOR, COLUMN_LANES * size);
  const pair = 2 * size;
  const pairs = d.align >= pair && (d.ld * size) % pair === 0 && s.storeElements > 1;
  return Math.min(SECTOR, ROW_LANES * size * (pairs ? 2 : 1));
}

/** What a block's shared memory makes of it: bytes of a row of the boxes that store D (null where threads do), and CTAs that an SM has room for, four at most. */
export interface Room {
  readonly box: number | null;
  readonly residents: number;
}

export function roomOf(problem: Problem, s: WgmmaSchedule, target: Target): Room {
  const { limits } = target;
  const smem = blockBytes(problem, { ...s, pingPong: 1 }, limits.maxSmemPerBlock);
  const fit = Math.floor(limits.smemPerSm / (smem + limits.reservedSmemPerBlock));
  // Fragments of a chunk of 256 leave a second block of 16x128 no registers: 49.7 us for 43.7 by parts (16x16384x16384).
  const launched =
    problem.weights === undefined
      ? fit
      : occupancy({ threads: threadsOf(s), registers: weightRegisters(s, problem), smem }, target)
          .blocksPerSm;
  return {
    box: storedBox(problem, s, limits.maxSmemPerBlock),
    residents: Math.max(1, Math.min(4, fit, launched)),
  };
}
