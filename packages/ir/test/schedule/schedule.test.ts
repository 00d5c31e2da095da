import { fc, test as property } from "@fast-check/vitest";
import type { FieldValue, ScheduleModel } from "@tilewright/core";
import { formatDiagnostic, scheduleSchema } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { cacheDirective } from "../../src/schedule/cache.ts";
import {
  defaultSchedule,
  parseSchedule,
  printSchedule,
  scheduleFromRecord,
} from "../../src/schedule/codec.ts";
import { coreFields } from "../../src/schedule/core.ts";
import {
  flagField,
  intField,
  rasterOf,
  tupleField,
  withDefault,
  wordField,
} from "../../src/schedule/fields.ts";

const model: ScheduleModel = {
  fields: [
    ...Object.values(coreFields),
    tupleField({
      name: "roles",
      summary: "warpgroups",
      names: ["P", "C"],
      separator: "+",
      none: true,
      default: "none",
      off: "none",
    }),
    wordField({
      name: "sched",
      summary: "tiles",
      words: ["tiles", "persistent"],
      default: "tiles",
      off: "tiles",
    }),
    flagField({ name: "snake", summary: "order", default: "on" }),
    intField({ name: "pad", summary: "padding", default: 4, off: 0, min: 0 }),
  ],
};

const positive = fc.integer({ min: 1, max: 100_000 });
const values: Record<string, fc.Arbitrary<FieldValue>> = {
  tile: fc.tuple(positive, positive, positive),
  chainTile: fc.oneof(fc.constant("none"), fc.tuple(positive, positive)),
  pipelineProducts: fc.constantFrom("on", "off"),
  conditionalRescale: fc.constantFrom("on", "off"),
  stages: fc.integer({ min: 1, max: 64 }),
  cluster: fc.tuple(positive, positive),
  roles: fc.oneof(fc.constant("none"), fc.tuple(positive, positive)),
  regs: fc.oneof(
    fc.constant("none"),
    fc.tuple(fc.integer({ min: 24, max: 255 }), fc.integer({ min: 24, max: 255 })),
  ),
  raster: fc.oneof(
    fc.constantFrom("row", "col", "hilbert"),
    positive.map((g) => `grouped:${g}`),
    positive.map((g) => `snake:${g}`),
  ),
  sched: fc.constantFrom("tiles", "persistent"),
  split: fc.integer({ min: 1, max: 1024 }),
  reduction: fc.constantFrom("last", "atomics", "kernel"),
  streamk: fc.nat(4096),
  cache: fc.constantFrom("none", "b:evict_last", "a:evict_first,b:evict_last,d:evict_unchanged"),
  l2Promotion: fc.constantFrom("256", "64", "0"),
  l2PrefetchBytes: fc.constantFrom("0", "128"),
  l1: fc.constantFrom("keep", "skip"),
  pdl: fc.constantFrom("on", "off"),
  l2Prefetch: fc.nat(64),
  transpose: fc.constantFrom("off", "a", "b", "ab"),
  epi: fc.constantFrom("direct", "tma"),
  frag: fc.constantFrom(1, 2),
  swizzle: fc.constantFrom("128B", "none"),
  sharedLayout: fc.constantFrom("pad", "plain"),
  schedulerStages: fc.integer({ min: 1, max: 4 }),
  walk: fc.constantFrom("rows", "snake-cols"),
  guards: fc.constantFrom("on", "off"),
  snake: fc.constantFrom("on", "off"),
  pad: fc.nat(64),
};
const schedules = fc.record(values) as fc.Arbitrary<Record<string, FieldValue>>;

property.prop([schedules, fc.infiniteStream(fc.nat())])(
  "parse(print(x)) = x, in any order of the words",
  (schedule, keys) => {
    const text = printSchedule(model, schedule);
    expect(parseSchedule(model, text)).toEqual({ ok: true, value: schedule });
    const shuffled = text
      .split(" ")
      .map((word) => ({ word, key: keys.next().value ?? 0 }))
      .sort((x, y) => x.key - y.key)
      .map((entry) => entry.word)
      .join("  ");
    expect(parseSchedule(model, shuffled)).toEqual({ ok: true, value: schedule });
    expect(scheduleFromRecord(model, schedule)).toEqual({ ok: true, value: schedule });
    expect(scheduleSchema(model).safeParse(schedule).success).toBe(true);
  },
);

test("canonical text has every field in the model's order", () => {
  expect(printSchedule(model, defaultSchedule(model))).toBe(
    "tile=128x128x8 stages=2 chainTile=none pipelineProducts=off conditionalRescale=off cluster=1x1 regs=none raster=row split=1 reduction=last streamk=0 cache=none l2Promotion=256 l2PrefetchBytes=0 l1=keep l2Prefetch=0 transpose=off pdl=off frag=2 swizzle=128B sharedLayout=swizzle schedulerStages=2 epi=tma walk=snake-rows guards=on roles=none sched=tiles snake=on pad=4",
  );
});

test("the design's example parses", () => {
  const parsed = parseSchedule(
    model,
    "tile=128x256x64 stages=4 cluster=2x1 roles=1+2 regs=24/240 raster=grouped:8 sched=persistent split=1 reduction=last streamk=0 epi=tma",
  );
  expect(parsed).toMatchObject({
    ok: true,
    value: { tile: [128, 256, 64], roles: [1, 2], regs: [24, 240], raster: "grouped:8", snake: "on" },
  });
});

