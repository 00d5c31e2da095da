/** Every form of kernel that this backend makes, on the tile interpreter, on the emulator in three orders, and through ptxas. */
import { formatDiagnostic } from "@tilewright/core";
import { type Device, openDevice } from "@tilewright/runtime";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { check } from "./support/cases.ts";

const kinds = [
  [
    "one slot, nothing else",
    "tile=128x64x64 ctaGroup=1 stages=1 sched=tiles accumulators=1 epi=direct",
    { m: 100, n: 70, k: 72 },
  ],
  [
    "chunks of two panels",
    "tile=128x64x128 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { m: 100, n: 72, k: 200 },
  ],
  [
    "late release, guards everywhere, narrow loads and stores",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 earlyAccumulatorRelease=off guards=off storeElements=1 loadColumns=16",
    { m: 136, n: 72, k: 72 },
  ],
  [
    "persistent, two accumulators",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=persistent accumulators=2 epi=direct",
    { m: 520, n: 72, k: 136 },
  ],
  [
    "launch control",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=clc accumulators=2",
    { m: 520, n: 72, k: 136 },
  ],
  [
    "persistent, D through four slots",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=persistent accumulators=1 loadColumns=16 storeStages=4 earlyAccumulatorRelease=off",
    { m: 520, n: 72, k: 72 },
  ],
  [
    "pair",
    "tile=256x64x64 ctaGroup=2 stages=2 sched=tiles accumulators=1 epi=direct",
    { m: 300, n: 72, k: 136 },
  ],
  [
    "pair, persistent",
    "tile=256x64x64 ctaGroup=2 stages=3 sched=persistent accumulators=2",
    { m: 520, n: 72, k: 136 },
  ],
  [
    "pair, launch control",
    "tile=256x64x64 ctaGroup=2 stages=3 sched=clc accumulators=2",
    { m: 520, n: 72, k: 136 },
  ],
  [
    "counter",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=atomic accumulators=2 schedulerStages=1",
    { m: 520, n: 72, k: 136 },
  ],
  [
    "pairs that share B, counter",
    "tile=256x64x64 ctaGroup=2 stages=2 sched=atomic accumulators=2 cluster=2x1",
    { m: 1100, n: 72, k: 72 },
  ],
  [
    "B shared along m",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 cluster=2x1",
    { m: 300, n: 72, k: 136 },
  ],
  [
    "A and B shared, launch control",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=clc accumulators=2 cluster=2x2",
    { m: 300, n: 200, k: 136 },
  ],
  [
    "pairs that share A",
    "tile=256x64x64 ctaGroup=2 stages=2 sched=tiles accumulators=1 cluster=1x2",
    { m: 300, n: 136, k: 72 },
  ],
  [
    "pairs that share B, persistent",
    "tile=256x64x64 ctaGroup=2 stages=2 sched=persistent accumulators=2 cluster=2x1",
    { m: 700, n: 72, k: 72 },
  ],
  [
    "two accumulators that share columns",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=persistent accumulators=2 overlappedColumns=32 loadColumns=16 epi=direct",
    { m: 520, n: 70, k: 72 },
  ],
  [
    "pairs whose accumulators share columns, launch control, late release",
    "tile=256x64x64 ctaGroup=2 stages=2 sched=clc accumulators=2 overlappedColumns=16 loadColumns=16 earlyAccumulatorRelease=off",
    { m: 1100, n: 72, k: 72 },
  ],
  [
    "64 rows whose accumulators share columns, beside the grid before",
    "tile=64x64x64 ctaGroup=1 stages=2 sched=atomic accumulators=2 overlappedColumns=48 loadColumns=16 pdl=on",
    { m: 300, n: 72, k: 72 },
  ],
  [
    "pair, more stages than chunks",
    "tile=256x64x64 ctaGroup=2 stages=4 sched=clc accumulators=1 schedulerStages=1",
    { m: 520, n: 72, k: 64 },
  ],
] as const;

