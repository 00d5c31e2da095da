/** What a directive may say: one row a directive, from which its type, its text, its checks and what its pass reads follow. */
import { nearest } from "@tilewright/core";
import {
  type LineOrder,
  lineOrderKinds,
  lineOrderSyntax,
  parseLineOrder,
  printLineOrder,
} from "./lineOrder.ts";

/** One argument: its values as text, and the one that stands for it where it is left out. */
export interface Argument<T> {
  readonly syntax: string;
  /** What it counts, or what it says. */
  readonly summary: string;
  readonly default: T;
  /** Null where the text is no value. */
  parse(text: string): T | null;
  print(value: T): string;
  /** The text of the nearest value, null where none is near. */
  nearest(text: string): string | null;
}

/** An integer of `unit` from `least` to `most`. */
const count = (fallback: number, unit: string, least: number, most: number): Argument<number> => ({
  syntax: `${least}..${most}`,
  summary: unit,
  default: fallback,
  parse: (text) =>
    /^\d{1,9}$/.test(text) && Number(text) >= least && Number(text) <= most ? Number(text) : null,
  print: String,
  nearest: (text) =>
    Number.isFinite(Number(text)) ? String(Math.min(most, Math.max(least, Math.round(Number(text))))) : null,
});

/** One of a few words or numbers, the first where it is left out. */
const oneOf = <const T extends string | number>(
  summary: string,
  fallback: T,
  ...others: readonly T[]
): Argument<T> => {
  const values = [fallback, ...others];
  return {
    syntax: values.join("|"),
    summary,
    default: fallback,
    parse: (text) => values.find((value) => String(value) === text) ?? null,
    print: String,
    nearest: (text) => nearest(text, values.map(String), 1)[0] ?? null,
  };
};

const off = (summary: string): Argument<0 | 1> => oneOf<0 | 1>(summary, 0, 1);
const on = (summary: string): Argument<0 | 1> => oneOf<0 | 1>(summary, 1, 0);

const order = (summary: string): Argument<LineOrder> => ({
  syntax: lineOrderSyntax,
  summary,
  default: { kind: "up", from: 0 },
  parse: parseLineOrder,
  print: printLineOrder,
  nearest: (text) => nearest(text, lineOrderKinds, 1)[0] ?? null,
});

/** The name of a role, one that there is or one that is to be. */
const role = (summary: string, fallback: string): Argument<string> => ({
  syntax: "ROLE",
  summary,
  default: fallback,
  parse: (text) => (/^[A-Za-z_]\w{0,63}$/.test(text) ? text : null),
  print: String,
  nearest: () => null,
});

const policy = (matrix: string) =>
  oneOf(`which lines of ${matrix} L2 gives up first`, "none", "evict_first", "evict_last", "evict_unchanged");

/** Most slots of a ring: with 64 of 128 bytes the least tiles already leave little of shared memory, and no pipeline is that deep. */
const SLOTS = 64;
const PROBLEMS = 65535;
/** Most warps of a block (1024 threads). */
const WARPS = 32;
/** Columns of tensor memory, which no tile of a block exceeds either. */
const COLUMNS = 512;
/** Most chunks or steps that are taken apart. */
const CHUNKS = 64;
/** Most elements of k of a chunk. */
const STEPS = 4096;