test("each default and off value is a value of its field", () => {
  for (const field of model.fields) {
    expect(field.parse(field.print(field.default))).toEqual(field.default);
    if (field.off !== null) expect(field.parse(field.print(field.off))).toEqual(field.off);
  }
});

test("policies of L2: matrices in their order, each once", () => {
  const cache = coreFields.cache;
  for (const wrong of [
    "b:evict_last,a:evict_first",
    "a:evict_last,a:evict_last",
    "a",
    "e:evict_last",
    "a:last",
    "",
  ])
    expect(cache.parse(wrong)).toBeNull();
  expect(cache.nearest?.("b:evict_lst,a:evictfirst")).toBe("a:evict_first,b:evict_last");
  expect(cacheDirective({ cache: "a:evict_first", l2Promotion: 64 })?.args).toEqual({
    a: "evict_first",
    l2Promotion: 64,
  });
  expect(cacheDirective({ cache: "none", l2Promotion: 256 })).toBeNull();
});

test("all errors at once, each with what to write", () => {
  const parsed = parseSchedule(
    model,
    "tile=128x12.4 stage=3 stages=0 rastr=row raster=grouped-8 epi=tmaa split=0x2 junk sched=persistent sched=tiles roles=nope",
  );
  expect(parsed.ok).toBe(false);
  if (parsed.ok) return;
  expect(parsed.error.map(formatDiagnostic)).toEqual([
    "TW2002 (invalid) at schedule.tile: '128x12.4' does not fit MxNxK\n  hint: nearest legal: tile=128x12x8",
    "TW2001 (invalid) at schedule.stage: there is no field 'stage'\n  hint: did you mean stages?",
    "TW2002 (invalid) at schedule.stages: '0' does not fit 1..64\n  hint: nearest legal: stages=1",
    "TW2001 (invalid) at schedule.rastr: there is no field 'rastr'\n  hint: did you mean raster?",
    "TW2002 (invalid) at schedule.raster: 'grouped-8' does not fit row|col|grouped:G|snake:G|blocked:G|hilbert\n  hint: nearest legal: raster=grouped:8",
    "TW2002 (invalid) at schedule.epi: 'tmaa' does not fit tma|direct\n  hint: nearest legal: epi=tma",
    "TW2002 (invalid) at schedule.split: '0x2' does not fit 1..1024\n  hint: nearest legal: split=2",
    "TW2004 (invalid) at schedule: 'junk' is not name=value\n  hint: e.g. tile=128x128x8 stages=2",
    "TW2003 (invalid) at schedule.sched: 'sched' is given more than once\n  hint: keep one of them",
    "TW2002 (invalid) at schedule.roles: 'nope' does not fit P+C|none\n  hint: nearest legal: roles=none",
  ]);
});

property.prop([fc.constantFrom(...model.fields), fc.string({ maxLength: 12 })])(
  "a suggested value is legal",
  (field, text) => {
    if (field.parse(text) !== null) return;
    const near = field.nearest?.(text) ?? null;
    if (near !== null) expect(field.parse(field.print(near))).toEqual(near);
  },
);

describe("records", () => {
  test("text values and numbers alike; wrong ones are named", () => {
    expect(scheduleFromRecord(model, { tile: "64x64x16", stages: 3 })).toMatchObject({
      ok: true,
      value: { tile: [64, 64, 16], stages: 3 },
    });
    const wrong = scheduleFromRecord(model, { tile: [64, 64], stages: 2.5, warps: 4 });
    expect(wrong.ok ? [] : wrong.error.map((d) => `${d.code} ${d.at}`)).toEqual([
      "TW2001 schedule.warps",
      "TW2002 schedule.tile",
      "TW2002 schedule.stages",
    ]);
  });

  test("the schema refuses the same, and exports as JSON Schema", () => {
    const schema = scheduleSchema(model);
    const result = schema.safeParse({ stages: 2.5, warps: 4 });
    expect(result.error?.issues.map((issue) => [issue.code, issue.path.join(".")])).toEqual([
      ["custom", "stages"],
      ["unrecognized_keys", ""],
    ]);
    const json = z.toJSONSchema(schema, { io: "input" });
    expect(json).toMatchObject({ type: "object", additionalProperties: false });
    expect(JSON.stringify(json)).toContain("MxNxK; default 128x128x8.");
  });
});

test("raster values and defaults of other backends", () => {
  expect(rasterOf("grouped:8")).toEqual({ kind: "grouped", group: 8 });
  expect(rasterOf("col")).toEqual({ kind: "col" });
  expect(rasterOf("snake:4")).toEqual({ kind: "snake", group: 4 });
  expect(rasterOf("hilbert")).toEqual({ kind: "hilbert" });
  expect(coreFields.raster.nearest?.("snake")).toBe("snake:8");
  expect(() => rasterOf("diagonal")).toThrow("not a raster");
  expect(withDefault(coreFields.tile, [64, 64, 16]).default).toEqual([64, 64, 16]);
  expect(() => withDefault(coreFields.tile, [64, 64, 0])).toThrow("tile=64x64x0 does not fit MxNxK");
});
