/** Which CTA computes which part of the output: raster, persistent loops, split-K and stream-K. */
import type { Expr } from "./placement.ts";

/**
 * Order in which output tiles are visited (`raster.ts` says which tile is number t). `grouped`: `group` tile rows at a time, rows fastest;
 * `snake`: the same with every other group from the last column to the first; `pieces`: groups in pieces of 4 x 2 tiles; `hilbert`: along Hilbert's curve in squares of a power of two.
 */
export type Raster =
  | { readonly kind: "row" }
  | { readonly kind: "col" }
  | { readonly kind: "hilbert" }
  | { readonly kind: "grouped" | "snake"; readonly group: number }
  | { readonly kind: "blocked"; readonly group: number };

/** How persistent CTAs come by their tiles. */
export const tileLoopKinds = ["stride", "zigzag", "ring", "streamk"] as const;

/**
 * Persistent CTAs: inside a role `tiles` is a loop of that role over the tiles that its block gets, `var` counting them from 0. Every role of
 * the block visits the same tiles in the same order. With `of` roles taking turns, this one takes visits `turn`, `turn + of`, …, and they multiply one
 * after the other: each begins to wait for chunks when the one before has issued the products of its last (`pingPongPoints`).
 * Of responses each of them reads all: what the body says of the visit's own ring it does at visits of the others, too, and nothing else there.
 * `stride`: block b takes tiles b, b + blocks, … in the order of the raster. `zigzag`: every other round of tiles is handed out from the last block to the first, so that
 * blocks get the same work where it grows or shrinks from tile to tile. `ring`: begins like that, and then the responses in a
 * ring's slots (`request`, `next`) say which tile follows, and when none does. In programs of pairs it is pairs that take tiles. `share`: the parts of the
 * block's share, then whole tiles; `var` counts the K chunks of the visits before, `parts` the visits themselves, where rings have a chunk for each. With
 * `chunks` it counts them too: as many a visit as that expression in sizes of the launch says; of a grouped problem the visits before may have had others.
 */
export interface TileLoop {
  readonly var: string;
  /** Where `var` counts chunks: the variable that counts the visits from 0. Absent: nothing asks for it. */
  readonly tiles?: string;
  readonly by: (typeof tileLoopKinds)[number];
  /** Where the responses are; there iff `by` is `ring`. */
  readonly ring?: string;
  readonly chunks?: Expr;
  /**
   * Of a strided batch: CTAs go through the work tiles of all problems as one list. It takes so many problems at a time, and of these the first tile of each, then the
   * second of each, and so on. Absent: each problem has CTAs of its own.
   */
  readonly batch?: number;
  readonly turn: number;
  readonly of: number;
}

/**
 * How the parts of a tile become its sum. `last`: each block leaves its part in the workspace, the last to come adds them in their order.
 * `atomics`: each block adds its part to one tile of the workspace, in the order in which they come; the last takes the sum from there.
 * `kernel`: each block leaves its part, and a second kernel, launched behind the first, adds them in their order. `cluster`: the blocks of a split are a
 * cluster, and send each other the slices that each shall add, in their order, through its shared memory (`dsmemReduction.ts`). `slices`: each block of a split leaves its part
 * in the workspace and looks for a while whether all have come; those that are still there add up and store a slice each, in the order of the parts, the last to come also
 * the slices of those that have left. `bulk`: as `atomics`, but each block's part passes through shared memory, from where bulk copies add it.
 */
export const reductionKinds = ["last", "atomics", "kernel", "cluster", "slices", "bulk"] as const;

export type ReductionKind = (typeof reductionKinds)[number];

/** Most blocks of a tile that adds up `slices`: each has a bit of the word in which they say that they have left. */
export const MOST_SLICES = 32;

/** Blocks of one output tile: `var` counts them from 0 to `extent` - 1. */
export interface Split {
  readonly var: string;
  readonly extent: number;
}

/**
 * Stream-K: blocks get equal shares of the K chunks of tiles, not tiles. The chunks of the first `tiles` tiles (in the order of the raster),
 * `chunks` of each, stand in one line, which blocks cut into shares of `each`; the last may get fewer. A block works on the parts of tiles that its
 * share meets, one after the other, each as if it were a block's only one: chunks `first` to `first` + `count` - 1 of the tile. The tiles after those
 * have a block each, which does all of their chunks.
 */
export interface StreamK {
  /** Variables: the number of a part's first chunk, and how many chunks it has (at least one). */
  readonly first: string;
  readonly count: string;
  readonly chunks: number;
  readonly each: number;
  readonly tiles: number;
  /** Persistent CTAs: each does its share and then whole tiles at that stride. Absent: whole tiles have blocks of their own. */
  readonly blocks?: number;
  /**
   * Shares that are cut when the kernel runs: the line has all tiles of the launch in it, of a grouped problem those of all groups one after the other, and
   * so many blocks get equal parts of it. `chunks` (at least one, whatever k is), `each` and `tiles` are then those at the problem's own sizes.
   */
  readonly counted?: CountedStreamK;
}

/** Blocks that cut the line, and the K chunks of a tile in sizes of the launch. */
export interface CountedStreamK {
  readonly blocks: number;
  readonly chunks: Expr;
}

/** Variables that a visit binds. */
export const tileLoopVars = (visit: TileLoop | null): readonly string[] =>
  visit === null ? [] : visit.tiles === undefined ? [visit.var] : [visit.var, visit.tiles];

/**
 * How CTAs come by the number of a work tile. A unit of so many CTAs (a cluster) begins with its own number in the grid; a persistent one goes on by as many as there are units (`by stride`), or by what
 * counter or CLC response say (`by ring`), while the number is below the count.
 */
export interface TileScheduler {
  readonly unit: number;
  /** Numbers that there are: work tiles, or rectangles of those that a cluster takes at a time. Null: the launch's sizes say. */
  readonly below: number | null;
  /** The tile's row and column are computed behind the first products, or at the epilogue. */
  readonly deferred: boolean;
  /** A register counts the work tiles: places in tiles depend on it. */
  readonly counts: boolean;
  /** Problems of a grouped launch whose work tiles stand in one list, those of each in the order of the raster. Absent: of one problem. */
  readonly groups?: number;
  /** Stream-K: so many CTAs (or pairs) cut the line of K chunks into shares; `whole`: tiles behind the line are done whole, by CTAs of their own or when shares are done. */
  readonly streamk?: { readonly ctas: number; readonly whole: boolean };
}