/** Directives in the order of the passes that they are for; arguments in the order in which they are printed. */
const directiveTable = {
  cache: {
    a: policy("A"),
    b: policy("B"),
    c: policy("C"),
    d: policy("D"),
    l2Promotion: oneOf("bytes of A and B that L2 fetches where a bulk copy misses", 256, 128, 64, 0),
    l2PrefetchBytes: oneOf(
      "bytes of A and B that L2 fetches where a copy by threads misses; 0: as the hardware has it",
      0,
      64,
      128,
      256,
    ),
    l1: oneOf("whether accesses by the threads leave lines in L1", "keep", "skip"),
  },
  transpose: { operands: oneOf("operands that a kernel before this one transposes", "ab", "a", "b") },
  stage: {
    operands: oneOf("operands that pass through shared memory", "ab", "a", "b"),
    transport: oneOf("what copies them", "direct", "cp.async", "tma"),
    packed: off("elements under 8 bits share bytes in shared memory"),
    scaleFactors: oneOf(
      "where scale factors are read; vectors: those of one row or column in shared memory, others in global",
      "shared",
      "tensor",
      "global",
      "vectors",
    ),
    widen: off(
      "elements of fewer bits than those that they are multiplied with are widened on their way to shared memory",
    ),
    reuse: off("a product reads elements that one before it has in shared memory there"),
    chainOperand: oneOf("where products read first operands that threads have made", "shared", "tensor"),
  },
  swapAB: {},
  splitRows: { groups: count(1, "groups of rows, each with threads of its own", 1, 2) },
  correctionWarps: { warps: count(4, "warps that scale sums of all parts in tensor memory", 4, 4) },
  accumulate: { columns: count(32, "columns of an accumulator that one load takes", 1, COLUMNS) },
  fragment: {
    step: count(1, "elements of k a step", 1, STEPS),
    first: oneOf("operand whose fragments a step loads first", "a", "b"),
  },
  ring: {
    slots: count(1, "chunks in shared memory at once", 1, SLOTS),
    registerPrefetch: off("copies by threads are split into loads and stores"),
    ahead: on(
      "the threads that multiply also copy, slots - 1 chunks ahead; 0: chunks are filled and read in turn",
    ),
  },
  roles: {
    producer: count(1, "warps that copy", 1, WARPS),
    math: count(4, "warps that multiply", 1, WARPS),
    release: count(4, "warps that give a slot back together", 1, WARPS),
    registersP: count(0, "registers of a thread that copies; 0: as launched", 0, 256),
    registersM: count(0, "registers of a thread that multiplies; 0: as launched", 0, 256),
  },
  engines: {
    earlyAccumulatorRelease: on(
      "the accumulator is given back after its last load; 0: when the tile has been stored",
    ),
  },
  epilogueLoad: {
    way: oneOf("how C comes to the epilogue", "direct", "tma"),
    steps: off("matrices and vectors that steps read come with it"),
    in: role("role that copies", "loader"),
  },
  persistent: {
    by: oneOf("how persistent CTAs get their tiles", "none", "stride", "zigzag"),
    batch: count(
      0,
      "problems of a batch whose tiles are taken in turn, from one list of all; 0: each problem has CTAs of its own",
      0,
      PROBLEMS,
    ),
  },
  accumulators: { slots: count(1, "accumulators in tensor memory", 1, SLOTS) },
  overlapAccumulators: { columns: count(0, "columns that two accumulators share", 0, COLUMNS) },
  schedulerPipeline: {
    by: oneOf("what hands out tiles", "clc", "atomic"),
    slots: count(2, "responses that may wait to be read", 1, SLOTS),
    in: role("role that asks", "scheduler"),
  },
  pair: { blocks: count(2, "blocks that work on one tile", 2, 2) },
  multicast: { operands: oneOf("operands whose copies the blocks of a cluster share", "ab", "a", "b") },
  l2Prefetch: { chunks: count(0, "chunks further on that L2 is asked for", 0, CHUNKS) },
  rotate: {
    slots: count(2, "fragments in flight", 1, 2),
    store: count(0, "step before which prefetched copies are stored; 0: none are", 0, STEPS),
  },
  refill: {},
  spread: {
    steps: count(1, "steps over which the copies of a chunk are spread", 1, STEPS),
    vectors: count(1, "vectors of a row that a thread copies", 1, 64),
  },
  drain: {
    chunks: count(1, "last chunks that stand apart", 1, CHUNKS),
    loop: off("they stand in a loop of their own"),
  },
  peel: { chunks: count(1, "first chunks that stand apart", 1, 1) },
  twoLevel: {
    every: count(128, "elements of k in a sum", 1, STEPS),
    columns: count(0, "columns of the accumulator whose sums are made at once; 0: all", 0, STEPS),
  },
  alternateWeights: { rows: count(64, "rows along k of weights that are made at once", 64, STEPS) },
  delayedRelease: { chunks: count(1, "chunks behind whose products a slot is given back", 1, 1) },
  dsmemReduction: {
    columns: count(1, "columns of a group that one block adds up", 1, STEPS),
    rows: count(0, "rows of such a group; 0: columns are shared out", 0, STEPS),
  },
  tail: {
    chunks: count(1, "last chunks that are multiplied in two halves", 1, CHUNKS),
    columns: count(0, "columns of the first half", 0, STEPS),
    of: count(0, "columns of a warpgroup", 0, STEPS),
  },
  pipelineProducts: {
    ahead: count(1, "iterations by which the first product of a loop's body is ahead of the last", 1, 1),
  },
  splitMasked: {
    loops: count(1, "loops that begin behind turns without hidden elements, for each that has any", 1, 1),
  },
  laneSums: { tiles: count(1, "running sums whose lanes stay apart", 1, 1) },
  loadVectorsAhead: { tiles: count(1, "tiles of registers for each vector", 1, 1) },
  conditionalRescale: {
    by: oneOf("threads that leave a multiplication of sums by factors of 1 out together", "warp", "thread"),
  },
  spreadMaps: {
    by: oneOf("parts in which a tile that products read from registers is made between them", "step"),
  },
  pingPong: { roles: count(1, "sets of math warps", 1, WARPS) },
  epilogue: {
    way: oneOf("way of D to memory", "direct", "tma", "threads"),
    cols: count(0, "columns of the shared tile; 0: all", 0, STEPS),
    slots: count(1, "slots of the shared tile", 1, SLOTS),
    aliased: off("the tile lies where the rings are"),
  },
  matrices: { most: oneOf("matrices of one instruction", 4, 2, 1) },
  tensor: {
    swizzle: oneOf("widest swizzle", "128B", "64B", "32B", "none"),
    major: oneOf("operands whose contiguous axis must be k", "any", "k", "a"),
    interleave: count(1, "runs that neighbouring columns of B go to", 1, STEPS),
  },
  vector: {
    copy: count(1, "most elements of one copy", 1, 128),
    store: count(1, "most elements of one store", 1, 128),
  },
  distribute: { vectors: count(1, "vectors of a row that a thread copies", 1, 64) },
  smem: { mode: oneOf("remedy against bank conflicts", "plain", "auto", "pad", "swizzle") },
  walk: {
    order: oneOf("order of the multiply-adds", "rows", "cols", "snake-rows", "snake-cols"),
    lines: order("order of its runs"),
    along: order("order of the first run's elements"),
    swap: off("factors change places"),
  },
  raster: {
    order: oneOf("order of the output tiles", "row", "col", "grouped", "snake", "blocked", "hilbert"),
    group: count(1, "tile rows at a time", 1, 999_999_999),
  },
  guards: { elide: on("predicates only where a tile can leave its matrix; 0: everywhere") },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Argument<unknown>>>>>;

type Table = typeof directiveTable;
export type DirectiveName = keyof Table;

/** Values of all arguments of a directive. */
export type ArgumentsOf<N extends DirectiveName> = {
  readonly [K in keyof Table[N]]: Table[N][K] extends Argument<infer T> ? T : never;
};

/**
 * What a later pass shall do, carried by the program because passes read no schedule. A pass that has done its work removes its directive.
 * Arguments left out have their defaults: `stage operands=ab transport=direct`.
 */
export type Directive = {
  readonly [N in DirectiveName]: { readonly name: N; readonly args: Partial<ArgumentsOf<N>> };
}[DirectiveName];

export const directiveNames = Object.keys(directiveTable) as readonly DirectiveName[];

/** The rows of a directive's arguments, in their order. */
export const argumentsOf = (name: DirectiveName): readonly (readonly [string, Argument<unknown>])[] =>
  Object.entries<Argument<unknown>>(directiveTable[name]);

/** All arguments of a directive: those given, and the defaults of the others. */
export const withDefaults = <N extends DirectiveName>(
  name: N,
  given: Partial<ArgumentsOf<N>>,
): ArgumentsOf<N> =>
  ({
    ...Object.fromEntries(argumentsOf(name).map(([key, row]) => [key, row.default])),
    ...given,
  }) as ArgumentsOf<N>;
