/** Weights in few bits: float64, the interpreter, ptxas and the emulator agree, whatever the schedule, the group and the dtype. */
import { checkOnEmulator, problemOf, scheduleOf, targetOf } from "@tilewright/conformance";
import { createCompiler } from "@tilewright/ir";
import { expect, test } from "vitest";
import { mma } from "../src/index.ts";

const usual = "frag=1 copy=cp.async";

const cases = [
  // Rows and columns that the tile leaves over; groups smaller than a chunk.
  ["sm_80", "bf16", [37, 80, 384], { group: 32, zeros: true }, `tile=32x64x128 warp=16x32 stages=3 ${usual}`],
  [
    "sm_80",
    "f16",
    [5, 48, 256],
    { group: 128, zeros: true },
    `tile=16x32x128 warp=16x16 stages=2 split=2 ${usual}`,
  ],
  [
    "sm_80",
    "bf16",
    [16, 32, 192],
    { group: 64 },
    "tile=16x32x64 warp=16x16 stages=2 frag=1 copy=direct registerPrefetch=on",
  ],
  [
    "sm_80",
    "f16",
    [33, 64, 320],
    { group: 64 },
    `tile=32x64x64 warp=32x32 stages=3 drain=2 epi=smem ${usual}`,
  ],
  [
    "sm_90",
    "bf16",
    [20, 80, 256],
    { group: 64, zeros: true },
    "tile=32x64x64 warp=16x32 stages=3 frag=1 copy=tma",
  ],
  [
    "sm_80",
    "bf16",
    [20, 48, 192],
    { dtype: "e2m1", group: 32 },
    `tile=32x48x64 warp=16x16 stages=2 ${usual}`,
  ],
  ["sm_80", "f16", [9, 32, 256], { dtype: "e2m1", group: 16 }, `tile=16x32x128 warp=16x16 stages=2 ${usual}`],
  [
    "sm_80",
    "bf16",
    [37, 80, 384],
    { dtype: "s8", group: 32, zeros: true },
    `tile=32x64x128 warp=16x32 stages=3 ${usual}`,
  ],
  ["sm_80", "f16", [9, 32, 256], { dtype: "s8", group: 64 }, `tile=16x32x64 warp=16x16 stages=2 ${usual}`],
  [
    "sm_90",
    "f16",
    [20, 80, 256],
    { dtype: "s8", group: 64, zeros: true },
    "tile=32x64x64 warp=16x32 stages=3 frag=1 copy=tma",
  ],
  [
    "sm_90",
    "bf16",
    [16, 32, 512],
    { dtype: "s8", group: 128 },
    "tile=16x32x256 warp=16x16 stages=2 frag=1 copy=tma",
  ],
  [
    "sm_80",
    "bf16",
    [20, 48, 192],
    { dtype: "e4m3", group: 32 },
    "tile=32x48x64 warp=16x16 stages=2 frag=1 copy=direct registerPrefetch=on",
  ],
  [
    "sm_90",
    "f16",
    [40, 64, 512],
    { dtype: "e4m3", group: 128 },
    "tile=32x32x128 warp=16x16 stages=3 frag=1 copy=tma sched=persistent",
  ],
  // Persistent CTAs; chunks whose words come in several boxes.
  [
    "sm_90",
    "bf16",
    [40, 64, 512],
    { group: 128 },
    "tile=32x32x128 warp=16x16 stages=3 frag=1 copy=tma sched=persistent",
  ],
  ["sm_90", "f16", [16, 32, 512], { group: 128 }, "tile=16x32x256 warp=16x16 stages=2 frag=1 copy=tma"],
  [
    "sm_90",
    "f16",
    [9, 64, 384],
    { group: 128 },
    `tile=16x64x128 warp=16x32 stages=2 split=3 reduction=cluster ${usual}`,
  ],
] as const;

test.each(cases)("%s, %s, %o, %o, %s", async (arch, dtype, [m, n, k], weights, schedule) => {
  const problem = problemOf({ m, n, k, dtype, weights });
  expect(await checkOnEmulator(mma, arch, problem, schedule, m)).toEqual([]);
});

/** Of a gated product, whose tiles have codes of both factors. */
const gated = [
  ["sm_80", "bf16", [37, 80, 384], { group: 32, zeros: true }, `tile=32x64x128 warp=16x32 stages=3 ${usual}`],
  // One warp along n, so that its columns are registers'.
  [
    "sm_80",
    "f16",
    [20, 48, 256],
    { dtype: "s8", group: 64, zeros: true },
    `tile=32x64x64 warp=16x64 stages=2 ${usual}`,
  ],
  [
    "sm_80",
    "bf16",
    [16, 32, 192],
    { dtype: "e2m1", group: 64 },
    "tile=16x64x64 warp=16x32 stages=2 frag=1 copy=direct registerPrefetch=on",
  ],
  [
    "sm_90",
    "f16",
    [40, 80, 512],
    { dtype: "e4m3", group: 128 },
    "tile=32x128x128 warp=16x64 stages=3 frag=1 copy=tma sched=persistent",
  ],
  [
    "sm_90",
    "bf16",
    [16, 96, 512],
    { group: 32, zeros: true },
    "tile=16x128x256 warp=16x32 stages=2 frag=1 copy=tma",
  ],
] as const;

