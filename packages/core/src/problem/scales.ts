/**
 * The scale factors of block-scaled operands, as matrices beside A and B: one factor for each row of A (column of B) and each run of elements along K.
 * Those of block-scaled dtypes are bytes (`scaleMatrix`); those of `blockScales` are f32 (`blockFactors`).
 *
 * Memory order of bytes, the one that tensor cores and cuBLAS take: blocks of 512 bytes for 128 rows and 4 factors, those of one 128 rows one behind the other;
 * in a block factor j of row r is byte 16 (r % 32) + 4 (r / 32) + j. Blocks are whole: what stands behind the last row is never used, and what
 * stands behind the last factor along K meets zeros, so that it may be anything but NaN. Those of a gated product's second factor stand behind those of the
 * first, in blocks that begin with its own first column.
 */
import { roundUp } from "../divisors.ts";
import type { DType } from "../dtype.ts";
import { isScaled, type ScaleFormat, scaledTypes } from "../numerics/scaled.ts";
import type { BlockForm, Problem } from "../problem.ts";
import { weightFactors } from "./weights.ts";

/** Rows and factors of a block (PTX ISA 9.0, tcgen05.mma scale factor layouts; tcgen05.cp.32x128b). */
export const SCALE_ROWS = 128;
export const SCALE_FACTORS = 4;
/** Guaranteed alignment of their base in bytes: what bulk copies begin at. */
export const SCALE_ALIGN = 16;
/** Words of 4 factors in a block: one for each row. */
export const SCALE_WORDS = 128;
/** Rows whose words follow each other 16 bytes apart. */
export const SCALE_LANES = 32;

const strideNames = { a: "strideA", b: "strideB", d: "strideD" } as const;

export interface ScaleMatrix {
  readonly format: ScaleFormat;
  /** Elements of K under one factor. */
  readonly block: number;
  /** Rows of A, or columns of B: of a gated product those of both factors. */
  readonly rows: number;
  /** Rows whose blocks begin with the first of them: all, or those of one factor of a gated product. */
  readonly of: number;
  /** Factors of a row. */
  readonly factors: number;
  /** Blocks of 512 bytes along the rows and along K. */
  readonly blocks: readonly [rows: number, factors: number];
  /** Bytes of one problem's factors. */
  readonly bytes: number;
  /** Bytes between the factors of neighbouring problems of a batch; 0 where they share the operand. */
  readonly stride: number;
  /** Bytes of the whole batch. */
  readonly allBytes: number;
}

/** Parts of an operand's factors that begin in blocks of their own: those of both factors of a gated product. */
const halvesOf = ({ gated }: Problem, which: "a" | "b" | "d"): 1 | 2 =>
  which === "b" && gated !== undefined ? 2 : 1;

/** The factors of A or B, or of a quantised D, which lie as those of the A that it becomes; null where its dtype has none. */
export function scaleMatrix(problem: Problem, which: "a" | "b" | "d"): ScaleMatrix | null {
  const { dtype } = problem[which];
  if (!isScaled(dtype)) return null;
  const { block, scale } = scaledTypes[dtype];
  const of = which === "b" ? problem.n : problem.m;
  const halves = halvesOf(problem, which);
  const factors = Math.ceil((which === "d" ? problem.n : problem.k) / block);
  const blocks = [halves * Math.ceil(of / SCALE_ROWS), Math.ceil(factors / SCALE_FACTORS)] as const;
  const bytes = blocks[0] * blocks[1] * SCALE_WORDS * SCALE_FACTORS;
  const { batch } = problem;
  const shared = batch.kind === "strided" && batch[strideNames[which]] === 0;
  const stride = batch.kind === "strided" && !shared ? bytes : 0;
  const count = batch.kind === "strided" ? batch.count : 1;
  return {
    format: scale,
    block,
    rows: halves * of,
    of,
    factors,
    blocks,
    bytes,
    stride,
    allBytes: bytes + (count - 1) * stride,
  };
}

/** What a quantised D of some dtype has scales in: bytes where they are codes. */
export const scaleDType = (dtype: DType): "u8" | "f32" => (isScaled(dtype) ? "u8" : "f32");

/** The scales of a quantised D as a matrix: those of a row beside each other, or, as bytes, a line of blocks for each 128 rows. */
export const scaleExtents = (
  { m, n }: Pick<Problem, "m" | "n">,
  group: number,
  dtype: "u8" | "f32",
): readonly [rows: number, columns: number] => {
  const factors = Math.ceil(n / group);
  return dtype === "f32"
    ? [m, factors]
    : [Math.ceil(m / SCALE_ROWS), roundUp(factors, SCALE_FACTORS) * SCALE_WORDS];
};

/** Elements along K under one factor in f32, and rows (columns of B) of a square of them. */
export const BLOCK_SCALE = 128;
/** Bytes of a factor. */
const FACTOR_BYTES = 4;
/** What squares' factors along K are padded to (cuBLASLt, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F). */
const SQUARES_PAD = 4;

