/**
 * The tile IR: one structured program, few operations, six stages.
 *
 * A program is written from the point of view of one thread block. Buffers are 2-D tiles; statements move, multiply and
 * store whole tiles. How a tile is spread over warps, lanes and registers is data beside the buffer (`Ownership`,
 * `Distribution`, `Layout`), filled in by later passes: absent means "not decided yet", and every stage can be
 * interpreted without it. Meaning never depends on what is filled in; speed does.
 *
 * | stage | what is explicit |
 * |---|---|
 * | nest | loop nest over grid, K chunks and K steps; operands read from global memory; directives say what passes shall do |
 * | staged | shared tiles, copies global -> shared, fragments |
 * | pipelined | rings: slots, acquire / commit / wait / release, prologue, steady state, drain; fragment double buffering |
 * | specialised | roles, register budgets, how each ring edge is realised (block barrier, mbarrier, implied) |
 * | bound | layouts, ownership, distributions, vector widths, atoms, guards of the tails, raster |
 * | machine | places in shared and tensor memory, barriers of rings |
 *
 * The text form (print.ts, parse.ts) shows every field here; nothing else exists.
 */

import type {
  DType,
  EpilogueStep,
  Expression,
  GroupRow,
  KernelSpec,
  LaunchExpr,
  Manifest,
  ParamSpec,
  Problem,
  Scalar,
} from "@tilewright/core";
import type { Layout } from "../layout/types.ts";
import type { Directive } from "./directives.ts";
import type { LineOrder } from "./lineOrder.ts";

export const stages = ["nest", "staged", "pipelined", "specialised", "bound", "machine"] as const;
export type Stage = (typeof stages)[number];

/** Whether a program of stage `at` has what `stage` makes explicit. */
export const reached = (at: Stage, stage: Stage): boolean => stages.indexOf(at) >= stages.indexOf(stage);

/** Axes of the GEMM. */
export type Axis = "m" | "n" | "k";

/** Levels of the machine, outermost first. `block` is the serial loop inside a block. */
export const tiers = ["grid", "cluster", "block", "warpgroup", "warp", "thread", "register", "atom"] as const;
export type Tier = (typeof tiers)[number];

/**
 * One factor of an axis: `extent` steps on `tier`. `stride` is the weight of this factor's coordinate in the tier's own
 * linear index (warp number, lane number, register number), so a list of factors is a complete layout:
 * `warp 2:2, register 4:32, thread 4:1, register 4:8` along m puts row 64*w + 16*i + 4*l + j in warp bit 2*w, lane l, register 32*i + 8*j.
 */
export interface OwnershipMode {
  readonly tier: Tier;
  readonly extent: number;
  readonly stride: number;
}

/** Factorisation of the three axes, outermost factor first. The product of an axis's factors inside `grid` is its block tile. */
export interface Nest {
  readonly m: readonly OwnershipMode[];
  readonly n: readonly OwnershipMode[];
  readonly k: readonly OwnershipMode[];
}

/**
 * Which thread holds which element of a register tile, per axis of the tile, outermost factor first.
 * A tier index that no factor mentions is replicated (an A fragment is the same for all lanes along n).
 */
export interface Ownership {
  readonly rows: readonly OwnershipMode[];
  readonly cols: readonly OwnershipMode[];
}

/**
 * How the threads of a block share a copy. The tile is a grid of vectors of `vector` elements, `inner` along the axis `fastest`
 * (0 rows, 1 columns) and `outer` along the other. The threads stand in a grid too, `along` of them side by side along `fastest`:
 * thread t moves the vectors (t % along + along * i, t / along + (threads / along) * o) that lie inside, for i, o = 0, 1, …
 * `along` divides `threads`.
 */
export interface Distribution {
  readonly threads: number;
  readonly along: number;
  readonly vector: number;
  readonly fastest: 0 | 1;
}

/** Integer expressions over loop variables and the sizes `%m`, `%n`, `%k` that a launch supplies. `/` and `%` are floor division and modulus by a positive constant, on non-negative values. */
export type Expr =
  | { readonly kind: "const"; readonly value: number }
  | { readonly kind: "var"; readonly name: string }
  | { readonly kind: "add"; readonly lhs: Expr; readonly rhs: Expr }
  | { readonly kind: "sub"; readonly lhs: Expr; readonly rhs: Expr }
  | { readonly kind: "mul"; readonly lhs: Expr; readonly factor: number }
  | { readonly kind: "div"; readonly lhs: Expr; readonly divisor: number }
  | { readonly kind: "mod"; readonly lhs: Expr; readonly divisor: number };

