/** What a statement of a machine program does to barriers, slots, engines, fences and tensor memory: all that a proof looks at. */

import type { Columns, Cond, Expr, SlotRange } from "../../types.ts";

export type EdgeName = "full" | "empty";

/**
 * Blocks of a cluster that an effect reaches. A unit is a pair, or the block itself where there is none. `leader`: the first of the unit. `pair`: all of it.
 * `m`, `n`: those along an axis of the cluster that hold the same part of a tile: of pairs the blocks of one side. `peers`: the blocks of all units with which
 * this one shares copies along these axes, its own among them. `first`: the leading block of the cluster. `cluster`: all.
 */
export type Reach =
  | "own"
  | "leader"
  | "pair"
  | "peers-m"
  | "peers-n"
  | "peers-mn"
  | "m"
  | "n"
  | "first"
  | "cluster";

/** Only the first block of each pair does it (where there are pairs), or only the first of the cluster. */
export type Leader = "pair" | "cluster";

/** Columns of a tile of registers that threads load. */
export interface Loaded {
  readonly tile: string;
  readonly from: number;
  readonly to: number;
}

interface OnRing {
  readonly ring: string;
  /** The pipeline, or the slot with a name, that says which chunk. */
  readonly at: string;
}

export type Effect =
  /** The role comes to this statement of the ring. */
  | ({ readonly kind: "mark"; readonly event: "acquire" | "commit" | "wait" | "release" } & OnRing)
  /** The role begins there: `from` the chunk of the text's own number of K chunks. */
  | ({ readonly kind: "begin"; readonly from: number } & OnRing)
  /** On by chunks; `skips`: those of the tiles of others. */
  | ({ readonly kind: "advance"; readonly by: number; readonly skips: boolean } & OnRing)
  | ({ readonly kind: "hold"; readonly of: string } & OnRing)
  /** Spin on the parity of a chunk's phase; `lag`: phases before that (a producer waits for the slot's last tenant). */
  | ({
      readonly kind: "wait";
      readonly edge: EdgeName;
      readonly lag: 0 | 1;
    } & OnRing)
  /** Wait until every slot has been given back, from the pipeline's on. */
  | ({ readonly kind: "vacated" } & OnRing)
  /** One arrival at the full edge of each block in `reach`, which will not be complete before `bytes` have come. */
  | ({
      readonly kind: "expect";
      readonly bytes: number;
      readonly reach: Reach;
      /** Whether only the first block of a pair does it. */
      readonly leader: boolean;
    } & OnRing)
  /** An engine writes the slot in the blocks of `reach`, and its `bytes` count at the full edge of `signal`. */
  | ({
      readonly kind: "copy";
      readonly bytes: number;
      readonly reach: Reach;
      readonly signal: "destination" | "leader";
    } & OnRing)
  /**
   * Threads write the slot in the blocks of `reach`: one a number that it takes from the counter, or all of the role what they compute, or `bytes` that they copy. `tensor`: by stores of tensor memory, which are
   * done when it ends. `changes`: between wait and release, what they have loaded of it.
   */
  | ({
      readonly kind: "put";
      readonly reach: Reach;
      readonly bytes?: number;
      readonly tensor?: true;
      readonly changes?: true;
    } & OnRing)
  | ({
      readonly kind: "arrive";
      readonly edge: EdgeName;
      readonly count: number;
      readonly reach: Reach;
      /** One thread arrives for the others of its warp or warpgroup. */
      readonly grouped: boolean;
    } & OnRing)
  /** Arrive when the matrix instructions issued so far are done. */
  | ({
      readonly kind: "commit";
      readonly edge: EdgeName;
      readonly count: number;
      readonly reach: Reach;
    } & OnRing)
  /** Threads read the slot. `pending`: the loads are only done at the next `loaded`. */
  | ({
      readonly kind: "read";
      readonly proxy: "generic" | "tensor";
      readonly pending: boolean;
      /** Of a ring whose chunks share columns: those that are read. */
      readonly columns?: { readonly from: Expr; readonly count: number };
      /** Registers that take what is read, whose uses end the read; absent: other places. */
      readonly into?: Loaded;
    } & OnRing)
  /** Matrix instructions read slots of operand rings and write a slot of an accumulator ring (null: registers). */
  | {
      readonly kind: "multiply";
      readonly operands: readonly OnRing[];
      readonly sums: OnRing | null;
      /** The tile of the sums, its columns, and whether (or when) they are added to. */
      readonly columns: Columns | null;
      readonly tile: string;
      /** Register tiles that are multiplied. */
      readonly held: readonly string[];
      readonly keep: boolean | Cond;
    }
  /** The tensor core takes scale factors from slots of operand rings, in order with matrix instructions: a commit tells of both. */
  | { readonly kind: "factors"; readonly operands: readonly OnRing[] }
  /** The loads from tensor memory so far are done. */
  | { readonly kind: "loaded" }
  /** Registers that were loaded are read; those into which matrix instructions accumulate, some columns of them. */
  | { readonly kind: "use"; readonly loaded?: readonly Loaded[] }
  | { readonly kind: "sums"; readonly tile: string; readonly columns: Columns | null }
  /** Zeros for a tile of sums; `once`: before the first work tile only. */
  | { readonly kind: "zero"; readonly tile: string; readonly once: boolean }
  /** Sums that were made apart are added to others. */
  | {
      readonly kind: "accumulate";
      readonly tile: string;
      readonly part: string;
      readonly columns: Columns;
    }
  /** The products since the last of these are a group. */
  | { readonly kind: "group" }
  /** All groups of products but the last `pending` are done. */
  | { readonly kind: "drain"; readonly pending: number }
  | { readonly kind: "fence"; readonly what: FenceName }
  /** The lanes of each warp meet. */
  | { readonly kind: "sync" }
  /** Threads write a slot of a staging tile; a bulk store reads it; all groups of stores so far but the last `pending` have read what they store. */
  | { readonly kind: "stage" | "store"; readonly buffer: string; readonly slot: Expr }
  /** The stores since the last of these are a group. */
  | { readonly kind: "stores" }
  | { readonly kind: "stored"; readonly pending: number }
  /** The role waits until its turn has come; it hands the turn to role number `to` of those that take turns. */
  | { readonly kind: "turn"; readonly to: number }
  | { readonly kind: "pass"; readonly to: number }
  /** All threads of the role meet. */
  | { readonly kind: "gather" }
  /** All threads of all blocks of the cluster meet. */
  | { readonly kind: "meet"; readonly orders: boolean }
  /** Declared barriers are initialised. */
  | { readonly kind: "init"; readonly barriers: string; readonly slots: SlotRange | null }
  | { readonly kind: "alloc"; readonly columns: number }
  | { readonly kind: "dealloc"; readonly columns: number }
  | { readonly kind: "relinquish" };

export type FenceName = "tensor after" | "tensor before" | "async" | "cta" | "init" | "registers";
