/** Which blocks of a cluster an effect reaches, and that none of them has ended before. */

import type { Leader, Reach } from "./effect.ts";
import type { Kernel } from "./kernel.ts";
import { Broken, ended } from "./machine.ts";
import type { Thread } from "./thread.ts";

/** Ranks of the blocks that an effect of block `own` reaches. Ranks count along m first; neighbours along m are a pair. */
export function blocksOf(kernel: Kernel, own: number, reach: Reach): readonly number[] {
  if (reach === "own") return [own];
  const known = reached.get(kernel) ?? new Map<string, readonly number[]>();
  reached.set(kernel, known);
  const key = `${own} ${reach}`;
  const blocks = known.get(key) ?? computeBlocks(kernel, own, reach);
  known.set(key, blocks);
  return blocks;
}

/** A proof's runs ask the same again and again. */
const reached = new WeakMap<Kernel, Map<string, readonly number[]>>();

function computeBlocks({ cluster, pair }: Kernel, own: number, reach: Reach): readonly number[] {
  const [m, n] = cluster;
  const every = (count: number, rank: (i: number) => number): number[] =>
    Array.from({ length: count }, (_, i) => rank(i));
  const unit = pair ? [own - (own % 2), own - (own % 2) + 1] : [own];
  const row = every(m, (i) => i + m * Math.floor(own / m));
  const column = (rank: number): number[] => every(n, (i) => (rank % m) + m * i);
  switch (reach) {
    case "own":
      return [own];
    case "leader":
      return unit.slice(0, 1);
    case "pair":
      return unit;
    case "m":
      return pair ? row.filter((rank) => rank % 2 === own % 2) : row;
    case "n":
      return column(own);
    case "peers-m":
      return [...new Set([...unit, ...row])];
    case "peers-n":
      return [...new Set([...unit, ...unit.flatMap(column)])];
    case "peers-mn":
      return [...new Set([...unit, ...row, ...unit.flatMap(column)])];
    case "first":
      return [0];
    case "cluster":
      return every(m * n, (rank) => rank);
  }
}

/** Whether a block runs what only leaders do. */
export const isLeader = ({ pair }: Kernel, block: number, leader: Leader | null | undefined): boolean =>
  leader === "cluster" ? block === 0 : leader !== "pair" || !pair || block % 2 === 0;

/** A step of a thread in another block that reached into this one. */
export interface Reached {
  readonly block: number;
  readonly who: string;
  readonly thread: number;
  readonly step: number;
}

const hint = "let all blocks of the cluster meet before they end";

/** When all threads have ended: each knew that nobody would reach into its block any more, and its tensor memory is free. */
export function checkEnds(kernel: Kernel, threads: readonly Thread[], reached: readonly Reached[]): void {
  const blocks = kernel.cluster[0] * kernel.cluster[1];
  const issued = threads.flatMap((thread) => thread.issued);
  for (const thread of threads) {
    const { block, clock, label } = thread;
    for (const each of reached)
      if (each.block === block && (clock[each.thread] ?? 0) < each.step)
        throw new Broken(
          "exits",
          label,
          `may end before ${each.who} reaches into it for the last time`,
          hint,
        );
    for (const { block: where, access } of issued)
      if (blocks > 1 && where === block && !ended(access, clock))
        throw new Broken(
          "exits",
          label,
          `may end before the matrix instructions of ${access.who} have read its memory for chunk ${access.chunk}`,
          hint,
        );
    if (thread.allocated)
      throw new Broken(
        "tensorMemory",
        label,
        "ends with its tensor memory allocated",
        "free it in the warp that allocated it",
      );
  }
}
