/**
 * Operands of tcgen05.mma in shared memory: which bytes a descriptor names, and those bytes as rows with K contiguous. Everything
 * goes by pieces of 16 bytes, the unit of all layouts and swizzles.
 */
import { entryOf } from "@tilewright/core";
import { type Major, pieceOffsets, type SharedDescriptor, swizzledAddress } from "@tilewright/ptx";
import type { AsyncOp, Race } from "../checkers/race.ts";
import type { Arena } from "../memory/arena.ts";

/** Extents of an operand in one block. */
export interface OperandShape {
  readonly rows: number;
  /** Elements. */
  readonly k: number;
  /** Bits that an element takes in memory. */
  readonly bits: 4 | 8 | 16 | 32;
  readonly major: Major;
}

const offsetTables = new Map<string, Int32Array>();

function offsetsOf(descriptor: SharedDescriptor, { rows, k, bits, major }: OperandShape): Int32Array {
  const { swizzle, leading, stride } = descriptor;
  const key = `${swizzle}/${leading}/${stride}/${major}/${rows}/${k}/${bits}`;
  return entryOf(offsetTables, key, () => pieceOffsets(descriptor, major, rows, k, bits));
}

/** Byte in the window of each piece, in the order of `pieceOffsets`. */
export function vectorsOf(descriptor: SharedDescriptor, shape: OperandShape): Int32Array {
  const pieces = Int32Array.from(offsetsOf(descriptor, shape));
  const { address, swizzle } = descriptor;
  for (let i = 0; i < pieces.length; i++) {
    const linear = address + (pieces[i] as number);
    pieces[i] = swizzle === "none" ? linear : swizzledAddress(descriptor, linear);
  }
  return pieces;
}

const ends = new WeakMap<Int32Array, number>();

/** The first byte past the last piece. */
export const endOf = (pieces: Int32Array): number =>
  entryOf(ends, pieces, () => pieces.reduce((end, piece) => Math.max(end, piece + 16), 0));

/** Note the reads of all pieces of a window that begins at `base`; neighbours count as one. */
export function readPieces(race: Race, op: AsyncOp, base: number, pieces: Int32Array): void {
  let from = pieces[0] ?? 0;
  let to = from;
  for (const piece of pieces) {
    if (piece === to) to += 16;
    else if (piece + 16 === from) from = piece;
    else {
      race.asyncRead(op, base + from, to - from);
      from = piece;
      to = piece + 16;
    }
  }
  race.asyncRead(op, base + from, to - from);
}

/** Byte in the window of a word that nobody has written, among the first `words` of each piece; null when there is none. */
export function unwrittenIn(arena: Arena, base: number, pieces: Int32Array, words: number): number | null {
  const { shadow, shadow32 } = arena;
  for (const piece of pieces) {
    const word = (base + piece) >> 2;
    // Four words at once where their shadow bytes lie together.
    if (words === 4 && (word & 3) === 0) {
      if (shadow32[word >> 2] === -1) continue;
    }
    for (let i = 0; i < words; i++) if (shadow[word + i] !== 0xff) return piece + 4 * i;
  }
  return null;
}

/** Scratch that grows to the largest operand: rows as they are multiplied, and pieces as they lie. */
let rowWords = new Int32Array(4096);
let pieceWords = new Int32Array(4096);

/**
 * The operand's bytes with K contiguous, row after row, in a scratch that the next call overwrites.
 *
 * @param base arena offset of the window.
 */
export function gatherRows(
  arena: Arena,
  base: number,
  pieces: Int32Array,
  { rows, bits, k, major }: OperandShape,
): Uint8Array {
  const count = pieces.length * 4;
  if (rowWords.length < count) {
    rowWords = new Int32Array(count);
    pieceWords = new Int32Array(count);
  }
  const { words } = arena;
  const to = major === "k" ? rowWords : pieceWords;
  for (let i = 0, at = 0; i < pieces.length; i++, at += 4) {
    const from = (base + (pieces[i] as number)) >> 2;
    to[at] = words[from] as number;
    to[at + 1] = words[from + 1] as number;
    to[at + 2] = words[from + 2] as number;
    to[at + 3] = words[from + 3] as number;
  }
  if (major === "mn") transpose(rows, k, bits);
  return new Uint8Array(rowWords.buffer, 0, count * 4);
}

/** From [k][rows] in the pieces to [rows][k]. */
function transpose(rows: number, k: number, bits: number): void {
  const view = (buffer: ArrayBufferLike): Int32Array | Uint16Array | Uint8Array =>
    bits === 32 ? new Int32Array(buffer) : bits === 16 ? new Uint16Array(buffer) : new Uint8Array(buffer);
  const from = view(pieceWords.buffer);
  const to = view(rowWords.buffer);
  for (let i = 0; i < k; i++)
    for (let row = 0; row < rows; row++) to[row * k + i] = from[i * rows + row] as number;
}
