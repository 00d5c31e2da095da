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
import { proveProtocol } from "@tilewright/ir";
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
