/** Tiles that are tried for a problem, with their warps. */
import { isScaled, type Problem, quantizeOf, SCALE_ROWS, sizeOf, symbolicSizes } from "@tilewright/core";
import type { Copy } from "./schedule.ts";

export interface Shape {
  readonly tile: readonly [m: number, n: number];
  readonly warp: readonly [m: number, n: number];
  /** Not one of the usual ones. */
  readonly between: boolean;
}

/** Large to small; thin ones serve problems of few rows or columns. */
const usual: readonly Omit<Shape, "between">[] = [
  { tile: [128, 256], warp: [64, 64] },
  { tile: [256, 128], warp: [64, 64] },
  { tile: [128, 128], warp: [64, 64] },
  { tile: [128, 128], warp: [64, 32] },
  // In this order: f32 in parts is 3 % faster with warps of 64 x 32 than of 32 x 64.
  { tile: [128, 64], warp: [64, 32] },
  { tile: [64, 128], warp: [32, 64] },
  { tile: [64, 64], warp: [32, 32] },
  { tile: [32, 128], warp: [32, 32] },
  { tile: [128, 32], warp: [32, 32] },
  { tile: [32, 64], warp: [16, 32] },
  { tile: [64, 32], warp: [32, 16] },
  { tile: [16, 128], warp: [16, 32] },
  { tile: [128, 16], warp: [32, 16] },
  { tile: [16, 64], warp: [16, 16] },
  { tile: [64, 8], warp: [16, 8] },
  { tile: [16, 32], warp: [16, 8] },
];

/** Warp tiles of the others, large to small: what accumulators leave registers for, and columns that can be interleaved to lanes. */
const warpRows = [96, 80, 64, 48, 32, 16] as const;
const warpColumns = [96, 64, 32] as const;
const MOST_SUMS = 64 * 64;
/** Of bytes that do not lie along k, whose fragments are put together one by one (ptxas 13.0: 48 x 32 of e4m3 spills 176 bytes). */
const MOST_SUMS_ACROSS = 32 * 32;

const mostSums = ({ a, b }: Problem): number =>
  (sizeOf(a.dtype) === 1 && a.layout === "col") || (sizeOf(b.dtype) === 1 && b.layout === "row")
    ? MOST_SUMS_ACROSS
    : MOST_SUMS;

/** Whether fragments of B come word by word: elements of four bytes that do not lie along k, which ldmatrix does not transpose. */
export const wordByWord = ({ b }: Problem): boolean => sizeOf(b.dtype) === 4 && b.layout === "row";

/**
 * Tiles that are no slower than predicted with such fragments: those of 96 and 192 columns, of six warps, and most with warps of 48, 80 or 96 rows take 1.3 to 2.9 times as long
 * (tf32 on an H200 at 24 sizes, docs/perf/runs/2026-11-29-h200-unseen-tf32.json).
 */
const suitsWords = ([rows, columns]: Shape["warp"], [, across]: Shape["tile"], warps: number): boolean => {
  if (across % 3 === 0 || warps === 6 || rows === 96) return false;
  if (rows === 80) return columns === 32 && across === 128 && warps === 4;
  return rows !== 48 || across === 4 * columns;
};

/** Warps below and beside each other. */
const warpGrids = [
  [2, 4],
  [4, 2],
  [2, 2],
  [1, 4],
  [4, 1],
  [3, 2],
  [2, 3],
  [1, 2],
  [2, 1],
] as const;

/** Whether a tile has whole blocks of scale factors. */
const wholeBlocks = ({ tile }: Pick<Shape, "tile">): boolean =>
  tile.every((extent) => extent % SCALE_ROWS === 0);

/** Most rows and columns of a tile. */
const MOST = 256;
/** Rows and columns of an instruction's pair: a tile that has as many more than the problem could do without them. */
const STEP = 16;

/**
 * The usual tiles, then those between them, which fill waves that the usual ones do not. Where registers hold more than the product (sizes of the launch, an epilogue, f32 in
 * parts, groups), only the former: they are known not to spill.
 */
export function* shapesFor(problem: Problem): Generator<Shape> {
  if (isScaled(problem.a.dtype)) {
    yield* usual.flatMap((shape) => (wholeBlocks(shape) ? [{ ...shape, between: false }] : []));
    return;
  }
  for (const shape of usual) yield { ...shape, between: false };
  // Groups of columns that share a scale lie in the lanes of one warp, of a gated product those of both factors.
  const group = quantizeOf(problem)?.step.group ?? 0;
  for (const columns of group > 32 ? [group, 2 * group] : [])
    for (const rows of warpRows)
      for (const [below, beside] of warpGrids)
        if (rows * columns <= MOST_SUMS && rows * below <= MOST && columns * beside <= MOST)
          yield { tile: [rows * below, columns * beside], warp: [rows, columns], between: false };
  const { m, n, epilogue, precision, batch } = problem;
  if (
    epilogue.length > 0 ||
    precision === "3xtf32" ||
    batch.kind === "grouped" ||
    symbolicSizes(problem).length > 0
  )
    return;
  const known = new Set(usual.map(({ tile }) => String(tile)));
  const most = mostSums(problem);
  for (const rows of warpRows)
    for (const columns of warpColumns) {
      if (rows * columns > most) continue;
      for (const [below, beside] of warpGrids) {
        const tile = [rows * below, columns * beside] as const;
        const beyond = (size: number, extent: number): boolean => size > MOST || size - STEP >= extent;
        if (known.has(String(tile)) || beyond(tile[0], m) || beyond(tile[1], n)) continue;
        if (wordByWord(problem) && !suitsWords([rows, columns], tile, below * beside)) continue;
        yield { tile, warp: [rows, columns], between: true };
      }
    }
}

/** Blocks that may share a tile, beside as many as give each SM one or two. */
const splits = [1, 2, 3, 4, 6, 8, 12, 16] as const;
const MOST_SPLIT = 16;

/** Tiles up to which they may: beyond, the last round is a small share of the time, and the parts would fill memory. */
const SPLIT_TILES = 528;

/** Blocks that may share one of so many tiles; of groups only the launch knows how many tiles they have. */
export function splitsFor({ batch }: Problem, tiles: number, sms: number): readonly number[] {
  if (tiles > SPLIT_TILES || batch.kind === "grouped") return [1];
  const filling = [1, 2].map((beside) => Math.floor((beside * sms) / tiles));
  return [...new Set([...splits, ...filling.map((split) => Math.max(1, Math.min(MOST_SPLIT, split)))])];
}

/**
 * Whether blocks may share tiles by chunks (stream-K) unasked: sums in registers are all that they hold beside the ring, and several blocks have parts of a tile. Parts of a block that holds
 * more would spill.
 */
export const servesStreamK = (problem: Problem, copy: Copy): boolean =>
  copy === "cp.async" &&
  problem.batch.kind === "none" &&
  problem.c === null &&
  problem.epilogue.length === 0 &&
  problem.precision !== "3xtf32" &&
  problem.weights === undefined &&
  symbolicSizes(problem).length === 0;

/** Elements of the smallest tile whose chunks are shared: of smaller ones there are many, and splits fill the waves. */
export const SHARED_TILE = 128 * 128;