const shared = [
  [
    "three blocks, one of which has a chunk of nothing",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 epi=direct split=3",
    { m: 136, n: 72, k: 328 },
  ],
  [
    "stores wider than a part of D on its way through shared memory",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 epi=tma storeStages=2 split=2 loadColumns=8 storeElements=8",
    { m: 136, n: 72, k: 328 },
  ],
  [
    "pairs, C, bias and activation",
    "tile=256x64x64 ctaGroup=2 stages=2 sched=tiles accumulators=1 epi=direct split=2 earlyAccumulatorRelease=off",
    {
      m: 300,
      n: 72,
      k: 200,
      beta: 0.5,
      c: { dtype: "f16" },
      epilogue: [
        { kind: "bias", along: "n", dtype: "f32" },
        { kind: "activation", fn: "relu" },
      ],
    },
  ],
  [
    "atomics of pairs in s32",
    "tile=256x32x64 ctaGroup=2 stages=2 sched=tiles accumulators=1 epi=direct split=2 reduction=atomics",
    { m: 200, n: 40, k: 112, dtype: "s8" },
  ],
  [
    "a second kernel, 64 rows",
    "tile=64x48x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 epi=direct split=2 reduction=kernel loadColumns=16",
    { m: 72, n: 72, k: 200 },
  ],
  [
    "a second kernel, pairs that share A",
    "tile=256x64x64 ctaGroup=2 cluster=1x2 stages=2 sched=tiles accumulators=1 epi=direct split=2 reduction=kernel",
    { m: 200, n: 72, k: 72 },
  ],
  [
    "clusters of a batch",
    "tile=64x32x64 ctaGroup=1 cluster=2x1 stages=2 sched=tiles accumulators=1 epi=direct split=2",
    { m: 72, n: 40, k: 72, batch: { kind: "strided", count: 2 } },
  ],
  [
    "D of contiguous columns, stored one column at a time",
    "tile=256x48x128 ctaGroup=1 stages=3 sched=persistent accumulators=2 loadColumns=1 epi=tma storeStages=3",
    {
      m: 300,
      n: 47,
      k: 16,
      dtype: "s8",
      d: { dtype: "s32", layout: "col", ld: 304 },
    },
  ],
  [
    "columns in the lanes of a pair",
    "tile=32x128x64 ctaGroup=2 swapAB=on stages=2 sched=tiles accumulators=1 epi=direct split=2 loadColumns=16",
    { m: 40, n: 136, k: 136 },
  ],
  [
    "shares of persistent CTAs, and whole tiles behind them, D through shared memory",
    "tile=128x32x64 ctaGroup=1 stages=2 sched=persistent accumulators=2 loadColumns=16 streamk=3",
    { m: 500, n: 40, k: 200 },
  ],
  [
    "shares of pairs, C, bias and activation, late release",
    "tile=256x32x64 ctaGroup=2 stages=3 sched=persistent accumulators=1 earlyAccumulatorRelease=off epi=direct streamk=2",
    {
      m: 600,
      n: 24,
      k: 200,
      beta: 0.5,
      c: { dtype: "f16" },
      epilogue: [
        { kind: "bias", along: "n", dtype: "f32" },
        { kind: "activation", fn: "relu" },
      ],
    },
  ],
  [
    "shares of a batch added by atomics, more of them than tiles",
    "tile=64x32x64 ctaGroup=1 stages=2 sched=persistent accumulators=3 epi=direct streamk=5 reduction=atomics",
    { m: 72, n: 40, k: 272, dtype: "s8", batch: { kind: "strided", count: 2 } },
  ],
  [
    "shares with scale factors",
    "tile=256x128x64 ctaGroup=2 stages=2 sched=persistent accumulators=2 epi=direct streamk=2",
    { m: 300, n: 40, k: 352, dtype: "nvf4" },
  ],
  [
    "scale factors",
    "tile=128x128x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 epi=direct split=2",
    { m: 72, n: 40, k: 160, dtype: "nvf4" },
  ],
] as const;

