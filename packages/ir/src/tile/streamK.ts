/** Stream-K as arithmetic: who does which chunks of which tile. */
import type { Problem } from "@tilewright/core";
import { type Env, type ExprLike, evaluateExpr, substituteExpr } from "./expr.ts";
import { eachStmt, rewriteStmts, withBody } from "./rewrite.ts";
import type { Stmt, StreamK, TileLoop, TileProgram, TileScheduler } from "./types.ts";
import { withExprs } from "./views.ts";

/** A part of a tile: chunks `first` .. `first + count` of tile number `tile`. */
export interface PartialTile {
  readonly tile: number;
  readonly first: number;
  readonly count: number;
  /** The CTA that has it. */
  readonly cta: number;
}

/** Blocks that take shares. */
export const streamKBlocks = ({ chunks, each, tiles }: StreamK): number => Math.ceil((tiles * chunks) / each);

/** Blocks of one problem: those that stay, or those with shares and one for each whole tile. */
export function streamKGrid(share: StreamK, tiles: number): number {
  if (tiles === share.tiles) return streamKBlocks(share);
  return share.blocks ?? streamKBlocks(share) + tiles - share.tiles;
}

/** Blocks for a tile of the last wave from which on a whole wave is shared beside it: one block adds all parts of a tile, and of the tiles of both waves two or three blocks have parts. */
const CROWD = 3;

/**
 * Shares for `blocks` blocks, of tiles with so many chunks: all tiles where there are fewer than blocks, else those of the last wave, which does not
 * fill them, and of the wave before it where the last has few ({@link CROWD}). `stay`: the blocks do whole tiles after their shares. Null where the tiles fill whole waves, or there is nothing
 * to share.
 */
export function streamKFor(
  tiles: number,
  chunks: number,
  blocks: number,
  stay = false,
): Pick<StreamK, "each" | "tiles" | "blocks"> | null {
  const rest = blocks === 0 ? 0 : tiles % blocks;
  if (rest === 0 || chunks === 1) return null;
  const shared = tiles > blocks && CROWD * rest < blocks ? rest + blocks : rest;
  return { each: Math.ceil((shared * chunks) / blocks), tiles: shared, ...(stay ? { blocks } : {}) };
}

/** Equal shares of the line of all tiles. */
export const streamKCut = (
  tiles: number,
  chunks: number,
  blocks: number,
): Pick<StreamK, "each" | "tiles"> => ({
  each: Math.ceil((tiles * chunks) / blocks),
  tiles,
});

/** The share of a launch of these sizes: of a group, as if the launch had no other. */
export function streamKAt({ counted, ...share }: StreamK, tiles: number, sizes: Env): StreamK {
  if (counted === undefined) return share;
  const chunks = Math.max(1, evaluateExpr(counted.chunks, sizes));
  return { ...share, chunks, ...streamKCut(tiles, chunks, counted.blocks) };
}

/**
 * Split-K: K chunks (of `tileK` elements) of each of `split` blocks, and the blocks that then have any: rounding up may leave fewer than were
 * asked for.
 */
export function splitChunks(
  k: number,
  { tileK, split }: { readonly tileK: number; readonly split: number },
): { readonly splits: number; readonly chunks: number } {
  const all = Math.ceil(k / tileK);
  const chunks = Math.ceil(all / Math.min(split, all));
  return { splits: Math.ceil(all / chunks), chunks };
}

/** The parts of all blocks in the order of the blocks' numbers, of each block in the order in which it does them. */
export function partialTilesOf(share: StreamK, tiles: number): readonly PartialTile[] {
  const { chunks, each } = share;
  const parts: PartialTile[] = [];
  const line = share.tiles * chunks;
  for (let from = 0; from < line; from += each) {
    const end = Math.min(line, from + each);
    for (let at = from; at < end; ) {
      const tile = Math.floor(at / chunks);
      const count = Math.min(end, (tile + 1) * chunks) - at;
      parts.push({ tile, first: at - tile * chunks, count, cta: from / each });
      at += count;
    }
  }
  for (let tile = share.tiles; tile < tiles; tile++)
    parts.push({ tile, first: 0, count: chunks, cta: streamKBlocks(share) + tile - share.tiles });
  return parts;
}

/** The share of a program's tiles; null where tiles have blocks of their own, or are split. */
export function streamKOf(program: TileProgram): StreamK | null {
  for (const stmt of eachStmt(program.body)) if (stmt.kind === "tiles") return stmt.streamK ?? null;
  return null;
}

/** The program with shares of other sizes: what a role does for its parts depends on variables only. */
export function withStreamK(
  program: TileProgram,
  sizes: Pick<StreamK, "chunks" | "each" | "tiles">,
): TileProgram {
  return withBody(
    program,
    rewriteStmts(program.body, (stmt) =>
      stmt.kind === "tiles" && stmt.streamK !== undefined
        ? { ...stmt, extents: [sizes.tiles, 1], streamK: { ...stmt.streamK, ...sizes } }
        : stmt,
    ),
  );
}

/** Whether roles visit the parts of shares, and carry their rings from part to part. */
export const isPersistentStreamK = (program: TileProgram): boolean =>
  eachStmt(program.body).some((stmt) => stmt.kind === "tiles" && stmt.loop?.by === "streamk");

/** What a block does for a part of `count` chunks, as a program of one block a tile; statements keep their order and nesting. */
export function partialTileProgram(program: TileProgram, count: number): TileProgram {
  const share = streamKOf(program);
  if (share === null) return program;
  const values = new Map<string, ExprLike>([
    [share.first, 0],
    [share.count, count],
  ]);
  return withBody(
    program,
    rewriteStmts(program.body, (stmt) => {
      if (stmt.kind !== "tiles") return substituteStmt(stmt, values);
      const { streamK: _, ...tiles } = stmt;
      return tiles;
    }),
  );
}

/** The statement itself, without its nested lists, with values for variables. */
export const substituteStmt = (stmt: Stmt, values: ReadonlyMap<string, ExprLike>): Stmt =>
  withExprs(stmt, (e) => substituteExpr(e, values));

/** What a tile scheduler says of the list that CTAs go through: of the problems of a grouped launch, of shares of K chunks. */
export const listOf = (
  { problem: { batch } }: TileProgram,
  { loop, streamK, extents }: Extract<Stmt, { kind: "tiles" }>,
): Pick<TileScheduler, "groups" | "streamk"> => ({
  ...(batch.kind === "grouped" && (loop !== null || streamK?.counted !== undefined)
    ? { groups: batch.count }
    : {}),
  ...(streamK === undefined
    ? {}
    : {
        streamk:
          streamK.counted === undefined
            ? {
                ctas: streamK.blocks ?? streamKBlocks(streamK),
                whole: extents[0] * extents[1] > streamK.tiles,
              }
            : { ctas: streamK.counted.blocks, whole: false },
      }),
});

/** Problems whose work tiles a loop takes from one list; 1 where each problem of a batch has CTAs of its own. */
export const listedProblems = ({ batch }: Problem, loop: TileLoop | null): number =>
  loop?.batch === undefined || batch.kind !== "strided" ? 1 : batch.count;
