/**
 * Matrix products of whole tiles, as wgmma and tcgen05.mma make them: D[m][n] = C[m][n] + the sum over k of A[m][k] B[n][k], in
 * chained steps by the arithmetic of the architecture (tensorcore.ts), every bit of it.
 *
 * Operands are decoded (decode-rows.ts), row-major with K contiguous. What the hardware aligns by follows from the value and
 * its format: exponents are not normalised, subnormals have their format's least one.
 */
import { formats } from "@tilewright/ir";
import { columnsAtOnce, specialExponent16, zeroExponent16 } from "./dot-code.ts";
import { type DotUnit, dotUnit, largestTile, places } from "./dot-unit.ts";
import { createTile, multiplyTile, type Tile } from "./fused-dot.ts";
import { alignmentExponent, exponentOfBits, specialExponent } from "./operands.ts";
import { type ScaleFactors, scaledDot } from "./scaled-dot.ts";
import { asyncStepOf, type StepArithmetic, type TensorArithmetic, type TensorKind } from "./tensorcore.ts";

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
function tileOf(m: number, n: number, k: number): Tile {
  const key = `${m}/${n}/${k}`;
  const known = tiles.get(key);
  if (known !== undefined) return known;
  const tile = createTile(m, n, k, 1);
  tiles.set(key, tile);
  return tile;
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
  if (scales !== null) scaledDot(shape, a, b, accumulators, scales);
  else stepDot(asyncStepOf(arithmetic, shape.aKind), shape, a, b, accumulators);
}

/** The same, in chained steps of a given arithmetic: the fast form where there is one. */
export function stepDot(
  step: StepArithmetic,
  shape: DotShape,
  a: Float32Array,
  b: Float32Array,
  accumulators: Float32Array,
): void {
  const unit = dotUnit();
  const { m, n, k } = shape;
  const fits = m <= largestTile.m && n <= largestTile.n && k <= largestTile.k;
  if (unit !== null && fits && n % columnsAtOnce === 0) fastDot(unit, step, shape, a, b, accumulators);
  else plainDot(step, shape, a, b, accumulators);
}

// ---------------------------------------------------------------- in JavaScript

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

/** The form of `stepDot` for any extents and any host. */
export function plainDot(
  step: StepArithmetic,
  { m, n, k, aKind, bKind, accumulator }: DotShape,
  a: Float32Array,
  b: Float32Array,
  accumulators: Float32Array,
): void {
  const tile = tileOf(m, n, k);
  load(a, m * k, aKind, tile.a, tile.aExponents);
  load(b, n * k, bKind, tile.b, tile.bExponents);
  const bits = new Int32Array(accumulators.buffer, accumulators.byteOffset, m * n);
  tile.cBits.set(bits);
  multiplyTile(tile, 0, step, accumulator === "f16");
  bits.set(tile.cBits);
}

// ---------------------------------------------------------------- in WebAssembly

/** Alignment exponent in the 16 bits of dot-code.ts. */
const shortExponent = (bits: number, least: number): number => {
  if ((bits & 0x7fffffff) === 0) return zeroExponent16;
  const exponent = exponentOfBits(bits);
  return exponent === specialExponent ? specialExponent16 : exponent < least ? least : exponent;
};

