/** The schedule of a Hopper kernel: its fields, and what they mean together. */
import {
  type CombineWay,
  combineOf,
  combineWays,
  coreFields,
  flagField,
  intField,
  type Raster,
  rasterOf,
  type Schedule,
  type ScheduleModel,
  tupleField,
  withDefault,
  wordField,
} from "@tilewright/ir";

/** Fields in canonical order. With all optimisations off, all warps copy, meet at barriers and multiply, one tile a block. */
export const scheduleModel: ScheduleModel = {
  fields: [
    withDefault(coreFields.tile, [128, 256, 64]),
    tupleField({
      name: "groups",
      summary: "math warpgroups of a tile along M and N",
      names: ["M", "N"],
      default: [2, 1],
      off: [1, 1],
    }),
    flagField({
      name: "swap",
      summary:
        "the 64 rows of the instructions' sums lie along n: A and B change places, for a D of few rows",
      default: "off",
    }),
    withDefault(coreFields.stages, 4),
    wordField({
      name: "copy",
      summary:
        "transport of the operands to shared memory: bulk tensor copies or cp.async by a producer, or load and store by the math threads",
      words: ["tma", "cp.async", "direct"],
      default: "tma",
      off: "direct",
    }),
    withDefault(coreFields.regs, "none"),
    intField({
      name: "turns",
      summary: "sets of math warpgroups that take tiles by turns: one multiplies while another stores",
      default: 1,
      off: 1,
      max: 3,
    }),
    flagField({
      name: "late",
      summary: "slots are given back one chunk late, so that products of two chunks are under way",
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
    wordField({
      name: "swizzle",
      summary: "widest swizzle of the operands' tiles; narrower where a tile is no multiple of it",
      words: ["128B", "64B", "32B", "none"],
      default: "128B",
      off: "none",
    }),
    coreFields.cluster,
    flagField({
      name: "wide",
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
        "blocks that stay and loop over tiles by stride or as an atomic counter tells their producer, or one block a tile",
      words: ["persistent", "atomic", "tiles"],
      default: "persistent",
      off: "tiles",
    }),
    intField({
      name: "ahead",
      summary:
        "numbers of the counter that may wait to be read; more would take tiles long before they are begun",
      default: 2,
      off: 1,
      min: 1,
      max: 4,
    }),
    coreFields.cache,
    coreFields.promote,
    coreFields.prefetch,
    coreFields.split,
    wordField({
      name: "combine",
      summary:
        "how parts of a shared tile are added: in order by the last block to come, by atomics (in any order), in order by a second kernel, or in order by the blocks themselves, a slice each: as a cluster, or through memory; or by bulk copies that add (in any order)",
      words: combineWays,
      default: "last",
      off: "last",
    }),
    coreFields.streamk,
    coreFields.overlap,
    flagField({
      name: "early",
      summary:
        "the producer copies as soon as it has made the ring ready, without meeting the block, and in blocks of one tile the first chunk before the other barriers; those of a small tile compute places of D meanwhile",
      default: "on",
    }),
    flagField({
      name: "peel",
      summary: "first K chunk taken out of the loop, whose products then always accumulate",
      default: "on",
    }),
    wordField({
      name: "epi",
      summary: "way of D to memory: bulk tensor stores out of shared memory, or stores by the threads",
      words: ["tma", "direct"],
      default: "tma",
      off: "direct",
    }),
    wordField({
      name: "addend",
      summary:
        "way of C, and of matrices and vectors that steps read, to the epilogue: bulk copies of the producer into shared memory while the tile is multiplied, or loads by the threads",
      words: ["tma", "direct"],
      default: "direct",
      off: "direct",
    }),
    intField({
      name: "store",
      summary: "most elements that one store by a thread moves",
      default: 2,
      off: 1,
      max: 2,
    }),
    flagField({
      name: "guards",
      summary: "elide: predicates only where a tile can leave its matrix; off: everywhere",
      default: "on",
    }),
  ],
};

export interface WgmmaSchedule {
  readonly tileM: number;
  readonly tileN: number;
  readonly tileK: number;
  readonly groupsM: number;
  readonly groupsN: number;
  /** The rows of the instructions' sums are columns of D. */
  readonly swap: boolean;
  readonly stages: number;
  readonly copy: "tma" | "cp.async" | "direct";
  /** Registers of a thread of the producer's and of the math warpgroups; null: as launched. */
  readonly regs: { readonly producer: number; readonly math: number } | null;
  /** Sets of math warpgroups; each has a tile of its own. */
  readonly turns: number;
  readonly late: boolean;
  /** Chunks at the end of a tile that are multiplied in two halves. */
  readonly tail: number;
  readonly swizzle: "128B" | "64B" | "32B" | "none";
  readonly clusterM: number;
  readonly clusterN: number;
  /** Clusters of more blocks than every GPU launches. */
  readonly wide: boolean;
  readonly multicast: "ab" | "a" | "b" | "off";
  readonly raster: Raster;
  /** Blocks loop over tiles. */
  readonly persistent: boolean;
  /** A counter says which. */
  readonly counted: boolean;
  readonly ahead: number;
  /** Chunks further on that L2 is asked for. */
  readonly prefetch: number;
  /** Policies of L2 by matrix, as the field has them. */
  readonly cache: string;
  /** Blocks that share the K loop of a tile. */
  readonly split: number;
  readonly combine: CombineWay;
  readonly streamk: number;
  /** The grid may begin before the one before it has ended. */
  readonly overlap: boolean;
  /** The producer begins before the block has met. */
  readonly early: boolean;
  readonly peel: boolean;
  readonly epi: "tma" | "direct";
  readonly addend: "tma" | "direct";
  readonly store: number;
  readonly elideGuards: boolean;
}

/** The schedule as numbers and words. Fields must be well formed (the codec sees to that), not legal. */
export function readSchedule(schedule: Schedule): WgmmaSchedule {
  const tuple = (name: string): readonly number[] => {
    const value = schedule[name];
    return Array.isArray(value) ? value.map(Number) : [];
  };
  const [tileM = 0, tileN = 0, tileK = 0] = tuple("tile");
  const [groupsM = 1, groupsN = 1] = tuple("groups");
  const [clusterM = 1, clusterN = 1] = tuple("cluster");
  const [producer, math] = tuple("regs");
  return {
    tileM,
    tileN,
    tileK,
    groupsM,
    groupsN,
    swap: schedule.swap === "on",
    stages: Number(schedule.stages),
    copy: word(schedule.copy, ["tma", "cp.async", "direct"]),
    regs: producer === undefined || math === undefined ? null : { producer, math },
    turns: Number(schedule.turns),
    late: schedule.late === "on",
    tail: Number(schedule.tail),
    swizzle: word(schedule.swizzle, ["128B", "64B", "32B", "none"]),
    clusterM,
    clusterN,
    wide: schedule.wide === "on",
    multicast: word(schedule.multicast, ["ab", "a", "b", "off"]),
    raster: rasterOf(String(schedule.raster)),
    persistent: schedule.sched !== "tiles",
    counted: schedule.sched === "atomic",
    ahead: Number(schedule.ahead),
    prefetch: Number(schedule.prefetch),
    cache: String(schedule.cache),
    split: Number(schedule.split),
    combine: combineOf(schedule.combine),
    streamk: Number(schedule.streamk),
    overlap: schedule.overlap === "on",
    early: schedule.early === "on",
    peel: schedule.peel === "on",
    epi: schedule.epi === "direct" ? "direct" : "tma",
    addend: schedule.addend === "tma" ? "tma" : "direct",
    store: Number(schedule.store),
    elideGuards: schedule.guards === "on",
  };
}

function word<const T extends string>(value: unknown, words: readonly [T, ...T[]]): T {
  return words.find((w) => w === value) ?? words[0];
}

/** A block's tile, and its warpgroups, along the axis of D where the 64 rows of an instruction's sum lie, and along the other. */
export const sumSides = (
  s: Pick<WgmmaSchedule, "tileM" | "tileN" | "groupsM" | "groupsN" | "swap">,
): {
  readonly rows: { readonly axis: "m" | "n"; readonly tile: number; readonly groups: number };
  readonly columns: { readonly axis: "m" | "n"; readonly tile: number; readonly groups: number };
} => {
  const m = { axis: "m", tile: s.tileM, groups: s.groupsM } as const;
  const n = { axis: "n", tile: s.tileN, groups: s.groupsN } as const;
  return s.swap ? { rows: n, columns: m } : { rows: m, columns: n };
};

/** Math warpgroups of a tile. */
export const mathGroups = (s: WgmmaSchedule): number => s.groupsM * s.groupsN;

/** Whether other warps than those that multiply fill the ring. */
export const hasProducer = (s: WgmmaSchedule): boolean => s.copy !== "direct";

/** Warps that only copy: one, or a whole warpgroup where threads copy or register budgets are given; none where the math warps copy. */
export const producerWarps = (s: WgmmaSchedule): number =>
  !hasProducer(s) ? 0 : s.copy === "tma" && s.regs === null ? 1 : 4;

/** Threads of a block. */
export const threadsOf = (s: WgmmaSchedule): number => (4 * mathGroups(s) * s.turns + producerWarps(s)) * 32;
