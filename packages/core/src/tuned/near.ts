/** Entries of a schedule store that say something of a problem of other sizes. */
import type { Problem } from "../problem.ts";
import type { Tuned } from "./store.ts";

/** Octaves between sizes, over m, n and k together, beyond which an entry says nothing; and most entries that count. */
const FARTHEST = 2.1;
const MOST_NEAR = 32;

/** Octaves between the sizes of two problems. */
const octaves = (x: Problem, y: Problem): number =>
  Math.hypot(...(["m", "n", "k"] as const).map((size) => Math.log2(x[size] / y[size])));

/** All of a problem but its sizes and pitches. */
const kindOf = ({ m: _, n: __, k: ___, ...rest }: Problem): string =>
  JSON.stringify(rest, (key, value) => (key === "ld" ? undefined : value));

/** The timed entries of a GPU and target whose problems differ from this one in their sizes alone, itself among them, the nearest first. Of one product, no batches. */
export function nearTuned(
  store: readonly Tuned[],
  problem: Problem,
  arch: string,
  gpu: string,
): readonly Tuned[] {
  if (store.length === 0 || problem.batch.kind !== "none") return [];
  const kind = kindOf(problem);
  return store
    .filter(
      ({ entry, problem: own }) =>
        entry.us !== undefined &&
        entry.gpu === gpu &&
        entry.arch === arch &&
        entry.program === undefined &&
        octaves(own, problem) <= FARTHEST &&
        kindOf(own) === kind,
    )
    .sort((x, y) => octaves(x.problem, problem) - octaves(y.problem, problem))
    .slice(0, MOST_NEAR);
}
