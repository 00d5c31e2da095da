/** What tcgen05.mma reads when its turn comes, decoded: operands of shared and tensor memory, metadata, factors. */
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
import { decodeFloat } from "../numerics/floats.ts";
import { chunkNamed, chunkOf, placeChunk } from "../numerics/sparsity.ts";
import type { ScaleFactors } from "../numerics/tensor-dot.ts";
import type { TensorKind } from "../numerics/tensorcore.ts";
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

export const isInteger = (element: Tcgen05Element): element is "u8" | "s8" =>
  element === "u8" || element === "s8";
/** Only the types of kind i8 are integers; what is asked for here is not of that kind. */
export const floatKind = (element: Tcgen05Element): TensorKind => (isInteger(element) ? "e4m3" : element);

/** Scratch of the largest product in one block: M 128, N 256 and columns that a shift adds, K 64, of which a sparse A has half the elements of B. */
export const aValues = new Float32Array(128 * 64);
export const bValues = new Float32Array((256 + 64) * 128);
export const aIntegers = new Int16Array(128 * 32);
export const bIntegers = new Int16Array((256 + 64) * 64);
/** Of a sparse product: where the stored elements of A stand in their rows. */
export const storedAt = new Int32Array(128 * 64);
const tensorRows = new Int32Array(128 * tensorOperandColumns);
const tensorBytes = new Uint8Array(tensorRows.buffer);

/** Decode `count` elements from byte 0 on. */
export function decodeFloats(
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

export function decodeIntegers(
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
export function sharedRows(
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
export function laneOfRow({ layout, lane }: Product, row: number, part: number): number {
  return (layout.halfLanes ? lane + (row >> 4) * 32 + (row & 15) : row) + part * layout.partLanes;
}

/** Where the stored elements of a sparse A stand, [rows][k / 2], with a report where metadata means nothing. A shifted A takes its metadata along. */
export function loadMetadata(product: Product, { memory }: BlockHalf): void {
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
export function tensorOperand(product: Product, { memory }: BlockHalf, part: number): void {
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
export function loadB(product: Product): void {
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

export function scalesOf(product: Product, { memory }: BlockHalf, part: number): ScaleFactors | null {
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
