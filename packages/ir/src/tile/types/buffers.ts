/** Tiles of memory, rings of them, and views. */
import type { DType } from "@tilewright/core";
import type { Layout } from "../../layout/types.ts";
import type { Place } from "./declarations.ts";
import type { Expr, Ownership } from "./placement.ts";

export type Space = "global" | "shared" | "register" | "tensor";

/** A 2-D tile of memory. Names are printed with a leading `%`, stored without it. */
export interface Buffer {
  readonly name: string;
  readonly space: Space;
  readonly dtype: DType;
  /** Rows and columns of one slot. For `global` the whole matrix: A is m x k, B k x n, C and D m x n. */
  readonly shape: readonly [number, number];
  /** Copies of the tile: ring slots in shared memory, double buffering in registers; 1 otherwise. */
  readonly slots: number;
  /**
   * Global: strides of the matrix (always set). Shared and tensor: set by the pass that binds layouts. Register: null. Offsets of a tensor tile
   * are addresses of tensor memory: lane times 65536 plus column, from the slot's first column.
   */
  readonly layout: Layout | null;
  /** Register tiles: set by the pass that binds ownership. */
  readonly own: Ownership | null;
  /** Alignment of the base in bytes: of the caller's pointer for `global`, of the allocation for `shared`; 0 for registers. */
  readonly align: number;
  /**
   * In a program of a pair of blocks (`Launch.pair`): the axis along which the two halves of the tile lie, the first in the leading block,
   * the second in the other. Absent: each block has a tile of its own, as where there is no pair. Says where elements lie, not what they are;
   * the layout is that of one half.
   */
  readonly halves?: 0 | 1;
  /**
   * Accumulators that are to lie, or lie, in tensor memory, or in the fragments of warpgroups: 1 where columns rather than rows go into lanes (or are the 64 rows of the
   * fragment), which makes A and B of their matrix instructions change places. Absent: rows do. Says where elements lie, not what they are.
   */
  readonly lanes?: 1;
  /**
   * Shared tiles that are written only when the chunks of all rings have been read: they lie where the rings do. In programs whose blocks have one
   * tile, or a part of one.
   */
  readonly aliased?: true;
  /**
   * Shared tiles of elements under 8 bits: they share bytes, as in global memory. Absent: each takes a byte, as instructions that mix them with
   * wider ones want it.
   */
  readonly packed?: true;
  /** Global: how lines that the kernel reads or writes of it leave L2. Absent: as all others. */
  readonly cache?: CachePolicy;
  /** Global: bytes that L2 fetches at once where a bulk copy misses. Absent: 256. */
  readonly l2Promotion?: L2Promotion;
  /** Global: bytes that L2 fetches at once where a copy by the threads misses. Absent: as the hardware has it. */
  readonly l2PrefetchBytes?: L2PrefetchSize;
  /** Global: loads and stores by the threads leave no lines in L1. */
  readonly noAllocate?: true;
  /**
   * A and B: what is read is a copy in the workspace, which a kernel before this one makes, and `layout` and `align` are the copy's (`transposed.ts`). Absent: the launch's
   * own matrix.
   */
  readonly transposed?: true;
  /** Global: rows (or columns) lie in pages. Views count those of the problem at hand, of which there are none behind the last; the shape and strides are those of all pages in memory. */
  readonly paged?: Paged;
  /** Shared and tensor tiles of stage `machine`: where they lie. */
  readonly place?: Place;
}

/**
 * The axis along which a matrix lies in pages, and the step that tells rows of problems apart (`Runs` with `pages`); or, of rows that an index names (`gather`, `scatter`), each of which is a page of its own,
 * the index.
 */
export interface Paged {
  readonly axis: 0 | 1;
  readonly step: number;
}

/** Which lines L2 gives up first and last (PTX ISA, cache eviction priority hints); `evict_unchanged`: a use does not make a line younger. */
export const cachePolicies = ["evict_first", "evict_last", "evict_unchanged"] as const;

export type CachePolicy = (typeof cachePolicies)[number];

