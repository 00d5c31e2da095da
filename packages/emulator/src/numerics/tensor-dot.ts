/**
 * Matrix products of whole tiles, as wgmma and tcgen05.mma make them: D[m][n] = C[m][n] + the sum over k of A[m][k] B[n][k], in
 * chained steps by the arithmetic of the architecture (tensorcore.ts), every bit of it.
 *
 * Operands are decoded (decode-rows.ts), row-major with K contiguous. What the hardware aligns by follows from the value and
 * its format: exponents are not normalised, subnormals have their format's least one.
 */
import { formats } from "@tilewright/ir";
import { createTile, multiplyTile, type Tile } from "./fused-dot.ts";
import { alignmentExponent } from "./operands.ts";
import { type ScaleFactors, scaledDot } from "./scaled-dot.ts";
import { asyncStepOf, type TensorArithmetic, type TensorKind } from "./tensorcore.ts";

export type { ScaleFactors } from "./scaled-dot.ts";

/** What a tile's product is: formats, extents and the type of the accumulators. */
export interface DotShape {
  readonly aKind: TensorKind;
  readonly bKind: TensorKind;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly accumulator: "f32" | "f16";
}

const tiles = new Map<string, Tile>();
function tileOf({ m, n, k }: DotShape): Tile {
  const key = `${m}/${n}/${k}`;
  const known = tiles.get(key);
  if (known !== undefined) return known;
  const tile = createTile(m, n, k, 1);
  tiles.set(key, tile);
  return tile;
}

function load(
  from: Float32Array,
  count: number,
  kind: TensorKind,
  values: Float64Array,
  exponents: Int32Array,
): void {
  const least = formats[kind].minExponent;
  for (let i = 0; i < count; i++) {
    const value = from[i] as number;
    values[i] = value;
    exponents[i] = alignmentExponent(value, least);
  }
}

/**
 * D = A * B + C, C and D in `accumulators` ([m][n], f32; an f16 accumulator as the f32 of the same value).
 *
 * @param a values [m][k].
 * @param b values [n][k].
 * @param scales factors of blocks of K, for the block-scaled kinds; null otherwise.
 */
export function tileDot(
  arithmetic: TensorArithmetic,
  shape: DotShape,
  a: Float32Array,
  b: Float32Array,
  accumulators: Float32Array,
  scales: ScaleFactors | null = null,
): void {
  if (scales !== null) {
    scaledDot(shape, a, b, accumulators, scales);
    return;
  }
  const { m, n, k, aKind, bKind, accumulator } = shape;
  const tile = tileOf(shape);
  load(a, m * k, aKind, tile.a, tile.aExponents);
  load(b, n * k, bKind, tile.b, tile.bExponents);
  const bits = new Int32Array(accumulators.buffer, accumulators.byteOffset, m * n);
  tile.cBits.set(bits);
  multiplyTile(tile, 0, asyncStepOf(arithmetic, aKind), accumulator === "f16");
  bits.set(tile.cBits);
}

const largest = 2 ** 31 - 1;
const smallest = -(2 ** 31);

/**
 * The same for integers of 8 bits, exact; beyond 32 bits the result wraps, or stops at the ends with `saturate`.
 *
 * @param a values [m][k], sign- or zero-extended.
 * @param b values [n][k].
 */
export function tileDotInt(
  { m, n, k }: { readonly m: number; readonly n: number; readonly k: number },
  a: Int16Array,
  b: Int16Array,
  accumulators: Int32Array,
  saturate: boolean,
): void {
  for (let row = 0; row < m; row++)
    for (let column = 0; column < n; column++) {
      let dot = 0;
      for (let i = 0; i < k; i++) dot += (a[row * k + i] as number) * (b[column * k + i] as number);
      const at = row * n + column;
      const sum = (accumulators[at] as number) + dot;
      accumulators[at] = saturate ? Math.min(largest, Math.max(smallest, sum)) : sum | 0;
    }
}