const forms = [
  [
    "one element, whose strides leave open what is contiguous: columns in lanes, of words",
    "tile=16x128x32 ctaGroup=2 swapAB=on stages=1 accumulators=2 loadColumns=16 epi=direct",
    { m: 1, n: 1, k: 1, dtype: "tf32", a: { ld: 1, align: 16 }, b: { ld: 1, align: 16 } },
  ],
  [
    "one element, shared by the blocks of a cluster",
    "tile=256x16x64 ctaGroup=2 cluster=2x2 stages=4 sched=atomic loadColumns=1 epi=direct",
    { m: 1, n: 1, k: 1, a: { ld: 1, align: 16 }, b: { layout: "row", ld: 1, align: 16 } },
  ],
  [
    "64 rows: fragments of 16 lanes",
    "tile=64x40x64 ctaGroup=1 stages=2 sched=persistent accumulators=2 loadColumns=8",
    { m: 136, n: 72, k: 72 },
  ],
  [
    "64 rows, straight to memory",
    "tile=64x64x64 ctaGroup=1 stages=2 sched=tiles epi=direct",
    { m: 72, n: 70, k: 72 },
  ],
  [
    "pair with 64 rows a block: columns side by side in lanes",
    "tile=128x64x64 ctaGroup=2 stages=2 sched=persistent accumulators=2",
    { m: 200, n: 72, k: 72 },
  ],
  [
    "the same with columns that are no power of two, straight to memory",
    "tile=128x48x64 ctaGroup=2 stages=2 sched=tiles loadColumns=16 epi=direct",
    { m: 136, n: 72, k: 72 },
  ],
  [
    "two instructions a block",
    "tile=256x64x64 ctaGroup=1 stages=2 sched=tiles epi=direct",
    { m: 264, n: 72, k: 72 },
  ],
  [
    "two instructions a pair",
    "tile=512x64x64 ctaGroup=2 stages=2 sched=persistent accumulators=2 loadColumns=32",
    { m: 520, n: 72, k: 72 },
  ],
  [
    "columns in lanes",
    "tile=24x64x64 ctaGroup=1 swapAB=on stages=2 sched=clc accumulators=2 loadColumns=8",
    { m: 40, n: 136, k: 72 },
  ],
  [
    "columns in the lanes of a pair",
    "tile=32x256x64 ctaGroup=2 swapAB=on stages=2 sched=persistent accumulators=2 loadColumns=16",
    { m: 40, n: 264, k: 72 },
  ],
  [
    "columns in half the lanes of a pair, C and biases",
    "tile=32x128x64 ctaGroup=2 swapAB=on stages=2 sched=tiles loadColumns=16 epi=direct",
    {
      m: 40,
      n: 136,
      k: 72,
      beta: 0.5,
      c: { dtype: "f16" },
      epilogue: [
        { kind: "bias", along: "n", dtype: "f32" },
        { kind: "bias", along: "m", dtype: "f32" },
      ],
    },
  ],
  [
    "C brought by a role of its own, launch control",
    "tile=128x64x64 ctaGroup=1 stages=2 sched=clc accumulators=2 epilogueLoad=tma epi=direct",
    { m: 136, n: 136, k: 72, beta: 0.5, c: { dtype: "f16", layout: "col" } },
  ],
  [
    "C brought to both blocks of a pair",
    "tile=256x64x64 ctaGroup=2 stages=2 sched=persistent accumulators=2 epilogueLoad=tma earlyAccumulatorRelease=off",
    { m: 520, n: 72, k: 72, beta: 0.5, c: { dtype: "f32" } },
  ],
  [
    "C brought where columns lie in lanes",
    "tile=32x256x64 ctaGroup=2 swapAB=on stages=2 sched=tiles loadColumns=16 epilogueLoad=tma",
    { m: 40, n: 264, k: 72, beta: 0.5, c: { dtype: "f16" } },
  ],
  [
    "columns in lanes, D column by column",
    "tile=16x128x64 ctaGroup=1 swapAB=on stages=2 sched=tiles loadColumns=16",
    { m: 16, n: 136, k: 72, d: { layout: "col" } },
  ],
  [
    "columns in lanes, bytes, M and N contiguous",
    "tile=16x128x128 ctaGroup=1 swapAB=on stages=2 sched=tiles loadColumns=16",
    { m: 16, n: 144, k: 144, dtype: "e4m3", a: { layout: "col" }, b: { layout: "row" } },
  ],
  [
    "two instructions of columns in lanes",
    "tile=16x512x64 ctaGroup=2 swapAB=on stages=2 sched=tiles loadColumns=16",
    { m: 16, n: 520, k: 72 },
  ],
] as const;

const layouts = [
  ["M and N contiguous", "tile=128x64x64 ctaGroup=1 stages=2 sched=tiles accumulators=1", "col", "row"],
  [
    "M and N contiguous in a pair",
    "tile=256x128x64 ctaGroup=2 stages=2 sched=tiles accumulators=1",
    "col",
    "row",
  ],
  [
    "M and N contiguous, no swizzle",
    "tile=128x32x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 swizzle=none",
    "col",
    "row",
  ],
  ["swizzle 64B", "tile=128x32x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 swizzle=64B", "row", "col"],
  ["swizzle 32B", "tile=128x32x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 swizzle=32B", "row", "col"],
  ["no swizzle", "tile=128x32x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 swizzle=none", "row", "col"],
] as const;

