/** The program that every backend starts from: the loop nest of one GEMM, at stage `nest`. */
import type { DType } from "@tilewright/core";
import {
  addsToD,
  BLOCK_SCALE,
  blockFactors,
  type Operand,
  operandShape,
  operandStrides,
  type Problem,
  rowIndexOf,
  SCALE_ALIGN,
  SCALE_ROWS,
  SCALE_WORDS,
  scaleMatrix,
  stepBuffer,
  stepMatrix,
  WEIGHT_COLUMNS,
  weightFactors,
  weightMatrix,
  weightWordsPerRow,
} from "@tilewright/core";
import type { Directive } from "./directives.ts";
import { add, div, lit, mul, v } from "./expr.ts";
import { wholeView } from "./rewrite.ts";
import { scaleWords } from "./scaleTiles.ts";
import { countOf, matrixAlign, sizeVariables } from "./sizes.ts";
import { streamKCut } from "./streamK.ts";
import type {
  Buffer,
  Expr,
  Nest,
  OwnershipMode,
  ReductionKind,
  Stmt,
  StreamK,
  TileProgram,
  View,
} from "./types.ts";
import { alphaOfSums, weightValue } from "./weights.ts";

/** Extent of an axis inside the grid: the block tile. */
export const tileExtent = (factors: readonly OwnershipMode[]): number =>
  factors.reduce((size, f) => (f.tier === "grid" || f.tier === "block" ? size : size * f.extent), 1);

/** Extent of one tier of an axis; 1 when the axis has no factor there. */
export const tierExtent = (factors: readonly OwnershipMode[], tier: OwnershipMode["tier"]): number =>
  factors.reduce((size, f) => (f.tier === tier ? size * f.extent : size), 1);

/**
 * `gemm_f16_nt_300x200x77`: dtype of A (and how it is multiplied, where that is said), transposition in BLAS terms (n: row-major, t: column-major), sizes; `mx200xk` where the launch supplies
 * m and k.
 */
export function entryName(problem: Problem): string {
  const { a, b, m, n, k, precision, blockScales, gated, symbolic, weights } = problem;
  const letter = ({ layout }: Operand): string => (layout === "row" ? "n" : "t");
  const sizes = Object.entries({ m, n, k }).map(([name, size]) =>
    symbolic?.[name as "m" | "n" | "k"] === undefined ? size : name,
  );
  const pairs = gated === undefined ? "" : "_gated";
  const way = blockScales === undefined ? (precision === undefined ? "" : `_${precision}`) : "_scaled";
  const few = weights === undefined ? "" : `_${b.dtype}g${weights.group}${weights.zeros ? "z" : ""}`;
  return `gemm_${a.dtype}${few}${way}${pairs}_${letter(a)}${letter(b)}_${sizes.join("x")}`;
}

export interface GemmNestOptions {
  readonly name: string;
  readonly arch: string;
  readonly problem: Problem;
  readonly nest: Nest;
  readonly threads: number;
  readonly cluster: readonly [number, number];
  /** Tiles of a cluster along m and n; one for each of its blocks unless given. */
  readonly units?: readonly [number, number];
  readonly atom: string;
  readonly directives: readonly Directive[];
  /** Where blocks share tiles; `last` unless given. */
  readonly combine?: ReductionKind;
  /** Stream-K with shares of `each` chunks of the first `tiles` tiles, instead of `grid` factors of k; none unless given. */
  readonly share?: Pick<StreamK, "each" | "tiles" | "blocks" | "counted"> | null;
}

/** Shares that the kernel cuts, for `blocks` blocks, where the launch supplies sizes; null where it supplies none, or nothing is to be shared. */
export function countedStreamKFor(
  problem: Problem,
  {
    tiles,
    chunks,
    tileK,
    blocks,
  }: { readonly tiles: number; readonly chunks: number; readonly tileK: number; readonly blocks: number },
): Pick<StreamK, "each" | "tiles" | "counted"> | null {
  if (blocks === 0 || sizeVariables(problem).length === 0) return null;
  return { ...streamKCut(tiles, chunks, blocks), counted: { blocks, chunks: countOf(problem, "k", tileK) } };
}

