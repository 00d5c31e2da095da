/** A box of a tensor, row by row: where each row comes from and where its words lie in shared memory. Pure functions. */
import type { TensorMapSpec, TensorMapSwizzle } from "@tilewright/core";
import type { MapGeometry } from "./map.ts";

/** Which rows a copy moves: a tile at coordinates, pixels of an im2col map, or four rows of a 2-D tensor (gather4 and scatter4). */
export type Box =
  | { readonly kind: "tile"; readonly coordinates: readonly number[] }
  | {
      readonly kind: "pixels";
      readonly coordinates: readonly number[];
      /** Pixels that each one lies further on, in the dimensions between the first and the last. */
      readonly offsets: readonly number[];
    }
  | {
      readonly kind: "wide";
      readonly coordinates: readonly number[];
      /** Pixels beyond the last one, or beyond each 32; how many further on the first one and the corners are. */
      readonly halo: number;
      readonly offset: number;
    }
  | { readonly kind: "rows"; readonly column: number; readonly rows: readonly number[] };

/** Rows of a copy. */
export const rowsOf = (map: MapGeometry, box: Box): number =>
  box.kind === "rows"
    ? box.rows.length
    : box.kind !== "wide"
      ? map.rows
      : map.spec.im2col?.wide === "w128"
        ? 128 + 4 * box.halo
        : map.rows + box.halo;

/** Bytes that a copy counts on a barrier. */
export const bytesOf = (map: MapGeometry, box: Box): number => rowsOf(map, box) * map.rowBytes;

/** Bytes of shared memory from the first byte of a box to the end of its last row. */
export const footprintOf = (map: MapGeometry, box: Box): number =>
  (rowsOf(map, box) - 1) * map.pitch + map.pitch;

/**
 * Visit the rows in the order in which they lie in shared memory. `global` is the byte offset of the row's first element from
 * the tensor's address (negative or past a row's end where that element is outside); bytes [from, to) of the row are inside the
 * tensor, none where they are equal.
 */
export function walkBox(
  map: MapGeometry,
  box: Box,
  visit: (row: number, global: number, from: number, to: number) => void,
): void {
  const { spec, elementBytes, extent } = map;
  if (spec.interleave !== "none" && (box.kind === "tile" || box.kind === "pixels")) {
    walkSlice(map, box, visit);
    return;
  }
  const first = box.kind === "rows" ? box.column : (box.coordinates[0] ?? 0);
  const length = extent[0] ?? 1;
  const from = Math.min(length, Math.max(0, -first)) * elementBytes;
  const to = Math.max(from / elementBytes, Math.min(length, (spec.dims[0] ?? 1) - first)) * elementBytes;
  const inner = first * elementBytes;
  if (box.kind === "rows") {
    box.rows.forEach((y, row) => {
      const inside = y >= 0 && y < (spec.dims[1] ?? 1);
      visit(row, inner + y * (spec.strides[0] ?? 0), inside ? from : 0, inside ? to : 0);
    });
    return;
  }
  const rank = spec.dims.length;
  if (box.kind === "wide") {
    const { coordinates, halo, offset } = box;
    const [lower = 0] = spec.im2col?.lower ?? [];
    const end = Math.min(spec.dims[1] ?? 1, (spec.dims[1] ?? 1) + (spec.im2col?.upper[0] ?? 0) + offset);
    for (let row = 0; row < rowsOf(map, box); row++) {
      // Behind each 32 pixels, or behind all, come those of the halo: the next ones, which the next 32 begin with again.
      const group = spec.im2col?.wide === "w128" ? Math.floor(row / (32 + halo)) : 0;
      const x = (coordinates[1] ?? 0) + offset + (row - group * halo) * (spec.elementStrides[1] ?? 1);
      let inside = x >= Math.max(0, lower + offset) && x < end;
      let global = inner + x * (spec.strides[0] ?? 0);
      for (let k = 2; k < rank; k++) {
        const y = coordinates[k] ?? 0;
        if (y < 0 || y >= (spec.dims[k] ?? 1)) inside = false;
        global += y * (spec.strides[k - 1] ?? 0);
      }
      visit(row, global, inside ? from : 0, inside ? to : 0);
    }
    return;
  }
  if (box.kind === "pixels") {
    const at = [...box.coordinates];
    for (let row = 0; row < map.rows; row++) {
      let global = inner;
      let inside = true;
      for (let k = 1; k < rank; k++) {
        const x = (at[k] ?? 0) + (box.offsets[k - 1] ?? 0);
        if (x < 0 || x >= (spec.dims[k] ?? 1)) inside = false;
        global += x * (spec.strides[k - 1] ?? 0);
      }
      visit(row, global, inside ? from : 0, inside ? to : 0);
      nextPixel(spec, at);
    }
    return;
  }
  const index = new Array<number>(rank).fill(0);
  for (let row = 0; row < map.rows; row++) {
    let global = inner;
    let inside = true;
    for (let k = 1; k < rank; k++) {
      const x = (box.coordinates[k] ?? 0) + (index[k] ?? 0) * (spec.elementStrides[k] ?? 1);
      if (x < 0 || x >= (spec.dims[k] ?? 1)) inside = false;
      global += x * (spec.strides[k - 1] ?? 0);
    }
    visit(row, global, inside ? from : 0, inside ? to : 0);
    for (let k = 1; k < rank; k++) {
      const next = (index[k] ?? 0) + 1;
      index[k] = next < (extent[k] ?? 1) ? next : 0;
      if (next < (extent[k] ?? 1)) break;
    }
  }
}