const dtypes = [
  ["tf32", "tile=128x64x32 ctaGroup=1 stages=2 sched=tiles accumulators=1", { dtype: "tf32", k: 72 }],
  [
    "tf32, M and N contiguous",
    "tile=128x64x32 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { dtype: "tf32", k: 72, n: 76, a: { layout: "col" }, b: { layout: "row" } },
  ],
  [
    "tf32, N contiguous in a pair",
    "tile=256x64x32 ctaGroup=2 stages=2 sched=persistent accumulators=2",
    { dtype: "tf32", m: 200, k: 72, n: 76, b: { layout: "row" } },
  ],
  ["e4m3", "tile=128x64x128 ctaGroup=1 stages=2 sched=tiles accumulators=1", { dtype: "e4m3", k: 144 }],
  [
    "e5m2 by e4m3",
    "tile=128x64x128 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { a: { dtype: "e5m2", layout: "row" }, b: { dtype: "e4m3", layout: "col" }, k: 144 },
  ],
  ["e2m1", "tile=128x64x128 ctaGroup=1 stages=2 sched=tiles accumulators=1", { dtype: "e2m1", k: 256 }],
  [
    "e2m3 in a pair",
    "tile=256x64x128 ctaGroup=2 stages=2 sched=persistent accumulators=2",
    { dtype: "e2m3", k: 384 },
  ],
  [
    "e3m2, B shared",
    "tile=128x64x128 ctaGroup=1 stages=2 cluster=2x1 sched=tiles accumulators=1",
    { dtype: "e3m2", m: 300, k: 128 },
  ],
  [
    "e4m3 by e2m1",
    "tile=128x64x128 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { a: { dtype: "e4m3", layout: "row" }, b: { dtype: "e2m1", layout: "col" }, k: 256 },
  ],
  [
    "e3m2 by e5m2 with N contiguous",
    "tile=256x64x128 ctaGroup=2 stages=2 sched=clc accumulators=2",
    { a: { dtype: "e3m2", layout: "row" }, b: { dtype: "e5m2", layout: "row" }, n: 80, k: 256 },
  ],
  ["s8", "tile=128x64x128 ctaGroup=1 stages=2 sched=tiles accumulators=1", { dtype: "s8", k: 144 }],
  ["u8 in a pair", "tile=256x64x128 ctaGroup=2 stages=2 sched=clc accumulators=2", { dtype: "u8", k: 144 }],
  [
    "s8, M and N contiguous",
    "tile=128x64x128 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { dtype: "s8", m: 144, n: 80, k: 144, a: { layout: "col" }, b: { layout: "row" } },
  ],
] as const;

/** Block-scaled: a tile has 128 columns at least. K tails end between blocks of factors. */
const scaled = [
  [
    "mxf8",
    "tile=128x128x128 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { dtype: "mxf8", m: 136, n: 72, k: 160 },
  ],
  [
    "mxf8 in a pair",
    "tile=256x128x128 ctaGroup=2 stages=2 sched=persistent accumulators=1",
    { dtype: "mxf8", m: 200, n: 72, k: 160 },
  ],
  [
    "mxf8, M and N contiguous",
    "tile=128x128x128 ctaGroup=1 stages=1 sched=tiles accumulators=1",
    { dtype: "mxf8", m: 96, n: 80, k: 96, a: { layout: "col" }, b: { layout: "row" } },
  ],
  [
    "mxf8e5m2 by mxf6e3m2",
    "tile=128x128x128 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { a: { dtype: "mxf8e5m2" }, b: { dtype: "mxf6e3m2", layout: "col" }, m: 72, n: 104, k: 128 },
  ],
  [
    "nvf4, two instructions side by side",
    "tile=256x128x64 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { dtype: "nvf4", m: 200, n: 72, k: 96 },
  ],
  [
    "mxf4 by mxf6e2m3",
    "tile=128x128x128 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { a: { dtype: "mxf4" }, b: { dtype: "mxf6e2m3", layout: "col" }, m: 72, n: 104, k: 128 },
  ],
  [
    "mxf4",
    "tile=128x128x256 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { dtype: "mxf4", m: 72, n: 104, k: 288 },
  ],
  [
    "mxf4 in a pair of wide tiles",
    "tile=256x256x128 ctaGroup=2 stages=2 sched=clc accumulators=1",
    { dtype: "mxf4", m: 200, n: 200, k: 96 },
  ],
  [
    "nvf4",
    "tile=128x128x128 ctaGroup=1 stages=2 sched=persistent accumulators=2",
    { dtype: "nvf4", m: 136, n: 72, k: 160 },
  ],
  [
    "nvf4 in a pair",
    "tile=256x128x64 ctaGroup=2 stages=3 sched=clc accumulators=2",
    { dtype: "nvf4", m: 300, n: 72, k: 96 },
  ],
  [
    "nvf4, accumulators of 256 columns that share some",
    "tile=256x256x64 ctaGroup=2 stages=2 sched=persistent accumulators=2 overlappedColumns=64",
    { dtype: "nvf4", m: 520, n: 200, k: 96 },
  ],
  [
    "nvf4, B shared along m",
    "tile=128x128x64 ctaGroup=1 stages=2 sched=tiles accumulators=1 cluster=2x1",
    { dtype: "nvf4", m: 200, n: 72, k: 96 },
  ],
  [
    "nvf4, batch",
    "tile=128x128x64 ctaGroup=1 stages=2 sched=tiles accumulators=1",
    { dtype: "nvf4", m: 72, n: 40, k: 96, batch: { kind: "strided", count: 2 } },
  ],
] as const;

