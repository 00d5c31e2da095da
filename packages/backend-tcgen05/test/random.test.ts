/** Random legal schedules: the proof holds, the text is what was proven, and ptxas takes it for both chips. A sample, or 300 with TILEWRIGHT_SLOW=1. */
import { assemble, hasPtxas, pick, planWords, targetOf, textWords } from "@tilewright/conformance";
import {
  createRandom,
  type DType,
  defaultSchedule,
  defineProblem,
  dtypes,
  type Problem,
  protocolPlan,
  proveProtocol,
  type Random,
  runPasses,
  type Schedule,
  scheduleCodec,
  sizeOf,
  type Target,
} from "@tilewright/ir";
import { describe, expect, it } from "vitest";
import { tcgen05 } from "../src/index.ts";

const slow = process.env.TILEWRIGHT_SLOW === "1";
const COUNT = slow ? 300 : 10;
const targets = ["sm_100a", "sm_103a"].map(targetOf);

/** Sizes of a few tiles with tails, leading dimensions that bulk copies can take, and many K chunks. */
function problemAt(rng: Random): Problem {
  const dtype = pick<DType>(rng, ["bf16", "f16", "tf32", "e4m3", "s8", "e2m1", "e3m2"]);
  const size = (most: number): number => 8 * rng.integer(1, most / 8);
  const [m, n, k] = [size(1500), size(1500), 512 * rng.integer(4, 8)];
  // Bulk copies want rows of whole 16 bytes: both layouts of 16-bit types, K-contiguous ones of the others.
  const both = dtypes[dtype].bits === 16;
  const request = {
    m,
    n,
    k,
    a: { dtype, layout: both && m % 8 === 0 ? pick(rng, ["row", "col"]) : "row", align: 32 },
    b: { dtype, layout: both && n % 8 === 0 ? pick(rng, ["row", "col"]) : "col", align: 32 },
    d: { dtype: dtypes[dtype].out, align: 16 },
  };
  const problem = defineProblem(request);
  if (!problem.ok) throw new TypeError(JSON.stringify(problem.error));
  return problem.value;
}

/** A legal schedule: fields at random until none is wrong. */
function scheduleAt(rng: Random, problem: Problem, target: Target): Schedule | null {
  const chunk = 128 / sizeOf(problem.a.dtype);
  for (let tries = 0; tries < 200; tries++) {
    const cta = pick(rng, [1, 2]);
    const swap = pick(rng, ["off", "off", "on"]);
    const [inLanes, across] = [64 * pick(rng, [1, 2, 2, 4]) * cta, 16 * rng.integer(1, 16)];
    const schedule: Schedule = {
      ...defaultSchedule(tcgen05.schedule),
      tile: [...(swap === "on" ? [across, inLanes] : [inLanes, across]), chunk * pick(rng, [1, 1, 2])],
      cta,
      swap,
      cluster: pick(rng, [
        [1, 1],
        [1, 1],
        [2, 1],
        [1, 2],
      ]),
      stages: rng.integer(1, 7),
      swizzle: pick(rng, ["128B", "128B", "64B", "32B"]),
      acc: rng.integer(1, 2),
      sched: pick(rng, ["tiles", "persistent", "atomic", "clc"]),
      ahead: rng.integer(1, 3),
      raster: pick(rng, ["row", "col", "grouped:4", "snake:2", "hilbert"]),
      load: pick(rng, [1, 8, 16, 32, 64]),
      early: pick(rng, ["on", "off"]),
      epi: pick(rng, ["tma", "tma", "direct"]),
      staging: rng.integer(1, 3),
      store: pick(rng, [1, 2, 4, 8]),
      guards: pick(rng, ["on", "off"]),
    };
    const text = scheduleCodec.print(tcgen05.schedule, schedule);
    const parsed = scheduleCodec.parse(tcgen05.schedule, text);
    if (parsed.ok && tcgen05.check(problem, parsed.value, target).length === 0) return parsed.value;
  }
  return null;
}

describe.each(Array.from({ length: COUNT }, (_, seed) => seed))("seed %i", (seed) => {
  const rng = createRandom(1000 + seed);
  const problem = problemAt(rng);
  it.each(targets)("$arch", (target) => {
    if (!tcgen05.accepts(problem, target).ok) return;
    const schedule = scheduleAt(rng, problem, target);
    if (schedule === null) throw new RangeError("no legal schedule in 200 tries");
    const name = scheduleCodec.print(tcgen05.schedule, schedule);
    const bound = runPasses(tcgen05.tile(problem, schedule, target), target, tcgen05.passes);
    if (!bound.ok) throw new TypeError(`${name}: ${JSON.stringify(bound.error)}`);
    expect(proveProtocol(bound.value, target), name).toEqual([]);
    const plan = protocolPlan(bound.value);
    const lowered = tcgen05.lower(bound.value, target);
    if (plan === null || !lowered.ok) throw new TypeError(`${name}: not lowered`);
    expect(textWords(lowered.value.ptx), name).toEqual(planWords(plan));
    if (hasPtxas) expect(assemble(lowered.value.ptx, target.arch).faults, name).toEqual([]);
  });
});
