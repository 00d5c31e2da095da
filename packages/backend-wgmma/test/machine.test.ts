/** Machine texts: shared memory counted as legality counts it, and two-level sums. */
import { plainProblem } from "@tilewright/conformance";
import { defineProblem, findTarget, formatDiagnostic } from "@tilewright/core";
import { createCompiler, parseSchedule } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";
import { readSchedule } from "../src/schedule.ts";
import { blockBytes } from "../src/sharedMemory.ts";

const compiler = createCompiler({ backends: [wgmma] });
const target = (() => {
  const found = findTarget("sm_90a");
  if (!found.ok) throw new Error("sm_90a is a target");
  return found.value;
})();

test.each([
  "tile=128x256x64 warpgroups=2x1 stages=4 sched=persistent epi=tma",
  "tile=128x128x64 warpgroups=2x1 stages=5 sched=atomic epi=tma",
  "tile=64x64x128 warpgroups=1x1 stages=3 sched=tiles split=4 reduction=cluster epi=tma",
  "tile=128x128x64 warpgroups=2x1 stages=4 sched=tiles split=2 reduction=bulk epi=direct",
  "tile=64x32x128 warpgroups=1x1 stages=1 sched=tiles epi=tma",
])("legality counts the bytes that allocate gives: %s", (text) => {
  const problem = plainProblem(512, 512, 1024, "bf16");
  const made = compiler.compile({ problem, target, schedule: text });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  const schedule = parseSchedule(wgmma.schedule, text);
  if (!schedule.ok) throw new Error(schedule.error.map(formatDiagnostic).join("\n"));
  expect(blockBytes(problem, readSchedule(schedule.value), target.limits.maxSmemPerBlock)).toBe(
    made.value.program.machine?.memory.shared,
  );
});

test("the text of two-level sums is read back", () => {
  const problem = defineProblem({
    m: 256,
    n: 256,
    k: 512,
    a: { dtype: "e4m3" },
    b: { dtype: "e4m3", layout: "col" },
    precision: "promoted",
  });
  if (!problem.ok) throw new Error(problem.error.map(formatDiagnostic).join("\n"));
  const made = compiler.compile({ problem: problem.value, target });
  if (!made.ok) throw new Error(made.error.map(formatDiagnostic).join("\n"));
  const text = made.value.textAt("machine") ?? "";
  expect(text).toMatch(/accumulate %acc\d* \+= %chunk_sum/);
  const again = compiler.compile({ from: text, target });
  expect(again.ok ? again.value.ptx : again.error).toBe(made.value.ptx);
});
