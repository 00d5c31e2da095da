/** The statements that touch data, on places: fill, copy, multiply. */
import type { DType } from "@tilewright/core";
import {
  BLOCK_SCALE,
  decodeScale,
  isScaled,
  memoryType,
  roundTo,
  SCALE_FACTORS,
  SCALE_ROWS,
  SCALE_WORDS,
  scaledTypes,
  scaleRowOf,
} from "@tilewright/core";
import { SCALE_COLUMNS, scaleBlockInTensor, scaleWordPlace } from "../scaleTiles.ts";
import type { Buffer } from "../types.ts";
import { InterpretFailure, interpretCodes } from "./failure.ts";
import {
  type Clip,
  clip,
  type Memory,
  markWritten,
  offsetOf,
  type Place,
  requireWritten,
  type ValueArray,
} from "./memory.ts";
import { multiplyDense } from "./products.ts";

const unguarded = [false, false] as const;
const guarded = [true, true] as const;

/** The array behind a place that is written. */
export function storeOf(memory: Memory, at: string): ValueArray {
  if (memory.store !== null) return memory.store;
  throw new InterpretFailure(
    interpretCodes.input,
    at,
    `%${memory.buffer.name} is an input and cannot be written`,
    "write to %D or to a tile",
  );
}

export function fill(dst: Place, value: number, at: string): void {
  const box = clip(dst, unguarded, at);
  const out = storeOf(dst.memory, at);
  const stored = roundTo(memoryType(dst.memory.buffer.dtype), value);
  for (let r = 0; r < dst.rows; r++) for (let c = 0; c < dst.cols; c++) out[offsetOf(dst, r, c)] = stored;
  markWritten(dst, box);
}

/** dst <- src: what lies outside a guarded source reads 0, what lies outside a guarded destination is dropped. */
export function copy(dst: Place, src: Place, guard: readonly [boolean, boolean], at: string): void {
  const from = clip(src, src.memory.buffer.space === "global" ? guard : unguarded, at);
  const to = clip(dst, dst.memory.buffer.space === "global" ? guard : unguarded, at);
  const out = storeOf(dst.memory, at);
  const convert = conversion(src.memory.buffer.dtype, dst.memory.buffer.dtype);
  const used = intersect(from, to);
  requireWritten(src, used, at);
  const whole =
    used.row0 === to.row0 && used.row1 === to.row1 && used.col0 === to.col0 && used.col1 === to.col1;
  if (!whole) zero(dst, to, out);
  move(out, dst, src.memory.data, src, used);
  if (convert !== null) convertPlace(dst, used, out, convert);
  markWritten(dst, to);
}

function zero(place: Place, box: Clip, out: ValueArray): void {
  for (let r = box.row0; r < box.row1; r++)
    for (let c = box.col0; c < box.col1; c++) out[offsetOf(place, r, c)] = 0;
}

function convertPlace(place: Place, box: Clip, out: ValueArray, convert: (x: number) => number): void {
  for (let r = box.row0; r < box.row1; r++)
    for (let c = box.col0; c < box.col1; c++) {
      const at = offsetOf(place, r, c);
      out[at] = convert(out[at] ?? 0);
    }
}

/** Copy the part of two places inside `box`; the longer axis is the inner loop. */
function move(out: ValueArray, dst: Place, data: ArrayLike<number>, src: Place, box: Clip): void {
  const [rows, cols] = [box.row1 - box.row0, box.col1 - box.col0];
  if (rows <= 0 || cols <= 0) return;
  if (src.memory.pages !== undefined) {
    eachElement(box, (r, c) => {
      out[offsetOf(dst, r, c)] = data[offsetOf(src, r, c)] ?? 0;
    });
    return;
  }
  const [d, s] = [offsetOf(dst, box.row0, box.col0), offsetOf(src, box.row0, box.col0)];
  const [dm, sm] = [dst.memory, src.memory];
  const runs: Runs =
    cols >= rows
      ? {
          d,
          s,
          outer: rows,
          inner: cols,
          dOuter: dm.rowStride,
          sOuter: sm.rowStride,
          dInner: dm.colStride,
          sInner: sm.colStride,
        }
      : {
          d,
          s,
          outer: cols,
          inner: rows,
          dOuter: dm.colStride,
          sOuter: sm.colStride,
          dInner: dm.rowStride,
          sInner: sm.rowStride,
        };
  if (out instanceof Float32Array && data instanceof Float32Array) moveF32(out, data, runs);
  else moveAny(out, data, runs);
}

function eachElement(box: Clip, visit: (row: number, col: number) => void): void {
  for (let r = box.row0; r < box.row1; r++) for (let c = box.col0; c < box.col1; c++) visit(r, c);
}

interface Runs {
  readonly d: number;
  readonly s: number;
  readonly outer: number;
  readonly inner: number;
  readonly dOuter: number;
  readonly sOuter: number;
  readonly dInner: number;
  readonly sInner: number;
}