/**
 * Walks a copy of an interleaved map, pixel by pixel. Dimensions are the spatial ones, the slices of channels and the images; pixels of a slice lie side by side,
 * and the strides are those of the dimensions from the second on. A copy moves one slice, whatever box or channels are (as on an H100).
 */
function walkSlice(
  map: MapGeometry,
  box: Extract<Box, { readonly kind: "tile" | "pixels" }>,
  visit: (row: number, global: number, from: number, to: number) => void,
): void {
  const { spec, extent, rowBytes } = map;
  const { dims, strides } = spec;
  const at = [...box.coordinates];
  const index = new Array<number>(dims.length).fill(0);
  for (let row = 0; row < map.rows; row++) {
    let global = 0;
    let inside = true;
    for (let k = 0; k < dims.length; k++) {
      const moved =
        box.kind === "pixels" ? (box.offsets[k] ?? 0) : (index[k] ?? 0) * (spec.elementStrides[k] ?? 1);
      const x = (at[k] ?? 0) + moved;
      if (x < 0 || x >= (dims[k] ?? 1)) inside = false;
      global += x * (k === 0 ? rowBytes : (strides[k - 1] ?? 0));
    }
    visit(row, global, 0, inside ? rowBytes : 0);
    if (box.kind === "pixels") nextPixel(spec, at, 0);
    else
      for (let k = 0; k < dims.length; k++) {
        const next = (index[k] ?? 0) + 1;
        index[k] = next < (extent[k] ?? 1) ? next : 0;
        if (next < (extent[k] ?? 1)) break;
      }
  }
}

/** The pixel behind one of an im2col box, which is walked by its first dimension, number `first`, first and image after image. */
function nextPixel({ dims, elementStrides, im2col }: TensorMapSpec, at: number[], first = 1): void {
  const last = dims.length - 1;
  for (let k = first; k < first + last - 1; k++) {
    const next = (at[k] ?? 0) + (elementStrides[k] ?? 1);
    const inside = next < (dims[k] ?? 1) + (im2col?.upper[k - first] ?? 0);
    at[k] = inside ? next : (im2col?.lower[k - first] ?? 0);
    if (inside) return;
  }
  at[last] = (at[last] ?? 0) + 1;
}

/**
 * What the bits of an address below 128 are XORed with in the row at shared address `address`: swizzles permute pieces of a
 * 128-byte line by the number of the line, so all words of a row have one value. FLIP_8B changes bit 3 too.
 */
export function rowSwizzle(swizzle: TensorMapSwizzle, address: number): number {
  switch (swizzle) {
    case "none":
      return 0;
    case "32B":
      return (address >> 3) & 0x10;
    case "64B":
      return (address >> 3) & 0x30;
    case "128B":
      return (address >> 3) & 0x70;
    case "128B_ATOM_32B":
      return (address >> 2) & 0x60;
    case "128B_ATOM_32B_FLIP_8B":
      return ((address >> 2) & 0x60) | ((address >> 4) & 0x08);
    case "128B_ATOM_64B":
      return (address >> 1) & 0x40;
  }
}

/**
 * The pieces of shared memory that a box occupies, as (offset, bytes), for `base`, the address of its first byte: one piece
 * where rows follow one another without gaps.
 */
export function pieces(
  map: MapGeometry,
  box: Box,
  base: number,
  visit: (address: number, bytes: number) => void,
): void {
  const rows = rowsOf(map, box);
  if (map.pitch === map.sharedRowBytes) {
    // A swizzle permutes within 128-byte lines; a box that ends within one does not fill it.
    const whole = map.spec.swizzle === "none" ? rows * map.pitch : (rows * map.pitch) & ~127;
    if (whole > 0) visit(base, whole);
    if (whole === rows * map.pitch) return;
    scattered(map, base, whole / map.pitch, rows, visit);
    return;
  }
  scattered(map, base, 0, rows, visit);
}

function scattered(
  map: MapGeometry,
  base: number,
  from: number,
  to: number,
  visit: (address: number, bytes: number) => void,
): void {
  for (let row = from; row < to; row++) {
    const at = base + row * map.pitch;
    const flip = rowSwizzle(map.spec.swizzle, at) & 0x70;
    for (let k = 0; k < map.sharedRowBytes; k += 16) visit((at + k) ^ flip, 16);
  }
}
