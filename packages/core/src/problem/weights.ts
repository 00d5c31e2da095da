/**
 * Weights that are stored in few bits and multiplied in the dtype of A: `D = A . dequant(W)`. Column j of B is row j of W. What a code q of s4 of a group with scale s and
 * zero point z stands for is (q - z) * s, rounded once, to nearest even, to A's dtype; without zero points z is 8. Of s8 it is the same, and z is 0 without zero points. A code of
 * e2m1 or e4m3 stands for its value times s, rounded likewise.
 *
 * Memory order of codes of 4 bits, `fragments-16x64`: blocks of 16 columns of B by 64 of k, 512 bytes each, those of one 16 columns one behind the other along k. A block has 16 bytes
 * for each of 32 lanes: the words of its four runs of 16 along k. A word has what a lane holds of 16 x 16 elements where a matrix instruction takes them from registers
 * (PTX ISA, mma.m16n8k16 and wgmma: register fragment of A): with g = lane / 4 and t = lane % 4 the columns g and g + 8, at 2t, 2t + 1, 2t + 8 and 2t + 9 of k. Bits 4i to
 * 4i + 3 have the code at column g + 8 (i % 2) and 2t + 8 (i / 2) of k, bits 16 + 4i and so on its neighbour along k.
 *
 * Of codes of 8 bits, `fragments-16x32`, a block has half as much of k, and each of its two runs of 16 has two words a lane: the first the codes at 2t and 2t + 1, the second those
 * at 2t + 8 and 2t + 9. Bits 8i to 8i + 7 have the code at column g + 8i, bits 16 + 8i and so on its neighbour along k.
 *
 * The scales are rows of n, one for each group along k, in A's dtype; behind them, in the same way, the zero points.
 */

import type { Diagnostic } from "../diagnostics.ts";
import { roundUp } from "../divisors.ts";
import { type DType, dtypes, type WeightType, weightTypes } from "../dtype.ts";
import { decode } from "../numerics/formats.ts";
import {
  bytesOfStorage,
  decodeArray,
  encodeArray,
  roundTo,
  type Storage,
  storageFromBytes,
} from "../numerics/storage.ts";
import { type Problem, productColumns } from "../problem.ts";
import { invalid, problemCodes } from "./codes.ts";

/** Names of the memory orders. */
export const weightOrders = ["fragments-16x64", "fragments-16x32"] as const;
/** Columns of B in a block, and the elements of k that weights are whole numbers of: one block of 4-bit codes, two of 8-bit codes. */
export const WEIGHT_COLUMNS = 16;
export const WEIGHT_K = 64;
/** Words of a block. */
const BLOCK_WORDS = 128;
/** Elements of k that an instruction takes at once: those of a lane's words behind each other. */
const STEP = 16;
/** Powers of two that kernels make weights below themselves in bf16, so that one instruction makes them of their codes (docs/weight-only.md). */
export const WEIGHTS_BELOW = 24;
/** Scales from which on what kernels multiply codes by is no bf16: they are 2^133 less, and 2^24 more. */
const SCALES_END = 2 ** (WEIGHTS_BELOW - 5);
/** Weights along k under one scale. */
export const weightGroups = [16, 32, 64, 128] as const;

/** What codes of a dtype are. */
interface CodeRow {
  /** Least and greatest number that `packWeights` takes: the code itself where it is a whole number, else its bits. */
  readonly range: readonly [least: number, most: number];
  /** The code that stands for 0 where there are no zero points; null of codes that have none. */
  readonly zero: number | null;
}

const codeRows: Readonly<Record<WeightType, CodeRow>> = {
  s4: { range: [0, 15], zero: 8 },
  s8: { range: [-128, 127], zero: 0 },
  e2m1: { range: [0, 15], zero: null },
  e4m3: { range: [0, 255], zero: null },
};

/** The whole number that stands for 0 where weights have no zero points; null of codes that have none. */
export const weightZero = (dtype: WeightType): number | null => codeRows[dtype].zero;

