/** What the blocks that share a tile leave for each other: the layout of the workspace. */
import { hasFeature, type LaunchExpr, type Manifest, sizeMost, type Target } from "@tilewright/core";
import {
  bufferOf,
  eachStmt,
  type ReductionKind,
  rangeOf,
  reducingThreads,
  registersPerThread,
  type StreamK,
  sizeRanges,
  streamKBlocks,
  type TileProgram,
  withSum,
} from "@tilewright/ir";
import type { Engine, RegisterType, StmtOf } from "./engine.ts";
import { ownerOf } from "./registers.ts";
import { blocksOfTile, problemsOf, tilesOf } from "./tileCounts.ts";

/** Name of the parameter. */
export const WORKSPACE = "workspace";

/** Bytes of a counter; of one that also says who has left, two words. */
const WORD = 4;
const wordOf = (by: ReductionKind): number => (by === "slices" ? 2 * WORD : WORD);

export const bytesOf = (type: RegisterType): number => (type === "f64" ? 8 : 4);

/** The counters come first; what follows them begins at a multiple of this, a line of L2. */
export const LINE = 128;

/** Whether the parts of a tile are added up as they come, in one place. */
export const inOnePlace = (by: ReductionKind): boolean => by === "atomics" || by === "bulk";

/** How a program lays out its workspace; null when no tile is shared. Sizes in bytes. */
export interface PartialTiles {
  readonly by: ReductionKind;
  /** Shares of chunks that blocks have; null where a tile is split among so many blocks. */
  readonly share: StreamK | null;
  readonly splits: number;
  /** Problems of the batch; tiles of each that blocks share, and parts of each that have a place of their own. */
  readonly problems: LaunchExpr;
  readonly tiles: LaunchExpr;
  readonly parts: LaunchExpr;
  /** Threads that hold the accumulators, and the registers of each. */
  readonly threads: number;
  readonly registers: number;
  readonly type: RegisterType;
  /** Registers of one access: groups of so many follow each other group by group, thread by thread, so that a warp's accesses are whole lines. */
  readonly vector: number;
  /** Of a tile's counter, and of all of them. */
  readonly wordBytes: number;
  readonly counterBytes: LaunchExpr;
  /** What the workspace must be before a launch. */
  readonly init: Manifest["workspace"]["init"];
  /** One block's accumulators. */
  readonly partBytes: number;
}

/** The workspace of a program whose register tiles the engine holds. */
export function partialTiles(program: TileProgram, engine: Engine, target: Target): PartialTiles | null {
  let combine: StmtOf<"reduce"> | null = null;
  let tiles: StmtOf<"tiles"> | null = null;
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "reduce") combine = stmt;
    if (stmt.kind === "tiles") tiles = stmt;
  }
  if (combine === null || tiles === null) return null;
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
  // A share ends inside a tile at either end, at most.
  const apart =
    counted !== null
      ? 2 * counted.blocks
      : share === null
        ? times(count, splits)
        : 2 * streamKBlocks(share) * each;
  const most =
    (counted?.blocks ?? each * mostTilesOf(program.problem, tiles)) * mostProblemsOf(program.problem);
  const { by } = combine;
  const all = times(problems, count);
  const fixed = typeof all === "number";
  const acc = bufferOf(program, combine.acc.buffer);
  const { type, packed } = engine.holding(acc.dtype);
  const registers = registersPerThread(ownerOf(acc)) / packed;
  const threads = reducingThreads(program);
  return {
    by: combine.by,
    share,
    splits,
    problems,
    tiles: count,
    parts: inOnePlace(by) ? count : apart,
    threads,
    registers,
    type,
    vector:
      by === "atomics"
        ? atomicVector(type, registers, target)
        : by === "bulk"
          ? bulkVector(type, registers)
          : by === "slices"
            ? sliceVector(combine, type, packed)
            : 1,
    wordBytes: wordOf(by),
    counterBytes: by === "kernel" ? 0 : lines(!fixed && most <= MOST_COUNTERS ? most : all, wordOf(by)),
    init: initOf(by, fixed || most <= MOST_COUNTERS),
    partBytes: registers * threads * bytesOf(type),
  };
}

/**
 * Most counters that have their place whatever the launch's sizes are. Where there may be more, parts of one launch lie where another has its
 * counters.
 */
const MOST_COUNTERS = 2 ** 16;

/**
 * Counters, and tiles that atomics add to, end as they began: at 0. Parts that blocks leave do not, which matters where counters of another launch
 * come to lie on them.
 */
function initOf(by: ReductionKind, fixed: boolean): Manifest["workspace"]["init"] {
  if (by === "kernel") return "none";
  return inOnePlace(by) || fixed ? "zeroOnce" : "zeroEach";
}

/** The product, folded where it can be. */
export const times = (a: LaunchExpr, b: LaunchExpr): LaunchExpr =>
  typeof a === "number" && typeof b === "number" ? a * b : b === 1 ? a : ["mul", a, b];

/** Whole lines of counters, in bytes. */
const lines = (count: LaunchExpr, word: number): LaunchExpr =>
  typeof count === "number"
    ? Math.ceil((count * word) / LINE) * LINE
    : ["mul", ["ceilDiv", ["mul", count, word], LINE], LINE];

/** The most problems of any launch. */
const mostProblemsOf = (problem: TileProgram["problem"]): number =>
  problem.batch.kind === "none"
    ? 1
    : problem.batch.kind === "grouped"
      ? problem.batch.count
      : sizeMost(problem, "batch");

/** The most output tiles of one problem. */
function mostTilesOf(problem: TileProgram["problem"], { extents, symbolic }: StmtOf<"tiles">): number {
  const ranges = sizeRanges(problem);
  const most = (axis: 0 | 1): number => {
    const count = symbolic?.[axis] ?? null;
    return count === null ? extents[axis] : rangeOf(count, ranges)[1];
  };
  return most(0) * most(1);
}

/** f32 additions in memory that one instruction makes: up to four side by side (PTX ISA, red). */
function atomicVector(type: RegisterType, registers: number, target: Target): number {
  if (type !== "f32" || !hasFeature(target, "red.vector")) return 1;
  return registers % 4 === 0 ? 4 : registers % 2 === 0 ? 2 : 1;
}

/** Most bytes that one instruction loads. */
const WIDEST = 16;

/** Registers side by side that a thread stores at once for bulk copies: those of a warp are a whole number of the copies' 16 bytes. */
const bulkVector = (type: RegisterType, registers: number): number =>
  [4, 2, 1].find((v) => registers % v === 0 && v * bytesOf(type) <= WIDEST) ?? 1;

/** Registers side by side of slices, which are whole groups of elements that are stored together. */
function sliceVector(combine: StmtOf<"reduce">, type: RegisterType, packed: number): number {
  const [stored] = withSum(combine);
  const group = stored?.kind === "epilogue" ? Math.max(1, stored.vector / packed) : 1;
  return [4, 2, 1].find((v) => group % v === 0 && v * bytesOf(type) <= WIDEST) ?? 1;
}

/** Bytes of a workspace. */
export function workspaceBytes(shared: PartialTiles | null): LaunchExpr {
  if (shared === null) return 0;
  const { counterBytes, problems, parts, partBytes } = shared;
  const bytes = times(times(problems, parts), partBytes);
  if (typeof counterBytes === "number" && typeof bytes === "number") return counterBytes + bytes;
  return counterBytes === 0 ? bytes : ["add", counterBytes, bytes];
}
