/**
 * Matrix products of whole tiles, as wgmma and tcgen05.mma make them: D[m][n] = C[m][n] + the sum over k of A[m][k] B[n][k], in
 * chained steps by the arithmetic of the architecture (tensorcore.ts), every bit of it.
 *
 * Operands are decoded (decode-rows.ts), row-major with K contiguous. What the hardware aligns by follows from the value and
 * its format: exponents are not normalised, subnormals have their format's least one.
 */
import { entryOf, formats, InternalError } from "@tilewright/core";
import type { WasmFunction } from "../compile/wasm.ts";
import { decodeRow } from "./decode-rows.ts";
import { columnsAtOnce, fragmentRow, halfStride } from "./dot-code.ts";
import { type DotUnit, dotUnit, largestTile, places, stagePlace } from "./dot-unit.ts";
import { createTile, multiplyTile, type Tile } from "./fused-dot.ts";
import { decodedAtOnce, exponentsAtOnce } from "./operand-code.ts";
import { alignmentExponent } from "./operands.ts";
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
const tileOf = (m: number, n: number, k: number): Tile =>
  entryOf(tiles, `${m}/${n}/${k}`, () => createTile(m, n, k, 1));

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
  const unit = rowUnit(step, shape);
  if (unit === null) {
    plainDot(step, shape, a, b, accumulators);
    return;
  }
  const count = shape.m * shape.n;
  const bits = new Int32Array(accumulators.buffer, accumulators.byteOffset, count);
  unit.words.set(bits, rowWord);
  rowDot(unit, step, shape, a, b);
  bits.set(unit.words.subarray(rowWord, rowWord + count));
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

/** An operand's elements, row after row with K contiguous: as they lie in memory, or decoded. */
export type Elements = Float32Array | ElementBytes;

/** Elements as they lie in memory, without gaps. They are asked for when their turn comes: A's may lie in a scratch that B's overwrite. */
interface ElementBytes {
  readonly bytes: () => Uint8Array;
  readonly negated: boolean;
}

function loadElements(unit: DotUnit, kind: TensorKind, elements: Elements, count: number, to: number): void {
  const { floats } = unit;
  const at = to >> 2;
  if (elements instanceof Float32Array) {
    floats.set(count === elements.length ? elements : elements.subarray(0, count), at);
    return;
  }
  const { bytes, negated } = elements;
  if ((kind === "f16" || kind === "bf16") && count % decodedAtOnce === 0)
    unit.decode(kind, bytes(), count, to);
  else decodeRow(kind, bytes(), 0, count, floats, at);
  if (negated) for (let i = at; i < at + count; i++) floats[i] = -(floats[i] as number);
}

/** Puts A and B, with their exponents, where the code takes them; `permuted`: B's columns as fragments have them. */
function loadOperands(
  unit: DotUnit,
  { m, n, k, aKind, bKind }: DotShape,
  a: Elements,
  b: Elements | null,
  permuted: boolean,
): void {
  loadElements(unit, aKind, a, m * k, places.a);
  unit.exponents(places.a, places.aExponents, places.a + 4 * m * k, formats[aKind].minExponent);
  if (b === null) return;
  loadElements(unit, bKind, b, n * k, stagePlace);
  unit.transpose(k, permuted)(stagePlace, places.b, stagePlace + 4 * n * k, 4 * n);
  unit.exponents(places.b, places.bExponents, places.b + 4 * n * k, formats[bKind].minExponent);
}

/** The unit for `rowDot` with this arithmetic and shape; null where the host has none, or the shape does not fit it. */
export function rowUnit(arithmetic: StepArithmetic, { m, n, k, accumulator }: DotShape): DotUnit | null {
  const fits = m <= largestTile.m && n <= largestTile.n && k <= largestTile.k && k % 4 === 0;
  const whole = n % columnsAtOnce === 0 && (m * k) % exponentsAtOnce === 0;
  const unit = fits && whole ? dotUnit() : null;
  return unit?.float(cutStep(arithmetic, k), accumulator === "f16") == null ? null : unit;
}

/** Index in the unit's words of the first accumulator of `rowDot`. */
export const rowWord = places.c >> 2;

/** As `stepDot`, but with accumulators in place, [m][n] from `rowWord` of the unit on. `b` null: that of the call before. */
export function rowDot(
  unit: DotUnit,
  arithmetic: StepArithmetic,
  shape: DotShape,
  a: Elements,
  b: Elements | null,
): void {
  const { m, n, k } = shape;
  const cut = cutStep(arithmetic, k);
  const code = unit.float(cut, shape.accumulator === "f16");
  if (code === null) throw new InternalError("a unit without the code that rowUnit has asked for");
  loadOperands(unit, shape, a, b, false);
  for (let from = 0; from < k; from += cut.step) {
    call(code, shape, 0, from, places.c, 4 * n, m);
    for (const c of left(unit)) {
      const at = (c - places.c) >> 2;
      const row = Math.floor(at / n);
      repair(unit, cut, shape, { row, column: at - row * n, from, c, half: halfStride.rows });
    }
  }
}