test.each(gated)("gated: %s, %s, %o, %o, %s", async (arch, dtype, [m, n, k], weights, schedule) => {
  const epilogue = "silu(acc + b[n]) * up";
  const problem = problemOf({ m, n, k, dtype, weights, gated: "halves", epilogue });
  expect(await checkOnEmulator(mma, arch, problem, schedule, m)).toEqual([]);
});

test("m may come with the launch", async () => {
  const problem = problemOf({ m: 20, n: 32, k: 128, weights: {}, symbolic: { m: {} } });
  const schedule = `tile=16x32x128 warp=16x16 stages=2 ${usual}`;
  expect(await checkOnEmulator(mma, "sm_80", problem, schedule, 2)).toEqual([]);
});

/** What a schedule, or a problem, is refused with. */
const refused = (request: Parameters<typeof problemOf>[0], schedule: string, arch = "sm_80") => {
  const given = { problem: problemOf(request), target: targetOf(arch), schedule: scheduleOf(mma, schedule) };
  const made = createCompiler({ backends: [mma] }).compile(given);
  return made.ok ? [] : made.error.map(({ code }) => code);
};

test("schedules that cut blocks or groups of weights are refused", () => {
  const request = { m: 16, n: 64, k: 256, weights: { group: 128 } };
  expect(refused(request, `tile=16x32x64 warp=16x16 stages=2 ${usual}`)).toContain("TW2228");
  expect(refused(request, `tile=16x32x128 warp=16x8 stages=2 ${usual}`)).toContain("TW2229");
  expect(refused(request, "tile=16x32x128 warp=16x16 stages=2 frag=2 copy=cp.async")).toContain("TW2230");
  expect(refused(request, `tile=16x32x128 warp=16x16 stages=2 ${usual}`)).toEqual([]);
  // A warp with one block of columns has no two halves of a tile.
  const gated = { ...request, gated: "halves", epilogue: "silu(acc) * up" } as const;
  expect(refused(gated, `tile=16x32x128 warp=16x16 stages=2 ${usual}`)).toContain("TW1907");
  expect(refused(gated, `tile=16x64x128 warp=16x32 stages=2 split=2 ${usual}`)).toContain("TW1907");
  // Blocks of a cluster would have slices of a tile's columns, and the sums of a pair lie in two.
  const slices = `tile=16x64x128 warp=16x32 stages=2 split=2 reduction=cluster ${usual}`;
  expect(refused(request, slices, "sm_90")).toEqual([]);
  expect(refused(gated, slices, "sm_90")).toContain("TW1907");
});

test("targets without the instruction are refused", () => {
  const request = { m: 16, n: 64, k: 256, dtype: "f16", weights: {} } as const;
  const schedule = "tile=16x32x128 warp=16x16 stages=2 frag=1 copy=direct";
  expect(refused(request, schedule, "sm_75")).toContain("TW1819");
});

/** Of a batch each problem has weights of its own, one behind the other, or all share them. */
const batches = [
  ["sm_80", { dtype: "s4", group: 32, zeros: true }, {}, {}, `tile=16x32x64 warp=16x16 stages=2 ${usual}`],
  ["sm_80", { dtype: "s8", group: 64 }, {}, {}, "tile=16x32x64 warp=16x16 stages=2 frag=1 copy=direct"],
  ["sm_80", { dtype: "e2m1", group: 32 }, { strideB: 0 }, {}, `tile=16x32x64 warp=16x16 stages=2 ${usual}`],
  [
    "sm_90",
    { dtype: "s4", group: 32, zeros: true },
    {},
    { symbolic: { m: {} } },
    "tile=16x32x64 warp=16x16 stages=3 frag=1 copy=tma sched=tiles",
  ],
  [
    "sm_90",
    { dtype: "s8", group: 32 },
    {},
    {},
    "tile=16x32x64 warp=16x16 stages=3 frag=1 copy=tma sched=persistent",
  ],
  [
    "sm_90",
    { dtype: "e4m3", group: 64 },
    { strideB: 0 },
    {},
    "tile=16x32x128 warp=16x16 stages=2 split=2 reduction=cluster frag=1 copy=tma",
  ],
] as const;

test.each(batches)("%s, %o, a batch %o, %o, %s", async (arch, weights, strides, more, schedule) => {
  const batch = { kind: "strided", count: 3, ...strides };
  const problem = problemOf({ m: 20, n: 48, k: 256, dtype: "bf16", weights, batch, ...more });
  expect(await checkOnEmulator(mma, arch, problem, schedule, 5)).toEqual([]);
});
