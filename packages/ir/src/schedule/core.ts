/** Fields that mean the same in every backend. A backend lists those it has, with its own defaults, and adds its own. */
import type { ScheduleField } from "@tilewright/core";
import { l2PrefetchSizes, l2Promotions } from "../tile/types.ts";
import { cacheField } from "./cache.ts";
import { flagField, intField, rasterField, sizeField, tupleField, wordField } from "./fields.ts";

/** The shared fields by name, in canonical order. */
export const coreFields = {
  tile: tupleField({
    name: "tile",
    summary: "output tile of a block and its K chunk, in elements",
    names: ["M", "N", "K"],
    default: [128, 128, 8],
  }),
  stages: intField({
    name: "stages",
    summary: "K chunks in shared memory at once; 1 loads and computes in turn",
    default: 2,
    off: 1,
    max: 64,
  }),
  chainTile: tupleField({
    name: "chainTile",
    summary:
      "of products that follow each other over parts of an axis: columns of a part, and the chunk in which it is multiplied; none: the tile's columns and its K chunk",
    names: ["N", "K"],
    none: true,
    default: "none",
    off: "none",
  }),
  pipelineProducts: flagField({
    name: "pipelineProducts",
    summary:
      "of products that follow each other in a loop, the first of a turn is issued before the last of the turn before, and runs beside it and the work on its sums",
    default: "off",
  }),
  conditionalRescale: wordField({
    name: "conditionalRescale",
    summary:
      "in a loop, the scaling of sums by factors of 1 is left out: by warps all of whose factors are 1, which vote (on), or by each thread, without a branch (thread)",
    words: ["on", "thread", "off"],
    default: "off",
    off: "off",
  }),
  cluster: tupleField({
    name: "cluster",
    summary: "blocks of a cluster along M and N, which share operand loads",
    names: ["M", "N"],
    default: [1, 1],
    off: [1, 1],
  }),
  regs: tupleField({
    name: "regs",
    summary: "registers per thread of producer and math warps after setmaxnreg; none: as launched",
    names: ["P", "C"],
    separator: "/",
    none: true,
    default: "none",
    off: "none",
    min: 24,
  }),
  raster: rasterField({ default: "row" }),
  split: intField({
    name: "split",
    summary: "blocks that share the K loop of one output tile (split-K)",
    default: 1,
    off: 1,
    max: 1024,
  }),
  reduction: wordField({
    name: "reduction",
    summary:
      "how the partial tiles of split-K and stream-K are added: in order by the last block to come, by atomics (in any order), or in order by a second kernel",
    words: ["last", "atomics", "kernel"],
    default: "last",
    off: "last",
  }),
  streamk: intField({
    name: "streamk",
    summary:
      "stream-K: so many blocks share the tiles that fill no whole wave of them, and a wave beside these where they are few, by equal numbers of K chunks; 0: blocks have tiles",
    default: 0,
    off: 0,
    min: 0,
    max: 4096,
  }),
  cache: cacheField,
  l2Promotion: sizeField({
    name: "l2Promotion",
    summary: "bytes of A and B that L2 fetches at once where a bulk copy misses; 0: no more than that",
    sizes: [256, ...l2Promotions],
    default: 256,
    off: 256,
  }),
  l2PrefetchBytes: sizeField({
    name: "l2PrefetchBytes",
    summary:
      "bytes of A and B that L2 fetches at once where a copy by the threads misses; 0: as the hardware has it",
    sizes: [0, ...l2PrefetchSizes],
    default: 0,
    off: 0,
  }),
  l1: wordField({
    name: "l1",
    summary: "whether loads and stores by the threads leave lines in L1",
    words: ["keep", "skip"],
    default: "keep",
    off: "keep",
  }),
  l2Prefetch: intField({
    name: "l2Prefetch",
    summary: "with the bulk copies of a chunk L2 is asked for the chunk so many further on; 0: not",
    default: 0,
    off: 0,
    min: 0,
    max: 64,
  }),
  transpose: wordField({
    name: "transpose",
    summary:
      "operands that a kernel before this one transposes into the workspace: of FFMA those that are contiguous along k, whose copies are wide then; of warpgroups those of 32 bits that are not, which are multiplied along k only",
    words: ["off", "a", "b", "ab"],
    default: "off",
    off: "off",
  }),
  pdl: flagField({
    name: "pdl",
    summary: "programmatic dependent launch: start before the kernel ahead in the stream ends",
    default: "off",
  }),
  frag: intField({
    name: "frag",
    summary: "register fragments in flight; 2 loads those of the next K step while this one multiplies",
    default: 2,
    off: 1,
    min: 1,
    max: 2,
  }),
  swizzle: wordField({
    name: "swizzle",
    summary: "widest swizzle of the operands' tiles; narrower where a tile is no multiple of it",
    words: ["128B", "64B", "32B", "none"],
    default: "128B",
    off: "none",
  }),
  sharedLayout: wordField({
    name: "sharedLayout",
    summary: "remedy against bank conflicts, chosen by the bank oracle",
    words: ["swizzle", "pad", "auto", "plain"],
    default: "swizzle",
    off: "plain",
  }),
  schedulerStages: intField({
    name: "schedulerStages",
    summary: "stages of the scheduler pipeline: work tiles requested ahead",
    default: 2,
    off: 1,
    min: 1,
    max: 4,
  }),
  epi: wordField({
    name: "epi",
    summary: "how D is stored: bulk tensor stores out of shared memory, or stores by the threads",
    words: ["tma", "direct"],
    default: "tma",
    off: "direct",
  }),
  walk: wordField({
    name: "walk",
    summary: "order of the multiply-adds of a register tile, or of the matrix instructions of a warp tile",
    words: ["snake-rows", "snake-cols", "rows", "cols"],
    default: "snake-rows",
    off: "rows",
  }),
  guards: flagField({
    name: "guards",
    summary: "elide: predicates only where a tile can leave its matrix; off: everywhere",
    default: "on",
  }),
} as const satisfies Record<string, ScheduleField>;

/** `reduction` of backends that also have the DSMEM reduction. */
export const reductionOrDsmem = wordField({
  name: "reduction",
  summary:
    "how the partial tiles of split-K and stream-K are added: in order by the last block to come, by atomics (in any order), in order by a second kernel, or in order by the blocks themselves, which exchange slices as a cluster",
  words: ["last", "atomics", "kernel", "cluster"],
  default: "last",
  off: "last",
});
