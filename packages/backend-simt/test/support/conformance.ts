/** What this backend asks of the conformance suite. */
import type { AttentionOptions, ConformanceOptions } from "@tilewright/conformance";
import { isApproximateEpilogue, type Problem } from "@tilewright/core";
import { randomSchedule } from "./cases.ts";

/** The interpreter adds products in the kernel's order; its activations are exact where the kernel's are not. */
const sameArithmetic = (problem: Problem): boolean => !isApproximateEpilogue(problem.epilogue);

/** 55 pairs an architecture, one of `sample` in every run; sizes 1 to 300 in each dimension, not in all at once. */
export const optionsFor = (arch: string, first: number, sample: number): ConformanceOptions => ({
  arch,
  dtypes: [
    { dtype: "f32" },
    { dtype: "f16" },
    { dtype: "bf16" },
    { dtype: "f16", dDType: "f32" },
    { dtype: "f32", dDType: "bf16" },
  ],
  randomSchedule,
  sameArithmetic,
  sample,
  // Of 16-bit matrices ptxas may load all fragments of a chunk at once, where nobody proposes that it should.
  spills: "own",
  // Interleaved columns of gated products, which take bulk tensor copies; bf16 added in memory before sm_90.
  refuses: ["TW1802", "TW1805", "TW1908"],
  pairs: { first, count: 55, most: 300, mostWork: 2 ** 19 },
});

/** A sixth of attention's table, and a few draws: other backends have all of it. */
export const attentionOptions: AttentionOptions = {
  ...{ arch: "sm_70", dtypes: ["f32", "bf16"], sample: [0, 6] },
  draws: { first: 400, count: 2 },
};
