/**
 * tcgen05.mma when its turn comes: operands are read from shared and tensor memory, multiplied with the arithmetic of the
 * architecture, and written to tensor memory. What it needs has been resolved and checked at issue (tcgen05-issue.ts).
 */
import { entryOf } from "@tilewright/core";
import { tcgen05KindRow } from "@tilewright/ptx";
import { tensorColumns } from "../memory/tensor-memory.ts";
import { type DotUnit, largestTile } from "../numerics/dot-unit.ts";
import { fromF16, toF16 } from "../numerics/floats.ts";
import { gatherStored } from "../numerics/sparsity.ts";
import { rowDot, rowUnit, rowWord, tileDot, tileDotInt } from "../numerics/tensor-dot.ts";
import { asyncStepOf } from "../numerics/tensorcore.ts";

import {
  aIntegers,
  aValues,
  type BlockHalf,
  bIntegers,
  bValues,
  decodeFloats,
  decodeIntegers,
  floatKind,
  isInteger,
  laneOfRow,
  loadB,
  loadMetadata,
  type Product,
  scalesOf,
  sharedRows,
  storedAt,
  tensorOperand,
} from "./tcgen05-load.ts";

/** Of a sparse product: what one row meets of B. */
const metValues = new Float32Array(256 * 64);
const metIntegers = new Int16Array(256 * 32);
const accumulators = new Float32Array(128 * 256);
const accumulatorWords = new Int32Array(accumulators.buffer);
const none = new Int32Array(0);
/** B of two blocks, 32 bytes a row. */
const operandBytes = new Uint8Array(2 * 256 * 32);
const unitRows = new WeakMap<DotUnit, Map<number, readonly Int32Array[]>>();

/** Views of the unit's rows of `n` accumulators: made once, since a product of 128 rows takes no longer than making them. */
function rowsOfUnit(unit: DotUnit, n: number): readonly Int32Array[] {
  const byWidth = entryOf(unitRows, unit, () => new Map<number, readonly Int32Array[]>());
  return entryOf(byWidth, n, () =>
    Array.from({ length: largestTile.m }, (_, row) => {
      const at = rowWord + row * n;
      return unit.words.subarray(at, at + n);
    }),
  );
}

/** Accumulators of a part into the scratch. */
function loadD(product: Product, { memory }: BlockHalf, part: number, width: number): void {
  const { layout, descriptor, column, accumulate, scaleD } = product;
  const { rows } = layout;
  if (!accumulate) {
    accumulatorWords.fill(0, 0, rows * width);
    return;
  }
  for (let row = 0; row < rows; row++) {
    const at = laneOfRow(product, row, part) * tensorColumns + column;
    if (descriptor.d === "f16")
      for (let i = 0; i < width; i++)
        accumulators[row * width + i] = fromF16((memory.words[at + i] as number) & 0xffff);
    else accumulatorWords.set(memory.words.subarray(at, at + width), row * width);
  }
  if (scaleD !== 0) {
    const factor = 2 ** -scaleD;
    for (let i = 0; i < rows * width; i++) accumulators[i] = (accumulators[i] as number) * factor;
  }
}

/** And back, leaving out disabled lanes. An f16 takes the lower half of its word. */
function storeD(product: Product, { memory, disabled }: BlockHalf, part: number, width: number): void {
  const { layout, descriptor, column } = product;
  for (let row = 0; row < layout.rows; row++) {
    const lane = laneOfRow(product, row, part);
    if (disabled !== null && (((disabled[lane >> 5] as number) >>> (lane & 31)) & 1) === 1) continue;
    const at = lane * tensorColumns + column;
    if (descriptor.d === "f16")
      for (let i = 0; i < width; i++) memory.words[at + i] = toF16(accumulators[row * width + i] as number);
    else memory.words.set(accumulatorWords.subarray(row * width, row * width + width), at);
  }
}

/**
 * The usual case, operands without padding or factors and f32 accumulators without a factor, with nothing copied that need not be: false for
 * any other, which is left to be done.
 */
