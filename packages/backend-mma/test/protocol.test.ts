/** The ring protocol of this backend: faults planted in its statements, all of which the verifiers report, and what the text says of slots that are given back. */
import {
  boundProgram,
  build,
  machineProgram,
  plainProblem,
  plant,
  plantRings,
  scheduleOf,
  targetOf,
} from "@tilewright/conformance";
import { formatDiagnostic } from "@tilewright/core";
import { createCompiler, proveProtocol } from "@tilewright/ir";
import { expect, it } from "vitest";
import { mma } from "../src/index.ts";

/** Which elements a copy moves is no matter of the protocol here: the interpreter reports what is read and was never written. */
const data = /^(without )?copy %[sfr][AB] /;

it.each([
  ["tile=128x128x32 stages=3", "sm_80"],
  ["tile=128x128x32 stages=3 drain=2", "sm_80"],
  ["tile=128x128x32 stages=3 refill=barrier drain=3", "sm_80"],
  ["tile=64x64x32 warp=32x32 stages=1 frag=1", "sm_80"],
])("%s on %s", (schedule, arch) => {
  const program = boundProgram(mma, arch, plainProblem(512, 512, 1280, "f16"), schedule);
  const { count, unseen } = plantRings(program, targetOf(arch));
  expect(count).toBeGreaterThan(20);
  expect(unseen.filter((name) => !data.test(name))).toEqual([]);
});

/** Loads and multiplications of fragments may change places; so may what has nothing to do with each other. */
const harmless = /: (copy|pipeline|mbar\.expect|advance).*, after what follows it$/;

it.each([
  "tile=128x128x32 stages=3 copy=tma sched=persistent",
  "tile=128x128x64 warp=64x64 copy=tma sched=persistent stages=4 frag=1",
])("by bulk copies: %s", (schedule) => {
  const program = machineProgram(mma, "sm_90", plainProblem(512, 512, 1280, "f16"), schedule);
  expect(proveProtocol(program, targetOf("sm_90"))).toEqual([]);
  const { count, unseen } = plant(program, targetOf("sm_90"));
  expect(count).toBeGreaterThan(40);
  expect(unseen.filter((name) => !harmless.test(name))).toEqual([]);
});

// What waits for a second chunk is not in the text of a kernel of one: as a text it is held to its own number.
it("the text of a kernel of one chunk is taken back, and without its arrival it is not", () => {
  const compiler = createCompiler({ backends: [mma] });
  const target = targetOf("sm_90");
  const schedule = "tile=64x64x64 warp=32x32 stages=3 copy=tma frag=2 refill=step";
  const made = compiler.compile({ problem: plainProblem(128, 128, 32, "f16"), target, schedule });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  const text = made.value.textAt("machine") ?? "";
  const again = compiler.compile({ from: text, target });
  expect(again.ok ? again.value.ptx : again.error).toBe(made.value.ptx);
  const without = text.replace(/^.*mbar\.expect.*\n/m, "");
  expect(without).not.toBe(text);
  expect(compiler.compile({ from: without, target }).ok).toBe(false);
});

// An H200 gave wrong numbers without: an arrive does not wait for loads that are under way (docs/perf/mma.md).
it.each([1, 2])("slots of bulk copies are given back behind a fence, frag=%i", (frag) => {
  const schedule = scheduleOf(
    mma,
    `tile=128x128x64 warp=64x64 copy=tma sched=persistent stages=4 frag=${frag}`,
  );
  const problem = plainProblem(512, 512, 1280, "f16");
  const { ptx } = build(mma, problem, targetOf("sm_90"), schedule).kernel;
  const lines = ptx.split("\n").map((line) => line.trim());
  const given = lines.flatMap((line, i) =>
    /^@%p\d+ mbarrier\.arrive\.shared::cta\.b64 _/.test(line) ? [i] : [],
  );
  expect(given.length).toBeGreaterThan(0);
  for (const i of given)
    expect(lines.slice(i - 4, i)).toEqual(
      expect.arrayContaining(["fence.proxy.async.shared::cta;", expect.stringMatching(/^bar\.warp\.sync/)]),
    );
});
