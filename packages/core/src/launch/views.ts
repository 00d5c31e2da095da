/** Tensors as views of memory: shapes and strides in elements, so that a reshape or transposition moves nothing where it need not. */

/** Elements of a storage, of whatever kind the host has, from `offset` on. */
export interface StridedView<S> {
  readonly storage: S;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
}

const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);

/** A storage whose axes lie one in the other, the last one innermost. */
export const packedView = <S>(storage: S, shape: readonly number[]): StridedView<S> => ({
  ...{ storage, offset: 0, shape },
  strides: shape.map((_, i) => product(shape.slice(i + 1))),
});

/** The axes in another order: axis i of the result is axis `perm[i]` of the view. */
export const transposedView = <S>(view: StridedView<S>, perm: readonly number[]): StridedView<S> => ({
  ...view,
  shape: perm.map((axis) => view.shape[axis] ?? 1),
  strides: perm.map((axis) => view.strides[axis] ?? 0),
});

/** The same elements in another shape, of which one size may be -1 (what is left); null where that needs a copy. */
export function reshapedView<S>(view: StridedView<S>, sizes: readonly number[]): StridedView<S> | null {
  const known = product(sizes.filter((size) => size !== -1));
  const shape = sizes.map((size) => (size === -1 ? product(view.shape) / known : size));
  // Axes that follow each other in memory, from the last one inwards out: [elements, stride of the innermost].
  const runs: [number, number][] = [];
  for (let axis = view.shape.length - 1; axis >= 0; axis--) {
    const [size, stride] = [view.shape[axis] ?? 1, view.strides[axis] ?? 0];
    const last = runs.at(-1);
    if (size === 1) continue;
    if (last !== undefined && stride === last[0] * last[1]) last[0] *= size;
    else runs.push([size, stride]);
  }
  const strides: number[] = [];
  let [left, stride] = runs.shift() ?? [1, 1];
  for (const size of shape.toReversed()) {
    if (left === 1 && size > 1) [left, stride] = runs.shift() ?? [1, 1];
    if (left % size !== 0) return null;
    strides.unshift(stride);
    left /= size;
    stride *= size;
  }
  return left === 1 && runs.length === 0 ? { ...view, shape, strides } : null;
}

/** Layout and leading dimension of a view of two axes, as operands of a problem have them; null where neither axis is contiguous. */
export function matrixLayout<S>({
  shape: [rows = 1, columns = 1],
  strides: [down = 0, across = 0],
}: StridedView<S>): { readonly layout: "row" | "col"; readonly ld: number } | null {
  if (across === 1 || columns === 1) return { layout: "row", ld: rows === 1 ? columns : down };
  return down === 1 || rows === 1 ? { layout: "col", ld: across } : null;
}
