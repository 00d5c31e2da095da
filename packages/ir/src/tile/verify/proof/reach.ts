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

const hint =
  "let the role that fills the ring wait for all of its slots (mbar.drain), or all blocks meet in order (cluster.arrive release)";

/** When all threads have ended: of each block one knew that nobody would reach into it any more, and its tensor memory is free. */
export function checkEnds(kernel: Kernel, threads: readonly Thread[], reached: readonly Reached[]): void {
  const blocks = kernel.cluster[0] * kernel.cluster[1];
  const broken = (rule: "exits" | "tensorMemory", label: string, message: string, what = hint): never => {
    throw new Broken(rule, label, message, what);
  };
  for (let block = 0; block < blocks; block++) {
    const own = threads.filter((thread) => thread.block === block);
    const [{ label } = { label: "" }] = own;
    for (const { block: where, thread, step, who } of reached)
      if (where === block && !own.some(({ clock }) => (clock[thread] ?? 0) >= step))
        broken("exits", label, `its block may end before ${who} reaches into it for the last time`);
    for (const { block: where, access } of threads.flatMap(({ issued }) => issued))
      if (blocks > 1 && where === block && !own.some(({ clock }) => ended(access, clock)))
        broken(
          "exits",
          label,
          `its block may end before the matrix instructions of ${access.who} have read its memory for chunk ${access.chunk}`,
        );
  }
  for (const { allocated, label } of threads)
    if (allocated)
      broken(
        "tensorMemory",
        label,
        "ends with its tensor memory allocated",
        "free it in the warp that allocated it",
      );
}
