/** Former names of schedule fields: refused with the present name, and converted by the same table. */

import type { ScheduleModel } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import {
  convertSchedule,
  coreFields,
  flagField,
  intField,
  parseSchedule,
  scheduleFromRecord,
} from "../../src/index.ts";

const bulk: ScheduleModel = {
  fields: [
    coreFields.stages,
    coreFields.raster,
    coreFields.reduction,
    coreFields.l2Prefetch,
    flagField({ name: "earlyProducerStart", summary: "", default: "on" }),
  ],
};
const byThreads: ScheduleModel = {
  fields: [
    coreFields.stages,
    flagField({ name: "registerPrefetch", summary: "", default: "on" }),
    intField({ name: "copyBytes", summary: "", default: 16 }),
  ],
};

describe("a former name", () => {
  test("is refused with the text to write", () => {
    const parsed = parseSchedule(bulk, "combine=kernel prefetch=4 early=off turnz=1");
    expect(parsed.ok ? [] : parsed.error.map(({ code, at, hint }) => [code, at, hint])).toEqual([
      ["TW2001", "schedule.combine", "write reduction=kernel"],
      ["TW2001", "schedule.prefetch", "write l2Prefetch=4"],
      ["TW2001", "schedule.early", "write earlyProducerStart=off"],
      ["TW2001", "schedule.turnz", expect.stringContaining("fields: ")],
    ]);
  });

  test("means what the model has", () => {
    const parsed = parseSchedule(byThreads, "prefetch=off vec=8 combine=last");
    expect(parsed.ok ? [] : parsed.error.map(({ hint }) => hint)).toEqual([
      "write registerPrefetch=off",
      "write copyBytes=8",
      "fields: stages, registerPrefetch, copyBytes",
    ]);
  });

  test("is refused in a record too", () => {
    const made = scheduleFromRecord(bulk, { combine: "last" });
    expect(made.ok ? [] : made.error.map(({ message, hint }) => [message, hint])).toEqual([
      ["'combine' is now called 'reduction'", "write reduction"],
    ]);
  });
});

test("a stored text is converted", () => {
  const text = convertSchedule(bulk, "stages=3 raster=pieces:8 combine=kernel prefetch=4 early=off other=1");
  expect(text).toBe("stages=3 raster=blocked:8 reduction=kernel l2Prefetch=4 earlyProducerStart=off other=1");
  expect(convertSchedule(bulk, text)).toBe(text);
});
