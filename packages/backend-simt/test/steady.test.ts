/** Turns of the main loop that do not ask whether there are more: the last ones are made apart, those of a share too, whose number only the kernel knows. */
import { parseProgram, printProgram } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { build, scheduleOf } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";
import { emulated } from "./support/emulated.ts";

const target = targetOf("sm_80");
const { run } = emulated(target);
const tile = "tile=64x64x8 thread=8x8";
const through = `${tile} copy=direct registerPrefetch=on stages=2`;
const around = `${tile} copy=cp.async registerPrefetch=off stages=3 copySpread=2`;

const onEmulator = (k: number, schedule: string) =>
  run(problemOf({ m: 128, n: 128, k, dtype: "f32" }), schedule, k);

/** The first loop of a text, without its label and branch. */
const firstLoop = (ptx: string): readonly string[] => {
  const lines = ptx.split("\n");
  const from = lines.findIndex((line) => /^loop_kt\w*:/.test(line));
  const to = lines.findIndex((line) => line.includes(`bra ${lines[from]?.slice(0, -1)}`));
  return lines.slice(from + 1, to);
};

describe.each([
  ["copies through registers", `${through}`, 1],
  ["copies through registers, shares", `${through} streamk=3`, 1],
  ["cp.async, shares", `${around} streamk=3`, 2],
])("%s", (_name, schedule, drain) => {
  const drained = `${schedule} drain=${drain}`;
  const problem = problemOf({ m: 128, n: 128, k: 160, dtype: "f32" });

  test("nothing in the steady loop has a predicate", () => {
    const guarded = (text: string) =>
      firstLoop(build(problem, scheduleOf(text), target).kernel.ptx).filter((line) => line.includes("@"));
    expect(guarded(schedule)).not.toEqual([]);
    expect(guarded(drained)).toEqual([]);
  });

  test.each([8, 24, 160])("k = %i: the bits are those of one loop", (k) => {
    expect(onEmulator(k, drained)).toEqual(onEmulator(k, schedule));
  });

  test("the text says which turns are apart", () => {
    const text = printProgram(build(problem, scheduleOf(drained), target).program);
    expect(text).toContain(` apart ${drain} {`);
    expect(parseProgram(text).ok).toBe(true);
  });
});
