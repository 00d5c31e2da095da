/** The schedule of a tensor-core kernel: its fields, and what they mean together. */
import type { Schedule, ScheduleModel } from "@tilewright/core";
import {
  coreFields,
  flagField,
  intField,
  scheduleValues,
  sizeField,
  tupleField,
  withDefault,
  wordField,
} from "@tilewright/ir";

/** Fields in canonical order. Each optimisation has an off value; with all of them off a warp loads its fragments word by word. */
export const scheduleModel = {
  fields: [
    withDefault(coreFields.tile, [128, 256, 64]),
    tupleField({
      name: "warp",
      summary: "part of the tile that one warp accumulates: multiples of the instruction's rows and columns",
      names: ["M", "N"],
      default: [64, 64],
    }),
    withDefault(coreFields.stages, 3),
    coreFields.chainTile,
    wordField({
      name: "copy",
      summary:
        "transport of the operands to shared memory: cp.async, load and store by the threads, or bulk tensor copies by a warp of their own (sm_90 and later)",
      words: ["cp.async", "direct", "tma"],
      default: "cp.async",
      off: "direct",
    }),
    flagField({
      name: "registerPrefetch",
      summary:
        "with copy=direct: loads of the next chunk run during the arithmetic, in registers until it is over",
      default: "off",
    }),
    sizeField({
      name: "copyBytes",
      summary: "most bytes that one copy moves, where alignment allows",
      sizes: [16, 8, 4],
      default: 16,
      off: 4,
    }),
    wordField({
      name: "ldmatrix",
      summary: "matrices that one ldmatrix loads; off: fragments come word by word",
      words: ["x4", "x2", "x1", "off"],
      default: "x4",
      off: "off",
    }),
    coreFields.sharedLayout,
    coreFields.frag,
    wordField({
      name: "firstOperand",
      summary:
        "operand whose fragments a K step loads first: the one of which the first run of the walk reads all",
      words: ["a", "b"],
      default: "a",
      off: "a",
    }),
    coreFields.conditionalRescale,
    flagField({
      name: "spreadMaps",
      summary:
        "a tile that a loop's product multiplies from registers is made K step by K step between the matrix instructions",
      default: "off",
    }),
    intField({
      name: "copySpread",
      summary: "K steps over which the asynchronous copies of a chunk are spread; 1 issues them together",
      default: 1,
      off: 1,
      max: 64,
    }),
    wordField({
      name: "refill",
      summary:
        "where the next asynchronous copies stand: in the first K step of a chunk, or behind the barrier in its last one, into the slot that has just been read and so a chunk further ahead",
      words: ["step", "barrier"],
      default: "step",
      off: "step",
    }),
    intField({
      name: "drain",
      summary: "last K chunks taken out of the main loop, which then needs fewer conditions",
      default: 0,
      off: 0,
      min: 0,
      max: 16,
    }),
    sizeField({
      name: "firstLevelK",
      summary:
        "of f32 in parts: elements of k whose products the tensor cores add up before they are added to the accumulators",
      sizes: [32, 16, 8],
      default: 16,
      off: 8,
    }),
    coreFields.walk,
    withDefault(coreFields.raster, "grouped:8"),
    wordField({
      name: "sched",
      summary: "one block a tile, or with copy=tma persistent CTAs that loop over tiles",
      words: ["tiles", "persistent"],
      default: "tiles",
      off: "tiles",
    }),
    coreFields.split,
    wordField({
      name: "reduction",
      summary:
        "how the partial tiles of split-K and stream-K are added: in order by the last block to come, by atomics (in any order), in order by a second kernel, in order by all blocks that are still there, a slice each, or by blocks that exchange slices as a cluster (sm_90 and later)",
      words: ["last", "atomics", "kernel", "cluster", "slices"],
      default: "last",
      off: "last",
    }),
    coreFields.streamk,
    coreFields.cache,
    coreFields.l2Promotion,
    coreFields.l2PrefetchBytes,
    coreFields.l1,
    flagField({
      name: "interleave",
      summary:
        "columns interleaved over the instructions so that a lane holds eight neighbours of D, where B's layout allows",
      default: "on",
    }),
    wordField({
      name: "epi",
      summary:
        "how D is stored: from registers, or through shared memory, from where each warp stores whole rows",
      words: ["direct", "smem"],
      default: "direct",
      off: "direct",
    }),
    intField({
      name: "storeElements",
      summary: "most elements that one store of D moves",
      default: 8,
      off: 1,
      max: 8,
    }),
    coreFields.guards,
  ],
} as const satisfies ScheduleModel;

/** Transports of the operands. */
export type Copy = "cp.async" | "direct" | "tma";

const matrices = { x4: 4, x2: 2, x1: 1, off: 0 } as const;

/** Warps that multiply. Fractions in illegal schedules. */
export const mathWarps = (s: MmaSchedule): number => Math.ceil(s.warpsM) * Math.ceil(s.warpsN);

/** Threads of a block: a warp beside those that multiply where bulk copies are made. */
export const threadsOf = (s: MmaSchedule): number => (mathWarps(s) + (s.copy === "tma" ? 1 : 0)) * 32;

/** The fields as numbers with names. `warps` are fractions in illegal schedules; `matrices` of one ldmatrix, 0 where it is off; `vec` in bytes. */
export function readSchedule(schedule: Schedule) {
  const s = scheduleValues(scheduleModel, schedule);
  const [tileM, tileN, tileK] = s.tile;
  const [warpM, warpN] = s.warp;
  return {
    ...s,
    tileM,
    tileN,
    tileK,
    warpM,
    warpN,
    warpsM: tileM / warpM,
    warpsN: tileN / warpN,
    matrices: matrices[s.ldmatrix],
    refill: s.refill === "barrier",
    persistent: s.sched === "persistent",
    staged: s.epi === "smem",
  };
}

export type MmaSchedule = ReturnType<typeof readSchedule>;
