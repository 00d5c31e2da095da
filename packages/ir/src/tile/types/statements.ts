/** Statements of all stages. */
import type { EpilogueStep, Expression, Scalar, WeightType } from "@tilewright/core";
import type { LineOrder } from "../lineOrder.ts";
import type { Columns, Transport, View } from "./buffers.ts";
import type { MachineStmt } from "./machineStatements.ts";
import type { Cond, Distribution, Expr } from "./placement.ts";
import type { Raster, ReductionKind, Split, StreamK, TileLoop, TileScheduler } from "./workTiles.ts";

/**
 * What an expression of elements begins with: an element of a view (which has as many rows and columns, or fewer, each then for a run of them), or the element's own row or column in
 * the tile, counted from there on. `codes`: the view has words of weights, a row for 16 columns and 128 words for 64 rows (core, `problem/weights.ts`), and the leaf is what the element's code is in that dtype.
 */
export type ElementLeaf =
  | { readonly kind: "view"; readonly view: View; readonly codes?: WeightType }
  | { readonly kind: "row" | "col"; readonly from?: Expr };

/** An expression of one element of a tile. */
export type ElementExpr = Expression<ElementLeaf>;

/** What `reduce.row` makes of a row. */
export const rowReductions = ["sum", "max"] as const;

export type RowReduction = (typeof rowReductions)[number];

/** Order of the multiply-adds of one register tile step. `snake` reverses every other run, so that one operand is reused at each turn. */
export type Walk = "rows" | "cols" | "snake-rows" | "snake-cols";

/** What a step reads, by the step's position: of a matrix the tile's rows and columns, of a vector one row or one column. */
export interface StepView {
  readonly step: number;
  readonly view: View;
}

/** Which of the turns within bounds a loop takes: all, one, or all but the first, which may be none. */
export const withinTakes = ["all", "first", "rest", "last"] as const;

/** Bounds of the turns that a loop takes, the second exclusive, and which of those. */
export interface Within {
  readonly bounds: readonly [Expr, Expr];
  readonly take: (typeof withinTakes)[number];
}

