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

/** A quarter of attention's table in the text of each architecture, and a few draws: the rows that wgmma leaves out. */
export const attentionOptions: readonly AttentionOptions[] = [
  { arch: "sm_80", dtypes: ["bf16", "f16"], sample: [1, 4], draws: { first: 100, count: 2 }, widest: 512 },
  { arch: "sm_90", dtypes: ["bf16", "f16"], sample: [3, 4], draws: { first: 200, count: 2 }, widest: 512 },
];