/** Least and greatest zero point of weights; null of codes that have none. */
export const weightZeroRange = (dtype: DType): CodeRow["range"] | null =>
  isWeightType(dtype) && codeRows[dtype].zero !== null ? codeRows[dtype].range : null;

/** Words of the codes of 16 columns of B for each element along k. */
export const weightWordsPerRow = (dtype: DType): number => (WEIGHT_COLUMNS * dtypes[dtype].bits) / 32;

/** Elements of k in a block. */
const blockK = (dtype: DType): number => BLOCK_WORDS / weightWordsPerRow(dtype);

/** Name of the memory order of codes of a dtype. */
export const weightOrder = (dtype: DType): (typeof weightOrders)[number] =>
  blockK(dtype) === WEIGHT_K ? "fragments-16x64" : "fragments-16x32";

/** Whether a dtype is of weights alone. */
export const isWeights = (dtype: DType): boolean => dtype === "s4";

/** Whether weights may have a dtype. */
export const isWeightType = (dtype: DType): dtype is WeightType => weightTypes.some((each) => each === dtype);

/** The number that the bits of a code are before it is scaled; a whole one is counted from its zero point. */
export function codeValue(dtype: WeightType, code: number): number {
  switch (dtype) {
    case "s4":
      return code;
    case "s8":
      return (code << 24) >> 24;
    case "e2m1":
    case "e4m3":
      return decode(dtype, code);
  }
}

/** What says how many columns weights have: of a gated product those of the gate, and behind them those of the up projection. */
type Columns = Pick<Problem, "n" | "gated" | "epilogue">;

/** Rows of blocks, and words of a row, of the codes as a matrix of words, one row behind the other; null where B has elements. */
export const weightMatrix = (
  problem: Columns & Pick<Problem, "k" | "b" | "weights">,
): readonly [rows: number, words: number] | null =>
  problem.weights === undefined
    ? null
    : [productColumns(problem) / WEIGHT_COLUMNS, problem.k * weightWordsPerRow(problem.b.dtype)];

/** Scales and zero points as one matrix. */
export interface WeightFactors {
  readonly dtype: DType;
  readonly groups: number;
  /** Rows of scales, then of zero points, by n. */
  readonly shape: readonly [rows: number, columns: number];
  /** Elements between those of neighbouring problems of a batch; 0 where they share the weights. */
  readonly stride: number;
  /** Bytes of one problem's factors, and of the whole batch. */
  readonly bytes: number;
  readonly allBytes: number;
}

/** Matrices of weights of a problem whose experts are one: one behind the other for each problem of a batch, unless these share them. */
const weightMatrices = ({ batch }: Pick<Problem, "batch">): number =>
  batch.kind === "strided" && batch.strideB !== 0 ? batch.count : 1;

/** Words between the codes of neighbouring problems of a batch; 0 where they share them. */
export const weightStride = (problem: Columns & Pick<Problem, "k" | "b" | "weights" | "batch">): number => {
  const [rows, words] = weightMatrix(problem) ?? [0, 0];
  return weightMatrices(problem) === 1 ? 0 : rows * words;
};

/** The factors of the weights; null where B has elements. */
export function weightFactors(
  problem: Columns & Pick<Problem, "k" | "a" | "weights" | "batch">,
): WeightFactors | null {
  const { k, a, weights, batch } = problem;
  if (weights === undefined) return null;
  const n = productColumns(problem);
  const groups = k / weights.group;
  const rows = weights.zeros ? 2 * groups : groups;
  const matrices = weightMatrices({ batch });
  const bytes = 2 * rows * n;
  return {
    dtype: a.dtype,
    groups,
    shape: [rows, n],
    stride: matrices === 1 ? 0 : rows * n,
    bytes,
    allBytes: matrices * bytes,
  };
}

