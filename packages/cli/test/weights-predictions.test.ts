/** What the machine model predicts of weights in few bits, beside what an H200 took (docs/perf/runs/2026-11-24-h200-weights-first.json), and which backend it chooses by that. */
import { readFileSync } from "node:fs";
import { findTarget, readProblemRequest } from "@tilewright/core";
import { convertSchedule, machineOf, parseSchedule, predictionOf } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { compiler } from "../src/compiler.ts";
import { must } from "./attentionPrograms.ts";

const runs = z.looseObject({
  rows: z.array(
    z.looseObject({
      m: z.number(),
      n: z.number(),
      k: z.number(),
      schedule: z.string(),
      us: z.looseObject({ weights: z.number() }),
    }),
  ),
});
const { rows } = runs.parse(
  JSON.parse(
    readFileSync(
      new URL("../../../docs/perf/runs/2026-11-24-h200-weights-first.json", import.meta.url),
      "utf8",
    ),
  ),
);

const target = must(findTarget("sm_90a"));
const machine = machineOf({ name: "H200" });
const wgmma = compiler.backends.filter(({ id }) => id === "wgmma");

describe("weights in few bits, H200", () => {
  test.each(rows.map((row) => [`${row.m}x${row.n}x${row.k}`, row] as const))("%s", (_name, row) => {
    const { m, n, k } = row;
    const problem = must(
      readProblemRequest({ m, n, k, dtype: "bf16", weights: { dtype: "s4", group: 128 } }),
    );
    for (const backend of wgmma) {
      const schedule = must(parseSchedule(backend.schedule, convertSchedule(backend.schedule, row.schedule)));
      const ratio = (predictionOf(backend, problem, schedule, target, machine)?.timeUs ?? 0) / row.us.weights;
      expect(ratio).toBeGreaterThan(1 / 1.2);
      expect(ratio).toBeLessThan(1.2);
    }
    // mma.sync takes 1.2 to 2 times as long (docs/perf/runs/2026-11-24-h200-weights.json).
    const [first] = must(compiler.plan(problem, target, { machine }));
    expect(first?.backend.id).toBe("wgmma");
  });
});
