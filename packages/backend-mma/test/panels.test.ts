/** Shared tiles whose places are no plain sums: warps whose columns begin inside a panel, columns that atoms take in turn, factors behind swizzled tiles. */
import {
  caseData,
  checkCase,
  judge,
  must,
  problemOf,
  Session,
  scheduleOf,
  targetOf,
} from "@tilewright/conformance";
import { createCompiler } from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { mma } from "../src/backend.ts";

test("24 columns of a warp, in panels of 16, are multiplied right", async () => {
  const target = targetOf("sm_90");
  const problem = problemOf({ m: 48, n: 96, k: 64, dtype: "f16" });
  const schedule = scheduleOf(mma, "tile=48x48x32 warp=48x24 stages=4 copy=tma ldmatrix=off");
  const made = must(createCompiler({ backends: [mma] }).compile({ problem, target, schedule }));
  expect(made.textAt("machine")).toContain("panels<1,16,512>");
  const device = must(await openDevice({ kind: "emulator", arch: target.arch }));
  const session = new Session(device, made);
  const data = caseData(problem, "integers", 1);
  const run = session.run(data);
  session.close();
  device.close();
  expect([run.faults, judge(problem, data, run)]).toEqual([[], []]);
});

test.each([
  // Two matrix instructions take a run of B's columns in turn, and D's tile lies along rows: stmatrix takes registers, not neighbours.
  [
    "sm_90",
    { m: 32, n: 65, k: 32, dtype: "e4m3", b: { layout: "row" }, d: { dtype: "bf16", layout: "col" } },
    "tile=128x128x128 warp=64x32 stages=2 copy=direct sharedLayout=plain frag=1 epi=smem storeElements=1 ldmatrix=x2",
  ],
  // The widest swizzle of A along m would move the factors behind it out of the block's memory.
  [
    "sm_120a",
    { m: 64, n: 16, k: 64, a: { dtype: "mxf8e5m2", layout: "col" }, b: { dtype: "mxf8", layout: "col" } },
    "tile=128x128x512 warp=64x16 stages=3 copy=cp.async registerPrefetch=off sharedLayout=auto frag=1 epi=direct ldmatrix=x1 copyBytes=4 interleave=off",
  ],
] as const)("%s, %o, %s", async (arch, request, schedule) => {
  const emulator = must(await openDevice({ kind: "emulator", arch }));
  const subject = {
    problem: problemOf(request),
    schedule: scheduleOf(mma, schedule),
    target: targetOf(arch),
  };
  expect(checkCase(mma, { ...subject, seed: 1 }, { emulator })).toEqual([]);
  emulator.close();
});
