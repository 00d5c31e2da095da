/** Sums of rows that lanes keep apart in a loop: what they exchange, and a hand edit that tears the elements of a lane apart. */
import { handEditsOf, must, targetOf } from "@tilewright/conformance";
import { attentionText, createCompiler, readAttention } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";

const from = attentionText(
  must(readAttention({ op: "attention", queries: 128, keys: 384, headDim: 64, dtype: "bf16" })),
);
const target = targetOf("sm_90a");
const scheduleOf = (laneSums: string): string =>
  `tile=128x64x64 warpgroups=2x1 stages=4 regs=24/240 pipelineProducts=on laneSums=${laneSums}`;

const exchanges = (laneSums: string): number => {
  const schedule = scheduleOf(laneSums);
  const made = must(createCompiler({ backends: [wgmma] }).compile({ from, target, schedule }));
  return made.ptx.split("shfl.sync.bfly").length - 1;
};

test("lanes exchange sums once, behind the loop, not in its two copies", () => {
  // Two rows of a thread, and two steps among four lanes.
  expect(exchanges("off") - exchanges("on")).toBe(2 * 4 - 4);
});

handEditsOf(
  wgmma,
  "sums of lanes",
  { from, schedule: scheduleOf("on"), target },
  [
    {
      what: "runs of other columns than a lane has",
      change: { kind: "replace", line: /reduce\.row %y = sum\(%S\)/, from: /runs 2/, to: "runs 4", nth: 1 },
      code: "TW3166",
      line: /reduce\.row %y/,
      ptx: null,
      emulator: null,
    },
  ],
  { numSms: 1 },
);
