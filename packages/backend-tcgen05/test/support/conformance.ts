/** What this backend asks of the conformance suite. */
import type { AttentionOptions, ConformanceOptions, DTypes } from "@tilewright/conformance";
import {
  dtypes,
  type Operand,
  operandShape,
  type Problem,
  packedStride,
  type SymbolicSizes,
  sizeOf,
} from "@tilewright/core";
import { accumulatorColumns, factorColumns, sharedBytes } from "../../src/footprint.ts";
import { kindOf } from "../../src/nest.ts";
import { readSchedule } from "../../src/schedule.ts";
import { randomSchedule } from "./cases.ts";

/** Every kind, and among those that mix elements each of them; more mixes are in `emulator.test.ts`. */
const dtypesServed = [
  { dtype: "f16" },
  { dtype: "bf16" },
  { dtype: "tf32" },
  { dtype: "e4m3", bDType: "e5m2" },
  { dtype: "s8", bDType: "u8" },
  { dtype: "e2m3", bDType: "e2m1" },
  { dtype: "e3m2", bDType: "e4m3" },
  { dtype: "mxf8" },
  { dtype: "mxf6e2m3", bDType: "mxf8e5m2" },
  { dtype: "mxf4", bDType: "mxf6e3m2" },
  { dtype: "mxf4" },
  { dtype: "nvf4" },
] as const satisfies readonly [DTypes, ...DTypes[]];

/** Bulk copies take rows, matrices of a batch and bases at multiples of so many bytes; elements under 8 bits, spread, in rows of so many (tensorAccessFault). */
const ROW_BYTES = 16;
const SPREAD_BYTES = 32;
const SPREAD_ROW = 128;

const up = (value: number, unit: number): number => Math.ceil(value / unit) * unit;

/** The same problem with A and B as bulk copies and matrix instructions take them: rows and bases at whole 16 bytes, along k where the kind wants it. */
function bulkable(asked: Problem): Problem {
  const kind = kindOf(asked);
  if (kind === null) return asked;
  const narrow = (name: "a" | "b"): boolean => dtypes[asked[name].dtype].bits < 8;
  const problem = narrow("a") || narrow("b") ? { ...asked, k: up(asked.k, SPREAD_ROW) } : asked;
  const operand = (name: "a" | "b"): Operand => {
    const { dtype, ld, align, layout: before } = problem[name];
    const layout = kind.eitherMajor && !narrow(name) ? before : name === "a" ? "row" : "col";
    const [rows, cols] = operandShape(problem, name);
    const least = Math.max(layout === before ? ld : 1, layout === "row" ? cols : rows);
    const unit = narrow(name) ? SPREAD_ROW : ROW_BYTES / sizeOf(dtype);
    const bytes = narrow(name) ? SPREAD_BYTES : ROW_BYTES;
    return { dtype, layout, ld: up(least, unit), align: Math.max(align, bytes) };
  };
  const [a, b] = [operand("a"), operand("b")];
  // The second matrix of a gated product lies as B does.
  const epilogue = problem.epilogue.map((step) => (step.kind === "factor" ? { ...step, operand: b } : step));
  const { batch, symbolic } = problem;
  const free = symbolic === undefined ? {} : { symbolic: inWholeRows(symbolic, sizeOf(a.dtype)) };
  if (batch.kind !== "strided") return { ...problem, a, b, epilogue, ...free };
  const stride = (name: "a" | "b", now: number, of: Operand): number =>
    now === 0
      ? 0
      : up(
          packedStride(of, ...operandShape(problem, name)),
          narrow(name) ? SPREAD_ROW : ROW_BYTES / sizeOf(of.dtype),
        );
  return {
    ...problem,
    a,
    b,
    epilogue,
    ...free,
    batch: { ...batch, strideA: stride("a", batch.strideA, a), strideB: stride("b", batch.strideB, b) },
  };
}

/** Leading dimensions and strides of A and B of the launch: such that rows and matrices begin at whole 16 bytes. */
function inWholeRows(symbolic: SymbolicSizes, bytes: number): SymbolicSizes {
  const unit = ROW_BYTES / bytes;
  const whole = (["lda", "ldb", "strideA", "strideB"] as const).flatMap((name) => {
    const range = symbolic[name];
    if (range === undefined) return [];
    const multiple = up(range.multiple, unit);
    return [[name, { min: up(range.min, multiple), max: range.max - (range.max % multiple), multiple }]];
  });
  return { ...symbolic, ...Object.fromEntries(whole) };
}

export const optionsFor = (
  refuses: readonly string[],
  sample: number,
  pairs: { readonly first: number; readonly count: number },
): ConformanceOptions => ({
  arch: "sm_100a",
  kin: ["sm_103a"],
  dtypes: dtypesServed,
  randomSchedule,
  footprint(problem, schedule) {
    const s = readSchedule(schedule);
    const columns = accumulatorColumns(s) + factorColumns(s, problem);
    // Allocated in powers of two, 32 at least.
    const tensor = 2 ** Math.ceil(Math.log2(Math.max(32, columns)));
    const shared = problem.gated === undefined ? sharedBytes(s, problem) : null;
    // Slots of factors, and tiles of C and D, at 1024 bytes.
    return { shared, rounded: 1024 * (s.stages + 2), tensor };
  },
  refuses,
  // Parts of tiles have no place of their own in groups.
  wholeGroups: true,
  served: bulkable,
  seeds: 1,
  sample,
  pairs: { ...pairs, most: 300, mostWork: 2 ** 18 },
});

