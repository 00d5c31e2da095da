/** Problems and schedules that the tests of this package run, small enough for the emulator: tiles of 128 x 64, K of a few chunks. */
import { type Case, checkCase, pick } from "@tilewright/conformance";
import {
  findTarget,
  formatDiagnostic,
  isScaled,
  type Problem,
  type Random,
  readProblemRequest,
  type Schedule,
  sizeOf,
  type Target,
} from "@tilewright/core";
import { defaultSchedule, parseSchedule } from "@tilewright/ir";
import type { Device } from "@tilewright/runtime";
import { isLegal } from "../../src/check.ts";
import { tcgen05 } from "../../src/index.ts";

export function target(arch: string): Target {
  const found = findTarget(arch);
  if (!found.ok) throw new Error(found.error.map(formatDiagnostic).join("\n"));
  return found.value;
}

/** f16, K contiguous in A and B, unless the request says otherwise. */
export function problem(request: Record<string, unknown>): Problem {
  const defaults = { m: 128, n: 64, k: 64, dtype: "f16", a: { layout: "row" }, b: { layout: "col" } };
  const defined = readProblemRequest({ ...defaults, ...request });
  if (!defined.ok) throw new Error(defined.error.map(formatDiagnostic).join("\n"));
  return defined.value;
}

export function schedule(text: string): Schedule {
  const parsed = parseSchedule(tcgen05.schedule, text);
  if (!parsed.ok) throw new Error(parsed.error.map(formatDiagnostic).join("\n"));
  return parsed.value;
}

/** A legal schedule: any instruction width, pairs, clusters, each optimisation on or off by itself; tiles that are not much wider than D. */
export function randomSchedule(random: Random, problem: Problem, on: Target): Schedule {
  const chunk = 128 / sizeOf(problem.a.dtype);
  const base = defaultSchedule(tcgen05.schedule);
  for (;;) {
    const cta = pick(random, [1, 2]);
    const swap = pick(random, [false, false, true]);
    const widest = Math.max(1, Math.min(16, Math.ceil((swap ? problem.m : problem.n) / 16) + 1));
    const lanes = cta * pick(random, [64, 128, 128, 256]);
    // Scale factors come for 128 columns.
    const columns = isScaled(problem.a.dtype) ? 128 * random.integer(1, 2) : 16 * random.integer(1, widest);
    const split = pick(random, [1, 1, 1, 2, 3]);
    const streamk = split === 1 ? pick(random, [0, 0, 0, 2, 3, 7]) : 0;
    // Those that share a tile have one way of these.
    const shared = split > 1 || streamk > 0;
    const schedule: Schedule = {
      ...base,
      tile: [swap ? columns : lanes, swap ? lanes : columns, chunk * pick(random, [1, 1, 2])],
      ctaGroup: cta,
      swapAB: swap ? "on" : "off",
      cluster: pick(random, [
        [1, 1],
        [1, 1],
        [1, 1],
        [2, 1],
        [1, 2],
        [2, 2],
        [4, 1],
      ]),
      stages: random.integer(1, 7),
      swizzle: pick(random, ["128B", "128B", "64B", "32B", "none"]),
      accumulators: random.integer(1, 3),
      overlappedColumns: pick(random, [0, 0, 0, 16, 32, 64, 96]),
      sched: shared
        ? streamk > 0
          ? "persistent"
          : "tiles"
        : pick(random, ["tiles", "persistent", "atomic", "clc"]),
      split,
      streamk,
      reduction: pick(random, ["last", "atomics", "kernel"]),
      schedulerStages: random.integer(1, 3),
      raster: pick(random, ["row", "col", "grouped:4", "snake:2", "hilbert"]),
      loadColumns: pick(random, [1, 8, 16, 32, 64]),
      earlyAccumulatorRelease: pick(random, ["on", "off"]),
      epi: pick(random, shared ? ["tma", "direct"] : ["tma", "tma", "direct"]),
      storeStages: random.integer(1, 3),
      storeElements: pick(random, [1, 2, 4, 8]),
      guards: pick(random, ["on", "off"]),
      pdl: pick(random, ["off", "off", "on"]),
    };
    if (isLegal(problem, schedule, on)) return schedule;
  }
}

/** Interpreter, emulator in three orders, and ptxas where it is: what is wrong, or nothing. */
export const check = (
  emulator: Device,
  arch: string,
  text: string,
  request: Record<string, unknown>,
  more: Partial<Case> = {},
): readonly string[] =>
  checkCase(
    tcgen05,
    { problem: problem(request), schedule: schedule(text), target: target(arch), seed: 3, ...more },
    { emulator },
  );
