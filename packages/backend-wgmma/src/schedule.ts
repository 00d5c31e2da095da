/** The schedule of a Hopper kernel: its fields, and what they mean together. */
import type { Schedule, ScheduleModel } from "@tilewright/core";
import {
  coreFields,
  flagField,
  intField,
  reductionKinds,
  scheduleValues,
  tupleField,
  withDefault,
  wordField,
} from "@tilewright/ir";

/** Fields in canonical order. With all optimisations off, all warps copy, meet at barriers and multiply, one tile a block. */
export const scheduleModel = {
  fields: [
    withDefault(coreFields.tile, [128, 256, 64]),
    tupleField({
      name: "warpgroups",
      summary: "math warpgroups of a tile along M and N",
      names: ["M", "N"],
      default: [2, 1],
      off: [1, 1],
    }),
    flagField({
      name: "swapAB",
      summary:
        "the 64 rows of the instructions' sums lie along n: A and B change places, for a D of few rows",
      default: "off",
    }),
    withDefault(coreFields.stages, 4),
    coreFields.chainTile,
    wordField({
      name: "copy",
      summary:
        "transport of the operands to shared memory: bulk tensor copies, cp.async, or load and store by a producer, or load and store by the math threads",
      words: ["tma", "cp.async", "load", "direct"],
      default: "tma",
      off: "direct",
    }),
    coreFields.transpose,
    withDefault(coreFields.regs, "none"),
    intField({
      name: "pingPong",
      summary: "sets of consumer warpgroups in ping-pong: one multiplies while another stores",
      default: 1,
      off: 1,
      max: 3,
    }),
    flagField({
      name: "delayedRelease",
      summary: "stages are released one chunk later, so that products of two chunks are in flight",
      default: "off",
    }),
    coreFields.pipelineProducts,
    flagField({
      name: "splitMasked",
      summary:
        "turns of a loop of products that have no hidden elements stand in a loop of their own, which asks for none, before those that have some",
      default: "off",
    }),
    flagField({
      name: "loadVectorsAhead",
      summary:
        "what a loop of products reads of each column beside them, as logarithms of sums, is loaded into registers before they are issued, and comes while they run",
      default: "off",
    }),
    flagField({
      name: "reuseStages",
      summary:
        "of products that follow each other in a loop, a later one that multiplies elements of a factor of an earlier one takes them from its stage, which has all of that factor's rows or columns",
      default: "off",
    }),
    coreFields.conditionalRescale,
    flagField({
      name: "laneSums",
      summary: "lanes add up their own parts of rows' sums in a loop, and meet once, behind it",
      default: "off",
    }),
    intField({
      name: "tail",
      summary:
        "last chunks of a tile that are multiplied in two halves of the columns: one is stored while the other is multiplied",
      default: 0,
      off: 0,
      min: 0,
      max: 8,
    }),
    coreFields.swizzle,
    coreFields.cluster,
    flagField({
      name: "nonPortableCluster",
      summary:
        "clusters, of blocks that share copies or meet, may have up to 16 blocks, which not every GPU launches; off: 8",
      default: "off",
    }),
    wordField({
      name: "multicast",
      summary: "operands whose copies the blocks of a cluster share",
      words: ["ab", "a", "b", "off"],
      default: "ab",
      off: "off",
    }),
    withDefault(coreFields.raster, "grouped:16"),
    wordField({
      name: "sched",
      summary:
        "persistent CTAs that loop over tiles by stride, by stride with every other round backwards (zigzag) or as an atomic counter tells their producer, or one block a tile",
      words: ["persistent", "zigzag", "atomic", "tiles"],
      default: "persistent",
      off: "tiles",
    }),
    coreFields.schedulerStages,
    intField({
      name: "batchGroup",
      summary:
        "persistent CTAs go through the tiles of all problems of a batch, so many problems in turn, tile by tile; 0: each problem has CTAs of its own",
      default: 0,
      off: 0,
      min: 0,
      max: 65535,
    }),
    coreFields.cache,
    coreFields.l2Promotion,
    coreFields.l2Prefetch,
    coreFields.split,
    wordField({
      name: "reduction",
      summary:
        "how the partial tiles of split-K and stream-K are added: in order by the last block to come, by atomics (in any order), in order by a second kernel, or in order by the blocks themselves, a slice each: as a cluster, or through memory; or by bulk copies that add (in any order)",
      words: reductionKinds,
      default: "last",
      off: "last",
    }),
    coreFields.streamk,
    coreFields.pdl,
    flagField({
      name: "earlyProducerStart",
      summary:
        "the producer copies as soon as it has made the ring ready, without meeting the block, and in blocks of one tile the first chunk before the other barriers; those of a small tile compute places of D meanwhile",
      default: "on",
    }),
    flagField({
      name: "peel",
      summary: "first K chunk taken out of the loop, whose products then always accumulate",
      default: "on",
    }),
    coreFields.epi,
    wordField({
      name: "epilogueLoad",
      summary:
        "how C and what epilogue steps read are loaded: bulk copies of the producer into shared memory while the tile is multiplied, or loads by the threads",
      words: ["tma", "direct"],
      default: "direct",
      off: "direct",
    }),
    intField({
      name: "storeElements",
      summary: "most elements that one store by a thread moves",
      default: 2,
      off: 1,
      max: 2,
    }),
    coreFields.guards,
  ],
} as const satisfies ScheduleModel;

