/** Persistent CTAs that go through a list of tiles of several problems. */
import { checkCase, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { tcgen05 } from "../src/index.ts";

test("accumulators that share columns change places from tile to tile of a list", async () => {
  const problem = problemOf({ m: 700, n: 72, k: 72, dtype: "f16", experts: 3 });
  // Two SMs: each CTA has several tiles, of more than one expert.
  const emulator = await openDevice({ kind: "emulator", arch: "sm_100a", numSms: 2 });
  if (!emulator.ok) throw new Error("the emulator is always there");
  const schedule = scheduleOf(
    tcgen05,
    "tile=128x64x64 ctaGroup=1 stages=2 sched=persistent accumulators=2 overlappedColumns=32 loadColumns=16 epi=direct",
  );
  const subject = { problem, schedule, target: targetOf("sm_100a"), seed: 5 };
  expect(checkCase(tcgen05, subject, { emulator: emulator.value })).toEqual([]);
  emulator.value.close();
});
