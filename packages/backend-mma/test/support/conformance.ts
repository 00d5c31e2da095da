/** What this backend asks of the conformance suite. */
import type { AttentionOptions, ConformanceOptions, DTypes } from "@tilewright/conformance";
import { randomSchedule } from "./cases.ts";

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

/** A quarter of attention's table in the text of each architecture, and a few draws: the rows that wgmma leaves out. */
export const attentionOptions: readonly AttentionOptions[] = [
  { arch: "sm_80", dtypes: ["bf16", "f16"], sample: [1, 4], draws: { first: 100, count: 2 } },
  { arch: "sm_90", dtypes: ["bf16", "f16"], sample: [3, 4], draws: { first: 200, count: 2 } },
];
