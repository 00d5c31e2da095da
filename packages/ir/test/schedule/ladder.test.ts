/** Ladders: each step changes fields of the one before. */
import { describe, expect, test } from "vitest";
import { type Ladder, ladderSchedules } from "../../src/ladder.ts";
import { printSchedule } from "../../src/schedule/codec.ts";
import { coreFields } from "../../src/schedule/core.ts";

const model = { fields: [coreFields.tile, coreFields.stages, coreFields.split] };

const ladder = (...changes: string[]): Ladder => ({
  name: "l",
  summary: "",
  request: {},
  sizes: { gpu: [1, 1, 1], emulator: [1, 1, 1] },
  steps: changes.map((change, i) => ({ name: `${i}`, summary: "", change })),
});

describe("ladderSchedules", () => {
  test("fields stay until another step changes them; what nobody names is at its default", () => {
    const made = ladderSchedules(model, ladder("tile=8x8x8 split=3", "stages=4", "", "stages=1 tile=16x8x8"));
    expect(made.ok && made.value.map((schedule) => printSchedule(model, schedule))).toEqual([
      "tile=8x8x8 stages=2 split=3",
      "tile=8x8x8 stages=4 split=3",
      "tile=8x8x8 stages=4 split=3",
      "tile=16x8x8 stages=1 split=3",
    ]);
  });

  test("a field that the model lacks is the codec's error", () => {
    const made = ladderSchedules(model, ladder("stages=2", "stagse=3"));
    expect(made.ok ? [] : made.error.map(({ code, hint }) => [code, hint?.includes("stages")])).toEqual([
      ["TW2001", true],
    ]);
  });
});
