/** The numbers of K chunks and the orders of threads that a proof goes through. */

import type { Sequence } from "./execution.ts";
import type { Kernel } from "./kernel.ts";
import type { Order } from "./run.ts";

/**
 * Every number of chunks from 0 to slots + 2 as a tile by itself; for persistent CTAs, each of them also behind a tile that leaves off in any slot,
 * and in runs of four and five tiles, among them tiles without a chunk.
 */
export function sequences(slots: number, stays: boolean): readonly Sequence[] {
  const counts = Array.from({ length: slots + 3 }, (_, count) => count);
  const single = counts.map((count) => [count]);
  if (!stays) return single;
  const pairs = counts.slice(0, slots + 1).flatMap((first) => counts.map((second) => [first, second]));
  const runs = counts.map((count) => [count, 0, slots + 1, count]);
  return [...single, ...pairs, ...runs, [1, 1, 1, 1, 1], [2, slots, 1, 0, 2]];
}

/** Tiles of one number of chunks: one, and for persistent CTAs two, and as many as use every slot in both phases, of rings with a chunk a tile too. */
export function sequencesOf(count: number, slots: number, stays: boolean): readonly Sequence[] {
  return (stays ? [1, 2, 2 * slots + 2] : [1]).map((tiles) => Array.from({ length: tiles }, () => count));
}

/**
 * Blocks whose threads are tried: those of one unit of the cluster. Units are alike: who is shifted along m or n, round the cluster, meets the same
 * neighbours. Where the cluster has a first block that does more than the others, units beside it along m, along n and along both differ from it.
 */
export function representatives(kernel: Kernel): ReadonlySet<number> {
  const [m, n] = kernel.cluster;
  const wide = kernel.pair ? 2 : 1;
  const first = kernel.roles.some(
    ({ leader, effects }) =>
      leader === "cluster" || [...effects.keys()].some(({ kind }) => kind === "leader"),
  );
  const along = (count: number): readonly number[] => (first && count > 1 ? [0, 1] : [0]);
  return new Set(
    along(n).flatMap((col) =>
      along(m / wide).flatMap((row) =>
        Array.from({ length: wide }, (_, side) => col * m + row * wide + side),
      ),
    ),
  );
}

/**
 * Each thread of those tried as early as it can be, when it may come to a phase too soon, with engines that finish at the last moment; and as late as it can be,
 * when a phase may be over before it looks, with engines that finish at once.
 */
export function orders(threads: number, tried: readonly number[]): readonly Order[] {
  const all = Array.from({ length: threads }, (_, i) => i);
  return tried.flatMap((one): readonly Order[] => {
    const others = all.filter((i) => i !== one);
    return [
      { threads: [one, ...others], engines: "late" },
      { threads: [...others, one], engines: "early" },
    ];
  });
}
