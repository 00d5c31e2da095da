/** What this backend asks of the conformance suite. */
import type { AttentionOptions, ConformanceOptions, DTypes } from "@tilewright/conformance";
import { dtypes, type Operand, operandShape, type Problem, packedStride } from "@tilewright/core";
import { randomSchedule } from "./cases.ts";

/** Elements of 4 bits in a word. */
const WORD = 8;

/** All dtypes of an architecture; sizes 1 to 200 in each dimension, not in all at once. */
export const optionsFor = (
  arch: string,
  dtypes: readonly [DTypes, ...DTypes[]],
  refuses: readonly string[],
  pairs: { readonly first: number; readonly count: number },
  sample: number,
): ConformanceOptions => ({
  arch,
  dtypes,
  sample,
  randomSchedule,
  // Copies by the threads of small blocks, with all they hold, spill in some schedules that are legal; none that the backend proposes does.
  spills: "own",
  refuses,
  pairs: { ...pairs, most: 200, mostWork: 2 ** 19 },
});

const up = (value: number, unit: number): number => Math.ceil(value / unit) * unit;

/** The same problem with operands whose elements share bytes along K, in whole words. */
export function inWords(asked: Problem): Problem {
  const narrow = (["a", "b"] as const).filter((name) => dtypes[asked[name].dtype].bits < 8);
  if (narrow.length === 0) return asked;
  const problem = { ...asked, k: up(asked.k, WORD) };
  const operand = (name: "a" | "b"): Operand => {
    const { dtype, ld, align } = problem[name];
    const layout = name === "a" ? "row" : "col";
    return {
      dtype,
      layout,
      ld: up(Math.max(layout === asked[name].layout ? ld : 1, problem.k), WORD),
      align: Math.max(align, 4),
    };
  };
  const [a, b] = [operand("a"), operand("b")];
  const { batch } = problem;
  if (batch.kind !== "strided") return { ...problem, a, b };
  const stride = (name: "a" | "b", now: number, of: Operand): number =>
    now === 0 ? 0 : Math.max(up(now, WORD), packedStride(of, ...operandShape(problem, name)));
  return {
    ...problem,
    a,
    b,
    batch: { ...batch, strideA: stride("a", batch.strideA, a), strideB: stride("b", batch.strideB, b) },
  };
}

const tall = "stages=2 frag=1 walk=snake-cols";

/** Parts of other widths than the tile's, whose maps stand between the products of the next one, also in several chunks; without a vote; and warps that divide the columns, where nothing moves. */
const scheduled: AttentionOptions["scheduled"] = [
  [
    `tile=128x128x128 warp=32x128 chainTile=64x64 conditionalRescale=on spreadMaps=on epi=smem ${tall}`,
    { queries: 150, keys: 320, headDim: 128, dtype: "bf16", causal: true },
  ],
  [
    `tile=128x64x64 warp=32x64 chainTile=128x128 spreadMaps=on epi=smem ${tall}`,
    { queries: 130, keys: 384, headDim: 64, dtype: "f16", heads: 2, kvHeads: 1, lse: true },
  ],
  [
    `tile=128x64x64 warp=32x64 chainTile=32x32 conditionalRescale=on spreadMaps=on ${tall}`,
    { queries: 150, keys: 270, headDim: 64, dtype: "bf16", heads: 2, causal: true },
  ],
  [
    `tile=64x64x64 warp=32x64 chainTile=64x32 spreadMaps=on ${tall}`,
    { queries: 70, keys: 301, headDim: 64, dtype: "f16", softCap: 3, lse: true, alibi: true },
  ],
  [
    `tile=64x128x128 warp=32x128 chainTile=64x64 conditionalRescale=on ${tall}`,
    { queries: 65, keys: 290, headDim: 96, dtype: "bf16", bias: "s" },
  ],
  [
    `tile=32x64x64 warp=16x32 chainTile=32x32 spreadMaps=on ${tall}`,
    { queries: 40, keys: 265, headDim: 48, dtype: "f16", batch: 2, pageSize: 16, window: 40 },
  ],
  [
    `tile=64x64x64 warp=16x64 chainTile=32x16 conditionalRescale=on spreadMaps=on copy=direct ${tall}`,
    { queries: 70, keys: 280, headDim: 64, dtype: "bf16", batch: 2, offsets: "both", totalKeys: 400 },
  ],
];

/** A quarter of attention's table in the text of each architecture, and a few draws: the rows that wgmma leaves out. */
export const attentionOptions: readonly AttentionOptions[] = [
  {
    ...{ arch: "sm_80", dtypes: ["bf16", "f16"], sample: [1, 4], widest: 512 },
    ...{ draws: { first: 100, count: 2 }, scheduled },
  },
  { arch: "sm_90", dtypes: ["bf16", "f16"], sample: [3, 4], draws: { first: 200, count: 2 }, widest: 512 },
];
