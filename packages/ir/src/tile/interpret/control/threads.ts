/** Threads as coroutines, what statements compile to, and the hooks by which data statements are given. */
import type { ReductionStmt, Ring, Stmt } from "../../types.ts";
import type { Cells, CellTable } from "../compileExpr.ts";
import type { Groups, RingState } from "../rings.ts";
import type { TileChoice } from "../workTiles.ts";

/** A role, or the whole block outside roles. */
export interface Thread {
  readonly name: string;
  readonly cells: Cells;
  readonly groups: Groups;
  /** Threads of the block that it stands for; of leading blocks only, where a role is theirs. */
  readonly threads: number;
  readonly leader: "pair" | "cluster" | null;
  /** Barriers passed: what happened in different epochs is ordered for all threads of the role. */
  epoch: number;
  /** What `next` has read at this work tile: the ordinal of the one that follows, null for the end. */
  following?: number | null | undefined;
  /** The number of the work tile at hand. */
  tile: number;
  /** It has left the `reduce` around. */
  left?: boolean;
}

/** Where a thread stands still; it goes on when `ready` says so. */
export interface Blocked {
  readonly ready: () => boolean;
  readonly at: string;
  readonly why: string;
}

export type Steps = Generator<Blocked, void, void>;

/** A compiled statement: `run` never blocks, `steps` may. */
export type Op =
  | { readonly kind: "run"; readonly run: (thread: Thread) => void }
  | { readonly kind: "steps"; readonly steps: (thread: Thread) => Steps };

/** Statements that touch data. */
export type DataStmt = Extract<
  Stmt,
  { kind: "fill" | "copy" | "mma" | "accumulate" | "epilogue" | "map" | "reduce.row" }
>;
export type Reduce = Extract<Stmt, { kind: "reduce" }>;
/** Statements of a reduction that are no blocks. */
export type ReductionStep = Exclude<ReductionStmt, { kind: "reduction" | "slices" | "merge" }>;
export type Epilogue = Extract<Stmt, { kind: "epilogue" }>;
export type OrderingStmt = Extract<
  Stmt,
  { kind: "fence" | "wgmma.fence" | "wgmma.commit" | "wgmma.wait" | "pin" }
>;
export type StagingStmt = Extract<Stmt, { kind: "stage" | "bulk.store" | "warp.store" }>;

export type ResultStmt = Extract<Stmt, { kind: "result.load" | "result.clear" | "result.store" }>;

export interface Hooks {
  /** What a data statement does; null: nothing that matters here. */
  data(stmt: DataStmt, table: CellTable, at: string): ((thread: Thread) => void) | null;
  /** Zeros for all of a tile. */
  zero(tile: string, table: CellTable, at: string): (thread: Thread) => void;
  /**
   * A thread hands in its part of a tile, in their order, `last` at the end; how it goes on with the sum: not at all, or once for each entry, which makes ready
   * for it. One thread stands for all blocks that go on.
   */
  combine(
    stmt: Reduce,
    last: (thread: Thread) => boolean,
    table: CellTable,
    at: string,
  ): (thread: Thread) => readonly (() => void)[];
  /** What a statement of an epilogue through a shared tile does; absent: nothing, and the epilogue is done as a whole. */
  staged?(epilogue: Epilogue, stmt: StagingStmt, table: CellTable, at: string): (thread: Thread) => void;
  /** What a statement of a reduction does; absent: nothing, and `reduce` says who goes on. */
  reduction?(combine: Reduce, stmt: ReductionStep, table: CellTable, at: string): (thread: Thread) => void;
  /** What is there once a matrix has been copied; absent: all of it. */
  transpose?(stmt: Extract<Stmt, { kind: "transpose" }>, at: string): () => void;
  /** What a statement does with results of a step; absent: nothing. */
  result?(stmt: ResultStmt, at: string): () => void;
  /** CTAs along the axes of the main kernel's grid, or another's: NaN where none is declared; absent: as many as there are work tiles. */
  ctas?(kernel: string | null): readonly [x: number, y: number, z: number];
  /** Another of `count` numbers of a counter in the workspace, of the problem at hand or of all that are `listed`; absent: nothing. */
  takeNumber?(count: number, listed: boolean, at: string): void;
  /** The parts that a merge goes through, each put where its body finds it; absent: one. */
  merged?(
    combine: Reduce,
    stmt: Extract<Stmt, { kind: "merge" }>,
    table: CellTable,
    at: string,
  ): (thread: Thread) => Iterable<true>;
  /** What a statement that only orders accesses does; absent: nothing. */
  ordering?(stmt: OrderingStmt, at: string): (thread: Thread) => void;
  /** State of a ring at the start of a block. */
  ring(ring: Ring): RingState;
  /** What a slot held is gone, when its producer may fill it again. */
  emptied?(ring: Ring): (place: number) => void;
  /** How a statement is named in faults. */
  at(stmt: Stmt): string;
  /** Shared memory and registers are fresh. */
  newBlock(): void;
  readonly tiles: TileChoice;
  /** Most turns of loops over which the run goes on. */
  readonly turns: number;
  /** Picks the next of `count` threads that can go on. */
  pick(count: number): number;
}

export const run = (action: (thread: Thread) => void): Op => ({ kind: "run", run: action });
export const steps = (action: (thread: Thread) => Steps): Op => ({ kind: "steps", steps: action });
