/** An operand that is not staged, with fragments loaded ahead: those of the first chunk, loaded before the loop, are what the loop begins with. */
import { checkCase, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { simt } from "../src/backend.ts";

// Rows end inside of a tile, and K where a chunk does: the guard of a row is the only one, and never changes.
test.each([
  ["b", "col"],
  ["a", "row"],
])("stagedOperands=%s", async (staged, layout) => {
  const emulator = await openDevice({ kind: "emulator", arch: "sm_70" });
  if (!emulator.ok) throw new Error("no emulator");
  const problem = problemOf({
    m: 70,
    n: 101,
    k: 20,
    a: { dtype: "f32", layout },
    b: { dtype: "f32", layout },
  });
  const text = `tile=8x128x4 thread=1x8 lanes=2x16 strip=1x1 stagedOperands=${staged} stages=2 frag=2 copyElements=1`;
  const subject = { problem, schedule: scheduleOf(simt, text), target: targetOf("sm_70"), seed: 1 };
  expect(checkCase(simt, subject, { emulator: emulator.value })).toEqual([]);
  emulator.value.close();
});
