/** Scale factors on the CPU: what they make of dense operands, and seeded ones. */
import { encode, encodeUe8m0 } from "../numerics/formats.ts";
import { decodeScale, type ScaleFormat } from "../numerics/scaled.ts";
import { bytesOfStorage, encodeArray } from "../numerics/storage.ts";
import {
  BLOCK_SCALE,
  type BlockFactors,
  blockFactors,
  factorRow,
  type ScaleMatrix,
  scaleMatrix,
  scaleOffset,
} from "../problem/scales.ts";
import { type WeightFactors, weightFactors, weightZeroRange } from "../problem/weights.ts";
import type { Problem } from "../problem.ts";
import { createRandom, type InputDistribution, type Random } from "./random.ts";

/** Factors of an operand in memory, to be looked up. */
export interface FactorTable {
  /** Elements of K under one factor. */
  readonly block: number;
  /** The factor of a row of A (column of B) of problem `item` of the batch. */
  at(item: number, row: number, factor: number): number;
}

/** The factors of A or B in memory order; null where it has none. Throws (a bug) where the bytes are too few. */
export function factorTable(problem: Problem, which: "a" | "b", bytes: Uint8Array): FactorTable | null {
  const [matrix, blocks] = [scaleMatrix(problem, which), blockFactors(problem, which)];
  const needed = matrix?.allBytes ?? blocks?.allBytes ?? 0;
  if (bytes.length < needed)
    throw new RangeError(`${bytes.length} bytes of factors, where ${needed} are needed`);
  return matrix !== null
    ? tableOfCodes(matrix, bytes)
    : blocks !== null
      ? tableOfFloats(blocks, bytes)
      : null;
}

const tableOfCodes = (matrix: ScaleMatrix, bytes: Uint8Array): FactorTable => ({
  block: matrix.block,
  at: (item, row, factor) =>
    decodeScale(matrix.format, bytes[item * matrix.stride + scaleOffset(matrix, row, factor)] ?? 0),
});

function tableOfFloats(factors: BlockFactors, bytes: Uint8Array): FactorTable {
  const { strides, stride } = factors;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return {
    block: BLOCK_SCALE,
    at: (item, row, factor) =>
      view.getFloat32(4 * (item * stride + factorRow(factors, row) * strides[0] + factor * strides[1]), true),
  };
}

/**
 * Multiply the elements of a dense operand by their factors. `rows`: numbers of its rows (columns of B); element (rows[i], k) is at
 * i * step[0] + k * step[1].
 */
export function applyScales(
  dense: Float64Array,
  table: FactorTable,
  item: number,
  rows: readonly number[],
  k: number,
  [rowStep, kStep]: readonly [number, number],
): void {
  for (const [i, row] of rows.entries())
    for (let first = 0; first < k; first += table.block) {
      const factor = table.at(item, row, first / table.block);
      for (let p = first; p < Math.min(k, first + table.block); p++) {
        const at = i * rowStep + p * kStep;
        dense[at] = (dense[at] ?? 0) * factor;
      }
    }
}

/** Factors by what they multiply: 1, 2 and 4 keep sums of integers exact; else 2 ** -3 to 2 ** 2, not all of them powers of two. */
const factorValue = (exact: boolean, uniform: number): number =>
  exact ? 2 ** Math.floor(3 * uniform) : 2 ** (6 * uniform - 3);

const codeOf = (format: ScaleFormat, value: number): number =>
  format === "ue8m0" ? encodeUe8m0(value, "rz") : encode("e4m3", value);

/** Seeded codes of factors, one a byte. `exact`: those that keep sums of integers exact. */
export function randomFactorCodes(
  format: ScaleFormat,
  count: number,
  exact: boolean,
  seed: number,
): Uint8Array {
  const random = createRandom(seed);
  return Uint8Array.from({ length: count }, () => codeOf(format, factorValue(exact, random.uniform())));
}

/**
 * Seeded factors of A or B in memory order (`problem/scales.ts`), the whole batch; null where its dtype has none. What belongs to no row
 * holds NaN, which no kernel may use; of codes, what stands behind the last factor along K is 0.
 */
export function randomScales(
  problem: Problem,
  which: "a" | "b",
  distribution: InputDistribution,
  seed: number,
): Uint8Array | null {
  const exact = distribution.kind === "integers";
  const random = createRandom(seed);
  const [matrix, blocks] = [scaleMatrix(problem, which), blockFactors(problem, which)];
  if (matrix !== null) return randomCodes(matrix, exact, random);
  if (blocks !== null) return randomFloats(blocks, exact, random);
  const weights = which === "b" ? weightFactors(problem) : null;
  return weights === null ? null : randomGroups(weights, weightZeroRange(problem.b.dtype), exact, random);
}

/** Scales, then zero points of their range. */
function randomGroups(
  factors: WeightFactors,
  zeros: ReturnType<typeof weightZeroRange>,
  exact: boolean,
  random: Random,
): Uint8Array {
  const [rows, columns] = factors.shape;
  // Of a batch the factors of each matrix, one behind the other.
  const values = Array.from({ length: factors.allBytes / 2 }, (_, i) =>
    i % (rows * columns) < factors.groups * columns
      ? exact
        ? factorValue(exact, random.uniform())
        : (0.5 + random.uniform()) / 8
      : random.integer(...(zeros ?? [0, 0])),
  );
  return bytesOfStorage(encodeArray(factors.dtype, values));
}

function randomCodes(matrix: ScaleMatrix, exact: boolean, random: Random): Uint8Array {
  const all = new Uint8Array(matrix.allBytes).fill(0xff);
  const factors = matrix.blocks[1] * 4;
  for (let first = 0; first < all.length; first += matrix.stride || all.length)
    for (let row = 0; row < matrix.rows; row++)
      for (let factor = 0; factor < factors; factor++)
        all[first + scaleOffset(matrix, row, factor)] =
          factor < matrix.factors ? codeOf(matrix.format, factorValue(exact, random.uniform())) : 0;
  return all;
}

function randomFloats(blocks: BlockFactors, exact: boolean, random: Random): Uint8Array {
  const { rows, factors, strides, stride, allBytes } = blocks;
  const all = new Uint8Array(allBytes).fill(0xff);
  const view = new DataView(all.buffer);
  for (let first = 0; first < allBytes; first += 4 * stride || allBytes)
    for (let row = 0; row < rows; row++)
      for (let factor = 0; factor < factors; factor++)
        view.setFloat32(
          first + 4 * (row * strides[0] + factor * strides[1]),
          factorValue(exact, random.uniform()),
          true,
        );
  return all;
}
