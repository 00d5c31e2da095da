/** Faults planted in the ring statements of this backend's bound programs: the verifiers report every one. */
import { boundProgram, plainProblem, plant, targetOf } from "@tilewright/conformance";
import { expect, it } from "vitest";
import { mma } from "../src/index.ts";

/** Which elements a copy moves is no matter of the protocol here: the interpreter reports what is read and was never written. */
const data = /^(without )?copy %[sfr][AB] /;

it.each([
  ["tile=128x128x32 stages=3", "sm_80"],
  ["tile=128x128x32 stages=3 drain=2", "sm_80"],
  ["tile=64x64x32 warp=32x32 stages=1 frag=1", "sm_80"],
  ["tile=128x128x32 stages=3 copy=tma sched=persistent", "sm_90"],
])("%s on %s", (schedule, arch) => {
  const program = boundProgram(mma, arch, plainProblem(512, 512, 1280, "f16"), schedule);
  const { count, unseen } = plant(program, targetOf(arch), "statements");
  expect(count).toBeGreaterThan(20);
  expect(unseen.filter((name) => !data.test(name))).toEqual([]);
});
