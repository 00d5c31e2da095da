/** Gated products whose columns are interleaved: both factors of a column of D are in one thread, however many columns a warp has. */
import { checkCase, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { mma } from "../src/index.ts";

test.each([
  // Halves of 16 and 48 columns end inside of the 32 that four atoms share; of 32 they do not.
  "tile=32x32x32 warp=32x32 interleave=on",
  "tile=32x96x32 warp=32x96 interleave=on",
  "tile=32x64x32 warp=32x64 interleave=on",
  "tile=32x96x32 warp=32x96 interleave=off",
])("%s", async (text) => {
  const problem = problemOf({
    op: "ffn",
    act: "silu",
    m: 37,
    n: 56,
    k: 40,
    dtype: "f16",
    b: { layout: "col" },
  });
  const emulator = await openDevice({ kind: "emulator", arch: "sm_80" });
  if (!emulator.ok) throw new Error("the emulator is always there");
  const target = targetOf("sm_80");
  const schedule = scheduleOf(mma, `${text} stages=2 copy=cp.async epi=direct`);
  expect(checkCase(mma, { problem, schedule, target, seed: 5 }, { emulator: emulator.value })).toEqual([]);
  emulator.value.close();
});