/** Uniform conditions (the same for all threads of a block). */
export interface Cond {
  readonly lhs: Expr;
  readonly op: "<" | "<=" | "==" | "!=" | ">=" | ">";
  readonly rhs: Expr;
}

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
  /** Shared and tensor tiles of stage `machine`: where they lie. */
  readonly place?: Place;
}

/** Where slot 0 of a tile begins, in bytes of the block's shared memory or columns of its tensor memory, and from there each next slot; 0 of a tile with one outside rings. */
export interface Place {
  readonly offset: number;
  readonly every: number;
}

/** So many mbarriers one after the other, each of which counts so many arrivals a phase. */
export interface Barrier {
  readonly name: string;
  readonly offset: number;
  readonly slots: number;
  readonly count: number;
}

/** Slots `from` to `to` - 1. */
export interface SlotRange {
  readonly from: number;
  readonly to: number;
}

/** Shared memory that is no tile: slices and parts of accumulators on their way, the address of tensor memory. */
export interface Scratch {
  readonly name: string;
  readonly offset: number;
  readonly bytes: number;
}

/**
 * Values that the emission keeps in registers through the main loop rather than compute them where they are used. `addresses`: of shared memory, one for each pattern of bits
 * that a swizzle flips. `epilogue`: places and bounds of D, which then stand where the role begins and waits for its first chunk.
 */
export const keptValues = ["addresses", "epilogue"] as const;
export type KeptValues = (typeof keptValues)[number];

/** A kernel of the artefact: the program's own, or one that is launched before or behind it. */
export interface KernelDeclaration {
  readonly role: KernelSpec["role"];
  /** Entry symbol. */
  readonly name: string;
  readonly grid: KernelSpec["launch"]["grid"];
  /** Threads of a block; `exact`: ptxas is told that it has no fewer. */
  readonly threads: number;
  readonly exact: boolean;
  /** Blocks that shall fit an SM, and registers of a thread; null leaves them to ptxas. */
  readonly ctas: number | null;
  readonly maxnreg: number | null;
  /** What holds registers through the main loop. */
  readonly keeps: readonly KeptValues[];
  /** Bytes of workspace that it needs; the kernels of one launch share it. */
  readonly workspace: LaunchExpr;
  /** In the order of the entry's parameters. */
  readonly params: readonly ParamSpec[];
  /** Rows of the table of a grouped problem. */
  readonly row?: GroupRow;
}

/** What a kernel has of the machine, beside the places of its tiles. */
export interface MachineDeclarations {
  readonly barriers: readonly Barrier[];
  readonly scratch: readonly Scratch[];
  /** Bytes of shared memory, and columns of tensor memory, of a block. */
  readonly memory: { readonly shared: number; readonly tensor: number };
  /** Kernels in launch order, and what they want of their workspace before a launch. */
  readonly launches?: {
    readonly kernels: readonly KernelDeclaration[];
    readonly init: Manifest["workspace"]["init"];
  };
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
 * memory into the registers of the warps whose lanes hold it. `tcgen05.cp`: scale factors from shared to tensor memory, in order with the matrix
 * instructions of the same thread; blocks keep their words, and the extents of both sides are those of their layouts (`scaleTiles.ts`). Of rings
 * only: `tcgen05.mma`, whose slots are tensor tiles that matrix
 * instructions fill, complete when a commit has tracked them; and rings of answers about tiles: `clc`, whose slots are responses of the launch
 * control, and `atomic`, whose slots hold numbers that a counter in memory has given.
 */
export type Transport =
  | "direct"
  | "cp.async"
  | "tma"
  | "ldmatrix"
  | "tcgen05.ld"
  | "tcgen05.cp"
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

/**
 * Persistent CTAs: inside a role `tiles` is a loop of that role over the tiles that its block gets, `var` counting them from 0. Every role of
 * the block visits the same tiles in the same order. With `of` roles taking turns, this one takes visits `turn`, `turn + of`, …, and they multiply one
 * after the other: each begins to wait for chunks when the one before has issued the products of its last (`pingPongPoints`).
 * Of answers each of them reads all: what the body says of the visit's own ring it does at visits of the others, too, and nothing else there.
 * `stride`: block b takes tiles b, b + blocks, … in the order of the raster. `ring`: begins like that, and then the answers in a
 * ring's slots (`request`, `next`) say which tile follows, and when none does. In programs of pairs it is pairs that take tiles. `share`: the parts of the
 * block's share, then whole tiles; `var` counts the K chunks of the visits before, `parts` the visits themselves, where rings have a chunk for each. With
 * `chunks` it counts them too: as many a visit as that expression in sizes of the launch says; of a grouped problem the visits before may have had others.
 */
export interface TileLoop {
  readonly var: string;
  /** Where `var` counts chunks: the variable that counts the visits from 0. Absent: nothing asks for it. */
  readonly tiles?: string;
  readonly by: "stride" | "ring" | "streamk";
  /** Where the answers are; there iff `by` is `ring`. */
  readonly ring?: string;
  readonly chunks?: Expr;
  readonly turn: number;
  readonly of: number;
}

/** Order of the multiply-adds of one register tile step. `snake` reverses every other run, so that one operand is reused at each turn. */
export type Walk = "rows" | "cols" | "snake-rows" | "snake-cols";

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
  readonly late: boolean;
  /** A register counts the work tiles: places in tiles depend on it. */
  readonly counts: boolean;
}

