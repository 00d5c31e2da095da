/**
 * tcgen05.mma when its turn comes: operands are read from shared and tensor memory, multiplied with the arithmetic of the
 * architecture, and written to tensor memory. What it needs has been resolved and checked at issue (tcgen05-issue.ts).
 */
import { entryOf } from "@tilewright/core";
import {
  type AccumulatorLayout,
  type ColumnMask,
  type InstructionDescriptor,
  metadataPlace,
  scaleBlock,
  scalePlace,
  type Tcgen05Element,
  type Tcgen05Kind,
  type Tcgen05ScaleVector,
  tcgen05KindRow,
  tensorOperandColumns,
} from "@tilewright/ptx";
import { type TensorMemory, tensorColumns } from "../memory/tensor-memory.ts";
import { bitsOfKind, decodeRow, type Packing } from "../numerics/decode-rows.ts";
import { type DotUnit, largestTile } from "../numerics/dot-unit.ts";
import { decodeFloat, fromF16, toF16 } from "../numerics/floats.ts";
import { chunkNamed, chunkOf, gatherStored, placeChunk } from "../numerics/sparsity.ts";
import { rowDot, rowUnit, rowWord, type ScaleFactors, tileDot, tileDotInt } from "../numerics/tensor-dot.ts";
import { asyncStepOf, type TensorKind } from "../numerics/tensorcore.ts";
import { type Block, hex } from "./state.ts";
import { gatherRows, type OperandShape, unwrittenIn } from "./tcgen05-operands.ts";
import type { TensorIssue } from "./tensor-pipe.ts";

/** What one block contributes and receives: its rows of A and D, and its part of B's columns. */
export interface BlockHalf {
  readonly block: Block;
  readonly memory: TensorMemory;
  /** Pieces of A in the block's window; null for A in tensor memory. */
  readonly a: Int32Array | null;
  readonly b: Int32Array;
  /** Disabled lanes of D, a bit each in four words; null for none. */
  readonly disabled: Int32Array | null;
}

export interface Product {
  readonly issue: TensorIssue;
  readonly kind: Tcgen05Kind;
  readonly descriptor: InstructionDescriptor;
  readonly layout: AccumulatorLayout;
  readonly shares: readonly BlockHalf[];
  readonly aShape: OperandShape;
  readonly bShape: OperandShape;
  /** Lane and column of D, of A in tensor memory, and columns of the factors. */
  readonly lane: number;
  readonly column: number;
  readonly aColumn: number;
  /** Of a sparse A: where its metadata begins. */
  readonly metadata: { readonly lane: number; readonly column: number; readonly columns: number } | null;
  readonly scales: {
    readonly vector: Tcgen05ScaleVector;
    readonly a: number;
    readonly b: number;
  } | null;
  readonly accumulate: boolean;
  /** D is multiplied by 2^-scaleD before. */
  readonly scaleD: number;
  /** Rows of A in tensor memory come from one lane further up. */
  readonly shifted: boolean;
  readonly columns: ColumnMask | null;
}

const codeValues = new Map<string, Float32Array>();

/** Values of the 8-bit containers in which elements below 8 bits lie in tensor memory: four bits in the middle, or six at the bottom. */
const containerValues = (element: "e2m1" | "e2m3" | "e3m2"): Float32Array =>
  entryOf(codeValues, element, () =>
    Float32Array.from({ length: 256 }, (_, byte) =>
      decodeFloat(element, element === "e2m1" ? (byte >> 2) & 15 : byte & 63),
    ),
  );

const isInteger = (element: Tcgen05Element): element is "u8" | "s8" => element === "u8" || element === "s8";
/** Only the types of kind i8 are integers; what is asked for here is not of that kind. */
const floatKind = (element: Tcgen05Element): TensorKind => (isInteger(element) ? "e4m3" : element);

/** Scratch of the largest product in one block: M 128, N 256 and columns that a shift adds, K 64, of which a sparse A has half the elements of B. */
const aValues = new Float32Array(128 * 64);
const bValues = new Float32Array((256 + 64) * 128);
const aIntegers = new Int16Array(128 * 32);
const bIntegers = new Int16Array((256 + 64) * 64);
/** Of a sparse product: where the stored elements of A stand in their rows, and of B what one row meets. */
const storedAt = new Int32Array(128 * 64);
const metValues = new Float32Array(256 * 64);
const metIntegers = new Int16Array(256 * 32);
const accumulators = new Float32Array(128 * 256);
const accumulatorWords = new Int32Array(accumulators.buffer);
const none = new Int32Array(0);
/** B of two blocks, 32 bytes a row. */
const operandBytes = new Uint8Array(2 * 256 * 32);
const tensorRows = new Int32Array(128 * tensorOperandColumns);
const tensorBytes = new Uint8Array(tensorRows.buffer);

