/** Loops in which only later turns have hidden elements, in two; scaling by 1 that threads leave out; blocks that share copies and take the same turns. */
import { handEditsOf, must, targetOf } from "@tilewright/conformance";
import { attentionText, createCompiler, readAttention } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";

const target = targetOf("sm_90a");
const scheduleOf = (splitMasked: string): string =>
  `tile=128x64x64 warpgroups=2x1 stages=4 regs=24/240 pipelineProducts=on splitMasked=${splitMasked} conditionalRescale=thread laneSums=on batchGroup=1`;
const textOf = (request: object): string =>
  attentionText(
    must(
      readAttention({
        op: "attention",
        queries: 512,
        keys: 512,
        headDim: 64,
        heads: 2,
        dtype: "bf16",
        ...request,
      }),
    ),
  );

/** Loops over parts of keys of the threads that multiply, with the conditions in them. */
function loopsOf(request: object, schedule = scheduleOf("on")): readonly string[] {
  const made = must(
    createCompiler({ backends: [wgmma] }).compile({ from: textOf(request), target, schedule }),
  );
  const lines = (made.textAt("machine") ?? "").split("role math")[1]?.split("\n") ?? [];
  return lines.filter((line) => /for %st =|if %/.test(line)).map((line) => line.trim().replace(" {", ""));
}

describe("loops over parts", () => {
  test("turns without hidden elements ask for none", () => {
    expect(loopsOf({ causal: true })).toMatchInlineSnapshot(`
      [
        "for %st = 0 .. 8 within 0 .. (%mt * 128 + 191) / 64 first",
        "if %st * 64 + 64 > %mt * 128 + 1",
        "for %st = 0 .. 8 within 0 .. (%mt * 128 + 1) / 64 rest",
        "for %st = 0 .. 8 within (%mt * 128 - 63) / 64 .. (%mt * 128 + 191) / 64 rest",
        "for %st = 0 .. 8 within 0 .. (%mt * 128 + 191) / 64 last",
      ]
    `);
  });

  test("keys behind the last one are the last turn's", () => {
    expect(loopsOf({ keys: 500 })).toMatchInlineSnapshot(`
      [
        "for %st = 1 .. 7",
        "for %st = 7 .. 8",
      ]
    `);
  });

  test("of two ends the first one counts", () => {
    expect(loopsOf({ causal: true, keys: 600, queries: 560 })).toMatchInlineSnapshot(`
      [
        "for %st = 0 .. 10 within 0 .. (%mt * 128 + 231) / 64 first",
        "if %st * 64 + 64 > %mt * 128 + 41",
        "if %st * 64 + 64 > 600",
        "for %st = 0 .. 10 within 0 .. (%mt * 128 + 41) / 64 rest",
        "for %st = 0 .. 10 within (%mt * 128 - 23) / 64 .. (%mt * 128 + 231) / 64 rest",
        "if %st * 64 + 64 > 600",
        "for %st = 0 .. 10 within 0 .. (%mt * 128 + 231) / 64 last",
      ]
    `);
  });

  test("of windows, whose first turns hide elements, too, nothing changes", () => {
    const off = loopsOf({ causal: true, window: 200 }, scheduleOf("off"));
    expect(loopsOf({ causal: true, window: 200 })).toEqual(off);
  });

  test("blocks that share copies take the turns of the longest of their tiles", () => {
    expect(loopsOf({ causal: true }, `${scheduleOf("on")} cluster=2x1`)).toMatchInlineSnapshot(`
      [
        "for %st = 0 .. 8 within 0 .. ((%mt - %mt % 2) * 128 + 319) / 64 first",
        "if %st * 64 + 64 > %mt * 128 + 1",
        "for %st = 0 .. 8 within 0 .. (%mt * 128 + 1) / 64 rest",
        "for %st = 0 .. 8 within (%mt * 128 - 63) / 64 .. ((%mt - %mt % 2) * 128 + 319) / 64 rest",
        "for %st = 0 .. 8 within 0 .. ((%mt - %mt % 2) * 128 + 319) / 64 last",
      ]
    `);
  });
});

handEditsOf(
  wgmma,
  "a multiplication that threads leave out",
  { from: textOf({}), schedule: scheduleOf("on"), target },
  [
    {
      what: "something else is left out",
      change: { kind: "replace", line: /unless one/, from: /\*%z/, to: "+%z", nth: 1 },
      code: "TW3166",
      line: /unless one/,
      ptx: null,
      emulator: null,
    },
  ],
  { numSms: 1 },
);