/** What an expression of elements begins with: an element of a view (broadcast where that has one row or column), or the element's own row or column in the tile. */
export type ElementLeaf =
  | { readonly kind: "view"; readonly view: View }
  | { readonly kind: "row" }
  | { readonly kind: "col" };

/** An expression of one element of a tile. */
export type ElementExpr = Expression<ElementLeaf>;

/** What `reduce.row` makes of a row. */
export const rowReductions = ["sum", "max"] as const;
export type RowReduction = (typeof rowReductions)[number];

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
      readonly body: readonly Stmt[];
    }
  /** Every element of dst (registers or shared memory) becomes the expression's value, rounded to its dtype. Views of global memory read 0 outside. */
  | { readonly kind: "map"; readonly dst: View; readonly value: ElementExpr }
  /**
   * Each row of dst, which has one column, becomes the sum or maximum of the expression over the columns of the register tiles in it, of those `below` a
   * column only; `adds`: what the row was takes part. `via`: a shared tile through which warps that have parts of a row exchange them, set with ownership.
   */
  | {
      readonly kind: "reduce.row";
      readonly dst: View;
      readonly op: RowReduction;
      readonly value: ElementExpr;
      readonly adds: boolean;
      readonly below: number | null;
      readonly via: View | null;
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
   * acc += a * b. Extents: acc m x n, a m x k, b k x n. With `scales` every element of a and b counts times its factor (`scaleTiles.ts`): tiles
   * of words for whole 128 rows and 4 factors, or of f32, rows of factors by runs of 128 of k, as many rows for each factor as the extents say.
   * With `twoLevel` sums of `every` elements along k are made in `part`, and then scaled and added to acc; in the stage machine `accumulate` does that. With `columns` only these of b
   * and acc take part, by instructions of their own `atom`. `atom` names a row of the backend's atom table (`fma`, …). In the stage machine `keep` says whether acc is
   * added to: false overwrites it, a condition does so where it does not hold; absent: acc is added to.
   * Operands in global memory (stage `nest`) read 0 outside the matrix: guards are attributes of copies only.
   */
  | {
      readonly kind: "mma";
      readonly acc: View;
      readonly a: View;
      readonly b: View;
      /** Columns beside those of `b`, in stage nest: the accumulator has both, those of `b` first. */
      readonly beside?: View;
      readonly scales?: { readonly a: View; readonly b: View };
      readonly twoLevel?: { readonly part: View; readonly every: number };
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
   * commit of a ring of answers are those of the cluster's leading block; in the others, where they stand in a role that these run too, they do nothing.
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

/** Where a loop over work tiles begins, goes on and ends. */
export const boundaries = ["first", "between", "last"] as const;
export type Boundary = (typeof boundaries)[number];

/** An mbarrier of a ring's edge: that of the slot at which a pipeline of the ring stands. Its count is the edge's. */
export interface BarrierRef {
  readonly ring: string;
  readonly edge: "full" | "empty";
  readonly pipeline: string;
}

/** Whom an arrival by one thread stands for: itself, its warp or its warpgroup, each of whose threads has come so far; `copies`: it comes when the thread's asynchronous copies so far are complete. */
export const arrivers = ["thread", "warp", "warpgroup", "copies"] as const;
export type Arriver = (typeof arrivers)[number];

/**
 * Blocks of the cluster whose barrier is meant: the block's own; that of the first of its pair; those of its pair; of the first of the cluster; of all. `peers`: of the blocks with
 * which it shares copies along these axes, its own among them.
 */
export const reaches = [
  "own",
  "leader",
  "pair",
  "first",
  "cluster",
  "peers-m",
  "peers-n",
  "peers-mn",
] as const;
export type Reach = (typeof reaches)[number];

/** Orders what a thread did through one proxy, or before, with what others do behind it; `init`: its initialised mbarriers (PTX ISA, fence.proxy.async, membar.cta, fence.acq_rel.gpu, fence.mbarrier_init, tcgen05.fence). */
export const fences = ["async", "cta", "gpu", "init", "tensor-before", "tensor-after"] as const;
type FenceKind = (typeof fences)[number];

/**
 * Statements of the stage machine: one pattern of instructions each. There slots of views, and chunks of `request` and `next`, are pipelines by name: the slot at which
 * that one stands.
 */
export type MachineStmt =
  /** Where a role stands in a ring `of` slots: stage `stage` at first, and the parity of the phase for which it waits (0: of data; 1: of room, which the first slots have). Of the role or block that it begins. */
  | {
      readonly kind: "pipeline";
      readonly name: string;
      readonly of: string;
      readonly stage: number;
      readonly phase: 0 | 1;
    }
  /** On by so many slots; past the last one in the next phase. */
  | { readonly kind: "advance"; readonly pipeline: string; readonly by: number }
  /** The slot at which a pipeline stands, under a name that stays when it goes on. `slots`: only the addresses of its tiles, for views. */
  | { readonly kind: "hold"; readonly name: string; readonly pipeline: string; readonly slots: boolean }
  /** Until the phase that the pipeline is in is complete. `cluster`: what other blocks did before they arrived is seen. */
  | { readonly kind: "mbar.wait"; readonly barrier: BarrierRef; readonly cluster: boolean }
  /** One arrival, and so many bytes before the phase can be complete; at the barriers of `to`. `leader`: by the first block of a pair only. */
  | {
      readonly kind: "mbar.expect";
      readonly barrier: BarrierRef;
      readonly bytes: number;
      readonly to: Reach;
      readonly leader: boolean;
    }
  | { readonly kind: "mbar.arrive"; readonly barrier: BarrierRef; readonly by: Arriver; readonly to: Reach }
  /** One arrival when the matrix instructions issued so far are done (PTX ISA, tcgen05.commit). */
  | { readonly kind: "tcgen05.commit"; readonly barrier: BarrierRef; readonly to: Reach }
  | { readonly kind: "fence"; readonly what: FenceKind }
  /** The lanes of a warp meet. */
  | { readonly kind: "warp.sync" }
  /** The thread's copies since the last of these are a group; all but the last `pending` groups are complete. */
  | { readonly kind: "cp.async.commit" }
  | { readonly kind: "cp.async.wait"; readonly pending: number }
  /** Orders the warpgroup's accesses to registers before the products behind it, which read and write them asynchronously (PTX ISA, wgmma.fence). */
  | { readonly kind: "wgmma.fence" }
  /** The products since the last of these are a group; all groups of the warpgroup but the last `pending` are done. */
  | { readonly kind: "wgmma.commit" }
  | { readonly kind: "wgmma.wait"; readonly pending: number }
  /** Sums that were made apart are added to an accumulator, each times the factors of its row and its column. */
  | {
      readonly kind: "accumulate";
      readonly acc: View;
      readonly part: View;
      readonly scales?: { readonly a: View; readonly b: View };
    }
  /** A register tile gets a reader that never runs; it goes on in registers of its own, or (`back`) in those that it had: for ptxas, which does so without moving anything. */
  | { readonly kind: "pin"; readonly tile: string }
  | { readonly kind: "rename"; readonly tile: string; readonly back: boolean }
  /** Reads the scheduler's response for a work tile: done at those of the other consumers, too, which take turns with this one. */
  | { readonly kind: "response"; readonly body: readonly Stmt[] }
  /**
   * In a loop over work tiles, barriers at its bounds. `first`: before the first turn. `between`: behind a CTA's part of a tile when another one follows. `last`: behind the last turn, of
   * the role among those that take turns which would have the next tile.
   */
  | { readonly kind: "boundary"; readonly bound: Boundary; readonly body: readonly Stmt[] }
  /** In the first block of the cluster only. */
  | { readonly kind: "leader"; readonly body: readonly Stmt[] }
  /** In an epilogue: its threads put these columns of D into a slot of the tile; one thread of each group of its warps has them stored from there (PTX ISA, cp.async.bulk.tensor). */
  | { readonly kind: "stage"; readonly via: View; readonly columns: Columns }
  | { readonly kind: "bulk.store"; readonly via: View; readonly columns: Columns }
  /** In an epilogue with `stores`: the lanes of each warp store these columns from the slot, which their warp has put there. */
  | { readonly kind: "warp.store"; readonly via: View; readonly columns: Columns }
  /** That thread's stores since the last of these are a group. */
  | { readonly kind: "bulk.commit" }
  | ReductionStmt
  /** Begins a role of one thread: what that does at the head's `prologue.at`, as soon as the barrier is ready on which its first copies arrive, before the other barriers are. */
  | { readonly kind: "prologue"; readonly body: readonly Stmt[] }
  | FrameStmt;

/** Statements before and behind the tiles and roles of a kernel, of the whole block. */
export type FrameStmt =
  /** One thread of the block, or one warp. */
  | {
      readonly kind: "only";
      readonly unit: "thread" | "warp";
      readonly number: number;
      readonly body: readonly Stmt[];
    }
  /** The map of a matrix of global memory comes nearer; a hint (PTX ISA, prefetch.tensormap). */
  | { readonly kind: "tensormap.prefetch"; readonly buffer: string }
  /** The mbarriers of a declaration, with its count: those of slots `from` to `to` - 1, of all unless given. */
  | { readonly kind: "mbar.init"; readonly barriers: string; readonly slots?: SlotRange }
  /** Here the thread runs what a role leads with. */
  | { readonly kind: "prologue.at"; readonly role: string }
  /** Blocks of the cluster meet: `release` publishes what came before; `any`: the threads of a warp need not come together (PTX ISA, barrier.cluster). */
  | { readonly kind: "cluster.arrive"; readonly release: boolean; readonly any: boolean }
  /** Also where slices of a cluster's CTAs meet, which arrived when they began. */
  | { readonly kind: "cluster.wait"; readonly any: boolean }
  /** The grid before this one in the stream is over; the next may begin (PTX ISA, griddepcontrol). */
  | { readonly kind: "pdl.wait" }
  | { readonly kind: "pdl.launch" }
  /**
   * All but the thread's last `pending` groups of bulk stores have read what they store, or are `complete`: it is in memory (PTX ISA, cp.async.bulk.wait_group); in an
   * epilogue and in a `partial.reduce` it is the thread that stores who waits.
   */
  | { readonly kind: "bulk.wait"; readonly pending: number; readonly complete?: true }
  /** Columns of tensor memory; the permit to allocate more; the address of the first column, out of its word in shared memory; columns back (PTX ISA, tcgen05.alloc). */
  | { readonly kind: "tmem.alloc"; readonly columns: number }
  | { readonly kind: "tmem.dealloc"; readonly columns: number }
  | { readonly kind: "tmem.relinquish" }
  | { readonly kind: "tmem.base" };

export type FrameKind = FrameStmt["kind"];

/**
 * What the CTAs of a work tile do in a `reduce`, until those that go on have the sum: partial tiles in the workspace with a counter beside them (split-K and stream-K fix-up), or slices
 * in the shared memory of a cluster (DSMEM reduction).
 */
export type ReductionStmt =
  /** In front of what is done with the sum. Threads branch past it where they have the whole tile (`unless`). */
  | { readonly kind: "reduction"; readonly unless: Cond | null; readonly body: readonly Stmt[] }
  /** Registers to the CTA's own partial tile. */
  | { readonly kind: "partial.store"; readonly acc: View }
  /** Registers added to the one partial tile of the work tile, by reductions of threads or of bulk copies through shared memory: the body, empty elsewhere, says how. */
  | {
      readonly kind: "partial.reduce";
      readonly acc: View;
      readonly by: "atomics" | "bulk";
      readonly body: readonly Stmt[];
    }
  /** There: so many registers of each thread, from one on, to a slot of its warp's room in shared memory; from there the warp's first lane has them added (PTX ISA, cp.reduce.async.bulk). */
  | ({ readonly kind: "partial.stage" } & RegisterRun)
  | ({ readonly kind: "bulk.reduce" } & RegisterRun)
  /** The first partial tile (or the only one) to registers; the `parts` behind it added, in their order; zeros to the only one. Null: as many as shares met the tile. */
  | { readonly kind: "partial.load"; readonly acc: View }
  | { readonly kind: "partial.clear"; readonly acc: View }
  | { readonly kind: "partial.add"; readonly acc: View; readonly parts: number | null }
  /** One thread adds to the work tile's counter (relaxed, at the scope of the GPU). */
  | { readonly kind: "counter.add"; readonly by: Expr }
  /** All threads meet at a barrier and leave the `reduce`, unless the counter has come to this number (at least 1) with that addition. */
  | { readonly kind: "counter.leave"; readonly unless: Expr; readonly id: number }
  /** One thread sets the counter to 0, for the next launch. */
  | { readonly kind: "counter.clear" }
  /** CTAs that still run when all partial tiles have come add up and store a slice each; the last also those of CTAs that have left. Their threads meet at a barrier. */
  | { readonly kind: "slices"; readonly id: number; readonly body: readonly Stmt[] }
  /** Slice s of the registers, as large as the tile `into`, to the shared memory of CTA s of the cluster, whose mbarrier counts the bytes. */
  | { readonly kind: "dsmem.send"; readonly acc: View; readonly into: View }
  /** CTAs of the cluster beyond the first `slices` leave the `reduce`. */
  | { readonly kind: "dsmem.leave"; readonly slices: number }
  /** One thread arrives at that mbarrier and tells how many bytes come; all threads wait for them. */
  | { readonly kind: "dsmem.expect"; readonly bytes: number }
  | { readonly kind: "dsmem.wait" }
  /** Registers become the sum of so many slices, in the order of the ranks. */
  | { readonly kind: "dsmem.add"; readonly into: View; readonly parts: number };

/** Registers `from` to `from + count - 1` of each thread's accumulators, and a slot of the warp's room. */
interface RegisterRun {
  readonly acc: View;
  readonly from: Expr;
  readonly count: number;
  readonly slot: Expr;
}

export type StmtKind = Stmt["kind"];

/** What a step reads, by the step's position: of a matrix the tile's rows and columns, of a vector one row or one column. */
export interface StepView {
  readonly step: number;
  readonly view: View;
}

/** Threads of the block; `warps` = threads / 32. */
export interface Launch {
  readonly threads: number;
  readonly cluster: readonly [number, number];
  /**
   * The program is that of two neighbouring blocks of a cluster, which work on one tile: tiles with `halves` are shared out between
   * them, a role runs in both with its own half, and one with `leader` in the first of them only.
   */
  readonly pair?: true;
  /**
   * The grid may begin while the one before it in the stream still runs, and lets the next one begin as soon as all its blocks have: what stands before
   * the statements needs nothing of memory, and then every thread waits for the grid before it.
   */
  readonly pdl?: true;
  /**
   * The role whose one thread copies in bulk begins with that as soon as it has made the rings' barriers ready, where else the whole block meets first, and with the only tile's
   * first chunk as soon as the barrier is ready on which that arrives (`prologueOf`); and places of D are computed while the first chunk is on its way.
   */
  readonly earlyProducerStart?: true;
  /** The cluster may have more blocks than every GPU of the target launches. */
  readonly nonPortableCluster?: true;
}

export interface TileProgram {
  /** Entry symbol of the kernel. */
  readonly name: string;
  readonly stage: Stage;
  readonly arch: string;
  readonly problem: Problem;
  readonly launch: Launch;
  /** The factorisation; null once ownership is bound (the buffers then carry it). */
  readonly nest: Nest | null;
  readonly directives: readonly Directive[];
  readonly buffers: readonly Buffer[];
  readonly rings: readonly Ring[];
  /** From stage `machine` on. */
  readonly machine?: MachineDeclarations;
  readonly body: readonly Stmt[];
}
