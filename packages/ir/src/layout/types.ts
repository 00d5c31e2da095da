/**
 * Layouts are values: (shape, stride, swizzle), mapping a coordinate of a 2-D tile to an offset.
 * Bank-conflict counts, TMA boxes, descriptors and ldmatrix addresses are derived from this one value.
 */

/**
 * XOR swizzle on *byte* offsets, in the notation of CuTe: with y = (offset >> (base + shift)) & (2^bits - 1),
 * offset ^= y << base. Requires shift >= bits, so that it is an involution.
 * 128-byte TMA swizzle is (bits 3, base 4, shift 3), 64-byte (2,4,3), 32-byte (1,4,3).
 */
export interface Swizzle {
  readonly bits: number;
  readonly base: number;
  readonly shift: number;
}

export interface Layout {
  /** Extents of the tile, in elements. */
  readonly shape: readonly number[];
  /** Distance in elements between neighbours along each axis. */
  readonly stride: readonly number[];
  readonly swizzle: Swizzle | null;
}