/** A step may be longer than K. */
const cutStep = (arithmetic: StepArithmetic, k: number): StepArithmetic =>
  arithmetic.step <= k ? arithmetic : { ...arithmetic, step: k };

/** One step for `rows` rows of A from `first` on, whose accumulators begin at `c`. */
function call(
  code: WasmFunction,
  { k, n }: DotShape,
  first: number,
  from: number,
  c: number,
  rowBytes: number,
  rows: number,
): void {
  code(
    places.a + 4 * (first * k + from),
    places.aExponents + 2 * (first * k + from),
    4 * k,
    places.b + 4 * n * from,
    places.bExponents + 2 * n * from,
    c,
    c + rowBytes * rows,
    4 * n,
    places.list,
  );
}

/** Addresses of the accumulators, eight each, that the code has left. */
function left({ words }: DotUnit): readonly number[] {
  const list = places.list >> 2;
  const count = (words[list] as number) >> 2;
  return count === 0 ? none : Array.from(words.subarray(list + 1, list + 1 + count));
}
const none: readonly number[] = [];

/** Rows of a warp's fragment of f32 accumulators, and of a group that lies in one register. */
const fragmentRows = 16;
const groupRows = 8;

/** The unit for `fragmentDot` with this arithmetic and K; null where the host has none. */
export function fragmentUnit(arithmetic: StepArithmetic, k: number): DotUnit | null {
  const unit = dotUnit();
  return unit?.float(cutStep(arithmetic, k), false, "fragments") == null ? null : unit;
}

/**
 * As `stepDot`, but with accumulators in place: f32, as registers of warps that hold 16 rows each lie one behind another, the
 * first word at `fragmentWord(0)` of the unit.
 */
export function fragmentDot(
  unit: DotUnit,
  arithmetic: StepArithmetic,
  shape: DotShape,
  a: Elements,
  b: Elements,
): void {
  const { m, n, k } = shape;
  const cut = cutStep(arithmetic, k);
  const code = unit.float(cut, false, "fragments");
  if (code === null) throw new InternalError("a unit without the code that fragmentUnit has asked for");
  loadOperands(unit, shape, a, b, true);
  for (let from = 0; from < k; from += cut.step)
    for (let first = 0; first < m; first += groupRows) {
      // Rows 8 to 15 of a warp are two registers on.
      const c = 4 * fragmentWord(Math.floor(first / fragmentRows) * (n / 2) + (first & groupRows) / 4);
      call(code, shape, first, from, c, fragmentRow, groupRows);
      for (const at of left(unit)) {
        const register = Math.floor((at - c) / 128);
        const row = first + (((at - c) >> 4) & 7);
        repair(unit, cut, shape, {
          row,
          column: (register >> 2) * 8,
          from,
          c: at,
          half: halfStride.fragments,
        });
      }
    }
}

/** Index in the unit's words of lane 0 of accumulator register `register`; warps one behind another. */
export const fragmentWord = (register: number): number => (places.c >> 2) + 32 * register;

/** Eight accumulators of one row at byte `c`, four there and four `half` bytes on; `column` is the first in B's order. */
interface Left {
  readonly row: number;
  readonly column: number;
  readonly from: number;
  readonly c: number;
  readonly half: number;
}

/** Bits of an infinity, and all of a float's but its sign, which are the bits of every NaN that a product makes. */
const infinity = 0x7f800000;
const magnitude = 0x7fffffff;

/** One step of eight accumulators that the fast form has left. */
function repair(
  { floats, words }: DotUnit,
  arithmetic: StepArithmetic,
  { n, k, aKind, bKind, accumulator }: DotShape,
  { row, column, from, c, half }: Left,
): void {
  const { step } = arithmetic;
  const word = (q: number): number => (c + (q >> 2) * half) / 4 + (q & 3);
  // NaN stays NaN whatever is added: operands that nobody has written make whole tiles of it.
  let numbers = 0;
  for (let q = 0; q < columnsAtOnce; q++)
    if (((words[word(q)] as number) & magnitude) <= infinity) numbers += 1;
  if (numbers === 0) {
    for (let q = 0; q < columnsAtOnce; q++) words[word(q)] = magnitude;
    return;
  }
  const tile = tileOf(1, columnsAtOnce, step);
  const aLeast = formats[aKind].minExponent;
  const bLeast = formats[bKind].minExponent;
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
  for (let q = 0; q < columnsAtOnce; q++) tile.cBits[q] = words[word(q)] as number;
  multiplyTile(tile, 0, arithmetic, accumulator === "f16");
  for (let q = 0; q < columnsAtOnce; q++) words[word(q)] = tile.cBits[q] as number;
}

export { plainDotInt, tileDotInt } from "./integer-dot.ts";