/** Where the code at `k` of column `n` stands in the words of its 16 columns: the word, and its lowest bit there. */
export function weightPlace(dtype: DType, k: number, n: number): readonly [word: number, bit: number] {
  const { bits } = dtypes[dtype];
  const [column, along, length] = [n % WEIGHT_COLUMNS, k % STEP, blockK(dtype)];
  const lane = (column % 8) * 4 + Math.floor((along % 8) / 2);
  const pair = Math.floor(column / 8) + 2 * Math.floor(along / 8);
  // Codes in each half of a word, and words of a lane for each step.
  const fields = STEP / bits;
  const word = Math.floor((k % length) / STEP) * (4 / fields) + Math.floor(pair / fields);
  return [Math.floor(k / length) * BLOCK_WORDS + lane * 4 + word, bits * (pair % fields) + 16 * (along % 2)];
}

/** Which of all codes in memory is that at `k` of column `n`. */
export function weightIndex(
  { k: length, b: { dtype } }: Pick<Problem, "k" | "b">,
  k: number,
  n: number,
): number {
  const { bits } = dtypes[dtype];
  const [word, bit] = weightPlace(dtype, k, n);
  return (32 * (rowOf(n) * length * weightWordsPerRow(dtype) + word) + bit) / bits;
}

/** The row of words that has the codes of a column. */
const rowOf = (column: number): number => Math.floor(column / WEIGHT_COLUMNS);

/** The place of each code of an n x k matrix of weights: its word in memory, and its lowest bit there. */
function eachPlace(
  dtype: DType,
  [n, k]: readonly [number, number],
  visit: (column: number, along: number, word: number, bit: number) => void,
): void {
  const row = k * weightWordsPerRow(dtype);
  for (let column = 0; column < n; column++)
    for (let along = 0; along < k; along++) {
      const [word, bit] = weightPlace(dtype, along, column);
      visit(column, along, rowOf(column) * row + word, bit);
    }
}

export interface UnpackedWeights {
  /** Rows of W, columns of B: a multiple of 16. */
  readonly n: number;
  /** A multiple of 64 and of the group. */
  readonly k: number;
  /** What the codes are; s4 unless given. */
  readonly weights?: WeightType;
  /** n rows of k codes, one an entry: of s4 a number from 0 to 15, of s8 one from -128 to 127, of e2m1 and e4m3 its bits. */
  readonly codes: ArrayLike<number>;
  /** n rows of k / group scales. */
  readonly scales: ArrayLike<number>;
  /** n rows of k / group zero points, of s4 from 0 to 15, of s8 from -128 to 127; unless given 8 for all of s4, 0 for all of s8. Codes of floats have none. */
  readonly zeros?: ArrayLike<number>;
  readonly group: number;
  /** A's dtype. */
  readonly dtype: "bf16" | "f16";
}

/**
 * Codes, scales and zero points of weights in the order that kernels read (`fragments-16x64`, of 8 bits `fragments-16x32`): bytes of the buffers `b` and `sfb` of a launch. Throws a
 * `RangeError` on sizes that do not divide, on arrays of other lengths, on scales from 2^19 on in bf16, on codes and zero points that are no whole numbers of their range, on zero points of floats, and on a NaN of e4m3.
 */
