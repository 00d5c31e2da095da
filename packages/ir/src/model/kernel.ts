/** What the model asks of a kernel. Backends describe a schedule so; `kernelOf` reads it off a bound program. */
import type { Raster, ReductionKind } from "../tile/types.ts";
import type { Engine } from "./machine.ts";

/** FFMA: instructions of a thread beside its multiply-adds. */
interface ThreadWork {
  /** Loads of fragments from shared memory in a K step. */
  readonly fragmentLoads: number;
  /** Fragments in registers at once; 2: those of the next K step come while this one multiplies. */
  readonly fragments: number;
  /** Copies of a chunk, with an address each. */
  readonly copies: number;
  /** Chunks under way while one is multiplied. */
  readonly ahead: number;
  /** Both operands pass through shared memory. */
  readonly staged: boolean;
}

export interface ModelKernel {
  readonly engine: Engine;
  /** Output tile and K chunk of the unit that works on one tile, in elements: a block, or a pair of blocks. */
  readonly tile: readonly [m: number, n: number, k: number];
  /** Columns of D are what the instruction has rows of: A and B have changed places. */
  readonly swapped: boolean;
  /** SMs of that unit: 2 for a CTA pair, whose operands lie half in each. */
  readonly unit: 1 | 2;
  /**
   * Rows and columns that one instruction (or one warp, or thread for `fma`) multiplies: what decides how often an operand is
   * read from shared memory. tcgen05 128 x N an SM, wgmma 64 x N, mma the warp's tile, fma the thread's tile.
   */
  readonly instruction: readonly [m: number, n: number];
  /** Threads of a block; counts for `fma` only. */
  readonly threads: number;
  /** Chunks in shared memory at once; 1 loads and multiplies in turn. */
  readonly stages: number;
  /** Loads and multiplications are issued by different warps. */
  readonly specialised: boolean;
  /** All blocks of a cluster meet once a chunk. */
  readonly meets: boolean;
  /** Bytes of a copied row in shared memory: 128 where a swizzled box is loaded, 16 where eight rows of 16 bytes stand side by side. */
  readonly boxBytes: number;
  /** Elements of A and of B that one instruction of a thread copies; null where an engine copies. */
  readonly copyVector: readonly [a: number, b: number] | null;
  /** Copies pass through registers of the threads that multiply, which wait for them. */
  readonly through: boolean;
  /** Elements of a chunk that threads store one by one on their way, since they lie the other way in shared memory. */
  readonly across: number;
  /** mma.sync: fragments come word by word, of elements that are rounded on the way: f32 across k that threads copied. */
  readonly words: boolean;
  /** Operands of a byte are widened to two before they are multiplied, where the instruction has none of theirs. */
  readonly widened: boolean;
  /** FFMA: what backends count; null: what follows from the fields above. */
  readonly work: ThreadWork | null;
  /** Bytes that a kernel before this one transposes. */
  readonly transposedBytes: number;
  /** Weights of a chunk are made of their codes while others are multiplied. */
  readonly madeAhead: boolean;
  /** Additions to a second set of accumulators in a chunk; 0 where sums stay where they are. */
  readonly promotions: number;
  /**
   * Factors of blocks that scale promoted sums: all asked for by threads, those of rows come with their chunk and columns share the others, or those of columns come, too, one
   * for each; and how many of columns a thread takes for each block of K. Null: none.
   */
  readonly factors: { readonly by: "threads" | "rows" | "columns"; readonly columns: number } | null;
  /** Sets of threads that multiply tiles or parts of one beside each other, which hide what one of them does alone. */
  readonly sets: number;
  /** Columns of a half of the tile, stored while the other is multiplied; 0: no halves. */
  readonly halves: number;
  /** Blocks that share a load: each takes a part and multicasts it. */
  readonly multicast: readonly [m: number, n: number];
  /** Blocks an SM holds. */
  readonly residents: number;
  /** One block a tile; persistent CTAs; tiles handed out by the hardware, asked for one ahead or when needed. */
  readonly sched: "tiles" | "persistent" | "clc" | "clc-late";
  /** Units of a persistent grid; null: as many as fit. */
  readonly workers: number | null;
  /** The epilogue of a tile runs beside the multiplication of the next: a second accumulator, or warpgroups in turn. */
  readonly overlap: boolean;
  /** Bytes that a lane stores to neighbouring addresses: below 32 a sector is written in parts. 32 also where D goes through shared memory. */
  readonly storeBytes: number;
  /** Lanes store single elements with gaps between them, since rows of D begin at odd ones. */
  readonly storeGaps: boolean;
  /** Bytes of a row of D that one store of a warp reaches over: it writes `storeBytes` of each of their sectors. */
  readonly storeSpan: number;
  /** Bytes of a row of the boxes through which D is stored; null where threads store it. */
  readonly storeBox: number | null;
  /** C and matrices of epilogue steps: none; loaded by the threads that store D; or brought into shared memory while the tile is multiplied (`epilogueLoadOf`). */
  readonly addend: "none" | "direct" | "ahead";
  readonly raster: Raster;
  /** Units that share the K loop of a tile. */
  readonly split: number;
  /** Units that stay and share the tiles of the last wave by chunks; 0: none do. */
  readonly streamk: number;
  /** How their parts are added; says nothing where there is one. */
  readonly combine: ReductionKind;
}

/** A kernel of one engine with everything off: what ladders start from. */
export const plainKernel = (
  engine: Engine,
  tile: ModelKernel["tile"],
  instruction: ModelKernel["instruction"],
): ModelKernel => ({
  engine,
  tile,
  instruction,
  swapped: false,
  unit: 1,
  threads: 128,
  stages: 1,
  specialised: false,
  meets: false,
  boxBytes: 128,
  copyVector: null,
  through: false,
  across: 0,
  words: false,
  widened: false,
  work: null,
  transposedBytes: 0,
  madeAhead: false,
  promotions: 0,
  factors: null,
  sets: 1,
  halves: 0,
  multicast: [1, 1],
  residents: 1,
  sched: "tiles",
  workers: null,
  overlap: false,
  storeBytes: 32,
  storeGaps: false,
  storeSpan: 32,
  storeBox: null,
  addend: "none",
  raster: { kind: "row" },
  split: 1,
  streamk: 0,
  combine: "last",
});