function fastDot(
  unit: DotUnit,
  arithmetic: StepArithmetic,
  { m, n, k, aKind, bKind, accumulator }: DotShape,
  a: Float32Array,
  b: Float32Array,
  accumulators: Float32Array,
): void {
  const { floats, words, shorts } = unit;
  const half = accumulator === "f16";
  const step = Math.min(k, arithmetic.step);
  const code = unit.float(step === arithmetic.step ? arithmetic : { ...arithmetic, step }, half);
  const aAt = places.a >> 2;
  const aShort = places.aExponents >> 1;
  floats.set(m * k === a.length ? a : a.subarray(0, m * k), aAt);
  const aLeast = formats[aKind].minExponent;
  for (let i = 0; i < m * k; i++) shorts[aShort + i] = shortExponent(words[aAt + i] as number, aLeast);
  const bAt = places.b >> 2;
  const bShort = places.bExponents >> 1;
  const bLeast = formats[bKind].minExponent;
  const bBits = new Int32Array(b.buffer, b.byteOffset, n * k);
  for (let column = 0; column < n; column++)
    for (let i = 0; i < k; i++) {
      const bits = bBits[column * k + i] as number;
      const at = i * n + column;
      words[bAt + at] = bits;
      shorts[bShort + at] = shortExponent(bits, bLeast);
    }
  const cAt = places.c >> 2;
  const cBits = new Int32Array(accumulators.buffer, accumulators.byteOffset, m * n);
  words.set(cBits, cAt);
  for (let from = 0; from < k; from += step) {
    code(
      places.a + 4 * from,
      places.aExponents + 2 * from,
      4 * k,
      places.b + 4 * n * from,
      places.bExponents + 2 * n * from,
      places.c,
      places.c + 4 * m * n,
      4 * n,
      places.list,
    );
    const listed = (words[places.list >> 2] as number) >> 2;
    for (let i = 1; i <= listed; i++) {
      const at = ((words[(places.list >> 2) + i] as number) - places.c) >> 2;
      repair(unit, arithmetic, step, half, { aLeast, bLeast }, at, n, k, from);
    }
  }
  cBits.set(words.subarray(cAt, cAt + m * n));
}

/** One step of eight accumulators that the fast form has left: those at index `at`. */
function repair(
  { floats, words }: DotUnit,
  arithmetic: StepArithmetic,
  step: number,
  half: boolean,
  { aLeast, bLeast }: { readonly aLeast: number; readonly bLeast: number },
  at: number,
  n: number,
  k: number,
  from: number,
): void {
  const tile = tileOf(1, columnsAtOnce, step);
  const row = Math.floor(at / n);
  const column = at - row * n;
  for (let i = 0; i < step; i++) {
    const x = floats[(places.a >> 2) + row * k + from + i] as number;
    tile.a[i] = x;
    tile.aExponents[i] = alignmentExponent(x, aLeast);
    for (let q = 0; q < columnsAtOnce; q++) {
      const y = floats[(places.b >> 2) + (from + i) * n + column + q] as number;
      tile.b[q * step + i] = y;
      tile.bExponents[q * step + i] = alignmentExponent(y, bLeast);
    }
  }
  const c = (places.c >> 2) + at;
  tile.cBits.set(words.subarray(c, c + columnsAtOnce));
  multiplyTile(tile, 0, arithmetic, half);
  words.set(tile.cBits, c);
}

// ---------------------------------------------------------------- integers

export interface IntegerShape {
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/**
 * D = A * B + C for integers of 8 bits, exact; beyond 32 bits the result wraps, or stops at the ends with `saturate`.
 *
 * @param a values [m][k], sign- or zero-extended.
 * @param b values [n][k].
 */
export function tileDotInt(
  shape: IntegerShape,
  a: Int16Array,
  b: Int16Array,
  accumulators: Int32Array,
  saturate: boolean,
): void {
  const unit = dotUnit();
  const { m, n, k } = shape;
  const fits = m <= largestTile.m && n <= largestTile.n && k <= largestTile.k && k % 2 === 0;
  if (unit === null || !fits || n % columnsAtOnce !== 0) {
    plainDotInt(shape, a, b, accumulators, saturate);
    return;
  }
  const { words, shorts } = unit;
  shorts.set(a.length === m * k ? a : a.subarray(0, m * k), places.a >> 1);
  const bAt = places.b >> 1;
  for (let column = 0; column < n; column++)
    for (let i = 0; i < k; i++)
      shorts[bAt + ((i >> 1) * n + column) * 2 + (i & 1)] = b[column * k + i] as number;
  const cAt = places.c >> 2;
  words.set(accumulators.length === m * n ? accumulators : accumulators.subarray(0, m * n), cAt);
  unit.integer(k, saturate)(places.a, 2 * k, places.b, places.c, places.c + 4 * m * n, 4 * n);
  accumulators.set(words.subarray(cAt, cAt + m * n));
}

const largest = 2 ** 31 - 1;
const smallest = -(2 ** 31);

/** The form of `tileDotInt` for any extents and any host. */
export function plainDotInt(
  { m, n, k }: IntegerShape,
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
