/** The schedule of a kernel that accumulates in tensor memory: its fields, and what they mean together. */
import type { Schedule, ScheduleModel } from "@tilewright/core";
import { coreFields, flagField, intField, scheduleValues, withDefault, wordField } from "@tilewright/ir";

/** An instruction has at most 256 columns, of which the narrowest leave 8 alone. */
export const MOST_OVERLAPPED = 248;

/** Fields in canonical order. Each optimisation has an off value; with all of them off a block multiplies one tile through one slot. */
export const scheduleModel = {
  fields: [
    withDefault(coreFields.tile, [256, 256, 64]),
    intField({
      name: "ctaGroup",
      summary:
        "blocks that work on one tile: 2 is a pair, of which each holds half of A, B and the accumulators",
      default: 2,
      off: 1,
      min: 1,
      max: 2,
    }),
    flagField({
      name: "swapAB",
      summary: "swap A and B of the matrix instructions, so that columns of D lie in lanes",
      default: "off",
    }),
    {
      ...coreFields.cluster,
      summary: "tiles along M and N whose blocks (or pairs) form a cluster and share their copies",
    },
    withDefault(coreFields.stages, 5),
    coreFields.chainTile,
    wordField({
      name: "chainOperand",
      summary:
        "of products that follow each other: memory from which an operand that threads make is multiplied, shared or tensor",
      words: ["shared", "tensor"],
      default: "shared",
      off: "shared",
    }),
    coreFields.pipelineProducts,
    {
      ...intField({
        name: "rowGroups",
        summary:
          "of products that follow each other: groups of a tile's rows, each with sums, an operand that threads make, and four warps of its own; with 2 the tensor core multiplies for one while the other works on its sums",
        default: 1,
        off: 1,
        min: 1,
        max: 2,
      }),
      // Groups have the rows of an instruction, and a tile those of all its groups.
      without: ({ tile, rowGroups }) => {
        const [rows = 0, ...others] = Array.isArray(tile) ? tile.map(Number) : [];
        return { rowGroups: 1, tile: [rows / Number(rowGroups), ...others] };
      },
    },
    {
      ...flagField({
        name: "correctionWarps",
        summary:
          "of products that follow each other: sums of all parts stay in tensor memory, where four warps of their own scale them, but where all factors are 1; off: threads add each part's products to sums in registers",
        default: "off",
      }),
      // Registers hold sums beside a part of half the rows, which two threads share.
      without: ({ tile, chainTile }) => {
        const [rows = 0, ...others] = Array.isArray(tile) ? tile.map(Number) : [];
        const [width = 0, chunk = 0] = Array.isArray(chainTile) ? chainTile.map(Number) : [];
        return {
          correctionWarps: "off",
          tile: [rows / 2, ...others],
          ...(width > chunk ? { chainTile: [chunk, chunk] } : {}),
        };
      },
    },
    coreFields.swizzle,
    intField({
      name: "accumulators",
      summary: "accumulators in tensor memory; with 2 one tile is multiplied while another is stored",
      default: 2,
      off: 1,
      min: 1,
      max: 8,
    }),
    intField({
      name: "overlappedColumns",
      summary:
        "columns of tensor memory that two accumulators share, where both would not fit: the epilogue empties those first; 0: they share none",
      default: 0,
      off: 0,
      min: 0,
      max: MOST_OVERLAPPED,
    }),
    wordField({
      name: "sched",
      summary:
        "one block a tile, or persistent CTAs that get work tiles by stride, from an atomic counter or from cluster launch control",
      words: ["tiles", "persistent", "atomic", "clc"],
      default: "persistent",
      off: "tiles",
    }),
    coreFields.schedulerStages,
    coreFields.split,
    coreFields.reduction,
    {
      ...coreFields.streamk,
      summary:
        "stream-K: so many blocks (or pairs) share, by equal numbers of K chunks, the tiles that fill no whole wave of them; 0: blocks have tiles",
    },
    coreFields.pdl,
    withDefault(coreFields.raster, "grouped:8"),
    intField({
      name: "loadColumns",
      summary:
        "columns of an accumulator that one load takes into registers; blocks that share a tile take all of them at once",
      default: 32,
      off: 1,
      min: 1,
      max: 128,
    }),
    flagField({
      name: "earlyAccumulatorRelease",
      summary: "the accumulator is released after its last load; off: when the tile has been stored",
      default: "on",
    }),
    coreFields.epi,
    intField({
      name: "storeStages",
      summary: "slots of the shared tile that D goes through: with 2 one is filled while the other is stored",
      default: 2,
      off: 1,
      min: 1,
      max: 4,
    }),
    wordField({
      name: "epilogueLoad",
      summary:
        "how C is loaded: bulk copies into shared memory by a role of its own, or loads by the threads",
      words: ["tma", "direct"],
      default: "direct",
      off: "direct",
    }),
    intField({
      name: "storeElements",
      summary: "most elements that one store of a thread moves, to memory or to shared memory",
      default: 8,
      off: 1,
      max: 8,
    }),
    coreFields.guards,
  ],
} as const satisfies ScheduleModel;

/** The fields as numbers with names. */
export function readSchedule(schedule: Schedule) {
  const s = scheduleValues(scheduleModel, schedule);
  const [tileM, tileN, tileK] = s.tile;
  const [clusterM, clusterN] = s.cluster;
  return {
    ...s,
    tileM,
    tileN,
    tileK,
    clusterM,
    clusterN,
    ctaGroup: s.ctaGroup === 2 ? (2 as const) : (1 as const),
  };
}

export type TensorSchedule = ReturnType<typeof readSchedule>;
