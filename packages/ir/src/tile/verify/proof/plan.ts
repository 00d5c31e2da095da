/** What a proof runs: the statements of a machine program that synchronise, with their counts, bytes and blocks. */

import type { Columns, Cond, Expr, SlotRange, Stmt, Within } from "../../types.ts";
import type { ChunkCuts } from "../chunks.ts";

export type EdgeName = "full" | "empty";

/**
 * Blocks of a cluster that an action reaches. A unit is a pair, or the block itself where there is none. `leader`: the first of the unit. `pair`: all of it.
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

interface Common {
  /** The statement that the action comes from; null for what stands around all of them. */
  readonly stmt: Stmt | null;
  readonly leader?: Leader;
  /** Threads that have to execute it together: one, or whole warps (`.sync.aligned`). */
  readonly lanes: "one" | "warps";
}

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

export type Action = Common &
  /** The role comes to this statement of the ring. */
  (
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
    /** One arrival at the full edge of each block in `reach`, which will not be complete before `bytes` have come. */
    | ({ readonly kind: "expect"; readonly bytes: number; readonly reach: Reach } & OnRing)
    /** An engine writes the slot in the blocks of `reach`, and its `bytes` count at the full edge of `signal`. */
    | ({
        readonly kind: "copy";
        readonly bytes: number;
        readonly reach: Reach;
        readonly signal: "destination" | "leader";
      } & OnRing)
    /** Threads write the slot in the blocks of `reach`: one a number that it takes from the counter, or all of the role `bytes` that they copy. */
    | ({ readonly kind: "put"; readonly reach: Reach; readonly bytes?: number } & OnRing)
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
        readonly group: 1 | 2;
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
        readonly group: 1 | 2;
        /** The tile of the sums, its columns, and whether (or when) they are added to. */
        readonly columns: Columns | null;
        readonly tile: string;
        /** Register tiles that are multiplied. */
        readonly held: readonly string[];
        readonly keep: boolean | Cond;
      }
    /** The tensor core takes scale factors from slots of operand rings, in order with matrix instructions: a commit tells of both. */
    | { readonly kind: "factors"; readonly operands: readonly OnRing[]; readonly group: 1 | 2 }
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
    /** Behind the last tile, of `of` roles number `turn`: it takes the turn that is left if it would have the next tile. */
    | { readonly kind: "last turn"; readonly to: number; readonly turn: number; readonly of: number }
    /** All threads of the role meet. */
    | { readonly kind: "gather" }
    /** All threads of all blocks of the cluster meet. */
    | { readonly kind: "meet" }
    /** Declared barriers are initialised. */
    | { readonly kind: "init"; readonly barriers: string; readonly slots: SlotRange | null }
    | { readonly kind: "alloc" | "dealloc"; readonly columns: number; readonly group: 1 | 2 }
    | { readonly kind: "relinquish"; readonly group: 1 | 2 }
  );

export type FenceName = "tensor after" | "tensor before" | "async" | "cta" | "init" | "registers";

export type Step =
  | { readonly kind: "do"; readonly actions: readonly Action[] }
  | {
      readonly kind: "tiles";
      /** Its row and column, on which the turns that loops take depend; null where they are the block's. */
      readonly vars: readonly [string, string] | null;
      /** Variable that counts the tiles of a persistent CTA; null where a block has one. */
      readonly ordinal: string | null;
      /** Of blocks that have shares: `persistent` counts the K chunks of the parts before. Null elsewhere. */
      readonly share: StreamKNames | null;
      /** The ring of responses that says which tile follows. */
      readonly ring: string | null;
      readonly turn: number;
      readonly of: number;
      /** What a role that takes turns does at visits of the others. */
      readonly others: readonly Step[];
      readonly body: readonly Step[];
    }
  | {
      readonly kind: "for";
      readonly variable: string;
      readonly from: Expr;
      readonly to: Expr;
      readonly within: Within | null;
      /** Whether the bounds count K chunks: they then follow the number at hand. */
      readonly chunks: boolean;
      /** Whether it begins behind the chunk that leads, however many there are. */
      readonly led: boolean;
      readonly body: readonly Step[];
    }
  /** `zeros`: tiles of sums that are 0 where the condition does not hold. */
  | {
      readonly kind: "if";
      readonly cond: Cond;
      readonly zeros?: readonly string[];
      readonly body: readonly Step[];
    }
  /** What a warp may leave out. */
  | { readonly kind: "vote"; readonly body: readonly Step[] };

/** Variables of a part: its number (where something asks for it), its first chunk, and how many chunks it has. */
export interface StreamKNames {
  readonly parts: string | null;
  readonly first: string;
  readonly count: string;
}

export interface PlanRole {
  readonly name: string;
  readonly warps: number;
  readonly leader: Leader | null;
  readonly one: boolean;
  readonly body: readonly Step[];
}

export interface PlanRing {
  readonly name: string;
  readonly slots: number;
  /** Counts with which its barriers are initialised. */
  readonly arrivals: Readonly<Record<EdgeName, number>>;
  /** Whether its chunks are K chunks, numbered through over the tiles of a persistent CTA; else one a tile. */
  readonly chunked: boolean;
  /** Of accumulators that share columns: those of each, and those that two have in common. Null: a chunk has its slot to itself. */
  readonly lap: { readonly columns: number; readonly shared: number } | null;
  /** Slots are written by the launch control: threads read them, and the async proxy writes them again. */
  readonly responses: boolean;
  /** Whether bulk copies fill it: they write past loads that are under way. */
  readonly bulk: boolean;
  /** Bytes of a slot that threads copy: matrix instructions that read it want a fence between proxies behind the wait. Null where engines copy. */
  readonly copied: number | null;
}

export interface Plan {
  /** Blocks of the cluster, along m and n. */
  readonly cluster: readonly [number, number];
  readonly pair: boolean;
  /** K chunks of the program as it stands: what bounds and numbers in it are made of; null where there is no one number: parts of tiles have variables for theirs, each product of a chain has its own. */
  readonly chunks: number | null;
  /** Where there is no one number: the bounds of loops, and bounds that leave every ring in its slot and phase after fewer turns. */
  readonly shorter: ReadonlyMap<number, number>;
  /** Where loops over them begin, which tells bounds at the end from those behind peeled chunks. Absent: at 0. */
  readonly cuts?: ChunkCuts;
  readonly rings: readonly PlanRing[];
  readonly roles: readonly PlanRole[];
  /** Done by the first warp of each block before the roles begin, and after all of them have ended. */
  readonly begin: readonly Action[];
  readonly end: readonly Action[];
  /** Columns of tensor memory that the tiles take. */
  readonly columns: number;
}
