/** What the machine model predicts of weights in few bits, beside what an H200 took, and what the compiler chooses by that (docs/perf/runs, files of weights). */
import { readFileSync } from "node:fs";
import { findTarget, readProblemRequest, type Schedule } from "@tilewright/core";
import { convertSchedule, machineOf, parseSchedule, predictionOf } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { compiler } from "../src/compiler.ts";
import { must } from "./attentionPrograms.ts";

const file = z.looseObject({
  rows: z.array(
    z.looseObject({
      run: z.string().optional(),
      m: z.number(),
      n: z.number(),
      k: z.number(),
      weights: z.string(),
      group: z.number(),
      before: z.boolean().optional(),
      backend: z.string().optional(),
      schedule: z.string(),
      us: z.number(),
    }),
  ),
});
/** Kernels of two runs, all of a problem interleaved, the second by a cluster's reduction of today; those of `before` are of more instructions, and no compiler of today makes them. */
const timed = ["2026-11-30-h200-weights", "2026-11-30-h200-weights-clock"]
  .map((name) => new URL(`../../../docs/perf/runs/${name}.json`, import.meta.url))
  .flatMap((url) => file.parse(JSON.parse(readFileSync(url, "utf8"))).rows)
  .filter(({ before, backend, run = "d" }) => before !== true && backend === undefined && run === "d");

type Timed = (typeof timed)[number];

const target = must(findTarget("sm_90a"));
const machine = machineOf({ name: "H200" });
const wgmma = compiler.backends.filter(({ id }) => id === "wgmma");
const problemOf = ({ m, n, k, weights, group }: Timed) =>
  must(readProblemRequest({ m, n, k, dtype: "bf16", weights: { dtype: weights, group } }));
const nameOf = ({ m, n, k, weights }: Timed): string => `${m}x${n}x${k} ${weights}`;

/** What tells the timed schedules apart; how D is stored and a grid of one wave is made does not. */
const telling = ({ tile, warpgroups, stages, delayedRelease, cluster, split }: Schedule): string =>
  JSON.stringify([tile, warpgroups, stages, delayedRelease, cluster, split]);

/** Problems whose first schedule takes more than 2 % longer than the fastest that was timed. */
const farther: ReadonlyMap<string, number> = new Map([
  ["1x8192x28672 s4", 1.03],
  ["1x16384x16384 e2m1", 1.07],
]);

const problems = [...new Map(timed.map((row) => [nameOf(row), row])).entries()];

describe("first schedules of weights, H200", () => {
  test.each(problems)("%s: among the fastest that were timed, and predicted", (name, row) => {
    const problem = problemOf(row);
    // mma.sync takes 1.2 to 2 times as long.
    const [first] = must(compiler.plan(problem, target, { machine }));
    expect(first?.backend.id).toBe("wgmma");
    const chosen = telling(first?.schedule ?? {});
    const own = timed.filter((each) => nameOf(each) === name);
    const least = Math.min(...own.map(({ us }) => us));
    const behind = own.flatMap(({ schedule, us }) =>
      wgmma.flatMap((backend) => {
        const read = must(parseSchedule(backend.schedule, convertSchedule(backend.schedule, schedule)));
        if (telling(read) !== chosen) return [];
        const ratio = (predictionOf(backend, problem, read, target, machine)?.timeUs ?? 0) / us;
        expect(ratio).toBeGreaterThan(1 / 1.2);
        expect(ratio).toBeLessThan(1.2);
        return [us / least];
      }),
    );
    expect(Math.min(...behind)).toBeLessThan(farther.get(name) ?? 1.02);
  });
});
