/** The protocol of every kind of kernel that the backend makes, proved on the bound program for any number of K chunks and tiles. */
import { problemOf, targetOf } from "@tilewright/conformance";
import { createRandom } from "@tilewright/core";
import { printSchedule, proveProtocol, runPasses } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/backend.ts";
import { randomSchedule } from "./support/cases.ts";

const target = targetOf("sm_90a");

test("schedules drawn at random keep the protocol", () => {
  const random = createRandom(5);
  const problem = problemOf({ m: 300, n: 200, k: 320, dtype: "bf16", b: { layout: "col" } });
  for (let i = 0; i < 12; i++) {
    const schedule = randomSchedule(random, problem, target);
    const bound = runPasses(wgmma.tile(problem, schedule, target), target, wgmma.passes, { verify: "ends" });
    const text = printSchedule(wgmma.schedule, schedule);
    expect([text, bound.ok ? proveProtocol(bound.value, target) : bound.error]).toEqual([text, []]);
  }
});
