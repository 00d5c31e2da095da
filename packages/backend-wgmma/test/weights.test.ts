/** Weights in few bits through registers: float64, the interpreter, ptxas and the emulator agree, whatever the schedule, the group and the dtype. */
import { checkOnEmulator, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { createCompiler } from "@tilewright/ir";
import { expect, test } from "vitest";
import { wgmma } from "../src/index.ts";

const cases = [
  // Rows and columns that the tile leaves over; groups smaller than a chunk, and larger.
  ["bf16", [20, 80, 384], { group: 32, zeros: true }, "tile=16x64x64 warpgroups=1x1 stages=3"],
  ["f16", [20, 128, 256], { group: 128, zeros: true }, "tile=32x128x64 warpgroups=1x2 stages=4"],
  [
    "bf16",
    [9, 80, 384],
    { group: 128 },
    "tile=16x128x128 warpgroups=1x1 stages=3 split=2 reduction=cluster sched=tiles epi=direct",
  ],
  [
    "bf16",
    [16, 64, 256],
    { group: 64 },
    "tile=16x64x64 warpgroups=1x1 stages=3 sched=tiles epi=direct peel=off",
  ],
  ["f16", [70, 128, 256], { group: 64, zeros: true }, "tile=64x64x128 warpgroups=1x1 pingPong=2 stages=3"],
  ["bf16", [20, 80, 256], { dtype: "e2m1", group: 16 }, "tile=16x64x64 warpgroups=1x1 stages=3"],
  [
    "f16",
    [9, 64, 384],
    { dtype: "e2m1", group: 128 },
    "tile=16x64x128 warpgroups=1x1 delayedRelease=on stages=3",
  ],
  ["bf16", [20, 80, 384], { dtype: "s8", group: 32, zeros: true }, "tile=16x64x64 warpgroups=1x1 stages=3"],
  [
    "f16",
    [9, 80, 768],
    { dtype: "s8", group: 64 },
    "tile=16x64x256 warpgroups=1x1 stages=2 delayedRelease=on split=2 reduction=cluster sched=tiles epi=direct",
  ],
  [
    "f16",
    [70, 128, 256],
    { dtype: "s8", group: 128, zeros: true },
    "tile=64x64x64 warpgroups=1x1 pingPong=2 stages=4",
  ],
  [
    "bf16",
    [9, 64, 512],
    { dtype: "e4m3", group: 32 },
    "tile=16x64x128 warpgroups=1x1 stages=4 delayedRelease=on sched=tiles epi=direct",
  ],
  ["f16", [20, 128, 384], { dtype: "e4m3", group: 128 }, "tile=32x128x128 warpgroups=1x2 stages=3"],
  // Parts in two sets of registers by turns; of one chunk, and of several.
  [
    "bf16",
    [9, 64, 512],
    { group: 32, zeros: true },
    "tile=16x64x128 warpgroups=1x1 stages=4 delayedRelease=on sched=tiles epi=direct",
  ],
  ["f16", [20, 128, 640], { group: 128 }, "tile=32x128x128 warpgroups=1x2 stages=4 delayedRelease=on"],
  [
    "bf16",
    [9, 80, 768],
    { group: 64 },
    "tile=16x64x256 warpgroups=1x1 stages=3 delayedRelease=on split=2 reduction=cluster sched=tiles epi=direct",
  ],
  [
    "bf16",
    [4, 64, 128],
    { group: 128 },
    "tile=8x64x128 warpgroups=1x1 stages=4 delayedRelease=on sched=tiles epi=direct",
  ],
  // Blocks along n share A.
  [
    "bf16",
    [30, 144, 512],
    { dtype: "e4m3", group: 128 },
    "tile=32x64x128 warpgroups=1x1 stages=3 delayedRelease=on cluster=1x2 multicast=a sched=tiles",
  ],
] as const;

test.each(cases)("%s, %o, %o, %s", async (dtype, [m, n, k], weights, schedule) => {
  const problem = problemOf({ m, n, k, dtype, weights });
  expect(await checkOnEmulator(wgmma, "sm_90a", problem, `swapAB=on ${schedule}`, m)).toEqual([]);
});

/** Of a batch each problem has weights of its own, one behind the other, or all share them. */
const batches = [
  [{ dtype: "s4", group: 32, zeros: true }, {}, "tile=16x64x128 warpgroups=1x1 stages=3 delayedRelease=on"],
  [{ dtype: "s8", group: 64 }, {}, "tile=16x64x64 warpgroups=1x1 stages=2 sched=tiles epi=direct"],
  [
    { dtype: "e2m1", group: 32 },
    { strideB: 0 },
    "tile=16x64x64 warpgroups=1x1 stages=3 split=2 reduction=cluster sched=tiles epi=direct",
  ],
  [{ dtype: "s4", group: 128 }, {}, "tile=16x256x128 warpgroups=1x4 stages=3 sched=tiles"],
] as const;

test.each(batches)("%o, a batch %o, %s", async (weights, strides, schedule) => {
  const batch = { kind: "strided", count: 3, ...strides };
  const problem = problemOf({ m: 20, n: 80, k: 256, dtype: "bf16", weights, batch });
  expect(await checkOnEmulator(wgmma, "sm_90a", problem, `swapAB=on ${schedule}`, 5)).toEqual([]);
});

/** Of a gated product, whose warpgroups have 64 columns of the gate and as many of the up projection, or more. */
const gated = [
  ["bf16", [20, 80, 384], { group: 32, zeros: true }, {}, "tile=24x128x64 warpgroups=1x1 stages=3"],
  ["f16", [20, 144, 256], { group: 128, zeros: true }, {}, "tile=32x256x64 warpgroups=1x2 stages=3"],
  [
    "bf16",
    [9, 128, 512],
    { dtype: "s8", group: 64 },
    {},
    "tile=16x256x128 warpgroups=1x1 stages=2 sched=tiles epi=direct",
  ],
  [
    "f16",
    [70, 64, 256],
    { dtype: "e2m1", group: 16 },
    {},
    "tile=64x128x64 warpgroups=1x1 pingPong=2 stages=3",
  ],
  // Parts in two sets of registers by turns, blocks along n that share A, a batch, experts.
  [
    "bf16",
    [30, 144, 512],
    { dtype: "e4m3", group: 128 },
    {},
    "tile=32x128x128 warpgroups=1x1 stages=3 delayedRelease=on cluster=1x2 multicast=a sched=tiles",
  ],
  [
    "bf16",
    [20, 80, 256],
    { group: 32, zeros: true },
    { batch: { kind: "strided", count: 3 } },
    "tile=16x128x128 warpgroups=1x1 stages=3 delayedRelease=on",
  ],
] as const;

/** Both sums of a column in the slices that blocks of a cluster exchange: of rows, of all of them, and of three blocks. */
const split = [
  ["tile=8x256x128 warpgroups=1x2 stages=3 split=2", 13, {}],
  ["tile=16x512x64 warpgroups=1x4 stages=3 split=4", 16, { epilogue: "gelu(acc + b[n]) * up + r[m,n]:bf16" }],
  ["tile=32x128x128 warpgroups=1x1 stages=3 split=3 delayedRelease=on epi=direct", 30, {}],
] as const;

test.each(split)("gated, shared by blocks: %s, m %i, %o", async (schedule, m, more) => {
  const weights = { group: 64, zeros: true };
  const problem = problemOf({
    ...{ m, n: 144, k: 768, dtype: "bf16", weights, gated: "halves", epilogue: "silu(acc) * up" },
    ...more,
  });
  const text = `swapAB=on sched=tiles reduction=cluster ${schedule}`;
  expect(await checkOnEmulator(wgmma, "sm_90a", problem, text, m)).toEqual([]);
});

test("blocks that share a gated tile meet in a cluster alone", () => {
  const request = {
    m: 16,
    n: 64,
    k: 2048,
    weights: { group: 128 },
    gated: "halves",
    epilogue: "silu(acc) * up",
  } as const;
  const by = (reduction: string) =>
    refused(
      request,
      `tile=16x128x128 warpgroups=1x1 stages=3 swapAB=on sched=tiles epi=direct split=2 reduction=${reduction}`,
    );
  expect(by("cluster")).toEqual([]);
  expect(by("last")).toContain("TW1907");
});

test.each(gated)("gated: %s, %o, %o, %o, %s", async (dtype, [m, n, k], weights, more, schedule) => {
  const epilogue = "silu(acc + b[n]) * up";
  const problem = problemOf({ m, n, k, dtype, weights, gated: "halves", epilogue, ...more });
  expect(await checkOnEmulator(wgmma, "sm_90a", problem, `swapAB=on ${schedule}`, m)).toEqual([]);
});

/** Instructions side by side in a warp: two, four and eight, beside each other and twice; and all columns of them at once on their way through shared memory. */
const quantised = [
  ["tile=32x256x64 warpgroups=1x2 stages=2", 20, "mxf8", "quantize(32,u8)", {}],
  ["tile=16x256x128 warpgroups=1x1 stages=2 delayedRelease=on sched=tiles", 37, "s8", "quantize(32,f32)", {}],
  ["tile=16x256x64 warpgroups=1x1 stages=2 sched=tiles epi=direct", 9, "e4m3", "quantize(64,f32)", {}],
  ["tile=8x512x64 warpgroups=1x1 stages=2 regs=24/240", 11, "e5m2", "quantize(128,f32)", {}],
  ["tile=16x512x64 warpgroups=1x1 stages=2", 16, "mxf8e5m2", "quantize(32,u8)", { gated: "halves" }],
] as const;

test.each(quantised)("quantised: %s, m %i, %s by %s, %o", async (schedule, m, d, step, more) => {
  const problem = problemOf({
    ...{ m, n: 640, k: 256, dtype: "bf16", weights: { group: 64 }, d: { dtype: d }, ...more },
    epilogue: `${"gated" in more ? "silu(acc) * up" : "acc + b[n]"} | ${step}`,
  });
  expect(await checkOnEmulator(wgmma, "sm_90a", problem, `swapAB=on ${schedule}`, m)).toEqual([]);
});

test("groups of columns of more than a warp has are refused", () => {
  const request = { m: 16, n: 512, k: 256, weights: { group: 64 }, d: { dtype: "e4m3" } } as const;
  const by = (group: number, tile: string) =>
    refused({ ...request, epilogue: `quantize(${group},f32)` }, `tile=${tile} swapAB=on sched=tiles`);
  expect(by(16, "16x64x64 warpgroups=1x1")).toEqual([]);
  expect(by(32, "16x64x64 warpgroups=1x1")).toContain("TW1909");
  expect(by(32, "16x128x64 warpgroups=1x2")).toContain("TW1909");
  expect(by(64, "16x256x64 warpgroups=1x1")).toEqual([]);
});

/** What a schedule, or a problem, is refused with. */
const refused = (request: Parameters<typeof problemOf>[0], schedule: string) => {
  const given = {
    problem: problemOf(request),
    target: targetOf("sm_90a"),
    schedule: scheduleOf(wgmma, schedule),
  };
  const made = createCompiler({ backends: [wgmma] }).compile(given);
  return made.ok ? [] : made.error.map(({ code }) => code);
};

test("schedules that weights do not go through are refused", () => {
  const request = { m: 16, n: 64, k: 512, weights: { group: 128 } };
  const usual = "warpgroups=1x1 stages=2 sched=tiles epi=direct";
  const swapped = `swapAB=on ${usual}`;
  expect(refused(request, `tile=16x64x192 ${swapped}`)).toContain("TW2360");
  expect(refused(request, `tile=64x64x64 ${usual}`)).toContain("TW2361");
  expect(refused(request, `tile=16x64x64 cluster=2x1 ${swapped}`)).toContain("TW2362");
  expect(refused(request, `tile=16x64x64 delayedRelease=on ${swapped}`)).toContain("TW2362");
  expect(refused(request, `tile=16x64x128 delayedRelease=on peel=off ${swapped}`)).toContain("TW2362");
  expect(refused(request, `tile=16x64x64 ${swapped}`)).toEqual([]);
  expect(refused({ ...request, a: { ld: 515 } }, `tile=16x64x64 ${swapped}`)).toContain("TW1829");
});

test("every first schedule is legal", () => {
  for (const [m, k] of [
    [1, 1024],
    [16, 1024],
    [100, 1024],
    [600, 1024],
    [20, 192],
  ] as const) {
    const made = createCompiler({ backends: [wgmma] }).compile({
      problem: problemOf({ m, n: 256, k, weights: { zeros: true, group: 64 } }),
      target: targetOf("sm_90a"),
    });
    expect(made.ok).toBe(true);
  }
});