/** A part of attention's table, and a few draws. */
export const attentionOptions: AttentionOptions = {
  ...{ arch: "sm_100a", dtypes: ["bf16", "f16"], sample: [1, 12] },
  draws: { first: 700, count: 1 },
  scheduled: [
    // Tiles that the launch control hands out are of any sequence: each begins where its own keys do, and has as many.
    [
      "tile=64x64x64 ctaGroup=1 stages=2 chainTile=128x64 chainOperand=tensor accumulators=1 storeStages=1 sched=clc",
      { queries: 100, keys: 98, headDim: 64, dtype: "f16", batch: 3, offsets: "keys", totalKeys: 150 },
    ],
    // CTAs without a tile give tensor memory back, too.
    [
      "tile=64x64x64 ctaGroup=1 stages=2 chainTile=64x64 accumulators=1 sched=tiles storeStages=1 epi=direct",
      {
        ...{ queries: 90, keys: 64, headDim: 64, dtype: "bf16", batch: 2, backward: "q" },
        ...{ offsets: "both", totalQueries: 100, totalKeys: 70 },
      },
    ],
    // First products of two chunks, in front of the loop that they are peeled from.
    [
      "tile=64x128x64 ctaGroup=1 stages=2 chainTile=64x64 chainOperand=tensor pipelineProducts=on accumulators=1 sched=tiles storeStages=1",
      { queries: 70, keys: 384, headDim: 128, dtype: "bf16" },
    ],
    // Two groups of rows, of 128 and of 64, with factors in tensor and in shared memory.
    [
      "tile=256x64x64 ctaGroup=1 stages=2 chainTile=32x32 chainOperand=tensor pipelineProducts=on rowGroups=2 accumulators=1 sched=tiles storeStages=1 epi=direct",
      { queries: 300, keys: 300, headDim: 64, dtype: "bf16", causal: true, lse: true },
    ],
    [
      "tile=128x128x64 ctaGroup=1 stages=2 chainTile=64x64 chainOperand=shared rowGroups=2 accumulators=1 sched=tiles storeStages=1 epi=direct",
      { queries: 140, keys: 300, headDim: 128, dtype: "f16", window: 90, alibi: true, heads: 2 },
    ],
    // Two sums of 128 columns, and a matrix that is added to what a part is made of.
    [
      "tile=64x128x64 ctaGroup=1 stages=2 chainTile=32x32 chainOperand=tensor pipelineProducts=on accumulators=1 sched=tiles storeStages=1",
      {
        ...{ queries: 33, keys: 70, headDim: 72, dtype: "bf16", heads: 2 },
        ...{ alibi: true, bias: "qs", window: 8, backward: "kv" },
      },
    ],
    // Sums in tensor memory, which correction warps scale: with factors in either memory, all parts or those up to a mask, through a staged tile and without.
    [
      "tile=128x128x64 ctaGroup=1 stages=2 chainTile=128x64 chainOperand=tensor pipelineProducts=on correctionWarps=on accumulators=1 sched=tiles storeStages=1 epi=direct",
      { queries: 140, keys: 390, headDim: 128, dtype: "bf16", causal: true, lse: true },
    ],
    [
      "tile=128x64x64 ctaGroup=1 stages=2 chainTile=64x64 chainOperand=shared correctionWarps=on accumulators=1 sched=tiles storeStages=1 epi=tma",
      { queries: 100, keys: 320, headDim: 64, dtype: "f16", alibi: true, heads: 2 },
    ],
    // One role of them for two groups of rows; and sums of more columns than registers hold.
    [
      "tile=256x64x64 ctaGroup=1 stages=2 chainTile=64x64 chainOperand=tensor pipelineProducts=on rowGroups=2 correctionWarps=on accumulators=1 sched=tiles storeStages=1 epi=direct",
      { queries: 260, keys: 260, headDim: 64, dtype: "bf16", causal: true, lse: true },
    ],
    [
      "tile=256x128x64 ctaGroup=1 stages=2 chainTile=64x32 chainOperand=shared rowGroups=2 correctionWarps=on accumulators=1 sched=tiles storeStages=1 epi=direct",
      { queries: 140, keys: 257, headDim: 128, dtype: "f16", softCap: 3 },
    ],
    [
      "tile=128x256x64 ctaGroup=1 stages=2 chainTile=128x64 chainOperand=tensor pipelineProducts=on correctionWarps=on accumulators=1 sched=tiles storeStages=1 epi=tma",
      { queries: 40, keys: 260, headDim: 256, dtype: "bf16" },
    ],
  ],
};
