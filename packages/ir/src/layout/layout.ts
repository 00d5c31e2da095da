/**
 * Layouts as functions from coordinates to offsets.
 *
 * `linear` offsets are in elements and leave the swizzle out; byte offsets include it. `elementBytes` is the size of an element
 * in bytes and may be a fraction (0.5 for 4-bit types); a byte offset is then that of the byte which holds the element.
 * A coordinate's position in colexicographic order (first axis fastest) is its index.
 */

import { applySwizzle, swizzleSpan } from "./swizzle.ts";
import type { Interleaved, Layout, Panels, Swizzle } from "./types.ts";

const at = (values: readonly number[], i: number): number => {
  const value = values[i];
  if (value === undefined) throw new RangeError(`no axis ${i} in (${values.join(",")})`);
  return value;
};

/** A layout from shape and strides. Throws (a bug) when their ranks differ or a number is no non-negative integer (extents: positive). */
export function makeLayout(
  shape: readonly number[],
  stride: readonly number[],
  swizzle: Swizzle | null = null,
): Layout {
  if (shape.length !== stride.length || shape.length === 0)
    throw new RangeError(`shape (${shape.join(",")}) and stride (${stride.join(",")}) differ in rank`);
  if (
    !shape.every((x) => Number.isInteger(x) && x > 0) ||
    !stride.every((x) => Number.isInteger(x) && x >= 0)
  )
    throw new RangeError(`not a layout: (${shape.join(",")}):(${stride.join(",")})`);
  return { shape, stride, swizzle };
}

/** Last axis contiguous. `ld`: distance between neighbours along the axis before it, at least the last extent. */
export function rowMajor(shape: readonly number[], ld = at(shape, shape.length - 1)): Layout {
  const stride = shape.map(() => 1);
  for (let axis = shape.length - 2, step = ld; axis >= 0; axis--) {
    stride[axis] = step;
    step *= at(shape, axis);
  }
  return makeLayout(shape, stride);
}

/** First axis contiguous. `ld`: distance between neighbours along the second axis, at least the first extent. */
export function colMajor(shape: readonly number[], ld = at(shape, 0)): Layout {
  const stride = shape.map(() => 1);
  for (let axis = 1, step = ld; axis < shape.length; axis++) {
    stride[axis] = step;
    step *= at(shape, axis);
  }
  return makeLayout(shape, stride);
}

/** The same layout with `pad` more elements between neighbours along every axis but the contiguous one of a 2-D tile. */
export function withPadding(shape: readonly [number, number], contiguous: 0 | 1, pad: number): Layout {
  return contiguous === 1 ? rowMajor(shape, shape[1] + pad) : colMajor(shape, shape[0] + pad);
}

export const withSwizzle = (layout: Layout, swizzle: Swizzle | null): Layout => ({ ...layout, swizzle });

/**
 * The same shape with `axis` cut into panels of `extent` elements, each panel dense with `axis` contiguous in it.
 * Throws (a bug) when the panels do not divide the axis. A single panel is no cut: the layout is then dense and plain.
 */
export function panelled(
  shape: readonly [number, number],
  axis: 0 | 1,
  extent: number,
  swizzle: Swizzle | null,
): Layout {
  const across = shape[1 - axis] ?? 1;
  if (shape[axis] % extent !== 0) throw new RangeError(`panels of ${extent} do not divide ${shape[axis]}`);
  const dense = axis === 1 ? rowMajor([across, extent]) : colMajor([extent, across]);
  const layout: Layout = { shape, stride: dense.stride, swizzle };
  return shape[axis] === extent ? layout : { ...layout, panels: { axis, extent, step: extent * across } };
}