function runDirectly(product: Product): boolean {
  const { descriptor, layout, shares, aShape, bShape, accumulate, scaleD, scales, columns, kind } = product;
  const { a, b, d, n, negateA, negateB } = descriptor;
  if ((kind !== "f16" && kind !== "tf32") || product.metadata !== null) return false;
  if (d !== "f32" || layout.parts !== 1 || scales !== null || columns !== null || scaleD !== 0) return false;
  if (shares.some((share) => share.a === null)) return false;
  const shape = {
    ...{ aKind: floatKind(a), bKind: floatKind(b), m: layout.rows, n, k: aShape.k },
    accumulator: "f32",
  } as const;
  const step = asyncStepOf(product.issue.machine.arithmetic, shape.aKind);
  const unit = rowUnit(step, shape);
  if (unit === null) return false;
  const rows = bShape.rows * 32;
  const bytesOfB = (): Uint8Array => {
    shares.forEach(({ block, b: pieces }, s) => {
      operandBytes.set(sharedRows(product, block, pieces, bShape, b, "B").subarray(0, rows), s * rows);
    });
    return operandBytes.subarray(0, shares.length * rows);
  };
  const unitRow = rowsOfUnit(unit, n);
  shares.forEach((share, s) => {
    const pieces = share.a;
    if (pieces === null) return;
    const { memory, block, disabled } = share;
    const lanes = memory.lanes(product.column, n);
    if (accumulate)
      for (let row = 0; row < layout.rows; row++)
        unitRow[row]?.set(lanes[laneOfRow(product, row, 0)] ?? none);
    else unit.words.fill(0, rowWord, rowWord + layout.rows * n);
    rowDot(
      unit,
      step,
      shape,
      { bytes: () => sharedRows(product, block, pieces, aShape, a, "A"), negated: negateA },
      s === 0 ? { bytes: bytesOfB, negated: negateB } : null,
    );
    for (let row = 0; row < layout.rows; row++) {
      const lane = laneOfRow(product, row, 0);
      if (disabled === null || (((disabled[lane >> 5] as number) >>> (lane & 31)) & 1) === 0)
        lanes[lane]?.set(unitRow[row] ?? none);
    }
  });
  return true;
}

/** Carry the instruction out. */
export function runProduct(product: Product): void {
  const { kind, descriptor, layout, shares, aShape, bShape, metadata } = product;
  const { rows, parts } = layout;
  const { k } = tcgen05KindRow(kind);
  const width = descriptor.n / parts;
  const { a, b, d, negateA, saturate } = descriptor;
  if (runDirectly(product)) return;
  loadB(product);
  for (const share of shares) {
    if (share.a !== null) {
      const bytes = sharedRows(product, share.block, share.a, aShape, a, "A");
      if (isInteger(a)) decodeIntegers(a, bytes, rows * k, aIntegers, 0);
      else decodeFloats(kind, a, bytes, rows * k, negateA, aValues, 0);
    }
    loadMetadata(product, share);
    for (let part = 0; part < parts; part++) {
      if (share.a === null) tensorOperand(product, share, part);
      loadD(product, share, part, width);
      const factors = isInteger(a) ? null : scalesOf(product, share, part);
      const accumulator = d === "f16" ? "f16" : "f32";
      // Rows of A from `row` on.
      const multiply = (m: number, row: number, floats: Float32Array, integers: Int16Array): void => {
        if (isInteger(a))
          tileDotInt(
            { m, n: width, k },
            aIntegers.subarray(row * k),
            integers,
            accumulatorWords.subarray(row * width),
            saturate,
          );
        else
          tileDot(
            product.issue.machine.arithmetic,
            { aKind: floatKind(a), bKind: floatKind(b), m, n: width, k, accumulator },
            aValues.subarray(row * k),
            floats,
            accumulators.subarray(row * width),
            factors === null
              ? null
              : { ...factors, a: factors.a.subarray(row * (product.scales?.vector ?? 1)) },
          );
      };
      const from = part * width * bShape.k;
      if (metadata === null) multiply(rows, 0, bValues.subarray(from), bIntegers.subarray(from));
      else
        for (let row = 0; row < rows; row++) {
          const [floats, integers] = [metValues.subarray(0, width * k), metIntegers.subarray(0, width * k)];
          if (isInteger(a)) gatherStored(bIntegers.subarray(from), bShape.k, storedAt, row, integers);
          else gatherStored(bValues.subarray(from), bShape.k, storedAt, row, floats);
          multiply(1, row, floats, integers);
        }
      storeD(product, share, part, width);
    }
  }
}
