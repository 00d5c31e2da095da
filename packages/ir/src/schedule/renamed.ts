/** Former names of schedule fields and values: one table for the refusal of an old text and for the conversion of stored ones. */
import type { ScheduleModel } from "@tilewright/core";

/** Former field name to its present names: one a meaning, of which a model has at most one. */
const renamedFields: ReadonlyMap<string, readonly string[]> = new Map([
  ["acc", ["accumulators"]],
  ["addend", ["epilogueLoad"]],
  ["ahead", ["schedulerStages"]],
  ["along", ["walkAlong"]],
  ["combine", ["reduction"]],
  ["cta", ["ctaGroup"]],
  ["early", ["earlyProducerStart", "earlyAccumulatorRelease"]],
  ["factors", ["operandOrder"]],
  ["fetch", ["l2PrefetchBytes"]],
  ["groups", ["warpgroups"]],
  ["land", ["registerStoreStep"]],
  ["lap", ["overlappedColumns"]],
  ["late", ["delayedRelease"]],
  ["lead", ["firstOperand"]],
  ["lines", ["walkLines"]],
  ["load", ["loadColumns"]],
  ["overlap", ["pdl"]],
  ["pieces", ["vectorsPerThread"]],
  ["prefetch", ["l2Prefetch", "registerPrefetch"]],
  ["promote", ["l2Promotion"]],
  ["smem", ["sharedLayout"]],
  ["spread", ["copySpread"]],
  ["stage", ["stagedOperands"]],
  ["staging", ["storeStages"]],
  ["store", ["storeElements"]],
  ["sum", ["firstLevelK"]],
  ["swap", ["swapAB"]],
  ["turns", ["pingPong"]],
  ["vec", ["copyElements", "copyBytes"]],
  ["wide", ["nonPortableCluster"]],
]);

/** Former beginnings of a field's value, by the field's present name. */
const renamedValues: Readonly<Record<string, readonly (readonly [former: string, now: string])[]>> = {
  raster: [["pieces:", "blocked:"]],
};

/** The present name of a field that this model once had under another name; null for names that never were. */
export const renamedField = (model: ScheduleModel, name: string): string | null =>
  renamedFields.get(name)?.find((now) => model.fields.some((field) => field.name === now)) ?? null;

/** A value as it is written today. `field` is the present name. */
export function currentValue(field: string, value: string): string {
  const [former, now] = renamedValues[field]?.find(([old]) => value.startsWith(old)) ?? ["", ""];
  return now + value.slice(former.length);
}

/** A schedule's text with today's names. Words that were not renamed, and those that the model never had, stay as they are. */
export const convertSchedule = (model: ScheduleModel, text: string): string =>
  text.replace(/([^\s=]+)=(\S*)/g, (word, name: string, value: string) => {
    const has = model.fields.some((field) => field.name === name);
    const now = has ? name : renamedField(model, name);
    return now === null ? word : `${now}=${currentValue(now, value)}`;
  });
