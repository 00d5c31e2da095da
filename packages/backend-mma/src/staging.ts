/** The shared tile that D passes through: how many of its columns at once, and where it lies. */
import { type Problem, sizeOf } from "@tilewright/core";
import type { MmaSchedule } from "./schedule.ts";

export interface Staging {
  /** Columns of the tile: as many of each warp's as it has at once, those of warps side by side next to each other. */
  readonly cols: number;
  readonly bytes: number;
  /** In the place of the ring, which has been read by then. */
  readonly late: boolean;
}

interface Room {
  /** Bytes of the ring, and of shared memory that a block may have. */
  readonly ring: number;
  readonly most: number;
  /** Columns that stay together: those of an atom, or of two that take turns. */
  readonly unit: number;
}

/** A tile beside the ring keeps to a part of its size, so that it costs no block of an SM. */
const BESIDE = 1 / 4;

/**
 * Where a block has one tile, or shares it, D takes the place of the ring and as much of it as there is; where blocks stay, memory of its own. The fewest columns
 * where nothing fits.
 */
export function stagingOf(problem: Problem, s: MmaSchedule, { ring, most, unit }: Room): Staging {
  const late = !s.persistent && s.streamk === 0;
  const size = sizeOf(problem.d.dtype);
  const room = late ? ring : Math.min(most - ring, ring * BESIDE);
  const units = Math.max(1, Math.floor(s.warpN / unit));
  const tiles = Array.from({ length: units }, (_, i) => units - i)
    .filter((count) => units % count === 0)
    .map((count): Staging => {
      const cols = count * unit * Math.ceil(s.warpsN);
      return { cols, bytes: s.tileM * cols * size, late };
    });
  const [first] = tiles;
  const chosen = tiles.find(({ bytes }) => bytes <= room) ?? tiles.at(-1) ?? first;
  if (chosen === undefined) throw new RangeError("a warp has columns");
  return chosen;
}