/** Decode `count` elements from byte 0 on. */
function decodeFloats(
  kind: Tcgen05Kind,
  element: TensorKind,
  bytes: Uint8Array,
  count: number,
  negate: boolean,
  to: Float32Array,
  at: number,
): void {
  const packing: Packing = kind === "f8f6f4" || kind === "mxf8f6f4" ? "padded" : "dense";
  decodeRow(element, bytes, 0, count, to, at, packing);
  if (negate) for (let i = at; i < at + count; i++) to[i] = -(to[i] as number);
}

function decodeIntegers(
  element: Tcgen05Element,
  bytes: Uint8Array,
  count: number,
  to: Int16Array,
  at: number,
): void {
  if (element === "s8") for (let i = 0; i < count; i++) to[at + i] = ((bytes[i] as number) << 24) >> 24;
  else for (let i = 0; i < count; i++) to[at + i] = bytes[i] as number;
}

/** Bits of an element that fits 8. */
const bitsOf = (element: Tcgen05Element): number => (isInteger(element) ? 8 : bitsOfKind(floatKind(element)));

/** Bytes of a share's operand, with a report where nobody has written them. */
function sharedRows(
  { issue, kind }: Product,
  block: Block,
  pieces: Int32Array,
  shape: OperandShape,
  element: Tcgen05Element,
  name: string,
): Uint8Array {
  // Sixteen elements below 8 bits leave the rest of their 16 bytes unused.
  const padded = kind === "f8f6f4" || kind === "mxf8f6f4";
  const words = padded ? bitsOf(element) / 2 : 4;
  const { machine } = issue;
  const at = machine.checked ? unwrittenIn(machine.arena, block.sharedBase, pieces, words) : null;
  if (at !== null)
    issue.report(
      "H006",
      () =>
        `operand ${name} takes in shared address ${hex(block.rank * 2 ** 24 + at)}, which nothing has written`,
    );
  return gatherRows(machine.arena, block.sharedBase, pieces, shape);
}

/** Lane of a row of D in a part of N. */
function laneOfRow({ layout, lane }: Product, row: number, part: number): number {
  return (layout.halfLanes ? lane + (row >> 4) * 32 + (row & 15) : row) + part * layout.partLanes;
}

/** Where the stored elements of a sparse A stand, [rows][k / 2], with a report where metadata means nothing. A shifted A takes its metadata along. */
function loadMetadata(product: Product, { memory }: BlockHalf): void {
  const { issue, layout, kind, metadata, shifted } = product;
  if (metadata === null) return;
  const { k, bits } = tcgen05KindRow(kind);
  const chunk = chunkOf(bits);
  let at = 0;
  for (let row = 0; row < layout.rows; row++) {
    const from = shifted && row + 1 < layout.rows ? row + 1 : row;
    for (let c = 0; c < (2 * k) / chunk; c++, at += chunk / 2) {
      const place = metadataPlace(bits, from, c);
      const lane = layout.halfLanes ? laneOfRow(product, place.lane, 0) : metadata.lane + place.lane;
      const word = memory.words[lane * tensorColumns + metadata.column + place.column] as number;
      const nibble = (word >>> place.shift) & 15;
      // Of descending indices the ISA lists 1, 2 alone.
      const { ascending } = placeChunk(storedAt, at, nibble, c, chunk);
      if (!ascending && (chunk === 2 || nibble !== 6))
        issue.report("H068", () => chunkNamed(lane, nibble, c, chunk, row));
    }
  }
}

