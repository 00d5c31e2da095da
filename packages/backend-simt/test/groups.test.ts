/** Groups whose blocks share tiles, in each way, one of them without work and one without chunks: numbers, orders and hazards as of every other kernel. */
import { checkCase, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { formatDiagnostic } from "@tilewright/core";
import { type Device, openDevice } from "@tilewright/runtime";
import { afterAll, beforeAll, expect, test } from "vitest";
import { simt } from "../src/backend.ts";

let emulator: Device;
beforeAll(async () => {
  const opened = await openDevice({ kind: "emulator", arch: "sm_80" });
  if (!opened.ok) throw new Error(opened.error.map(formatDiagnostic).join("\n"));
  emulator = opened.value;
});
afterAll(() => emulator.close());

const tile = "tile=32x32x8 thread=4x2 strip=4x2";

test.each([
  `${tile} split=3 reduction=last`,
  `${tile} split=3 reduction=atomics copy=cp.async registerPrefetch=off`,
  `${tile} split=5 reduction=kernel`,
  `${tile} copy=cp.async registerPrefetch=off stages=3 drain=2`,
  `${tile} streamk=7 drain=1`,
  `${tile} streamk=5 copy=cp.async registerPrefetch=off stages=3 reduction=atomics`,
  // A CTA has several whole tiles of the group without chunks, and hands in no part of them.
  "tile=4x32x16 thread=1x1 lanes=4x8 strip=1x1 streamk=7",
])("%s", (text) => {
  const problem = problemOf({
    m: 40,
    n: 30,
    k: 61,
    dtype: "f32",
    alpha: 2,
    beta: 1,
    c: { dtype: "f32" },
    batch: { kind: "grouped", count: 4 },
    symbolic: { m: { max: 70 } },
    epilogue: [
      { kind: "bias", along: "n", dtype: "f32" },
      { kind: "activation", fn: "relu" },
      { kind: "reduce", op: "sum", over: "m", dtype: "f16" },
      { kind: "reduce", op: "amax", over: "n", dtype: "e4m3" },
      { kind: "reduce", op: "amax", over: "all", dtype: "f32" },
    ],
  });
  const subject = { problem, schedule: scheduleOf(simt, text), target: targetOf("sm_80"), seed: 7 };
  expect(checkCase(simt, subject, { emulator })).toEqual([]);
});

test("sizes of the launch, in shares that the kernel cuts for each problem of a batch", () => {
  const problem = problemOf({
    m: 40,
    n: 30,
    k: 61,
    dtype: "f32",
    beta: -1,
    c: { dtype: "f32" },
    batch: { kind: "strided", count: 2 },
    symbolic: { m: { max: 70 }, k: {}, batch: { max: 3 } },
  });
  const schedule = scheduleOf(simt, `${tile} streamk=7`);
  expect(checkCase(simt, { problem, schedule, target: targetOf("sm_80"), seed: 8 }, { emulator })).toEqual(
    [],
  );
});
