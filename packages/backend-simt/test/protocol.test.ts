/** Faults planted in the ring statements of this backend's bound programs: the verifiers report every one. */
import { boundProgram, plainProblem, plantRings, targetOf } from "@tilewright/conformance";
import { expect, it } from "vitest";
import { simt } from "../src/index.ts";

/** Which elements a copy moves is no matter of the protocol here: the interpreter reports what is read and was never written. */
const data = /^(without )?copy %[sfr][AB] /;

it.each([
  ["stages=2", "sm_70"],
  ["copy=cp.async stages=4 copySpread=3 registerPrefetch=off", "sm_80"],
])("%s on %s", (schedule, arch) => {
  const program = boundProgram(simt, arch, plainProblem(512, 512, 1280, "f32"), schedule);
  const { count, unseen } = plantRings(program, targetOf(arch));
  expect(count).toBeGreaterThan(20);
  expect(unseen.filter((name) => !data.test(name))).toEqual([]);
});
