/** Scale factors in the reference: applied to operands, and made up. */
import { encode, encodeUe8m0 } from "../numerics/formats.ts";
import { decodeScale, type ScaleFormat } from "../numerics/scaled.ts";
import { type ScaleMatrix, scaleMatrix, scaleOffset } from "../problem/scales.ts";
import type { Problem } from "../problem.ts";
import { createRandom, type InputDistribution } from "./random.ts";

/**
 * Multiply the elements of a dense operand by their factors. `rows`: numbers of its rows (columns of B); element (rows[i], k) is at
 * i * step[0] + k * step[1]. Throws (a bug) where the factors are too few.
 */
export function applyScales(
  dense: Float64Array,
  matrix: ScaleMatrix,
  factors: Uint8Array,
  item: number,
  rows: readonly number[],
  k: number,
  [rowStep, kStep]: readonly [number, number],
): void {
  const first = item * matrix.stride;
  if (factors.length < first + matrix.bytes)
    throw new RangeError(`${factors.length} bytes of factors, where ${first + matrix.bytes} are needed`);
  for (const [i, row] of rows.entries())
    for (let p = 0; p < k; p++) {
      const code = factors[first + scaleOffset(matrix, row, Math.floor(p / matrix.block))] ?? 0;
      const at = i * rowStep + p * kStep;
      dense[at] = (dense[at] ?? 0) * decodeScale(matrix.format, code);
    }
}

/** Factors by what they multiply: 1, 2 and 4 keep sums of integers exact; else 2 ** -3 to 2 ** 2, not all of them powers of two in ue4m3. */
function codeOf(format: ScaleFormat, exact: boolean, uniform: number): number {
  const value = exact ? 2 ** Math.floor(3 * uniform) : 2 ** (6 * uniform - 3);
  return format === "ue8m0" ? encodeUe8m0(value, "rz") : encode("e4m3", value);
}

/**
 * Seeded factors of A or B in memory order (`problem/scales.ts`), the whole batch; null where its dtype has none. What stands behind the last row
 * holds NaN, which no kernel may use; what stands behind the last factor along K is 0.
 */
export function randomScales(
  problem: Problem,
  which: "a" | "b",
  distribution: InputDistribution,
  seed: number,
): Uint8Array | null {
  const matrix = scaleMatrix(problem, which);
  if (matrix === null) return null;
  const random = createRandom(seed);
  const all = new Uint8Array(matrix.allBytes).fill(0xff);
  const factors = matrix.blocks[1] * 4;
  for (let first = 0; first < all.length; first += matrix.stride || all.length)
    for (let row = 0; row < matrix.rows; row++)
      for (let factor = 0; factor < factors; factor++)
        all[first + scaleOffset(matrix, row, factor)] =
          factor < matrix.factors
            ? codeOf(matrix.format, distribution.kind === "integers", random.uniform())
            : 0;
  return all;
}
