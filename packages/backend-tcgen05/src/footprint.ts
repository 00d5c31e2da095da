/** What a schedule takes of a block: bytes of shared memory, columns of tensor memory. */
import {
  type DType,
  isScaled,
  type Problem,
  packedSize,
  SCALE_FACTORS,
  SCALE_ROWS,
  SCALE_WORDS,
  scaledTypes,
  sizeOf,
} from "@tilewright/core";
import { placeShared, regionsOf, SCALE_COLUMNS, type SharedNeeds } from "@tilewright/ir";
import { accumulatorOf, stepsOf } from "./accumulators.ts";
import { acceptedKind } from "./nest.ts";
import type { TensorSchedule } from "./schedule.ts";

/** Blocks of scale factors (128 rows by 4) of a chunk in each block; 0 where there are none. Both blocks of a pair have all of B's. */
function factorBlocks(s: TensorSchedule, { a }: Problem): number {
  if (!isScaled(a.dtype)) return 0;
  const alongK = s.tileK / (scaledTypes[a.dtype].block * SCALE_FACTORS);
  return (s.tileM / s.ctaGroup / SCALE_ROWS + s.tileN / SCALE_ROWS) * alongK;
}

/** Bytes of one stage in each block: elements under 8 bits take a byte each, unless the kind takes them packed; scale factors come along. */
export function stageBytes(s: TensorSchedule, problem: Problem): number {
  const { a, b } = problem;
  const packed = acceptedKind(problem).packed === true;
  const bytes = (dtype: DType): number => (packed ? packedSize(dtype) : sizeOf(dtype));
  const operands = ((s.tileM * bytes(a.dtype) + s.tileN * bytes(b.dtype)) / s.ctaGroup) * s.tileK;
  return operands + factorBlocks(s, problem) * SCALE_WORDS * SCALE_FACTORS;
}

/** Bytes of the tile in each block through which D goes; slots that do not go round a tile's parts are not made. */
export function stagingBytes(s: TensorSchedule, problem: Problem): number {
  if (s.epi !== "tma") return 0;
  const { columns, parts } = stepsOf(s);
  const slots =
    Array.from({ length: s.storeStages }, (_, i) => s.storeStages - i).find((d) => parts % d === 0) ?? 1;
  return ((s.swapAB ? s.tileN : s.tileM) / s.ctaGroup) * columns * sizeOf(problem.d.dtype) * slots;
}

/** Bytes of the tile in each block through which C comes. */
export const sourceTileBytes = (s: TensorSchedule, { c }: Problem): number =>
  s.epilogueLoad === "tma" && c !== null ? ((s.tileM * s.tileN) / s.ctaGroup) * sizeOf(c.dtype) : 0;

/** A response about a tile; where tiles begin through which C and D go, and slots: the period of the widest swizzle. */
const RESPONSE = 16;
const TILE_ALIGN = 1024;

/** What a block has in shared memory: operands, C, accumulators' barriers, responses, D, the address of tensor memory. */
function sharedNeeds(s: TensorSchedule, problem: Problem): SharedNeeds {
  const responses = s.sched === "clc" || s.sched === "atomic" ? s.schedulerStages : 0;
  const addend = sourceTileBytes(s, problem);
  const staging = stagingBytes(s, problem);
  const ring = (name: string, slots: number, bytes: number, align: number): SharedNeeds["rings"][number] => ({
    name,
    slots,
    tiles: bytes === 0 ? [] : [{ name, bytes, align }],
    full: 1,
    empty: 1,
  });
  return {
    rings: [
      // Slots follow each other at whole patterns of the swizzle; only scale factors are less.
      ring("ring", s.stages, stageBytes(s, problem), factorBlocks(s, problem) > 0 ? TILE_ALIGN : 1),
      ring("sums", s.sched === "tiles" || s.overlappedColumns > 0 ? 1 : s.accumulators, 0, 1),
      ...(responses > 0 ? [ring("responses", responses, RESPONSE, RESPONSE)] : []),
      ...(addend > 0 ? [ring("addend", 1, addend, TILE_ALIGN)] : []),
    ],
    tiles: staging > 0 ? [{ name: "D", bytes: staging, align: TILE_ALIGN, slots: 1 }] : [],
    tensor: true,
  };
}

/** Bytes of shared memory of a block. */
export const sharedBytes = (s: TensorSchedule, problem: Problem): number =>
  placeShared(regionsOf(sharedNeeds(s, problem))).bytes;

/** Columns of tensor memory that the accumulators take, and those of the scale factors of a chunk. */
export const accumulatorColumns = (s: TensorSchedule): number =>
  accumulatorOf(s).width * (s.sched === "tiles" ? 1 : s.accumulators) -
  (s.sched === "tiles" ? 0 : s.overlappedColumns);
export const factorColumns = (s: TensorSchedule, problem: Problem): number =>
  factorBlocks(s, problem) * SCALE_COLUMNS;
