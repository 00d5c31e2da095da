/**
 * Layout algebra: compose, divide, invert. After CuTe's, with flat shapes: a result that CuTe would nest gets more axes instead,
 * in the same order, so that indices (colexicographic) keep their meaning. `null` means that no layout can express the result.
 * Axes that are cut or interleaved are two here: results have neither.
 */

import { isBijective, makeLayout, modesOf, offsetAt, sizeOfLayout } from "./layout.ts";
import type { Layout } from "./types.ts";

interface Mode {
  readonly extent: number;
  readonly stride: number;
}

const fromModes = (modes: readonly Mode[], swizzle: Layout["swizzle"]): Layout =>
  modes.length === 0
    ? makeLayout([1], [0], swizzle)
    : makeLayout(
        modes.map((mode) => mode.extent),
        modes.map((mode) => mode.stride),
        swizzle,
      );

/** Whether an axis is two modes. */
const hasCuts = ({ panels, interleaved }: Layout): boolean =>
  panels !== undefined || interleaved !== undefined;

/** The same function on indices with as few axes as possible: unit axes dropped, axes that continue each other merged. */
export function coalesce(layout: Layout): Layout {
  const merged: Mode[] = [];
  for (const mode of modesOf(layout)) {
    if (mode.extent === 1) continue;
    const last = merged.at(-1);
    if (last && last.stride * last.extent === mode.stride)
      merged[merged.length - 1] = { extent: last.extent * mode.extent, stride: last.stride };
    else merged.push(mode);
  }
  return fromModes(merged, layout.swizzle);
}

/** Every `step`-th index of `modes`, `extent` of them; null when the step or the extent cuts an axis unevenly. */
function strided(modes: readonly Mode[], extent: number, step: number): Mode[] | null {
  const result: Mode[] = [];
  let skip = step;
  let need = extent;
  for (let i = 0; i < modes.length && need > 1; i++) {
    const mode = modes[i];
    if (mode === undefined) break;
    // The last axis goes on for ever: an index beyond the shape continues its stride, as the caller has checked the size.
    const last = i === modes.length - 1;
    if (skip % mode.extent === 0 && !last) {
      skip /= mode.extent;
      continue;
    }
    if (!last && mode.extent % skip !== 0) return null;
    const available = last ? need : mode.extent / skip;
    const take = Math.min(available, need);
    if (need % take !== 0) return null;
    result.push({ extent: take, stride: mode.stride * skip });
    need /= take;
    skip = 1;
  }
  if (need > 1) return null;
  return result.length === 0 ? [{ extent: 1, stride: 0 }] : result;
}

/**
 * `outer` after `inner`: the layout R with offsetAt(R, i) = offsetAt(outer, offsetAt(inner, i)) for every index i of `inner`.
 * Axes of `inner` that cross axes of `outer` are split. The swizzle is `outer`'s (it acts on the final offset).
 * Null when `inner` has a swizzle or reaches beyond `outer`, or where the result is no layout, e.g. (3):(2) over (4,4):(4,1).
 */
export function compose(outer: Layout, inner: Layout): Layout | null {
  if (inner.swizzle !== null) return null;
  const modes = modesOf(coalesce({ ...outer, swizzle: null }));
  const parts: Mode[] = [];
  for (const { extent, stride } of modesOf(inner)) {
    const part = stride === 0 || extent === 1 ? [{ extent, stride: 0 }] : strided(modes, extent, stride);
    if (part === null) return null;
    parts.push(...part);
  }
  const result = fromModes(parts, outer.swizzle);
  // Axis by axis the result is right; together only if the digits of `inner` do not carry into each other.
  const limit = sizeOfLayout(outer);
  const size = sizeOfLayout(inner);
  for (let index = 0; index < size; index++) {
    const via = offsetAt(inner, index);
    if (via >= limit || offsetAt(result, index) !== offsetAt(outer, via)) return null;
  }
  return result;
}

/**
 * Cut every axis into tiles: shape (t0, t1, …, n0, n1, …) where axis i of extent t_i * n_i becomes a place within the tile and a
 * tile number. The first axes alone are one tile's layout, the last alone give the tiles' origins. Null where a tile extent does
 * not divide the axis, the ranks differ or an axis is cut or interleaved.
 */
export function divide(layout: Layout, tile: readonly number[]): Layout | null {
  if (tile.length !== layout.shape.length || hasCuts(layout)) return null;
  const inside: Mode[] = [];
  const outside: Mode[] = [];
  for (const [axis, { extent, stride }] of modesOf(layout).entries()) {
    const step = tile[axis] ?? 0;
    if (!Number.isInteger(step) || step < 1 || extent % step !== 0) return null;
    inside.push({ extent: step, stride });
    outside.push({ extent: extent / step, stride: stride * step });
  }
  return fromModes([...inside, ...outside], layout.swizzle);
}

/** Some axes of a layout, in the order given; a cut or interleaved axis counts as two, the place in the panel, or the turn, first. */
export const select = (layout: Layout, axes: readonly number[]): Layout => {
  const modes = modesOf(layout);
  return fromModes(
    axes.flatMap((axis) => modes[axis] ?? []),
    layout.swizzle,
  );
};

/**
 * The inverse of a bijective layout: offsetAt(inverse, offsetAt(layout, i)) = i and the other way round. Null when the layout is
 * not a bijection on 0 … size-1 or has a swizzle (whose inverse acts before, not after, the strides).
 */
export function invert(layout: Layout): Layout | null {
  if (layout.swizzle !== null || !isBijective(layout)) return null;
  let weight = 1;
  const modes = modesOf(layout).map(({ extent, stride }) => {
    const mode = { extent, stride, weight };
    weight *= extent;
    return mode;
  });
  const inverse = modes
    .filter((mode) => mode.extent > 1)
    .sort((x, y) => x.stride - y.stride)
    .map((mode) => ({ extent: mode.extent, stride: mode.weight }));
  return fromModes(inverse, null);
}
