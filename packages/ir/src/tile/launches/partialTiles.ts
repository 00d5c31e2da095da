/** Partial tiles in the workspace: what the CTAs that share a tile leave for each other. */
import { type LaunchExpr, type Problem, sizeMost, sizeOf } from "@tilewright/core";
import { must } from "../../must.ts";
import { mergeOf, reducingThreads } from "../dsmemReduction.ts";
import { registersPerThread } from "../ownership.ts";
import { rangeOf } from "../ranges.ts";
import { bufferOf, eachStmt } from "../rewrite.ts";
import { sizeRanges } from "../sizes.ts";
import { streamKBlocks } from "../streamK.ts";
import type { Buffer, ReductionKind, Stmt, TileProgram, WorkspaceInit } from "../types.ts";
import { blocksOfTile, problemsOf, type Tiles, tilesOf, times } from "./counts.ts";
import type { Unplaced } from "./workspace.ts";

/** Bytes of a counter; of one that also says who has left, two words. */
export const COUNTER_BYTES = 4;
const wordOf = (by: ReductionKind): number => (by === "slices" ? 2 * COUNTER_BYTES : COUNTER_BYTES);

/** The counters come first; what follows them begins at a multiple of this, a line of L2. */
export const COUNTER_LINE = 128;

/** The work tiles of a program that CTAs share, and where they meet; null where none do. */
export function reductionIn(
  program: TileProgram,
): { readonly tiles: Tiles; readonly combine: Extract<Stmt, { kind: "reduce" }> } | null {
  let tiles: Tiles | null = null;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "tiles") tiles = stmt;
    if (stmt.kind === "reduce" && tiles !== null) return { tiles, combine: stmt };
  }
  return null;
}

/** Whether the parts of a tile are added up as they come, in one place. */
export const inOnePlace = (by: ReductionKind): boolean => by === "atomics" || by === "bulk";

/** What CTAs that share tiles have in the workspace. */
export interface PartialTiles {
  readonly by: ReductionKind;
  readonly splits: number;
  /** Counters, but for a sum by another kernel, and partial tiles. */
  readonly regions: readonly Unplaced[];
  readonly init: WorkspaceInit;
}

/** The partial tiles of a program; null when no tile is shared, or CTAs meet in a cluster. */
export function partialTilesIn(program: TileProgram): PartialTiles | null {
  const meeting = reductionIn(program);
  if (meeting === null) return null;
  const { tiles, combine } = meeting;
  const { split, streamK: share = null } = tiles;
  if ((split === null && share === null) || combine.by === "cluster") return null;
  const counted = share?.counted ?? null;
  // Groups stand in one line.
  const problems =
    counted !== null && program.problem.batch.kind === "grouped" ? 1 : problemsOf(program.problem);
  // Each block of a pair has its half of the tile, and meets the blocks that have the same half.
  const each = blocksOfTile(program);
  // Of a line that the kernel cuts, a tile in parts has the counter of the block in whose share it begins: no other such tile begins there.
  const count =
    counted !== null ? counted.blocks : share === null ? times(tilesOf(tiles), each) : share.tiles * each;
  const splits = split?.extent ?? 1;
  const most =
    (counted?.blocks ?? each * mostTilesOf(program.problem, tiles)) * mostProblemsOf(program.problem);
  const { by } = combine;
  const all = times(problems, count);
  const fixed = typeof all === "number";
  const acc = bufferOf(program, combine.acc.buffer);
  const handedIn = (mergeOf(combine)?.of ?? [acc.name]).map((name) => bufferOf(program, name));
  const threads = reducingThreads(program);
  // A column of tensor memory is a word, whatever it holds; else registers are full.
  const word = program.buffers.some(({ space }) => space === "tensor");
  const bytes = word ? COUNTER_BYTES : sizeOf(acc.dtype);
  const stride = registerTileBytes(handedIn, threads, bytes);
  // A share ends inside a tile at either end, at most.
  const places =
    inOnePlace(by) || share === null
      ? count
      : counted !== null
        ? 2 * counted.blocks
        : 2 * streamKBlocks(share) * each;
  const apart = inOnePlace(by) || share !== null ? 1 : splits;
  const partials: Unplaced = {
    name: "partials",
    stride,
    ...(apart === 1 ? {} : { each: apart }),
    threads,
    count: places,
    bytes: times(times(problems, times(places, apart)), stride),
  };
  const counters: Unplaced = {
    name: "counters",
    stride: wordOf(by),
    count,
    bytes: lines(!fixed && most <= MOST_COUNTERS ? most : all, wordOf(by)),
  };
  return {
    by,
    splits,
    regions: by === "kernel" ? [partials] : [counters, partials],
    init: initOf(by, fixed || most <= MOST_COUNTERS),
  };
}

/** Bytes that the register tiles of so many threads take in a partial tile, one behind the other. */
export const registerTileBytes = (tiles: readonly Buffer[], threads: number, bytes: number): number =>
  tiles.reduce(
    (sum, { own }) => sum + registersPerThread(must(own, "accumulators have an owner")) * threads * bytes,
    0,
  );

/**
 * Most counters that have their place whatever the launch's sizes are. Where there may be more, parts of one launch lie where another has its
 * counters.
 */
const MOST_COUNTERS = 2 ** 16;

/**
 * Counters, and tiles that atomics add to, end as they began: at 0. Parts that blocks leave do not, which matters where counters of another launch
 * come to lie on them.
 */
function initOf(by: ReductionKind, fixed: boolean): WorkspaceInit {
  if (by === "kernel") return "none";
  return inOnePlace(by) || fixed ? "zeroOnce" : "zeroEach";
}

/** Whole lines of counters, in bytes. */
const lines = (count: LaunchExpr, word: number): LaunchExpr =>
  typeof count === "number"
    ? Math.ceil((count * word) / COUNTER_LINE) * COUNTER_LINE
    : ["mul", ["ceilDiv", ["mul", count, word], COUNTER_LINE], COUNTER_LINE];

/** The most problems of any launch. */
const mostProblemsOf = (problem: Problem): number =>
  problem.batch.kind === "none"
    ? 1
    : problem.batch.kind === "grouped"
      ? problem.batch.count
      : sizeMost(problem, "batch");

/** The most output tiles of one problem. */
function mostTilesOf(problem: Problem, { extents, symbolic }: Tiles): number {
  const ranges = sizeRanges(problem);
  const most = (axis: 0 | 1): number => {
    const count = symbolic?.[axis] ?? null;
    return count === null ? extents[axis] : rangeOf(count, ranges)[1];
  };
  return most(0) * most(1);
}