export function packWeights(given: UnpackedWeights): {
  readonly b: Uint8Array;
  readonly sfb: Uint8Array;
} {
  const { n, k, codes, scales, zeros, group, dtype, weights = "s4" } = given;
  if (n % WEIGHT_COLUMNS !== 0 || k % WEIGHT_K !== 0 || k % group !== 0)
    throw new RangeError(`${n} x ${k} weights in groups of ${group} are no whole blocks of 16 x 64`);
  const groups = k / group;
  const { range, zero } = codeRows[weights];
  const [least, most] = range;
  const expect = (what: string, values: ArrayLike<number>, length: number, whole: boolean): void => {
    if (values.length !== length) throw new RangeError(`${values.length} ${what}, where there are ${length}`);
    const odd = whole
      ? Array.prototype.find.call(values, (x) => !(x >= least && x <= most && x % 1 === 0))
      : undefined;
    if (odd !== undefined)
      throw new RangeError(`${odd} among the ${what}, which go from ${least} to ${most}`);
  };
  expect("codes", codes, n * k, true);
  expect("scales", scales, n * groups, false);
  const large =
    dtype === "bf16"
      ? Array.prototype.find.call(scales, (x) => Math.abs(roundTo("bf16", x)) >= SCALES_END)
      : undefined;
  if (large !== undefined)
    throw new RangeError(`${large} among the scales, which are below ${SCALES_END} in bf16`);
  if (zeros !== undefined && zero === null) throw new RangeError(`codes of ${weights} have no zero points`);
  if (zeros !== undefined) expect("zero points", zeros, n * groups, true);
  const { bits } = dtypes[weights];
  const words = new Uint32Array((n * k * bits) / 32);
  eachPlace(weights, [n, k], (column, along, word, bit) => {
    const code = (codes[column * k + along] ?? 0) & (2 ** bits - 1);
    if (Number.isNaN(codeValue(weights, code)))
      throw new RangeError(`the code at ${along} of row ${column} is a NaN, which kernels take for a number`);
    words[word] = (words[word] ?? 0) | (code << bit);
  });
  const turned = (values: ArrayLike<number>): readonly number[] =>
    Array.from({ length: groups * n }, (_, i) => values[(i % n) * groups + Math.floor(i / n)] ?? 0);
  const factors = [...turned(scales), ...(zeros === undefined ? [] : turned(zeros))];
  return { b: new Uint8Array(words.buffer), sfb: bytesOfStorage(encodeArray(dtype, factors)) };
}

/** What the codes of a problem's B stand for, column after column, of a batch one matrix behind the other; null where B has elements, or is given as values. Throws where the factors are missing. */
export function unpackWeights(
  problem: Problem,
  b: Storage | Float64Array,
  sfb: Uint8Array | null,
): Float64Array | null {
  const {
    k,
    weights,
    b: { dtype },
  } = problem;
  const n = productColumns(problem);
  const factors = weightFactors(problem);
  if (weights === undefined || factors === null || b instanceof Float64Array || !isWeightType(dtype))
    return null;
  if (sfb === null) throw new TypeError("the reference needs the scales of the weights");
  const values = decodeArray(factors.dtype, storageFromBytes(factors.dtype, sfb, factors.allBytes / 2));
  const words = new Uint32Array(bytesOfStorage(b).slice().buffer);
  const matrices = weightMatrices(problem);
  const out = new Float64Array(matrices * n * k);
  const [mask, zero] = [2 ** dtypes[dtype].bits - 1, weightZero(dtype) ?? 0];
  for (let matrix = 0; matrix < matrices; matrix++) {
    const [scales, codes] = [matrix * factors.stride, matrix * weightStride(problem)];
    eachPlace(dtype, [n, k], (column, along, word, bit) => {
      const group = Math.floor(along / weights.group);
      const point = weights.zeros ? (values[scales + (factors.groups + group) * n + column] ?? 0) : zero;
      const code = codeValue(dtype, ((words[codes + word] ?? 0) >>> bit) & mask);
      out[(matrix * n + column) * k + along] = roundTo(
        factors.dtype,
        (code - point) * (values[scales + group * n + column] ?? 0),
      );
    });
  }
  return out;
}

/** Groups that a k is whole numbers of, as what would work, too. */
function groupsOf(k: number): string {
  const whole = weightGroups.filter((group) => k % group === 0);
  return whole.length === 0 ? "" : `, or groups of ${whole.join(" or ")}`;
}

/** How weights are asked for where their dtype was given for a matrix. */
export const weightsInstead = "use weights s4 (--weights s4), which are B's alone, with A bf16 or f16";