/** The same loop as `moveAny`, apart so that it sees one kind of array. */
function moveF32(out: Float32Array, data: Float32Array, runs: Runs): void {
  const { outer, inner, dOuter, sOuter, dInner, sInner } = runs;
  for (let i = 0, d0 = runs.d, s0 = runs.s; i < outer; i++, d0 += dOuter, s0 += sOuter)
    for (let j = 0, d = d0, s = s0; j < inner; j++, d += dInner, s += sInner) out[d] = data[s] ?? 0;
}

function moveAny(out: ValueArray, data: ArrayLike<number>, runs: Runs): void {
  const { outer, inner, dOuter, sOuter, dInner, sInner } = runs;
  for (let i = 0, d0 = runs.d, s0 = runs.s; i < outer; i++, d0 += dOuter, s0 += sOuter)
    for (let j = 0, d = d0, s = s0; j < inner; j++, d += dInner, s += sInner) out[d] = data[s] ?? 0;
}

const intersect = (a: Clip, b: Clip): Clip => ({
  row0: Math.max(a.row0, b.row0),
  row1: Math.min(a.row1, b.row1),
  col0: Math.max(a.col0, b.col0),
  col1: Math.min(a.col1, b.col1),
});

/** Rounding to the destination's dtype, or null where every source value fits. */
function conversion(from: DType, to: DType): ((x: number) => number) | null {
  return memoryType(from) === memoryType(to) ? null : (x) => roundTo(memoryType(to), x);
}

/** Dense row-major operands, reused between calls. */
export class Scratch {
  #a = new Float64Array(0);
  #b = new Float64Array(0);

