/** What this backend asks of the conformance suite. */
import type { AttentionOptions, ConformanceOptions, DTypes } from "@tilewright/conformance";
import { readSchedule } from "../../src/schedule.ts";
import { blockBytes } from "../../src/sharedMemory.ts";
import { randomSchedule } from "./cases.ts";

/** Every family of instructions. */
export const dtypesServed = [
  { dtype: "bf16" },
  { dtype: "f16" },
  { dtype: "f16", acc: "f16" },
  { dtype: "tf32" },
  { dtype: "e4m3", bDType: "e5m2" },
  { dtype: "s8", bDType: "u8" },
  { dtype: "e4m3", bDType: "e5m2", blockScales: { a: "1x128", b: "128x128" } },
  { dtype: "e4m3", blockScales: { a: "128x128", b: "1x128" } },
  { dtype: "e5m2", precision: "promoted" },
  { dtype: "s8", bDType: "bf16" },
  { dtype: "u8", bDType: "f16" },
  { dtype: "e4m3", bDType: "bf16" },
] as const satisfies readonly [DTypes, ...DTypes[]];

/** Pairs of problem and schedule; sizes 1 to 200 in each dimension, not in all at once. */
export const optionsFor = (
  dtypes: readonly [DTypes, ...DTypes[]],
  refuses: readonly string[],
  pairs: { readonly first: number; readonly count: number },
): ConformanceOptions => ({
  arch: "sm_90a",
  dtypes,
  randomSchedule,
  // Gated products have half of D's columns.
  footprint: (problem, schedule, { limits }) => ({
    shared:
      problem.gated === undefined
        ? blockBytes(problem, readSchedule(schedule), limits.maxSmemPerBlock)
        : null,
    // Weights and their factors leave what stands behind them (vectors, D) anywhere, and legality counts it from the next multiple of 1024.
    rounded: problem.weights === undefined ? 0 : 2 * 1024,
    tensor: 0,
  }),
  refuses,
  // Parts of tiles have no place of their own in groups.
  wholeGroups: true,
  // Every row in some dtype.
  sample: dtypes.length,
  pairs: { ...pairs, most: 200, mostWork: 2 ** 18 },
});

const reused = "tile=64x128x64 warpgroups=1x2 stages=2 chainTile=64x64 regs=40/232 epi=direct reuseStages=on";
const again = "stages=3 regs=24/240 pipelineProducts=on reuseStages=on";
const latent = {
  ...({ queries: 1, keys: 270, headDim: 160, valueDim: 96, heads: 4, kvHeads: 1 } as const),
  ...({ dtype: "bf16", latent: true } as const),
};

/** Half of attention's table, and a few draws. */
export const attentionOptions: AttentionOptions = {
  ...{ arch: "sm_90a", dtypes: ["bf16", "f16"], sample: [0, 2] },
  draws: { first: 300, count: 4 },
  // A factor that two products read from one stage, and columns that two warpgroups divide.
  scheduled: [
    // Blocks that share copies of keys and values, whose tiles have as many parts as the longest of them.
    [
      "tile=128x128x128 stages=2 regs=24/240 pipelineProducts=on splitMasked=on conditionalRescale=thread laneSums=on cluster=2x1 sched=atomic batchGroup=1",
      { queries: 300, keys: 280, headDim: 128, dtype: "bf16", heads: 2, causal: true },
    ],
    [
      "tile=64x64x64 warpgroups=1x1 stages=4 regs=24/240 pipelineProducts=on splitMasked=on conditionalRescale=thread cluster=2x1 sched=persistent batchGroup=2",
      { queries: 200, keys: 290, headDim: 64, dtype: "f16", heads: 2, window: 70 },
    ],
    // Tiles of several sequences by one CTA: each begins where its own keys do, and has as many.
    [
      "tile=128x64x64 stages=4 chainTile=128x64 regs=24/240 sched=persistent batchGroup=1",
      { queries: 38, keys: 98, headDim: 64, dtype: "f16", batch: 3, offsets: "keys", causal: true },
    ],
    [
      "tile=128x64x64 stages=4 chainTile=128x64 regs=40/232 sched=atomic batchGroup=1",
      { queries: 20, keys: 140, headDim: 64, dtype: "bf16", batch: 3, pageSize: 16, window: 30 },
    ],
    [`${reused} sched=persistent`, { ...latent, batch: 2, queries: 20, packHeads: "off" }],
    [`${reused} sched=atomic`, { ...latent, queries: 3, keys: 40, batch: 2, pageSize: 16, causal: true }],
    [`${reused} sched=tiles`, { ...latent, queries: 70, batch: 2, offsets: "both", totalKeys: 200 }],
    // The same where the later product runs beside the first ones of the next part, and of two such products.
    [
      `tile=128x128x128 chainTile=64x64 ${again} sched=zigzag`,
      { queries: 150, keys: 270, headDim: 128, dtype: "bf16", heads: 2, causal: true, backward: "q" },
    ],
    [
      `tile=64x128x128 warpgroups=1x1 chainTile=32x32 ${again.replace("3", "2")} sched=persistent`,
      { queries: 80, keys: 150, headDim: 96, dtype: "f16", batch: 2, window: 40, backward: "q" },
    ],
    [
      `tile=64x128x128 warpgroups=1x1 chainTile=32x32 ${again} loadVectorsAhead=on sched=zigzag`,
      {
        queries: 110,
        keys: 80,
        headDim: 128,
        dtype: "bf16",
        heads: 2,
        kvHeads: 1,
        causal: true,
        backward: "kv",
      },
    ],
    // K and V of bytes, which threads of a producer widen.
    [
      "tile=64x64x64 warpgroups=1x1 chainTile=32x32 stages=3 copy=load regs=56/224 sched=zigzag",
      { queries: 70, keys: 290, headDim: 64, dtype: "f16", kvDtype: "e4m3", kvScales: "head", causal: true },
    ],
    [`${reused} sched=tiles copy=cp.async`, { ...latent, headDim: 104, lse: true }],
    [
      `${reused.replace("128x", "512x").replace("40/232", "24/240")} sched=tiles split=2 conditionalRescale=on`,
      { ...latent, headDim: 512, valueDim: 512, heads: 64, dtype: "f16" },
    ],
  ],
};
