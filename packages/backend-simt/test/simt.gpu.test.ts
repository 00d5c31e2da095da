/** The kernels on a real GPU: right against float64, and the same bits as the emulator. Skipped where there is no GPU. */
import { attentionOnGpu, conformanceOnGpu } from "@tilewright/conformance";
import { createRandom, type Problem, printProblem, type Schedule, type Target } from "@tilewright/core";
import { printSchedule } from "@tilewright/ir";
import { type Device, describeCuda, type GemmResult, openDevice, runGemm } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { simt } from "../src/backend.ts";
import { build, scheduleOf } from "./support/build.ts";
import { problemOf, randomCase, targetOf } from "./support/cases.ts";
import { attentionOptions, optionsFor } from "./support/conformance.ts";
import { type CaseData, caseData, judge } from "./support/data.ts";

const hasGpu = (await describeCuda()).devices.length > 0;

/** Elements of D up to which every one is compared with float64; beyond, whole rows are sampled. */
const FULL_CHECK = 1200 * 1200;
const SAMPLED_ROWS = 64;

const shapes: readonly (readonly [number, number, number])[] = [
  [1, 1, 1],
  [1, 4096, 4096],
  [4096, 1, 4096],
  [17, 31, 63],
  [64, 64, 64],
  [127, 129, 128],
  [255, 257, 256],
  [256, 256, 256],
  [300, 200, 77],
  [512, 512, 512],
  [513, 511, 509],
  [640, 384, 1000],
  [1000, 1000, 1000],
  [1024, 1024, 1024],
  [1023, 1025, 1027],
  [64, 4096, 2048],
  [4096, 64, 2048],
  [1500, 1700, 900],
  [2048, 2048, 2048],
  [2047, 2049, 333],
  [3000, 3000, 100],
  [257, 4096, 1024],
  [4096, 4096, 64],
  [4095, 4093, 1021],
  [4096, 4096, 4096],
];

const bytesOf = (data: Float32Array): Uint8Array =>
  new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

function run(
  device: Device,
  problem: Problem,
  schedule: Schedule,
  target: Target,
  data: CaseData,
): GemmResult {
  const { kernel } = build(problem, schedule, target);
  const result = runGemm(
    device,
    { ptx: kernel.ptx, manifest: { request: problem, kernels: [kernel.kernel] } },
    { a: bytesOf(data.a), b: bytesOf(data.b), c: data.c && bytesOf(data.c) },
    { alpha: data.alpha, beta: data.beta },
  );
  if (!result.ok) throw new Error(result.error.map((d) => d.message).join("\n"));
  return result.value;
}

const floats = (bytes: Uint8Array): Float32Array =>
  new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));

describe.skipIf(!hasGpu)("on a GPU", () => {
  const opened: Device[] = [];
  let gpu: Device;
  let emulator: Device;
  beforeAll(async () => {
    for (const kind of ["cuda", "emulator"] as const) {
      const device = await openDevice({ kind, arch: "sm_80" });
      if (!device.ok) throw new Error(device.error.map((d) => d.message).join("\n"));
      opened.push(device.value);
    }
    const [first, second] = opened;
    if (!first || !second) throw new Error("two devices");
    [gpu, emulator] = [first, second];
  });
  afterAll(() => {
    for (const device of opened) device.close();
  });

  test.each(shapes)("%i x %i x %i by the default schedule is right", (m, n, k) => {
    const problem = problemOf({ m, n, k, dtype: "f32" });
    const target = targetOf("sm_70");
    const [schedule] = simt.schedules(problem, target);
    if (!schedule) throw new Error("there is always a schedule");
    const random = createRandom(m + n + k);
    const rows =
      m * n <= FULL_CHECK
        ? undefined
        : [...new Set(Array.from({ length: SAMPLED_ROWS }, () => random.integer(0, m - 1)))].sort(
            (a, b) => a - b,
          );
    const data = caseData(problem, { kind: "normal" }, m, rows);
    const verdict = judge(problem, data, floats(run(gpu, problem, schedule, target, data).d));
    expect(verdict.failures).toBe(0);
    expect(verdict.boundRatio).toBeLessThanOrEqual(1);
  });

  const seeds = Array.from({ length: 60 }, (_, i) => i);
  test.each(seeds)("random case %i has the emulator's bits", (seed) => {
    const { problem, schedule, target } = randomCase(seed, seed % 2 ? "sm_80" : "sm_70");
    const data = caseData(problem, { kind: "normal" }, seed);
    const seen = run(gpu, problem, schedule, target, data);
    const wanted = run(emulator, problem, schedule, target, data);
    const where = `${printProblem(problem)}\n${printSchedule(simt.schedule, schedule)}`;
    expect(wanted.findings, where).toEqual([]);
    const same = differing(problem, floats(seen.d), floats(wanted.d));
    expect(same, where).toBe(0);
  });

  test("the defaults have the emulator's bits at 512", () => {
    const problem = problemOf({ m: 512, n: 512, k: 512, dtype: "f32" });
    const data = caseData(problem, { kind: "normal" }, 1);
    for (const [text, arch] of [
      ["", "sm_70"],
      ["copy=cp.async registerPrefetch=off stages=4", "sm_80"],
    ] as const) {
      const [schedule, target] = [scheduleOf(text), targetOf(arch)];
      const seen = run(gpu, problem, schedule, target, data);
      const wanted = run(emulator, problem, schedule, target, data);
      expect(differing(problem, floats(seen.d), floats(wanted.d))).toBe(0);
    }
  });
});

/** Elements of D, gaps of the leading dimension left out, whose bits differ. */
function differing(problem: Problem, x: Float32Array, y: Float32Array): number {
  const [p, q] = [new Uint32Array(x.buffer), new Uint32Array(y.buffer)];
  const { layout, ld } = problem.d;
  let count = 0;
  for (let i = 0; i < problem.m; i++)
    for (let j = 0; j < problem.n; j++) {
      const at = layout === "row" ? i * ld + j : j * ld + i;
      if (p[at] !== q[at]) count++;
    }
  return count;
}

// The conformance table: sizes, layouts, epilogues, batches, groups, splits.
await conformanceOnGpu(simt, optionsFor("sm_80", 1000, 1));
await attentionOnGpu(simt, { ...attentionOptions, arch: "sm_80" });