/** Factors in f32 as a matrix: rows of factors by runs of 128 along K. */
export interface BlockFactors {
  readonly form: BlockForm;
  /** Rows of A (columns of B) that share a factor. */
  readonly each: number;
  /** Rows of A (columns of B) whose blocks begin with the first of them: all, or those of one factor of a gated product. */
  readonly of: number;
  readonly rows: number;
  /** Factors along K. */
  readonly factors: number;
  /** Elements between neighbours along rows and along K. */
  readonly strides: readonly [row: number, k: number];
  /** Elements between the factors of neighbouring problems of a batch; 0 where they share the operand. */
  readonly stride: number;
  /** Bytes of one problem's factors, and of the whole batch. */
  readonly bytes: number;
  readonly allBytes: number;
}

/**
 * The factors that `blockScales` puts beside A or B; null without them. Memory order is that of cuBLASLt: `1x128` has rows contiguous, one run of K
 * behind the other; `128x128` has K contiguous, its rows padded to multiples of 4 factors. Those of a gated product's second factor stand behind those of the first, and its squares begin at its own first column.
 */
export function blockFactors(problem: Problem, which: "a" | "b"): BlockFactors | null {
  const form = problem.blockScales?.[which];
  if (form === undefined) return null;
  const each = form === "1x128" ? 1 : BLOCK_SCALE;
  const halves = halvesOf(problem, which);
  const of = which === "a" ? problem.m : problem.n;
  const rows = halves * Math.ceil(of / each);
  const factors = Math.ceil(problem.k / BLOCK_SCALE);
  const padded = roundUp(factors, SQUARES_PAD);
  const elements = form === "1x128" ? rows * factors : rows * padded;
  const { batch } = problem;
  const shared = batch.kind === "strided" && (which === "a" ? batch.strideA : batch.strideB) === 0;
  const stride = batch.kind === "strided" && !shared ? elements : 0;
  const count = batch.kind === "strided" ? batch.count : 1;
  return {
    form,
    each,
    of,
    rows,
    factors,
    strides: form === "1x128" ? [1, rows] : [padded, 1],
    stride,
    bytes: elements * FACTOR_BYTES,
    allBytes: (elements + (count - 1) * stride) * FACTOR_BYTES,
  };
}

/** The row of factors of a row of A (column of B). */
export const factorRow = ({ each, of }: Pick<BlockFactors, "each" | "of">, row: number): number =>
  rowInHalf(each, of, row, Math.floor(row / of));

/** The row of factors, `each` rows to one, of a row of a half, which has `of` rows and begins in a row of factors of its own. */
const rowInHalf = (each: number, of: number, row: number, half: number): number =>
  half * Math.ceil(of / each) + Math.floor((row - half * of) / each);

/** Between the factors of neighbouring problems of a batch, in elements of the buffer that kernels see: words of four codes, or factors; 0 where they share them, or there are none. */
export const factorStride = (problem: Problem, which: "a" | "b"): number =>
  (which === "b" ? weightFactors(problem)?.stride : null) ??
  blockFactors(problem, which)?.stride ??
  (scaleMatrix(problem, which)?.stride ?? 0) / SCALE_FACTORS;

/** Bytes of the factors of A or B for the whole batch, of either kind; 0 where it has none. */
export const factorsSize = (problem: Problem, which: "a" | "b"): number =>
  scaleMatrix(problem, which)?.allBytes ??
  blockFactors(problem, which)?.allBytes ??
  (which === "b" ? weightFactors(problem)?.allBytes : null) ??
  0;

/** The word of a row's factors within its block. */
export const scaleWordOf = (row: number): number =>
  (row % SCALE_LANES) * SCALE_FACTORS + Math.floor((row % SCALE_ROWS) / SCALE_LANES);

/** The row, within its block, of a word. */
export const scaleRowOf = (word: number): number =>
  Math.floor(word / SCALE_FACTORS) + (word % SCALE_FACTORS) * SCALE_LANES;

/** Byte of a factor in one problem's matrix; rows behind the last one are those of its block that nothing reads. */
export const scaleOffset = ({ rows, of, blocks }: ScaleMatrix, row: number, factor: number): number => {
  const half = Math.min(Math.floor(row / of), rows / of - 1);
  const block = rowInHalf(SCALE_ROWS, of, row, half) * blocks[1] + Math.floor(factor / SCALE_FACTORS);
  return (block * SCALE_WORDS + scaleWordOf(row - half * of)) * SCALE_FACTORS + (factor % SCALE_FACTORS);
};

/** Codes of all problems of a batch out of memory order: rows of codes, one problem behind the other. */
export function unpackScales(matrix: ScaleMatrix, bytes: ArrayLike<number>): Uint8Array {
  const { rows, factors, stride, allBytes } = matrix;
  const each = rows * factors;
  const items = stride === 0 ? 1 : allBytes / stride;
  return Uint8Array.from({ length: items * each }, (_, i) => {
    const at = i % each;
    const place = scaleOffset(matrix, Math.floor(at / factors), at % factors);
    return bytes[Math.floor(i / each) * stride + place] ?? 0;
  });
}

/** Factors from rows of codes (rows x factors, one behind the other) into memory order; what no row has is 0. */
export function packScales(matrix: ScaleMatrix, codes: ArrayLike<number>): Uint8Array {
  const packed = new Uint8Array(matrix.bytes);
  for (let row = 0; row < matrix.rows; row++)
    for (let factor = 0; factor < matrix.factors; factor++)
      packed[scaleOffset(matrix, row, factor)] = codes[row * matrix.factors + factor] ?? 0;
  return packed;
}