/**
 * `for each tile: acc = 0; for each K chunk: acc += A * B; D = epilogue(acc)`, reading global memory, guarded everywhere.
 * Block-scaled operands have their factors beside them; their tiles are whole blocks of factors, or lie in one (squares of 128).
 * The nest's `grid` factors of m and n, and of k `grid` (blocks that share a tile's K loop) times `block`, must cover the problem; of what the launch
 * supplies, its own sizes.
 */
export function gemmNest(options: GemmNestOptions): TileProgram {
  const { problem, nest } = options;
  const [tileM, tileN, tileK] = [tileExtent(nest.m), tileExtent(nest.n), tileExtent(nest.k)];
  const [tilesM, tilesN] = [tierExtent(nest.m, "grid"), tierExtent(nest.n, "grid")];
  const [splits, chunks] = [tierExtent(nest.k, "grid"), tierExtent(nest.k, "block")];
  const a = globalBuffer("A", problem.a, problem, "a");
  const b = globalBuffer("B", problem.b, problem, "b");
  const c = problem.c ? globalBuffer("C", problem.c, problem, "c") : null;
  const d = globalBuffer("D", problem.d, problem, "d");
  const acc = registerBuffer("acc", problem.acc, [tileM, tileN]);
  const parts = { a: tileM / tierExtent(nest.m, "warp"), b: tileN / tierExtent(nest.n, "warp") };
  const [sfa, sfb] = [factorBuffer(problem, "a", parts.a), factorBuffer(problem, "b", parts.b)];

  const [row, col] = [mul(v("mt"), tileM), mul(v("nt"), tileN)];
  const share: StreamK | null = options.share ? { first: "k0", count: "kn", chunks, ...options.share } : null;
  // Of a k that the launch supplies the blocks of a tile take chunks in turn: a first chunk of each would be a product of two variables.
  const turns = splits > 1 && problem.symbolic?.k !== undefined;
  const first = share ? mul(v("k0"), tileK) : splits > 1 && !turns ? mul(v("st"), chunks * tileK) : lit(0);
  const chunk = turns ? mul(add(mul(v("kt"), splits), v("st")), tileK) : add(first, mul(v("kt"), tileK));
  /** Of `each` in a chunk those before a part's first chunk and its chunks before this one. */
  const alongChunks = (each: number): Expr =>
    add(share ? mul(v("k0"), each) : splits > 1 ? mul(v("st"), chunks * each) : lit(0), mul(v("kt"), each));
  const outView = (buffer: Buffer): View => ({
    buffer: buffer.name,
    slot: lit(0),
    origin: [row, col],
    extent: [tileM, tileN],
  });
  const factorView = (which: "a" | "b", buffer: Buffer, tileRows: number, tile: string): View => {
    const matrix = scaleMatrix(problem, which);
    const each =
      matrix === null ? commonRows(parts[which], blockFactors(problem, which)?.each ?? 1) : SCALE_ROWS;
    const words = matrix === null ? Math.ceil(tileK / BLOCK_SCALE) : scaleWords(tileK, matrix.block);
    // Several tiles may lie in a row of words.
    const row = tileRows < each ? div(v(tile), each / tileRows) : mul(v(tile), tileRows / each);
    return {
      buffer: buffer.name,
      slot: lit(0),
      origin: [row, alongChunks(words)],
      extent: [Math.max(1, tileRows / each), words],
    };
  };
  const scales =
    sfa === null || sfb === null
      ? {}
      : { scales: { a: factorView("a", sfa, tileM, "mt"), b: factorView("b", sfb, tileN, "nt") } };
  const { weights } = problem;
  const made = weights === undefined ? null : registerBuffer("wB", problem.a.dtype, [tileK, tileN]);
  const dequantised: readonly Stmt[] =
    made === null || weights === undefined
      ? []
      : [
          {
            kind: "map",
            dst: wholeView(made),
            value: weightValue(problem, [tileK, tileN], {
              words: [
                mul(v("nt"), tileN / WEIGHT_COLUMNS),
                alongChunks(tileK * weightWordsPerRow(problem.b.dtype)),
              ],
              // Several chunks may lie in a group.
              factors: [
                weights.group > tileK
                  ? div(alongChunks(1), weights.group / tileK)
                  : alongChunks(tileK / weights.group),
                col,
              ],
            }),
          },
        ];
  const epilogue: Stmt = {
    kind: "epilogue",
    dst: outView(d),
    ...(addsToD(problem) ? { adds: true } : {}),
    acc: wholeView(acc),
    c: c ? outView(c) : null,
    alpha: alphaOfSums(problem),
    beta: problem.beta,
    steps: problem.epilogue,
    guard: [true, true],
    vector: 1,
    via: null,
    body: [],
  };
  const body: Stmt[] = [
    { kind: "fill", dst: wholeView(acc), value: 0 },
    {
      kind: "for",
      var: "kt",
      from: lit(0),
      to: share
        ? v(share.count)
        : problem.symbolic?.k === undefined
          ? lit(chunks)
          : countOf(problem, "k", tileK * splits),
      unroll: false,
      body: [
        ...dequantised,
        {
          kind: "mma",
          acc: wholeView(acc),
          a: { buffer: a.name, slot: lit(0), origin: [row, chunk], extent: [tileM, tileK] },
          b:
            made === null
              ? { buffer: b.name, slot: lit(0), origin: [chunk, col], extent: [tileK, tileN] }
              : wholeView(made),
          ...scales,
          atom: options.atom,
          walk: "rows",
          lines: { kind: "up", from: 0 },
          along: { kind: "up", from: 0 },
          swap: false,
        },
      ],
    },
    splits > 1 || share
      ? { kind: "reduce", acc: wholeView(acc), by: options.combine ?? "last", into: null, body: [epilogue] }
      : epilogue,
  ];
  return {
    name: options.name,
    stage: "nest",
    arch: options.arch,
    problem,
    launch: { threads: options.threads, cluster: options.cluster },
    nest,
    directives: options.directives,
    buffers: [
      a,
      b,
      ...(c ? [c] : []),
      d,
      ...[sfa, sfb].filter((buffer) => buffer !== null),
      acc,
      ...(made ? [made] : []),
    ],
    rings: [],
    body: [
      {
        kind: "tiles",
        vars: ["mt", "nt"],
        extents: [tilesM, tilesN],
        ...symbolicTiles(options, [tileM, tileN]),
        split: splits > 1 ? { var: "st", extent: splits } : null,
        ...(share ? { streamK: share } : {}),
        raster: { kind: "row" },
        loop: null,
        body,
      },
    ],
  };
}

