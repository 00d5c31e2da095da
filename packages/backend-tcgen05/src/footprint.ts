/** What a schedule takes of a block: bytes of shared memory, columns of tensor memory. */
import {
  type DType,
  dtypes,
  isScaled,
  type Problem,
  SCALE_COLUMNS,
  SCALE_FACTORS,
  SCALE_ROWS,
  SCALE_WORDS,
  scaledTypes,
  sizeOf,
  type Target,
} from "@tilewright/ir";
import { accumulatorOf, stepsOf } from "./accumulators.ts";
import { acceptedKind } from "./nest.ts";
import type { TensorSchedule } from "./schedule.ts";

/** Blocks of scale factors (128 rows by 4) of a chunk in each block; 0 where there are none. Both blocks of a pair have all of B's. */
function factorBlocks(s: TensorSchedule, { a }: Problem): number {
  if (!isScaled(a.dtype)) return 0;
  const alongK = s.tileK / (scaledTypes[a.dtype].block * SCALE_FACTORS);
  return (s.tileM / s.cta / SCALE_ROWS + s.tileN / SCALE_ROWS) * alongK;
}

/** Bytes of one stage in each block: elements under 8 bits take a byte each, unless the kind takes them packed; scale factors come along. */
export function stageBytes(s: TensorSchedule, problem: Problem): number {
  const { a, b } = problem;
  const packed = acceptedKind(problem).packed === true;
  const bytes = (dtype: DType): number => (packed ? dtypes[dtype].bits / 8 : sizeOf(dtype));
  const operands = ((s.tileM * bytes(a.dtype) + s.tileN * bytes(b.dtype)) / s.cta) * s.tileK;
  return operands + factorBlocks(s, problem) * SCALE_WORDS * SCALE_FACTORS;
}

/** Bytes of the tile in each block through which D goes; slots that do not go round a tile's parts are not made. */
export function stagingBytes(s: TensorSchedule, problem: Problem): number {
  if (s.epi !== "tma") return 0;
  const { columns, parts } = stepsOf(s);
  const slots = Array.from({ length: s.staging }, (_, i) => s.staging - i).find((d) => parts % d === 0) ?? 1;
  return ((s.swap ? s.tileN : s.tileM) / s.cta) * columns * sizeOf(problem.d.dtype) * slots;
}

/** Bytes of the tile in each block through which C comes. */
export const addendBytes = (s: TensorSchedule, { c }: Problem): number =>
  s.addend === "tma" && c !== null ? ((s.tileM * s.tileN) / s.cta) * sizeOf(c.dtype) : 0;

/** Bytes of the two barriers of a slot of any ring; of an answer about a tile; of an address of tensor memory, and the most that aligning it wastes. */
const BARRIERS = 16;
const ANSWER = 16;
const ADDRESS = 8;
/** Where the tiles begin through which C and D go: the period of the widest swizzle, which is that of slots with scale factors, too. */
const STAGING_ALIGN = 1024;

/** Bytes of shared memory of a block: operands, answers, C, D, barriers, an address. */
export function sharedBytes(s: TensorSchedule, problem: Problem): number {
  const answers = s.sched === "clc" || s.sched === "atomic" ? s.ahead : 0;
  // Slots follow each other at whole patterns of the swizzle; only scale factors are less.
  const one = stageBytes(s, problem);
  const slot = factorBlocks(s, problem) > 0 ? Math.ceil(one / STAGING_ALIGN) * STAGING_ALIGN : one;
  const addend = addendBytes(s, problem);
  // What stands in front of a tile of C or D ends where that may begin.
  const aligned = (bytes: number): number =>
    s.epi === "tma" || addend > 0 ? Math.ceil(bytes / STAGING_ALIGN) * STAGING_ALIGN : bytes;
  const tiles = aligned(s.stages * slot) + aligned(answers * ANSWER) + aligned(addend);
  const slots = s.stages + answers + (s.sched === "tiles" || s.lap > 0 ? 1 : s.acc) + (addend > 0 ? 1 : 0);
  return tiles + stagingBytes(s, problem) + slots * BARRIERS + ADDRESS;
}

/** The most stages, up to `most`, with which a block fits the target; 0 where none does. */
export function stagesThatFit(s: TensorSchedule, problem: Problem, target: Target, most: number): number {
  let stages = Math.min(most, Math.floor(target.limits.maxSmemPerBlock / stageBytes(s, problem)));
  while (stages > 0 && sharedBytes({ ...s, stages }, problem) > target.limits.maxSmemPerBlock) stages--;
  return stages;
}

/** Columns of tensor memory that the accumulators take, and those of the scale factors of a chunk. */
export const accumulatorColumns = (s: TensorSchedule): number =>
  accumulatorOf(s).width * (s.sched === "tiles" ? 1 : s.acc) - (s.sched === "tiles" ? 0 : s.lap);
export const factorColumns = (s: TensorSchedule, problem: Problem): number =>
  factorBlocks(s, problem) * SCALE_COLUMNS;