/** A of one part of N from tensor memory, decoded. */
function tensorOperand(product: Product, { memory }: BlockHalf, part: number): void {
  const { layout, descriptor, kind, aColumn, shifted } = product;
  const { rows } = layout;
  const { k } = tcgen05KindRow(kind);
  for (let row = 0; row < rows; row++) {
    const from = shifted && row + 1 < rows ? row + 1 : row;
    const at = laneOfRow(product, from, part) * tensorColumns + aColumn;
    tensorRows.set(memory.words.subarray(at, at + tensorOperandColumns), row * tensorOperandColumns);
  }
  const { a, negateA } = descriptor;
  if (isInteger(a)) decodeIntegers(a, tensorBytes, rows * k, aIntegers, 0);
  else if (kind !== "mxf4" && kind !== "mxf4nvf4" && (a === "e2m1" || a === "e2m3" || a === "e3m2")) {
    const values = containerValues(a);
    for (let i = 0; i < rows * k; i++) {
      const value = values[tensorBytes[i] as number] as number;
      aValues[i] = negateA ? -value : value;
    }
  } else decodeFloats(kind, a, tensorBytes, rows * k, negateA, aValues, 0);
}

/** Rows of B moved and blanked as the zero-column mask says. */
function maskColumns<T extends Float32Array | Int16Array>(
  values: T,
  n: number,
  k: number,
  { zero, shift }: ColumnMask,
): void {
  if (shift > 0) values.copyWithin(0, shift * k, (shift + n) * k);
  for (let column = 0; column < n; column++)
    if (zero[column] === 1) values.fill(0, column * k, (column + 1) * k);
}

/** All of B, from all blocks, decoded. */
function loadB(product: Product): void {
  const { kind, descriptor, shares, bShape, columns } = product;
  const { b, negateB, n } = descriptor;
  const each = bShape.rows * bShape.k;
  shares.forEach((share, s) => {
    const bytes = sharedRows(product, share.block, share.b, bShape, b, "B");
    if (isInteger(b)) decodeIntegers(b, bytes, each, bIntegers, s * each);
    else decodeFloats(kind, b, bytes, each, negateB, bValues, s * each);
  });
  if (columns === null) return;
  if (isInteger(b)) maskColumns(bIntegers, n, bShape.k, columns);
  else maskColumns(bValues, n, bShape.k, columns);
}

/** Factors of one matrix, [rows][vector], from the quarter of the lanes that begins at `quarter` * 32. */
function loadScales(
  { issue, descriptor }: Product,
  memory: TensorMemory,
  column: number,
  rows: number,
  id: number,
  vector: Tcgen05ScaleVector,
  quarters: readonly number[],
  name: string,
): Float32Array {
  const bytes = new Uint8Array(rows * vector);
  const [first = 0, ...others] = quarters;
  for (let row = 0; row < rows; row++) {
    const place = scalePlace(row, 0, id);
    const wordOf = (quarter: number): number =>
      memory.words[(quarter * 32 + place.lane) * tensorColumns + column + place.column] as number;
    const used = (word: number): number => (word >>> (8 * place.byte)) & (2 ** (8 * vector) - 1);
    const word = used(wordOf(first));
    for (const quarter of others)
      if (used(wordOf(quarter)) !== word)
        issue.report(
          "H077",
          () =>
            `factors ${name} of row ${row} are ${hex(word)} in lane ${first * 32 + place.lane} and ${hex(used(wordOf(quarter)))} in lane ${quarter * 32 + place.lane} of column ${column + place.column}`,
        );
    for (let j = 0; j < vector; j++) bytes[row * vector + j] = (word >>> (8 * j)) & 255;
  }
  const values = new Float32Array(rows * vector);
  decodeRow(descriptor.scale?.format ?? "ue8m0", bytes, 0, values.length, values, 0);
  return values;
}

function scalesOf(product: Product, { memory }: BlockHalf, part: number): ScaleFactors | null {
  const { scales, descriptor, layout, kind } = product;
  const { scale, n } = descriptor;
  if (scales === null || scale === null) return null;
  const { vector } = scales;
  const block = scaleBlock(tcgen05KindRow(kind).k, vector);
  const all = [0, 1, 2, 3];
  // In layout B each half of the lanes has the factors of its half of N.
  const quarters =
    layout.parts === 1 ? all : all.filter((q) => Math.floor((q * 32) / layout.partLanes) === part);
  const width = n / layout.parts;
  return {
    block: block === 16 ? 16 : 32,
    format: scale.format,
    a: loadScales(product, memory, scales.a, layout.rows, scale.a, vector, all, "A"),
    b: loadScales(product, memory, scales.b, width, scale.b, vector, quarters, "B"),
  };
}

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
