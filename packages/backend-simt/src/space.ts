/** Tile shapes that are tried for a problem: register tiles by lane grids by warps, without those whose threads would have nothing to do. */
import { type Problem, quantizeOf, type Schedule, sizeOf } from "@tilewright/core";

/** A tile, its K chunk, and how threads have it. */
interface Shape {
  readonly tile: readonly [m: number, n: number, k: number];
  readonly thread: readonly [m: number, n: number];
  readonly lanes: readonly [m: number, n: number];
  readonly strip: readonly [m: number, n: number];
}

type Pair = readonly [m: number, n: number];

/** Sums of a thread, many to few. */
const registerTiles: readonly Pair[] = [
  [16, 8],
  [12, 8],
  [8, 8],
  [8, 6],
  [8, 4],
  [4, 8],
  [4, 4],
  [4, 2],
  [2, 4],
  [2, 2],
  [1, 4],
  [4, 1],
  [1, 2],
  [2, 1],
  [1, 1],
];

const laneGrids: readonly Pair[] = [
  [4, 8],
  [8, 4],
  [2, 16],
  [16, 2],
  [1, 32],
  [32, 1],
];

/** Warps below and beside each other: four before fewer. */
const warpGrids: readonly Pair[] = [
  [2, 2],
  [1, 4],
  [4, 1],
  [2, 1],
  [1, 2],
  [1, 1],
];

/** Most rows and columns of a tile, and the most that one side has of the other where the problem has more of both. */
const MOST = 256;
const LONGEST = 16;

/**
 * The same of threads with so many sums, which the reading of fragments and chunks keeps from more: 256x64 instead of 128x128 takes 3 to 9 % longer at three odd sizes from 3001 to 8191
 * (H200, docs/perf/runs/2026-11-23-h200-changed-choices.json).
 */
const LONGEST_OF_MANY = 2;
const MANY_SUMS = 48;

/** Sums of a thread below which a chunk has more K steps, so that barriers are as far apart. */
const chunkOf = ([m, n]: Pair): readonly number[] =>
  m * n >= 48 ? [8] : m * n >= 16 ? [8, 16] : m * n >= 4 ? [16, 32] : [32, 64];

/**
 * K of a chunk beyond which a tile has few rows (columns) and not too many of the other: long rows come faster from memory (H200, f32: 1x8192x8192 in 79 us by 32 columns and chunks of 64, 113 by 64
 * and 32), more of them than threads copy at once do not (141 us by 128 and 64), and with sixteen rows products decide (13x512x7168 in 27 us instead of 21).
 */
const LONG_CHUNK = 32;
const FEW = 4;
const MOST_OF_LONG = 64;

/** The longest run of four, two or one that divides a thread's rows or columns. */
const run = (count: number): number => (count % 4 === 0 ? 4 : count % 2 === 0 ? 2 : 1);

/** Rows or columns up to which a tile may be larger than the problem: what a vector copies. */
const VECTOR = 8;

/**
 * Threads of 16 x 8 hold 128 sums, two fragments and what is on its way to shared memory in close to all of their 255
 * registers; what taking 16-bit elements apart needs on top is spilled.
 */
const fits = ({ a, b }: Problem, [m]: Pair): boolean =>
  m <= 8 || (sizeOf(a.dtype) === 4 && sizeOf(b.dtype) === 4);

export function* shapesFor(problem: Problem): Generator<Shape> {
  const { m, n } = problem;
  const group = quantizeOf(problem)?.step.group ?? null;
  // Of lane grids that give the same tile the squarest reads least of its fragments twice.
  const seen = new Set<string>();
  for (const thread of registerTiles) {
    if (!fits(problem, thread)) continue;
    for (const lanes of laneGrids)
      for (const warps of warpGrids) {
        const [tm, tn] = [thread[0] * lanes[0] * warps[0], thread[1] * lanes[1] * warps[1]];
        const beyond = (tile: number, extent: number): boolean =>
          tile > MOST || (tile > VECTOR && tile >= 2 * extent);
        if (beyond(tm, m) || beyond(tn, n)) continue;
        // A group of columns that share a scale lies in the lanes of one warp.
        if (group !== null && (thread[1] * lanes[1]) % group !== 0) continue;
        const key = `${tm} ${tn} ${thread}`;
        if (seen.has(key)) continue;
        seen.add(key);
        // Long tiles are for problems that are.
        const longest = thread[0] * thread[1] >= MANY_SUMS ? LONGEST_OF_MANY : LONGEST;
        if ((tn > longest * tm && m > 2 * tm) || (tm > longest * tn && n > 2 * tn)) continue;
        const long = Math.min(tm, tn) <= FEW && Math.max(tm, tn) <= MOST_OF_LONG;
        for (const tileK of chunkOf(thread).filter((k) => long || k <= LONG_CHUNK))
          yield { tile: [tm, tn, tileK], thread, lanes, strip: [run(thread[0]), run(thread[1])] };
      }
  }
}

/** The fields of a shape. */
export const fieldsOf = ({ tile, thread, lanes, strip }: Shape): Schedule => ({
  tile: [...tile],
  thread: [...thread],
  lanes: [...lanes],
  strip: [...strip],
});
