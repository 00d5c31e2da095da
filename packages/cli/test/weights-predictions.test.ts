/** What the machine model predicts of weights in few bits, beside what an H200 took, and what the compiler chooses by that (docs/perf/runs, files of weights). */
import { readFileSync } from "node:fs";
import { findTarget, readProblemRequest, type Schedule } from "@tilewright/core";
import { convertSchedule, machineOf, parseSchedule, predictionOf } from "@tilewright/ir";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { compiler } from "../src/compiler.ts";
import { must } from "./attentionPrograms.ts";

const fileOf = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../../docs/perf/runs/${name}.json`, import.meta.url), "utf8"));

const size = { m: z.number(), n: z.number(), k: z.number() };
const { rows } = z
  .looseObject({
    rows: z.array(
      z.looseObject({ ...size, schedule: z.string(), us: z.looseObject({ weights: z.number() }) }),
    ),
  })
  .parse(fileOf("2026-11-24-h200-weights-first"));

const target = must(findTarget("sm_90a"));
const machine = machineOf({ name: "H200" });
const wgmma = compiler.backends.filter(({ id }) => id === "wgmma");
const problemOf = ({ m, n, k }: { readonly m: number; readonly n: number; readonly k: number }) =>
  must(readProblemRequest({ m, n, k, dtype: "bf16", weights: { dtype: "s4", group: 128 } }));

describe("weights in few bits, H200", () => {
  test.each(rows.map((row) => [`${row.m}x${row.n}x${row.k}`, row] as const))("%s", (_name, row) => {
    const problem = problemOf(row);
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

/** A schedule that was timed, in one run of its problem. */
interface Timed {
  readonly problem: string;
  readonly run: string;
  readonly schedule: string;
  readonly us: number;
}

/** Rounds name backends and schedules in one word each. */
const timedInRounds = (): readonly Timed[] =>
  z
    .looseObject({
      rounds: z.array(
        z.looseObject({
          about: z.string(),
          rows: z.array(z.looseObject({ problem: z.string(), us: z.record(z.string(), z.number()) })),
        }),
      ),
    })
    .parse(fileOf("2026-11-24-h200-weights"))
    .rounds.flatMap(({ about, rows: each }) =>
      each.flatMap(({ problem, us }) => {
        const found = /^(\S+) bf16, group 128$/.exec(problem)?.[1];
        if (found === undefined) return [];
        return Object.entries(us).flatMap(([name, time]): readonly Timed[] => {
          const schedule = /^wgmma (?:first: )?(.*)$/.exec(name)?.[1];
          return schedule === undefined ? [] : [{ problem: found, run: about, schedule, us: time }];
        });
      }),
    );

const timedInRows = (name: string): readonly Timed[] =>
  z
    .looseObject({
      rows: z.array(z.looseObject({ ...size, schedule: z.string().optional(), us: z.number() })),
    })
    .parse(fileOf(name))
    .rows.flatMap(({ m, n, k, schedule, us }) =>
      schedule === undefined ? [] : [{ problem: `${m}x${n}x${k}`, run: name, schedule, us }],
    );

const timed: readonly Timed[] = [...timedInRounds(), ...timedInRows("2026-11-29-h200-weights")];

/** What tells the timed schedules apart; how D is stored and a grid of one wave is made does not. */
const telling = ({ tile, warpgroups, stages, delayedRelease, split }: Schedule): string =>
  JSON.stringify([tile, warpgroups, stages, delayedRelease, split]);

describe("first schedules of weights, H200", () => {
  test.each([...new Set(timed.map(({ problem }) => problem))])(
    "%s: as fast as the fastest that was timed beside it, or within 2 %%",
    (name) => {
      const [m = 0, n = 0, k = 0] = name.split("x").map(Number);
      const [first] = must(compiler.plan(problemOf({ m, n, k }), target, { machine }));
      const chosen = telling(first?.schedule ?? {});
      const own = timed.filter(({ problem }) => problem === name);
      const behind = [...new Set(own.map(({ run }) => run))].flatMap((one) => {
        const run = own.filter((each) => each.run === one);
        const least = Math.min(...run.map(({ us }) => us));
        return run.flatMap(({ schedule, us }) =>
          wgmma.flatMap((backend) => {
            const read = must(parseSchedule(backend.schedule, convertSchedule(backend.schedule, schedule)));
            return telling(read) === chosen ? [us / least] : [];
          }),
        );
      });
      // Runs differ in the clock that they left the GPU: one in which it was within 2 % says that it can be.
      expect(Math.min(...behind)).toBeLessThan(1.02);
    },
  );
});