  a(size: number): Float64Array {
    if (this.#a.length < size) this.#a = new Float64Array(size);
    return this.#a;
  }

  b(size: number): Float64Array {
    if (this.#b.length < size) this.#b = new Float64Array(size);
    return this.#b;
  }
}

/**
 * acc += a * b, k ascending for every element: f32 by exact fma (the order of FFMA code), f64 in double with two roundings,
 * integers modulo 2^32. tf32 operands lose their low 13 bits, as the tensor core reads them. Elements of block-scaled operands count times their
 * factors, without rounding.
 */
export function multiply(
  acc: Place,
  a: Place,
  b: Place,
  scales: { readonly a: Factors; readonly b: Factors } | null,
  scratch: Scratch,
  at: string,
): void {
  const box = clip(acc, unguarded, at);
  requireWritten(acc, box, at);
  const [m, n, k] = [acc.rows, acc.cols, a.cols];
  const lhs = gather(a, scratch.a(m * k), at);
  const rhs = gather(b, scratch.b(k * n), at);
  if (scales !== null) {
    applyFactors(lhs, a, scales.a, { rows: m, k, rowStep: k, kStep: 1 }, at);
    applyFactors(rhs, b, scales.b, { rows: n, k, rowStep: 1, kStep: n }, at);
  }
  const out = storeOf(acc.memory, at);
  const { dtype } = acc.memory.buffer;
  multiplyDense(out, (i) => offsetOf(acc, i, 0), acc.memory.colStride, lhs, rhs, { m, n, k });
  if (out instanceof Float32Array && dtype !== "f32" && dtype !== "tf32") roundPlace(acc, box, dtype);
}

/** Accumulators narrower than f32 hold rounded values after each step. */
function roundPlace(place: Place, box: Clip, dtype: DType): void {
  const { store } = place.memory;
  if (store === null) return;
  for (let r = box.row0; r < box.row1; r++)
    for (let c = box.col0; c < box.col1; c++) {
      const o = offsetOf(place, r, c);
      store[o] = roundTo(dtype, store[o] ?? 0);
    }
}

/** An operand as a dense array: 0 outside a global matrix (stage nest multiplies straight from global memory). */
function gather(place: Place, into: Float64Array, at: string): Float64Array {
  const box = clip(place, place.memory.buffer.space === "global" ? guarded : unguarded, at);
  requireWritten(place, box, at);
  const full = box.row1 - box.row0 === place.rows && box.col1 - box.col0 === place.cols;
  if (!full) into.fill(0, 0, place.rows * place.cols);
  const { memory } = place;
  if (memory.pages !== undefined)
    eachElement(box, (r, c) => {
      into[r * place.cols + c] = memory.data[offsetOf(place, r, c)] ?? 0;
    });
  else if (memory.data instanceof Float32Array) gatherF32(into, memory.data, place, box);
  else gatherAny(into, memory.data, place, box);
  if (memory.buffer.dtype === "tf32")
    for (let i = 0; i < place.rows * place.cols; i++) into[i] = roundTo("tf32", into[i] ?? 0, "rz");
  return into;
}

function gatherF32(into: Float64Array, data: Float32Array, place: Place, box: Clip): void {
  const { colStride } = place.memory;
  for (let r = box.row0; r < box.row1; r++) {
    let s = offsetOf(place, r, box.col0);
    let d = r * place.cols + box.col0;
    for (let c = box.col0; c < box.col1; c++, s += colStride, d++) into[d] = data[s] ?? 0;
  }
}

function gatherAny(into: Float64Array, data: ArrayLike<number>, place: Place, box: Clip): void {
  const { colStride } = place.memory;
  for (let r = box.row0; r < box.row1; r++) {
    let s = offsetOf(place, r, box.col0);
    let d = r * place.cols + box.col0;
    for (let c = box.col0; c < box.col1; c++, s += colStride, d++) into[d] = data[s] ?? 0;
  }
}

/** An operand in a dense array: its element (row, k) is at row * rowStep + k * kStep. */
interface Scaled {
  readonly rows: number;
  readonly k: number;
  readonly rowStep: number;
  readonly kStep: number;
}

/** The factors of an operand, or of equal parts of its rows (columns of B), one behind the other. */
export type Factors = readonly Place[];

/** The factor in f32 of a row of an operand of `rows` rows and of a run along k; 0 outside of global memory, as elements are. */
export function blockFactor(parts: Factors, rows: number, row: number, run: number): number {
  const each = rows / parts.length;
  const factors = parts[Math.floor(row / each)];
  if (factors === undefined) return 0;
  const [r, [height, width]] = [
    Math.floor((row % each) / (each / factors.rows)),
    factors.memory.buffer.shape,
  ];
  if (factors.row + r >= height || factors.col + run >= width) return 0;
  return factors.memory.data[offsetOf(factors, r, run)] ?? 0;
}

/** Multiply the elements of an operand by their factors; outside of global memory factors are 0, as elements are. */
function applyFactors(values: Float64Array, of: Place, parts: Factors, shape: Scaled, at: string): void {
  const rows = shape.rows / parts.length;
  for (const [i, factors] of parts.entries())
    applyPart(values.subarray(i * rows * shape.rowStep), of, factors, { ...shape, rows }, at);
}

function applyPart(values: Float64Array, of: Place, factors: Place, shape: Scaled, at: string): void {
  const { dtype } = of.memory.buffer;
  if (!isScaled(dtype)) {
    for (let row = 0; row < shape.rows; row++)
      for (let k = 0; k < shape.k; k++) {
        const index = row * shape.rowStep + k * shape.kStep;
        values[index] =
          (values[index] ?? 0) * blockFactor([factors], shape.rows, row, Math.floor(k / BLOCK_SCALE));
      }
    return;
  }
  const { block, scale } = scaledTypes[dtype];
  const { buffer, data } = factors.memory;
  const box = clip(factors, buffer.space === "global" ? guarded : unguarded, at);
  requireWritten(factors, box, at);
  const each = block * SCALE_FACTORS;
  for (let row = 0; row < shape.rows; row++)
    for (let k = 0; k < shape.k; k += block) {
      const [r, c] = scaleWordPlace(buffer, shape.rows, row, Math.floor(k / each));
      const inside = r >= box.row0 && r < box.row1 && c >= box.col0 && c < box.col1;
      const word = inside ? (data[offsetOf(factors, r, c)] ?? 0) : 0;
      const factor = decodeScale(scale, (word >>> (8 * ((k % each) / block))) & 0xff);
      for (let i = k; i < k + block; i++) {
        const index = row * shape.rowStep + i * shape.kStep;
        values[index] = (values[index] ?? 0) * factor;
      }
    }
}

/** Row and column, in its tile in tensor memory or registers, of word `w` of row `b` of a tile of blocks of `rows` rows. */
function placeOfWord(buffer: Buffer, rows: number, b: number, w: number): readonly [number, number] {
  const [j, inBlock] = [Math.floor(w / SCALE_WORDS), w % SCALE_WORDS];
  if (buffer.space === "register") return [b * SCALE_ROWS + scaleRowOf(inBlock), j];
  const [lane, column] = scaleBlockInTensor(buffer, rows, b, j);
  return [lane + Math.floor(inBlock / SCALE_COLUMNS), column + (inBlock % SCALE_COLUMNS)];
}

/** Blocks of factors from where they lie row by row to their lanes and columns, or to the rows that they are of. */
export function copyFactors(dst: Place, src: Place, at: string): void {
  const whole = clip(src, unguarded, at);
  requireWritten(src, whole, at);
  const [rows, words] = [src.rows, src.cols];
  const out = storeOf(dst.memory, at);
  const to = clip(dst, unguarded, at);
  for (let b = 0; b < rows; b++)
    for (let w = 0; w < words; w++) {
      const [r, c] = placeOfWord(dst.memory.buffer, rows, b, w);
      out[offsetOf(dst, r, c)] = src.memory.data[offsetOf(src, b, w)] ?? 0;
    }
  markWritten(dst, to);
}
