/** Warps whose columns do not begin where a panel of the tile does: an address is no sum of the warp's part and the register's. */
import { caseData, judge, must, problemOf, Session, scheduleOf, targetOf } from "@tilewright/conformance";
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
