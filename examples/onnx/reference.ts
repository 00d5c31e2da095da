/** What a graph computes, in float64, node by node. */
import { valueOfFunction } from "@tilewright/core";
import type { Graph, Node, Tensor } from "./onnx.ts";
import { packed, product } from "./views.ts";

/** A value at coordinates; axes of extent 1, and missing ones, are the same everywhere. */
function at({ dims, values }: Tensor, place: readonly number[]): number {
  const strides = packed(dims);
  const behind = place.length - dims.length;
  return (
    values[
      dims.reduce((sum, size, i) => sum + (size === 1 ? 0 : (place[i + behind] ?? 0) * (strides[i] ?? 0)), 0)
    ] ?? Number.NaN
  );
}

/** A tensor of these sizes, each element from its coordinates. */
function made(dims: readonly number[], value: (place: readonly number[]) => number): Tensor {
  const strides = packed(dims);
  const place = (i: number) => strides.map((stride, axis) => Math.floor(i / stride) % (dims[axis] ?? 1));
  return { dims, values: Float64Array.from({ length: product(dims) }, (_, i) => value(place(i))) };
}

const broadcast = (x: Tensor, y: Tensor, join: (x: number, y: number) => number): Tensor => {
  const rank = Math.max(x.dims.length, y.dims.length);
  const size = ({ dims }: Tensor, i: number): number => dims[i - rank + dims.length] ?? 1;
  const dims = Array.from({ length: rank }, (_, i) => Math.max(size(x, i), size(y, i)));
  return made(dims, (place) => join(at(x, place), at(y, place)));
};

/** Rows along the last axis, each made of what it was. */
function byRows(x: Tensor, row: (values: readonly number[]) => readonly number[]): Tensor {
  const n = x.dims.at(-1) ?? 1;
  const values = Array.from(x.values);
  const rows = Array.from({ length: values.length / n }, (_, i) => row(values.slice(i * n, (i + 1) * n)));
  return { dims: x.dims, values: rows.flat() };
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

const operations: Readonly<Record<string, (inputs: readonly Tensor[], node: Node) => Tensor>> = {
  Add: ([x, y]) => broadcast(x as Tensor, y as Tensor, (a, b) => a + b),
  Sub: ([x, y]) => broadcast(x as Tensor, y as Tensor, (a, b) => a - b),
  Mul: ([x, y]) => broadcast(x as Tensor, y as Tensor, (a, b) => a * b),
  Div: ([x, y]) => broadcast(x as Tensor, y as Tensor, (a, b) => a / b),
  Identity: ([x]) => x as Tensor,
  Gelu: ([x]) => made(x?.dims ?? [], (place) => valueOfFunction("gelu", [at(x as Tensor, place)])),
  Relu: ([x]) => made(x?.dims ?? [], (place) => Math.max(0, at(x as Tensor, place))),
  Constant: (_, { attributes }) => {
    const [value] = attributes.values();
    if (typeof value === "number") return { dims: [], values: [value] };
    return Array.isArray(value) ? { dims: [value.length], values: value } : (value as Tensor);
  },
  Concat: (inputs) => {
    const values = inputs.flatMap((each) => Array.from(each.values));
    return { dims: [values.length], values };
  },
  Reshape: ([x, shape], { output }) => {
    if (x === undefined || shape === undefined) throw new Error(`${output} has no shape`);
    const sizes = Array.from(shape.values, (size, i) => (size === 0 ? (x.dims[i] ?? 1) : size));
    const known = product(sizes.filter((size) => size !== -1));
    return { ...x, dims: sizes.map((size) => (size === -1 ? product(x.dims) / known : size)) };
  },
  Transpose: ([x], { attributes }) => {
    const perm = attributes.get("perm") as readonly number[];
    return made(
      perm.map((axis) => x?.dims[axis] ?? 1),
      (place) =>
        at(
          x as Tensor,
          perm.map((_, axis) => place[perm.indexOf(axis)] ?? 0),
        ),
    );
  },
  MatMul: ([x, y]) => {
    if (x === undefined || y === undefined) throw new Error("MatMul has two operands");
    const k = x.dims.at(-1) ?? 1;
    return made([...x.dims.slice(0, -1), y.dims.at(-1) ?? 1], (place) => {
      const [outer, row, col] = [place.slice(0, -2), place.at(-2) ?? 0, place.at(-1) ?? 0];
      return sum(Array.from({ length: k }, (_, i) => at(x, [...outer, row, i]) * at(y, [...outer, i, col])));
    });
  },
  Softmax: ([x]) =>
    byRows(x as Tensor, (row) => {
      const most = Math.max(...row);
      const parts = row.map((value) => Math.exp(value - most));
      return parts.map((part) => part / sum(parts));
    }),
  LayerNormalization: ([x, gamma, beta], { attributes }) =>
    byRows(x as Tensor, (row) => {
      const mean = sum(row) / row.length;
      const spread = sum(row.map((value) => (value - mean) ** 2)) / row.length;
      const factor = 1 / Math.sqrt(spread + Number(attributes.get("epsilon") ?? 1e-5));
      return row.map(
        (value, i) => (value - mean) * factor * (gamma?.values[i] ?? 1) + (beta?.values[i] ?? 0),
      );
    }),
};

export function reference(graph: Graph, inputs: ReadonlyMap<string, ArrayLike<number>>) {
  const known = new Map<string, Tensor>(graph.constants);
  for (const [name, dims] of graph.inputs) known.set(name, { dims, values: inputs.get(name) ?? [] });
  for (const node of graph.nodes) {
    const operation = operations[node.op];
    if (operation === undefined) throw new Error(`the reference does not know ${node.op}`);
    known.set(
      node.output,
      operation(
        node.inputs.map((name) => known.get(name) as Tensor),
        node,
      ),
    );
  }
  return new Map(graph.outputs.map((name) => [name, known.get(name)?.values ?? []]));
}