/** Bytes, less than the 256 that a tensor map's misses bring; 0: what is missing, no more (CUtensorMapL2promotion). */
export const l2Promotions = [128, 64, 0] as const;

export type L2Promotion = (typeof l2Promotions)[number];

/** Bytes of a prefetch of loads and asynchronous copies (PTX ISA, ld and cp.async: level::prefetch_size). */
export const l2PrefetchSizes = [64, 128, 256] as const;

export type L2PrefetchSize = (typeof l2PrefetchSizes)[number];

/** How a ring edge is realised. `implied`: ordered by the other edges, which the protocol verifier proves. */
export type Edge =
  | { readonly kind: "barrier"; readonly id: number }
  | { readonly kind: "mbarrier"; readonly arrivals: number }
  | { readonly kind: "implied" };

/**
 * What moves the data. `direct`: a load and a store through registers by the same threads. `cp.async`: asynchronous copy, complete
 * when its group is waited for. `tma`: bulk tensor copy, completes on an mbarrier. `ldmatrix`: a fragment from a shared tile, 8 x 8 matrices
 * of a warp at once; its `vector` is the elements of a matrix row (16 bytes) and the matrices of one instruction. `tcgen05.ld`: from tensor
 * memory into the registers of the warps whose lanes hold it; `tcgen05.st`: back, or of elements that threads have made. `tcgen05.cp`: scale factors from shared to tensor memory, in order with the matrix
 * instructions of the same thread; blocks keep their words, and the extents of both sides are those of their layouts (`scaleTiles.ts`). `factors`:
 * words of scale factors from a shared tile, which has them in blocks, into the lanes whose instructions take them. Of rings
 * only: `tcgen05.mma`, whose slots are tensor tiles that matrix
 * instructions fill, complete when a commit has tracked them; and rings of responses about tiles: `clc`, whose slots are responses of the launch
 * control, and `atomic`, whose slots hold numbers that a counter in memory has given.
 */
export type Transport =
  | "direct"
  | "cp.async"
  | "tma"
  | "ldmatrix"
  | "tcgen05.ld"
  | "tcgen05.st"
  | "tcgen05.cp"
  | "factors"
  | "tcgen05.mma"
  | "clc"
  | "atomic";

/** A ring of slots in one or more shared buffers. Chunks have sequence numbers 0, 1, …; chunk t lives in slot t % slots. */
export interface Ring {
  readonly name: string;
  readonly slots: number;
  /**
   * Of accumulators, in a ring of one slot whose buffer has two: chunks lie by turns in these two places, the second of which begins so many columns of tensor memory
   * before the first ends. A release says that the columns which the next chunk's place shares have been read; the others of the chunk may be read until
   * the next chunk is released. Absent: chunks share nothing.
   */
  readonly overlapped?: number;
  /**
   * Of one accumulator, in a ring of one slot: a chunk goes on from what its consumers have left of the one before, which they may change between wait and release.
   * Producers and consumers so write one place by turns. Absent: what a slot held is gone when it is acquired.
   */
  readonly carried?: true;
  readonly buffers: readonly string[];
  readonly transport: Transport;
  /** From commit to wait. Set by the pass that specialises; null before. */
  readonly full: Edge | null;
  /** From release to acquire. */
  readonly empty: Edge | null;
}

/** Places in which the chunks of a ring lie in turn: chunk t in place t % places, which is the slot of its views. */
export const placesOf = ({ slots, overlapped: lap }: Pick<Ring, "slots" | "overlapped">): number =>
  lap === undefined ? slots : 2 * slots;

/** Some columns of a tile: of every `of` of them (those of one of its warpgroups side by side, or all) `from` to `to` - 1. */
export interface Columns {
  readonly from: number;
  readonly to: number;
  readonly of: number;
}

/** A rectangle of one slot of a buffer: origin and extent, rows then columns. */
export interface View {
  readonly buffer: string;
  readonly slot: Expr;
  readonly origin: readonly [Expr, Expr];
  readonly extent: readonly [number, number];
}
