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

/**
 * An axis cut into panels: element i of it lies at `(i % extent) * stride[axis] + floor(i / extent) * step`. Tiles whose contiguous axis is
 * longer than a swizzle's span are laid out so: TMA fills one panel a box, and matrix descriptors step from panel to panel.
 */
export interface Panels {
  readonly axis: 0 | 1;
  /** Elements of a panel along `axis`; divides the axis. */
  readonly extent: number;
  /** Distance in elements between neighbouring panels. */
  readonly step: number;
}

/**
 * An axis whose neighbours go to `runs` runs: element i of it lies at `floor(i / runs) * stride[axis] + (i % runs) * step`. A bulk copy of
 * one more dimension interleaves rows so, and what takes every fourth of them then reads neighbours.
 */
export interface Interleaved {
  readonly axis: 0 | 1;
  /** Divides the axis. */
  readonly runs: number;
  /** Distance in elements between the first elements of neighbouring runs. */
  readonly step: number;
}

export interface Layout {
  /** Extents of the tile, in elements. */
  readonly shape: readonly number[];
  /** Distance in elements between neighbours along each axis. */
  readonly stride: readonly number[];
  readonly swizzle: Swizzle | null;
  /** Absent: no axis is cut. */
  readonly panels?: Panels;
  /** Absent: no axis is interleaved. Not the axis that is cut into panels. */
  readonly interleaved?: Interleaved;
}