export type Stmt =
  /**
   * Every output tile of the grid; one tile a block. `vars` are the tile's row and column number. With a `split` each tile is
   * worked on by that many blocks, which share its K chunks and meet in a `reduce`; with a `share`, by those whose shares meet it.
   */
  | {
      readonly kind: "tiles";
      readonly vars: readonly [string, string];
      readonly extents: readonly [number, number];
      /**
       * Rows and columns of tiles in sizes of the launch, null along an axis that has none; `extents` are their values at the problem's own sizes.
       * Absent where all sizes are fixed.
       */
      readonly symbolic?: readonly [Expr | null, Expr | null];
      readonly split: Split | null;
      /** Rows of tiles are numbered from the last to the first: the longest tiles begin first. */
      readonly descending?: true;
      /** Rows of tiles from this one on have nothing to do: their blocks end. Of tiles that have a block each. */
      readonly until?: Expr;
      /** Blocks of tiles share them by chunks; not beside a `split`. Absent: each tile has its block, or its split. */
      readonly streamK?: StreamK;
      readonly raster: Raster;
      /** Set inside roles of a persistent CTA and loops over tiles; null where every tile has a block of its own. */
      readonly loop: TileLoop | null;
      /** From stage machine on. */
      readonly scheduler?: TileScheduler;
      readonly body: readonly Stmt[];
    }
  /** Serial loop `for var = from .. to` (exclusive), step 1. */
  | {
      readonly kind: "for";
      readonly var: string;
      readonly from: Expr;
      readonly to: Expr;
      /**
       * Of its turns it takes those from the first of these bounds to the second, and one at least: the others would change nothing. Bounds may lie
       * outside of the loop's own. Numbers of chunks that skipped turns would have had are left out. Absent: all turns.
       */
      readonly within?: Within;
      readonly unroll: boolean;
      /**
       * Last turns that are made apart, by a loop of their own over the same body: the turns before them then need not ask whether so many more follow.
       * A wish, as `unroll` is; absent: none.
       */
      readonly apart?: number;
      readonly body: readonly Stmt[];
    }
  /** `zeros`: register tiles that are 0 where the condition does not hold; set in the stage machine. */
  | {
      readonly kind: "if";
      readonly cond: Cond;
      readonly zeros?: readonly string[];
      readonly body: readonly Stmt[];
    }
  /**
   * Multiplications of tiles by `factor`, which a warp leaves out where all that it has of the factor is 1: they would change nothing. Tiles of tensor memory are loaded for that, and stored again where they
   * were. From stage machine on the warps that do them may wait for products before.
   */
  | { readonly kind: "vote"; readonly factor: View; readonly body: readonly Stmt[] }
  /** Warps `first .. first + warps` of the block run `body`; `registers` is the setmaxnreg budget or null. Roles do not nest. */
  | {
      readonly kind: "role";
      readonly name: string;
      readonly first: number;
      readonly warps: number;
      readonly registers: number | null;
      /** Only the leading block runs it: the first of its pair, or of its cluster. */
      readonly leader?: "pair" | "cluster";
      /** One elected thread of the first warp runs it; set in the stage machine. */
      readonly elected?: true;
      /** Beside the elected thread the other lanes of its warp run it: they wait alike, and share out the copies that gather rows. */
      readonly gathers?: true;
      readonly body: readonly Stmt[];
    }
  /**
   * Every element of dst (registers or shared memory) becomes the expression's value, rounded to its dtype. Views of global memory read 0 outside. `unless`: of multiplications by a factor of each
   * row, threads leave out those by 1, which would change nothing.
   */
  | { readonly kind: "map"; readonly dst: View; readonly value: ElementExpr; readonly unless?: "one" }
  /**
   * Each row of dst, which has one column, becomes the sum or maximum of the expression over the columns of the register tiles in it, of those `below` a
   * column only; `adds`: what the row was takes part. `via`: a shared tile through which warps that have parts of a row exchange them, set with ownership.
   * `runs`: so many neighbouring columns go to one column of dst, the next ones to its next, in turn.
   */
  | {
      readonly kind: "reduce.row";
      readonly dst: View;
      readonly op: RowReduction;
      readonly value: ElementExpr;
      readonly adds: boolean;
      readonly below: number | null;
      readonly via: View | null;
      readonly runs?: number;
    }
  /** `once`: before the first work tile of the role only; set in the stage machine. */
  | { readonly kind: "fill"; readonly dst: View; readonly value: number; readonly once?: true }
  /**
   * dst <- src, same extents. Reads outside a global buffer give 0, writes there are dropped, and only along the axes in `guard`;
   * an access outside along an unguarded axis is an error. `when`: a uniform predicate; false means nothing moves.
   */
  | {
      readonly kind: "copy";
      readonly dst: View;
      readonly src: View;
      readonly transport: Transport;
      readonly guard: readonly [rows: boolean, cols: boolean];
      readonly when: Cond | null;
      /** Set when bound for copies that involve global memory and are not laid out by a register tile's ownership. */
      readonly dist: Distribution | null;
      /** Elements moved by one instruction on the (source, destination) side; [1, 1] until vectorised. */
      readonly vector: readonly [src: number, dst: number];
      /**
       * Transport tma in a cluster: the blocks along this axis of the cluster want the same rectangle; each copies its share of it into
       * all of them. Null: every block copies for itself.
       */
      readonly multicast: "m" | "n" | null;
      /**
       * Transport tma: L2 is asked for the rectangle so many rows and columns further on, which a later copy will want. A hint: nothing moves, and what lies
       * outside of the matrix is not fetched.
       */
      readonly l2Prefetch?: readonly [rows: number, cols: number];
    }
  /**
   * acc += a * b. Extents: acc m x n, a m x k, b k x n, or where b is `exchanged` n x k: its rows are the product's columns. With `scales` every element of a and b counts times its factor (`scaleTiles.ts`): tiles
   * of words for whole 128 rows and 4 factors, or of f32, rows of factors by runs of 128 of k, as many rows for each factor as the extents say.
   * With `twoLevel` sums of `every` elements along k are made in `sum`, and then scaled and added to acc; in the stage machine `accumulate` does that. With `columns` only these of b
   * and acc take part, by instructions of their own `atom`. `atom` names a row of the backend's atom table (`fma`, …). In the stage machine `keep` says whether acc is
   * added to: false overwrites it, a condition does so where it does not hold; absent: acc is added to.
   * Operands in global memory (stage `nest`) read 0 outside the matrix: guards are attributes of copies only.
   */
  | {
      readonly kind: "mma";
      readonly acc: View;
      readonly a: View;
      readonly b: View;
      readonly exchanged?: true;
      /** Columns beside those of `b`, in stage nest: the accumulator has both, those of `b` first. */
      readonly beside?: View;
      /** `beside`: the factors of the second half of the columns, behind those of `b`. */
      readonly scales?: { readonly a: View; readonly b: View; readonly beside?: View };
      readonly twoLevel?: { readonly sum: View; readonly every: number };
      readonly columns?: Columns;
      readonly keep?: Cond | false;
      readonly atom: string;
      readonly walk: Walk;
      /** Order of the walk's runs, and of the elements of the first one. */
      readonly lines: LineOrder;
      readonly along: LineOrder;
      /** The factors change places; the product is the same, ptxas's registers are not. */
      readonly swap: boolean;
    }
  /** Producer: wait until the slot of chunk `at` is free. */
  | { readonly kind: "acquire"; readonly ring: string; readonly at: Expr }
  /** Producer: all copies into the slot of chunk `at` have been issued. */
  | { readonly kind: "commit"; readonly ring: string; readonly at: Expr }
  /** Consumer: wait until chunk `at` has arrived. `pending`: later commits that may still be in flight (transport cp.async). */
  | { readonly kind: "wait"; readonly ring: string; readonly at: Expr; readonly pending: number }
  /** Consumer: the slot of chunk `at` has been read. */
  | { readonly kind: "release"; readonly ring: string; readonly at: Expr }
  /**
   * Ask for the tile after that of chunk `at`; the answer, a tile or none, lands in the slot of the chunk, in all blocks of the cluster. Acquire, fetch and
   * commit of a ring of responses are those of the cluster's leading block; in the others, where they stand in a role that these run too, they do nothing.
   */
  | { readonly kind: "request"; readonly ring: string; readonly at: Expr }
  /** Consumer of a ring of responses: read the slot of chunk `at`. The loop over tiles around it goes on with that tile, or ends. */
  | { readonly kind: "next"; readonly ring: string; readonly at: Expr }
  /**
   * The blocks of one output tile meet: each hands in `acc`. One of them, or a block of a second kernel, goes on into `body` with the sum;
   * the others end here. A part that is the whole tile goes on as it is. But for `atomics` the sum is taken in the order of the split's number, so that its bits depend on nothing else.
   * By `cluster` block s goes on with a slice of the sum in `into`: columns s * C to s * C + C - 1 where that has all rows and C columns, or rows likewise where it
   * has all columns. Blocks beyond the last slice end.
   */
  | {
      readonly kind: "reduce";
      readonly acc: View;
      readonly by: ReductionKind;
      /** A register tile; null but for `cluster`. */
      readonly into: View | null;
      readonly body: readonly Stmt[];
    }
  /**
   * All threads of the role (or block) meet at barrier `id`. With `threads` so many of the block do, those that come later or go on at once (`arrive`) among them
   * (PTX ISA, bar.sync and bar.arrive). The warps `ahead` of all of the block arrive once their lanes have met, and go on; the others wait for them.
   */
  | {
      readonly kind: "barrier";
      readonly id: number;
      readonly threads?: number;
      readonly arrive?: true;
      readonly ahead?: { readonly first: number; readonly warps: number };
      /** In an epilogue: so many groups of the role's warps, of `threads` each, meet apart, the first at barrier `id`, each next one at the next. */
      readonly groups?: number;
    }
  | MachineStmt
  /** dst <- steps(alpha * acc + beta * c), with the guard rules of `copy`; with `columns` only these. `c` is null iff beta is 0. */
  | {
      readonly kind: "epilogue";
      readonly dst: View;
      /** Elements are added to what dst holds, one after the other in any order, and not stored. */
      readonly adds?: true;
      readonly acc: View;
      /** Each column of `acc` goes with that `acc`'s width behind it in the same accumulator: the second sum that steps call `up`. */
      readonly gated?: true;
      readonly columns?: Columns;
      readonly c: View | null;
      readonly alpha: Scalar;
      readonly beta: Scalar;
      readonly steps: readonly EpilogueStep[];
      readonly guard: readonly [rows: boolean, cols: boolean];
      readonly vector: number;
      /**
       * Shared tile through which D's elements pass on their way to memory, by bulk tensor stores; null: straight from registers. It has all rows
       * and some of the columns: the first of them go through the slot of the view, those after them through the next, and so round.
       */
      readonly via: View | null;
      /** Inputs of steps that come out of shared tiles; those of other steps the threads load. Absent: of none. */
      readonly inputs?: readonly StepView[];
      /** With `via`: not bulk stores take D from the tile but its threads, each warp what it has put there itself, so many elements at once. */
      readonly stores?: number;
      /** In stage machine how D goes through the tile, some columns at a time; empty elsewhere. */
      readonly body: readonly Stmt[];
    };

export type StmtKind = Stmt["kind"];

/** The statement of a kind. */
export type Of<K extends StmtKind> = Extract<Stmt, { readonly kind: K }>;

export type Tiles = Of<"tiles">;
export type For = Of<"for">;
export type Role = Of<"role">;
export type Copy = Of<"copy">;
export type Mma = Of<"mma">;
export type Epilogue = Of<"epilogue">;