/** Sizes that the launch of a kernel for weights may supply. */
const launched: readonly string[] = ["m", "lda", "ldc", "ldd", "strideA", "strideC", "strideD"];

/** What weights and the rest of a problem contradict each other in: TW1021. */
export function checkWeights(problem: Problem): readonly Diagnostic[] {
  const { n, k, a, b, batch, weights, symbolic, gated } = problem;
  const found: Diagnostic[] = [];
  const fault = (at: string, message: string, hint: string): void => {
    found.push(invalid(problemCodes.weights, at, message, hint));
  };
  if (weights === undefined) {
    for (const [at, { dtype }] of [["a.dtype", a] as const, ["b.dtype", b] as const])
      if (isWeights(dtype)) fault(at, `${dtype} is of weights, whose groups have scales`, weightsInstead);
    return found;
  }
  if (!isWeightType(b.dtype))
    fault("b.dtype", `weights are ${weightTypes.join(" or ")}, not ${b.dtype}`, `use ${weightTypes[0]}`);
  else if (weights.zeros && weightZero(b.dtype) === null)
    fault(
      "weights.zeros",
      `codes of ${b.dtype} have no zero point`,
      `leave zeros out, or use weights ${weightTypes.filter((each) => weightZero(each) !== null).join(" or ")}`,
    );
  if (a.dtype !== "bf16" && a.dtype !== "f16")
    fault("a.dtype", `A of ${a.dtype} is not multiplied by weights`, "use bf16 or f16");
  const { group } = weights;
  const whole = productColumns(problem) * k;
  if (!weightGroups.some((each) => each === group))
    fault("weights.group", `there are no groups of ${group}`, `use ${weightGroups.join(", ")}`);
  else if (k % group !== 0)
    fault(
      "weights.group",
      `a k of ${k} is no whole number of groups of ${group}`,
      `use a k of ${roundUp(k, group)}, with zeros in A behind its end${groupsOf(k)}`,
    );
  if (n % WEIGHT_COLUMNS !== 0 || k % WEIGHT_K !== 0)
    fault(
      "weights",
      `${n} x ${k} weights are no whole blocks of ${WEIGHT_COLUMNS} x ${WEIGHT_K}`,
      `use n of ${roundUp(n, WEIGHT_COLUMNS)} and k of ${roundUp(k, WEIGHT_K)}`,
    );
  if (b.layout !== "col" || b.ld !== k)
    fault(
      "b",
      "weights lie in blocks, which leave no gaps",
      "leave the layout and leading dimension of B out",
    );
  if (b.align % 16 !== 0)
    fault("b.align", `blocks of weights begin at multiples of 16 bytes, not of ${b.align}`, "use 16 or more");
  const experts = batch.kind === "grouped" && batch.rows !== undefined && batch.axis !== "k";
  if (batch.kind === "grouped" && !experts)
    fault(
      "batch",
      "weights are one matrix, or one for each problem of a strided batch, or for each expert",
      "use a strided batch, or leave expertAxis out",
    );
  if (batch.kind === "strided" && batch.axes !== undefined)
    fault("batch", "weights of a batch lie along one axis", "give the batch one count");
  else if (batch.kind === "strided" && batch.strideB !== 0 && batch.strideB !== whole)
    fault(
      "batch.strideB",
      "weights of a batch lie one behind the other, or all problems share them",
      `use a stride of ${whole} codes, or 0`,
    );
  if (gated !== undefined && gated !== "halves")
    fault("gated", "weights of both factors are one matrix, those of the gate first", "use halves");
  const fixed = Object.keys(symbolic ?? {}).filter((name) => !launched.includes(name));
  // Leading dimensions follow from n and k.
  const own = fixed.filter((name) => name === "n" || name === "k");
  for (const name of own.length > 0 ? own : fixed)
    fault(
      `symbolic.${name}`,
      "where weights lie follows from n, k and the batch",
      `fix ${name}; m may be symbolic`,
    );
  return found;
}
