/** Turns of the main loop that do not ask whether there are more: the last ones are made apart, those of a share too, whose number only the kernel knows. */
import { bytesOfStorage, createCompiler, formatDiagnostic, parseProgram, printProgram } from "@tilewright/ir";
import { type Device, openDevice, runGemm } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { build, scheduleOf } from "./support/build.ts";
import { problemOf, targetOf } from "./support/cases.ts";
import { caseData, judge } from "./support/data.ts";

const target = targetOf("sm_80");
const compiler = createCompiler({ backends: [simt] });
const tile = "tile=64x64x8 thread=8x8";
const through = `${tile} copy=direct prefetch=on stages=2`;
const around = `${tile} copy=cp.async prefetch=off stages=3 spread=2`;

let device: Device;
beforeAll(async () => {
  const opened = await openDevice({ kind: "emulator", arch: "sm_80" });
  if (!opened.ok) throw new Error(opened.error.map(formatDiagnostic).join("\n"));
  device = opened.value;
});
afterAll(() => device.close());

/** D of a schedule on the emulator, without hazards. */
function run(k: number, schedule: string): Float32Array {
  const problem = problemOf({ m: 128, n: 128, k, dtype: "f32" });
  const data = caseData(problem, { kind: "normal" }, k);
  const made = compiler.compile({ problem, target, schedule: scheduleOf(schedule) });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  const inputs = { a: bytesOfStorage(data.a), b: bytesOfStorage(data.b) };
  const done = runGemm(device, { ptx: made.value.ptx, manifest: made.value.manifest }, inputs);
  if (!done.ok) throw new Error(done.error.map(formatDiagnostic).join("\n"));
  expect(done.value.findings).toEqual([]);
  const d = new Float32Array(done.value.d.slice().buffer);
  expect(judge(problem, data, d).boundRatio).toBeLessThanOrEqual(1);
  return d;
}

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
    expect(run(k, drained)).toEqual(run(k, schedule));
  });

  test("the text says which turns are apart", () => {
    const text = printProgram(build(problem, scheduleOf(drained), target).program);
    expect(text).toContain(` apart ${drain} {`);
    expect(parseProgram(text).ok).toBe(true);
  });
});