/** The fields as numbers with names. `persistent`: blocks loop over tiles, which a counter hands out where they are `counted`. */
export function readSchedule(schedule: Schedule) {
  const s = scheduleValues(scheduleModel, schedule);
  const [tileM, tileN, tileK] = s.tile;
  const [groupsM, groupsN] = s.warpgroups;
  const [clusterM, clusterN] = s.cluster;
  const [producer, math] = s.regs === "none" ? [] : s.regs;
  return {
    ...s,
    tileM,
    tileN,
    tileK,
    groupsM,
    groupsN,
    clusterM,
    clusterN,
    regs: producer === undefined || math === undefined ? null : { producer, math },
    persistent: s.sched !== "tiles",
    zigzag: s.sched === "zigzag",
    counted: s.sched === "atomic",
  };
}

export type WgmmaSchedule = ReturnType<typeof readSchedule>;

/** A block's tile, and its warpgroups, along the axis of D where the 64 rows of an instruction's sum lie, and along the other. */
export const sumSides = (
  s: Pick<WgmmaSchedule, "tileM" | "tileN" | "groupsM" | "groupsN" | "swapAB">,
): {
  readonly rows: { readonly axis: "m" | "n"; readonly tile: number; readonly groups: number };
  readonly columns: { readonly axis: "m" | "n"; readonly tile: number; readonly groups: number };
} => {
  const m = { axis: "m", tile: s.tileM, groups: s.groupsM } as const;
  const n = { axis: "n", tile: s.tileN, groups: s.groupsN } as const;
  return s.swapAB ? { rows: n, columns: m } : { rows: m, columns: n };
};

/** Math warpgroups of a tile. */
export const mathGroups = (s: WgmmaSchedule): number => s.groupsM * s.groupsN;

/** Whether other warps than those that multiply fill the ring. */
export const hasProducer = (s: WgmmaSchedule): boolean => s.copy !== "direct";

/** Warps that only copy: one, or a whole warpgroup where threads copy or register budgets are given; none where the math warps copy. */
export const producerWarps = (s: WgmmaSchedule): number =>
  !hasProducer(s) ? 0 : s.copy === "tma" && s.regs === null ? 1 : 4;

/** Threads of a block. */
export const threadsOf = (s: WgmmaSchedule): number =>
  (4 * mathGroups(s) * s.pingPong + producerWarps(s)) * 32;