/** Counts of tiles where the launch supplies m or n; a cluster's tiles are whole. */
function symbolicTiles(
  { problem, cluster, units = cluster }: GemmNestOptions,
  tile: readonly [number, number],
): { readonly symbolic?: readonly [Expr | null, Expr | null] } {
  if (problem.symbolic?.m === undefined && problem.symbolic?.n === undefined) return {};
  const axis = (name: "m" | "n", i: 0 | 1): Expr | null =>
    problem.symbolic?.[name] === undefined ? null : mul(countOf(problem, name, tile[i] * units[i]), units[i]);
  return { symbolic: [axis("m", 0), axis("n", 1)] };
}

function globalBuffer(
  name: string,
  operand: Operand,
  problem: Problem,
  which: "a" | "b" | "c" | "d",
): Buffer {
  const words = which === "b" ? weightMatrix(problem) : null;
  const shape = words ?? operandShape(problem, which);
  const index = which === "a" || which === "d" ? rowIndexOf(problem, which) : null;
  return {
    name,
    space: "global",
    dtype: words === null ? operand.dtype : "s32",
    shape,
    slots: 1,
    layout: { shape, stride: words === null ? operandStrides(operand) : [shape[1], 1], swizzle: null },
    own: null,
    align: matrixAlign(problem, which),
    ...(index && { paged: { axis: 0, step: index.step } }),
  };
}

