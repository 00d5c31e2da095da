/** The schedule of a SIMT kernel: its fields, and what they mean together. */
import type { Schedule, ScheduleModel } from "@tilewright/core";
import {
  coreFields,
  flagField,
  intField,
  lineOrderField,
  reductionOrDsmem,
  scheduleValues,
  tupleField,
  withDefault,
  wordField,
} from "@tilewright/ir";

/** Fields in canonical order. Each optimisation has an off value; with all of them off the kernel is the naive one. */
export const scheduleModel = {
  fields: [
    coreFields.tile,
    tupleField({
      name: "thread",
      summary: "register tile: rows x columns of D that one thread accumulates",
      names: ["M", "N"],
      default: [16, 8],
      off: [1, 1],
    }),
    tupleField({
      name: "lanes",
      summary: "lanes of a warp along M and N; their product is 32",
      names: ["M", "N"],
      default: [4, 8],
    }),
    tupleField({
      name: "strip",
      summary: "contiguous run of the register tile along M and N; runs of one thread are a lane grid apart",
      names: ["M", "N"],
      default: [4, 4],
      off: [1, 1],
    }),
    wordField({
      name: "stagedOperands",
      summary: "operands that pass through shared memory",
      words: ["ab", "a", "b", "off"],
      default: "ab",
      off: "off",
    }),
    coreFields.transpose,
    coreFields.stages,
    wordField({
      name: "copy",
      summary: "transport of staged operands: load and store by the threads, or cp.async",
      words: ["direct", "cp.async"],
      default: "direct",
      off: "direct",
    }),
    flagField({
      name: "registerPrefetch",
      summary: "copies by the threads are split: loads before the arithmetic of a chunk, stores near its end",
      default: "on",
    }),
    coreFields.frag,
    intField({
      name: "copySpread",
      summary: "K steps over which the copies of a chunk are spread; 1 issues them together",
      default: 1,
      off: 1,
      max: 64,
    }),
    intField({
      name: "registerStoreStep",
      summary:
        "K step before which prefetched copies are stored to shared memory; 0: five eighths into the chunk",
      default: 0,
      off: 0,
      min: 0,
      max: 62,
    }),
    intField({
      name: "drain",
      summary:
        "last K chunks taken out of the main loop; with stages - 1 of them it needs no conditions, which costs code size",
      default: 0,
      off: 0,
      min: 0,
      max: 4,
    }),
    intField({
      name: "copyElements",
      summary: "most elements that one copy instruction moves, where alignment allows",
      default: 4,
      off: 1,
      max: 4,
    }),
    intField({
      name: "vectorsPerThread",
      summary:
        "vectors of one row of global memory that a thread copies where it can, all by one pointer; 1: neighbours take them",
      default: 1,
      off: 1,
      max: 8,
    }),
    wordField({
      name: "sharedLayout",
      summary: "remedy against bank conflicts, chosen by the bank oracle",
      words: ["auto", "pad", "swizzle", "plain"],
      default: "pad",
      off: "plain",
    }),
    coreFields.walk,
    lineOrderField({ name: "walkLines", summary: "order in which the walk takes its rows (or columns)" }),
    lineOrderField({
      name: "walkAlong",
      summary: "order of the elements in the walk's first row (or column)",
    }),
    wordField({
      name: "operandOrder",
      summary: "which factor a multiply-add names first; the registers that ptxas assigns depend on it",
      words: ["ab", "ba"],
      default: "ab",
      off: "ab",
    }),
    withDefault(coreFields.raster, "grouped:8"),
    coreFields.split,
    reductionOrDsmem,
    coreFields.streamk,
    intField({
      name: "storeElements",
      summary: "most elements that one store of D moves; above 1 the accumulators need consecutive registers",
      default: 1,
      off: 1,
      max: 4,
    }),
    coreFields.guards,
  ],
} as const satisfies ScheduleModel;

/** The fields as numbers with names. `warps` follow from tile, lanes and thread tile; they are fractions in illegal schedules. */
export function readSchedule(schedule: Schedule) {
  const s = scheduleValues(scheduleModel, schedule);
  const [tileM, tileN, tileK] = s.tile;
  const [threadM, threadN] = s.thread;
  const [lanesM, lanesN] = s.lanes;
  const [stripM, stripN] = s.strip;
  return {
    ...s,
    tileM,
    tileN,
    tileK,
    threadM,
    threadN,
    lanesM,
    lanesN,
    stripM,
    stripN,
    warpsM: tileM / (lanesM * threadM),
    warpsN: tileN / (lanesN * threadN),
  };
}

export type SimtSchedule = ReturnType<typeof readSchedule>;