/** Why panels do not fit a layout of two axes, or null when they do: they divide their axis and do not overlap. */
export function panelsFault(layout: Layout, panels: Panels): string | null {
  const size = layout.shape[panels.axis] ?? 0;
  if (panels.extent < 1 || size % panels.extent !== 0)
    return `panels of ${panels.extent} do not divide an axis of ${size}`;
  const one = layout.shape.map((extent, axis) => (axis === panels.axis ? panels.extent : extent));
  const reach = cosize({ shape: one, stride: layout.stride, swizzle: null });
  // Panels may also stand side by side within a step of their own axis: all of them between one element and the next.
  const single = layout.shape.map((extent, axis) => (axis === panels.axis ? 1 : extent));
  const side = cosize({ shape: single, stride: layout.stride, swizzle: null });
  const beside =
    panels.step * (size / panels.extent) <= (layout.stride[panels.axis] ?? 0) && panels.step >= side;
  return panels.step < reach && !beside ? `panels ${panels.step} apart overlap: each reaches ${reach}` : null;
}

/** The same layout with `axis` interleaved to `runs` runs, one behind the other. Throws (a bug) when they do not divide the axis. */
export function interleavedOver(layout: Layout, axis: 0 | 1, runs: number): Layout {
  const extent = at(layout.shape, axis);
  if (extent % runs !== 0) throw new RangeError(`${runs} runs do not divide ${extent}`);
  if (runs === 1) return layout;
  return { ...layout, interleaved: { axis, runs, step: (extent / runs) * at(layout.stride, axis) } };
}

/** Why an axis cannot be interleaved as `interleaved` says, or null when it can. */
export function interleavedFault(layout: Layout, interleaved: Interleaved): string | null {
  const size = layout.shape[interleaved.axis] ?? 0;
  if (interleaved.runs < 1 || size % interleaved.runs !== 0)
    return `${interleaved.runs} runs do not divide an axis of ${size}`;
  return layout.panels?.axis === interleaved.axis
    ? "an axis is cut into panels or interleaved, not both"
    : null;
}

/** Number of coordinates. */
export const sizeOfLayout = (layout: Layout): number =>
  layout.shape.reduce((product, extent) => product * extent, 1);

/** One more than the largest linear offset, in elements. */
export const cosize = (layout: Layout): number =>
  layout.shape.reduce((last, extent, axis) => last + alongAxis(layout, axis, extent - 1), 0) + 1;

/** Linear offset of coordinate `i` of one axis. */
function alongAxis(layout: Layout, axis: number, i: number): number {
  const stride = at(layout.stride, axis);
  const { panels, interleaved } = layout;
  if (interleaved?.axis === axis)
    return Math.floor(i / interleaved.runs) * stride + (i % interleaved.runs) * interleaved.step;
  if (panels === undefined || panels.axis !== axis) return i * stride;
  return (i % panels.extent) * stride + Math.floor(i / panels.extent) * panels.step;
}

/** Bytes that a buffer of this layout needs, swizzle included (rounded up to the block that the swizzle permutes). */
export function footprint(layout: Layout, elementBytes: number): number {
  const span = swizzleSpan(layout.swizzle);
  return Math.ceil(Math.ceil(cosize(layout) * elementBytes) / span) * span;
}

/** The axis along which neighbours of a tile lie side by side. */
export const contiguousIn = ({ layout }: { readonly layout: Layout | null }): 0 | 1 =>
  layout?.stride[0] === 1 && layout.panels?.axis !== 1 ? 0 : 1;

/** Linear offset of a coordinate in elements, without the swizzle. */
export function linearOffset(layout: Layout, coordinate: readonly number[]): number {
  let offset = 0;
  for (let axis = 0; axis < layout.shape.length; axis++)
    offset += alongAxis(layout, axis, at(coordinate, axis));
  return offset;
}

/** Byte offset of a coordinate, swizzled. The base must be a multiple of `swizzlePeriod` for addresses to follow it. */
export const byteOffset = (layout: Layout, coordinate: readonly number[], elementBytes: number): number =>
  applySwizzle(layout.swizzle, Math.floor(linearOffset(layout, coordinate) * elementBytes));

