/** The numbers of K chunks and the orders of threads that a proof goes through. */
import type { Order, Sequence } from "./run.ts";

/**
 * Every number of chunks from 0 to slots + 2 as a tile by itself; for blocks that stay, each of them also behind a tile that leaves off in any slot,
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

/**
 * Each thread as early as it can be, when it may come to a phase too soon, with engines that finish at the last moment; and as late as it can be,
 * when a phase may be over before it looks, with engines that finish at once.
 */
export function orders(threads: number): readonly Order[] {
  const all = Array.from({ length: threads }, (_, i) => i);
  return all.flatMap((one): readonly Order[] => {
    const others = all.filter((i) => i !== one);
    return [
      { threads: [one, ...others], engines: "late" },
      { threads: [...others, one], engines: "early" },
    ];
  });
}
