/** The schedule of a kernel that accumulates in tensor memory: its fields, and what they mean together. */
import {
  type CombineWay,
  combineOf,
  coreFields,
  flagField,
  intField,
  type Raster,
  rasterOf,
  type Schedule,
  type ScheduleModel,
  scheduleReader,
  withDefault,
  wordField,
} from "@tilewright/ir";

/** An instruction has at most 256 columns, of which the narrowest leave 8 alone. */
export const MOST_LAP = 248;

/** Fields in canonical order. Each optimisation has an off value; with all of them off a block multiplies one tile through one slot. */
export const scheduleModel: ScheduleModel = {
  fields: [
    withDefault(coreFields.tile, [256, 256, 64]),
    intField({
      name: "cta",
      summary:
        "blocks that work on one tile: 2 is a pair, of which each holds half of A, B and the accumulators",
      default: 2,
      off: 1,
      min: 1,
      max: 2,
    }),
    flagField({
      name: "swap",
      summary:
        "columns of D rather than rows go into lanes: A and B of the matrix instructions change places",
      default: "off",
    }),
    {
      ...coreFields.cluster,
      summary: "tiles along M and N whose blocks (or pairs) form a cluster and share their copies",
    },
    withDefault(coreFields.stages, 5),
    wordField({
      name: "swizzle",
      summary: "widest swizzle of the operands in shared memory",
      words: ["128B", "64B", "32B", "none"],
      default: "128B",
      off: "none",
    }),
    intField({
      name: "acc",
      summary: "accumulators in tensor memory; with 2 one tile is multiplied while another is stored",
      default: 2,
      off: 1,
      min: 1,
      max: 8,
    }),
    intField({
      name: "lap",
      summary:
        "columns of tensor memory that two accumulators share, where both would not fit: the epilogue empties those first; 0: they share none",
      default: 0,
      off: 0,
      min: 0,
      max: MOST_LAP,
    }),
    wordField({
      name: "sched",
      summary:
        "one block a tile, or blocks that stay: they visit tiles by stride, as an atomic counter tells them, or as cluster launch control answers",
      words: ["tiles", "persistent", "atomic", "clc"],
      default: "persistent",
      off: "tiles",
    }),
    intField({
      name: "ahead",
      summary:
        "answers of the counter or the launch control that may wait to be read; more would take tiles long before they are begun",
      default: 2,
      off: 1,
      min: 1,
      max: 4,
    }),
    coreFields.split,
    coreFields.combine,
    {
      ...coreFields.streamk,
      summary:
        "stream-K: so many blocks (or pairs) share, by equal numbers of K chunks, the tiles that fill no whole wave of them; 0: blocks have tiles",
    },
    coreFields.overlap,
    withDefault(coreFields.raster, "grouped:8"),
    intField({
      name: "load",
      summary:
        "columns of an accumulator that one load takes into registers; blocks that share a tile take all of them at once",
      default: 32,
      off: 1,
      min: 1,
      max: 64,
    }),
    flagField({
      name: "early",
      summary: "the accumulator is given back after its last load; off: when the tile has been stored",
      default: "on",
    }),
    wordField({
      name: "epi",
      summary: "way of D to memory: bulk tensor stores out of shared memory, or stores by the threads",
      words: ["tma", "direct"],
      default: "tma",
      off: "direct",
    }),
    intField({
      name: "staging",
      summary: "slots of the shared tile that D goes through: with 2 one is filled while the other is stored",
      default: 2,
      off: 1,
      min: 1,
      max: 4,
    }),
    wordField({
      name: "addend",
      summary:
        "way of C to the epilogue: bulk copies into shared memory by a role of its own, or loads by the threads",
      words: ["tma", "direct"],
      default: "direct",
      off: "direct",
    }),
    intField({
      name: "store",
      summary: "most elements that one store of a thread moves, to memory or to shared memory",
      default: 8,
      off: 1,
      max: 8,
    }),
    flagField({
      name: "guards",
      summary: "elide: predicates only where a tile can leave its matrix; off: everywhere",
      default: "on",
    }),
  ],
};

export interface TensorSchedule {
  readonly tileM: number;
  readonly tileN: number;
  readonly tileK: number;
  readonly cta: 1 | 2;
  /** Columns of D lie in lanes. */
  readonly swap: boolean;
  /** Units, each with a tile of its own, along M and N. */
  readonly clusterM: number;
  readonly clusterN: number;
  readonly stages: number;
  readonly swizzle: string;
  readonly acc: number;
  /** Columns that the two accumulators share. */
  readonly lap: number;
  readonly sched: string;
  readonly ahead: number;
  /** Blocks (or pairs) that share a tile's K loop, and how their parts are added. */
  readonly split: number;
  readonly combine: CombineWay;
  /** Blocks (or pairs) that share the tiles of the last wave by chunks; 0: none do. */
  readonly streamk: number;
  /** The grid begins while the one before it in the stream still runs. */
  readonly overlap: boolean;
  readonly raster: Raster;
  readonly load: number;
  readonly early: boolean;
  readonly epi: "tma" | "direct";
  readonly staging: number;
  readonly addend: "tma" | "direct";
  readonly store: number;
  readonly elideGuards: boolean;
}

/** The record as numbers with names. */
export function readSchedule(schedule: Schedule): TensorSchedule {
  const { tuple, number, word } = scheduleReader(schedule);
  const tile = (index: number): number => tuple("tile", index);
  return {
    tileM: tile(0),
    tileN: tile(1),
    tileK: tile(2),
    cta: number("cta") === 2 ? 2 : 1,
    swap: word("swap") === "on",
    clusterM: tuple("cluster", 0),
    clusterN: tuple("cluster", 1),
    stages: number("stages"),
    swizzle: word("swizzle"),
    acc: number("acc"),
    lap: number("lap"),
    sched: word("sched"),
    ahead: number("ahead"),
    split: number("split"),
    combine: combineOf(schedule.combine),
    streamk: number("streamk"),
    overlap: word("overlap") === "on",
    raster: rasterOf(schedule.raster),
    load: number("load"),
    early: word("early") === "on",
    epi: word("epi") === "direct" ? "direct" : "tma",
    staging: number("staging"),
    addend: word("addend") === "tma" ? "tma" : "direct",
    store: number("store"),
    elideGuards: word("guards") === "on",
  };
}
