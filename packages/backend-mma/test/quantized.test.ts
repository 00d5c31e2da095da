/** Quantised outputs whose shared tile has fewer columns than share a scale: a scale is of its whole group, whatever part of it is stored at once. */
import { checkCase, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { mma } from "../src/index.ts";

test("groups of 64 columns, stored 32 at a time", async () => {
  const emulator = await openDevice({ kind: "emulator", arch: "sm_90" });
  if (!emulator.ok) throw new Error("the emulator is always there");
  const target = targetOf("sm_90");
  const problem = problemOf({
    ...{ m: 40, n: 128, k: 24, a: { dtype: "tf32" }, b: { dtype: "tf32", layout: "col" } },
    d: { dtype: "e4m3", layout: "row" },
    batch: { kind: "strided", count: 3 },
    epilogue: "reduce(sum,n,f32) | quantize(64,f32:row)",
  });
  const schedule = scheduleOf(mma, "tile=64x128x16 warp=32x64 copy=tma sched=persistent stages=2 epi=smem");
  expect(checkCase(mma, { problem, schedule, target, seed: 5 }, { emulator: emulator.value })).toEqual([]);
  emulator.value.close();
});
