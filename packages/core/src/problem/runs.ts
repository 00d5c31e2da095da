/**
 * Runs of rows: matrices in which the rows of the problems of a batch follow each other, so many as int32 of device memory say. A `factor` with two columns has those of
 * problem i at i and i + 1, as cumulative offsets lie: where its run begins, and where it ends.
 */
import type { Diagnostic } from "../diagnostics.ts";
import type { EpilogueStep, Problem, Runs } from "../problem.ts";
import { createRandom } from "../reference/random.ts";
import { invalid, problemCodes } from "./codes.ts";

/** The runs that a step of a problem tells, with the variables of programs that mean where the problem's own begins and how many rows it has. */
export interface ToldRuns extends Runs {
  readonly step: number;
  readonly first: string;
  readonly count: string;
}

/** Runs of a problem's matrices, in the order of its steps. */
export const runsOf = ({ epilogue }: Pick<Problem, "epilogue">): readonly ToldRuns[] =>
  epilogue.flatMap((step, i) =>
    step.kind === "factor" && step.runs !== undefined
      ? [{ ...step.runs, step: i, first: `first${i}`, count: `count${i}` }]
      : [],
  );

/** The runs of rows of A and of what is stored; null where problems have matrices of their own. */
export const outerRuns = (problem: Pick<Problem, "epilogue">): ToldRuns | null =>
  runsOf(problem).find(({ outer }) => outer) ?? null;

/** What a kernel makes of two neighbouring offsets: a run inside of the matrix, and no longer than the longest. */
export function runAt(
  { most, total }: Runs,
  [from, to]: readonly [number, number],
): { readonly first: number; readonly count: number } {
  const within = (x: number): number => Math.max(0, Math.min(total, x));
  const first = within(from);
  return { first, count: Math.max(0, Math.min(most, within(to) - first)) };
}

/** Offsets of so many runs that together have all rows there are, or as many as they can: of equal lengths, or drawn from a seed. */
export function runOffsets({ most, total }: Runs, count: number, seed?: number): Int32Array {
  const rows = Math.min(total, count * most);
  const random = seed === undefined ? null : createRandom(seed);
  const offsets = new Int32Array(count + 1);
  for (let i = 0; i < count; i++) {
    const [before, left] = [offsets[i] ?? 0, count - i - 1];
    const rest = rows - before;
    const [least, longest] = [Math.max(0, rest - left * most), Math.min(most, rest)];
    const even = Math.floor(((i + 1) * rows) / count) - before;
    offsets[i + 1] = before + (random === null ? even : random.integer(least, longest));
  }
  return offsets;
}

/** Values of a step that tells runs, as many as its operand has; null of other steps. `seed`: of random lengths. */
export const runData = (
  step: EpilogueStep | undefined,
  elements: number,
  seed?: number,
): Int32Array | null =>
  step?.kind === "factor" && step.runs !== undefined ? runOffsets(step.runs, elements - 1, seed) : null;

/** Every reason why offsets are none of these runs: TW1020. A kernel, which reads them when it runs, takes each run as `runAt` does. */
export function checkRunOffsets(
  { most, total }: Runs,
  offsets: ArrayLike<number>,
  at: string,
): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  const fault = (i: number, message: string, hint: string): void => {
    found.push(invalid(problemCodes.expertRows, `${at}[${i}]`, message, hint));
  };
  let before = 0;
  for (const [i, value] of Array.from(offsets).entries()) {
    if (!Number.isInteger(value) || value < 0 || value > total)
      fault(i, `${value} is no offset from 0 to ${total}`, `there are ${total} rows`);
    else if (i > 0 && value < before)
      fault(
        i,
        `${value} is less than the offset before it, ${before}`,
        "offsets are where runs begin and end, ascending",
      );
    else if (i > 0 && value - before > most)
      fault(i, `a run of ${value - before} rows, where the longest has ${most}`, `${most} rows at most`);
    before = value;
  }
  return found;
}
