/** Tensors as views of memory: shapes and strides in elements, so that Reshape and Transpose move nothing. */

/** A run of memory that a kernel writes, or that is filled before. */
export interface Storage {
  readonly name: string;
  readonly dtype: "bf16" | "f32";
  readonly elements: number;
  /** Of a constant: initializers, one behind the other. */
  readonly constant: readonly string[] | null;
}

export interface View {
  readonly storage: Storage;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
}

export const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);

/** Strides of a shape whose axes lie one in the other, the last one innermost. */
export const packed = (shape: readonly number[]): readonly number[] =>
  shape.map((_, i) => product(shape.slice(i + 1)));

export const wholeView = (storage: Storage, shape: readonly number[]): View => ({
  ...{ storage, offset: 0, shape, strides: packed(shape) },
});

export const transposed = (view: View, perm: readonly number[]): View => ({
  ...view,
  shape: perm.map((axis) => view.shape[axis] ?? 1),
  strides: perm.map((axis) => view.strides[axis] ?? 0),
});

/** The same elements in another shape; null where that needs a copy. */
export function reshaped(view: View, sizes: readonly number[]): View | null {
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

/** The matrix at a place of the axes before the last two. */
export function matrixAt(view: View, at: readonly number[]): View {
  const step = (axis: number): number => (view.shape[axis] === 1 ? 0 : (view.strides[axis] ?? 0));
  const offset = at.reduce((sum, i, axis) => sum + i * step(axis), view.offset);
  return { ...view, offset, shape: view.shape.slice(-2), strides: view.strides.slice(-2) };
}

/** Layout and leading dimension of a matrix, as a product takes them. */
export function layoutOf({ storage, shape, strides }: View): {
  readonly layout: "row" | "col";
  readonly ld: number;
} {
  const [rows = 1, columns = 1] = shape;
  const [down = 0, across = 0] = strides;
  if (across === 1 || columns === 1) return { layout: "row", ld: rows === 1 ? columns : down };
  if (down === 1 || rows === 1) return { layout: "col", ld: across };
  throw new Error(`no axis of a matrix in ${storage.name} is contiguous`);
}
