/** Warps that load from slots of bulk copies wait for their loads before they give a slot back: without the fence the emulator finds the copy that overtakes them. */
import { caseData, problemOf, Session, scheduleOf, targetOf } from "@tilewright/conformance";
import { formatDiagnostic } from "@tilewright/core";
import { createCompiler } from "@tilewright/ir";
import { openDevice } from "@tilewright/runtime";
import { expect, test } from "vitest";
import { mma } from "../src/backend.ts";

const arch = "sm_90";
const fence = /\n[ \t]*fence\.proxy\.async\.shared::cta;/g;

/** Rules of the findings of one launch, with the text as it is, or changed. */
async function rulesOf(fields: string, change: (ptx: string) => string): Promise<readonly string[]> {
  const problem = problemOf({ m: 32, n: 32, k: 320, dtype: "f16", b: { layout: "col" } });
  const compiler = createCompiler({ backends: [mma] });
  const made = compiler.compile({ problem, target: targetOf(arch), schedule: scheduleOf(mma, fields) });
  const device = await openDevice({ kind: "emulator", arch });
  if (!made.ok || !device.ok)
    throw new Error([made, device].flatMap((x) => (x.ok ? [] : x.error.map(formatDiagnostic))).join("\n"));
  const ptx = change(made.value.ptx);
  const session = new Session(device.value, { ...made.value, ptx });
  const { faults } = session.run(caseData(problem, "integers", 3), { order: "lazy" });
  session.close();
  device.value.close();
  return [...new Set(faults.map((what) => what.slice(0, 4)))];
}

const schedule = "tile=32x32x32 warp=16x16 stages=3 copy=tma";

test.each(["frag=2", "frag=2 sched=persistent"])(
  "%s: fragments loaded early are under way",
  async (fields) => {
    expect(await rulesOf(`${schedule} ${fields}`, (ptx) => ptx)).toEqual([]);
    expect(await rulesOf(`${schedule} ${fields}`, (ptx) => ptx.replaceAll(fence, ""))).toEqual(["H090"]);
  },
);

test("frag=1: products before the arrival use all fragments, which the rule takes for a wait", async () => {
  expect(await rulesOf(`${schedule} frag=1`, (ptx) => ptx.replaceAll(fence, ""))).toEqual([]);
});