/** Swizzled offset of a coordinate in elements; exact where the swizzle does not split elements (2^base >= elementBytes). */
export function elementOffset(layout: Layout, coordinate: readonly number[], elementBytes: number): number {
  if (layout.swizzle === null) return linearOffset(layout, coordinate);
  const linear = linearOffset(layout, coordinate);
  const byte = Math.floor(linear * elementBytes);
  const within = linear - byte / elementBytes;
  return applySwizzle(layout.swizzle, byte) / elementBytes + within;
}

/** The coordinate with index `index` in colexicographic order. */
export function coordinateOf(shape: readonly number[], index: number): number[] {
  let rest = index;
  return shape.map((extent) => {
    const digit = rest % extent;
    rest = (rest - digit) / extent;
    return digit;
  });
}

/** Linear offset of the coordinate with this index. */
const offsetAt = (layout: Layout, index: number): number =>
  linearOffset(layout, coordinateOf(layout.shape, index));

/** Extents and strides of the axes, a cut or interleaved one as two: colexicographic order of the modes is that of the layout. */
const modesOf = (layout: Layout): { readonly extent: number; readonly stride: number }[] =>
  layout.shape.flatMap((extent, axis) => {
    const stride = at(layout.stride, axis);
    const { panels, interleaved } = layout;
    if (interleaved?.axis === axis)
      return [
        { extent: interleaved.runs, stride: interleaved.step },
        { extent: extent / interleaved.runs, stride },
      ];
    return panels?.axis === axis
      ? [
          { extent: panels.extent, stride },
          { extent: extent / panels.extent, stride: panels.step },
        ]
      : [{ extent, stride }];
  });

/** Whether no two coordinates share an offset. (Swizzles are bijections, so they do not matter.) */
export function isInjective(layout: Layout): boolean {
  const modes = modesOf(layout)
    .filter((mode) => mode.extent > 1)
    .sort((x, y) => x.stride - y.stride);
  // Each stride beyond the reach of all smaller ones: offsets are a mixed-radix number. True of every layout used for tiles.
  let reach = 0;
  let nested = true;
  for (const { extent, stride } of modes) {
    nested &&= stride > reach;
    reach += (extent - 1) * stride;
  }
  if (nested) return true;
  const seen = new Set<number>();
  const size = sizeOfLayout(layout);
  for (let index = 0; index < size; index++) seen.add(offsetAt(layout, index));
  return seen.size === size;
}

export interface VectorOptions {
  /** Alignment of the buffer's base in bytes. Default: any power of two. */
  readonly baseAlign?: number;
  /** Widest access in bytes; 16 unless told otherwise. */
  readonly maxBytes?: number;
}

/**
 * Longest vector in elements (a power of two) such that every aligned group of that many neighbours along `axis` is contiguous in
 * memory and aligned to its own size, whatever the other coordinates; 1 when there is none. Groups cover the axis completely:
 * an extent of 6 allows 2, not 4.
 */
export function vectorLength(
  layout: Layout,
  axis: number,
  elementBytes: number,
  options: VectorOptions = {},
): number {
  const { baseAlign = 2 ** 30, maxBytes = 16 } = options;
  if (at(layout.stride, axis) !== 1 && at(layout.shape, axis) > 1) return 1;
  const fits = (length: number): boolean => {
    const size = length * elementBytes;
    return (
      size <= maxBytes &&
      baseAlign % size === 0 &&
      at(layout.shape, axis) % length === 0 &&
      layout.stride.every((stride, i) => i === axis || layout.shape[i] === 1 || stride % length === 0) &&
      (layout.panels === undefined ||
        (layout.panels.step % length === 0 &&
          (layout.panels.axis !== axis || layout.panels.extent % length === 0))) &&
      (layout.interleaved === undefined ||
        (layout.interleaved.axis !== axis && layout.interleaved.step % length === 0)) &&
      (layout.swizzle === null || 2 ** layout.swizzle.base % size === 0)
    );
  };
  let length = 1;
  while (fits(length * 2)) length *= 2;
  return length;
}