/** Most rows of an operand, or columns, of which both `tile` and the `each` under one factor are multiples. */
export const commonRows = (tile: number, each: number): number =>
  each === 0 ? tile : commonRows(each, tile % each);

/**
 * Factors of the columns of a tile that come in two halves of `columns` each, from those of the tile's first columns: the buffer as they have it, and a view for each half.
 * Those of the second half begin behind all of the first factor's, in blocks of their own.
 */
export function factorsOfHalves(
  problem: Problem,
  columns: number,
  whole: View,
): { readonly buffer: Buffer; readonly b: View; readonly beside: View } | null {
  const buffer = factorBuffer(problem, "b", columns);
  if (buffer === null) return null;
  const each = commonRows(columns, blockFactors(problem, "b")?.each ?? SCALE_ROWS);
  const row = mul(v("nt"), columns / each);
  const view = (first: Expr): View => ({
    ...whole,
    origin: [first, whole.origin[1]],
    extent: [columns / each, whole.extent[1]],
  });
  return { buffer, b: view(row), beside: view(add(row, buffer.shape[0] / 2)) };
}

/**
 * The factors of A or B: of weights rows by n; words of four, a row for each 128 rows of the operand; or f32, a row of factors for each of theirs. Where parts of tiles of `tileRows`
 * begin or end inside of those under one factor, it has a row for each part of them: one and the same in memory. Null where the operand has none.
 */
function factorBuffer(problem: Problem, which: "a" | "b", tileRows: number): Buffer | null {
  const [matrix, blocks] = [scaleMatrix(problem, which), blockFactors(problem, which)];
  const groups = which === "b" ? weightFactors(problem) : null;
  if (matrix === null && blocks === null && groups === null) return null;
  const parts = blocks === null ? 1 : blocks.each / commonRows(tileRows, blocks.each);
  const shape =
    groups?.shape ??
    (blocks === null
      ? ([matrix?.blocks[0] ?? 0, (matrix?.blocks[1] ?? 0) * SCALE_WORDS] as const)
      : ([blocks.rows * parts, blocks.factors] as const));
  return {
    name: `SF${which.toUpperCase()}`,
    space: "global",
    dtype: groups?.dtype ?? (blocks === null ? "s32" : "f32"),
    shape,
    slots: 1,
    layout: {
      shape,
      stride: blocks?.strides ?? [shape[1], 1],
      swizzle: null,
      ...(parts > 1 ? { interleaved: { axis: 0, runs: parts, step: 0 } } : {}),
    },
    own: null,
    align: SCALE_ALIGN,
  };
}

/** The global buffer of what a step of the epilogue reads. `align`: of a vector, in bytes; a matrix says its own. */
export function stepInput(problem: Problem, step: number, align: number): Buffer {
  const matrix = stepMatrix(problem, step);
  if (matrix === null) throw new TypeError(`step ${step} reads no matrix and no vector`);
  const { operand, dtype, shape, strides } = matrix;
  return {
    name: stepBuffer(step),
    space: "global",
    dtype,
    shape,
    slots: 1,
    layout: { shape, stride: strides, swizzle: null },
    own: null,
    align: operand?.align ?? align,
  };
}

/** A register tile without an owner yet. */
export const registerBuffer = (
  name: string,
  dtype: DType,
  shape: readonly [number, number],
  slots = 1,
): Buffer => ({ name, space: "register", dtype, shape, slots, layout: null, own: null, align: 0 });