describe("tcgen05 on sm_100a", () => {
  let emulator: Device;
  beforeAll(async () => {
    const device = await openDevice({ kind: "emulator", arch: "sm_100a" });
    if (!device.ok) throw new Error(device.error.map(formatDiagnostic).join("\n"));
    emulator = device.value;
  });
  afterAll(() => emulator.close());

  test.each(kinds)("%s", (_name, schedule, request) => {
    expect(check(emulator, "sm_100a", schedule, request)).toEqual([]);
  });

  test.each(forms)("%s", (_name, schedule, request) => {
    expect(check(emulator, "sm_100a", schedule, request)).toEqual([]);
  });

  test.each(shared)("blocks that share a tile: %s", (_name, schedule, request) => {
    expect(check(emulator, "sm_100a", schedule, request)).toEqual([]);
  });

  test.each(layouts)("%s", (_name, schedule, a, b) => {
    const request = { m: 136, n: 136, k: 72, a: { layout: a }, b: { layout: b } };
    expect(check(emulator, "sm_100a", schedule, request)).toEqual([]);
  });

  test.each(dtypes)("%s", (_name, schedule, request) => {
    expect(check(emulator, "sm_100a", schedule, { m: 136, n: 72, ...request })).toEqual([]);
  });

  test.each(scaled)("%s", (_name, schedule, request) => {
    expect(check(emulator, "sm_100a", schedule, request)).toEqual([]);
  });

  test("alpha, beta, C, bias and activation", () => {
    const request = {
      m: 136,
      n: 72,
      k: 72,
      dtype: "bf16",
      alpha: "runtime",
      beta: "runtime",
      c: { dtype: "bf16" },
      epilogue: [
        { kind: "bias", along: "n", dtype: "f32" },
        { kind: "activation", fn: "relu" },
      ],
    };
    const scalars = { alpha: 1.5, beta: -0.5 };
    const text = "tile=128x64x64 ctaGroup=1 stages=2 sched=persistent accumulators=2";
    expect(check(emulator, "sm_100a", text, request, { scalars })).toEqual([]);
  });

  test("D column by column in f32", () => {
    const text = "tile=128x64x64 ctaGroup=1 stages=2 sched=tiles accumulators=1";
    const request = { m: 136, n: 72, k: 72, d: { dtype: "f32", layout: "col" } };
    expect(check(emulator, "sm_100a", text, request)).toEqual([]);
  });

  test.each([
    ["counter", "tile=256x64x64 ctaGroup=2 stages=2 sched=atomic accumulators=2", 520],
    ["launch control", "tile=128x64x64 ctaGroup=1 stages=2 sched=clc accumulators=2", 136],
    [
      "pairs with launch control",
      "tile=256x64x64 ctaGroup=2 stages=2 sched=clc accumulators=1 epi=direct",
      264,
    ],
  ])("batch, %s", (_name, text, m) => {
    const request = { m, n: 72, k: 72, batch: { kind: "strided", count: 2 } };
    expect(check(emulator, "sm_100a", text, request)).toEqual([]);
  });
});
