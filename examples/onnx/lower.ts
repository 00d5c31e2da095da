/** From a graph to kernels: what is fused, which memory each one reads and writes, in which layout. */
import type { Graph, Node, Tensor } from "./onnx.ts";
import {
  matrixAt,
  packed,
  product,
  reshaped,
  type Storage,
  transposed,
  type View,
  wholeView,
} from "./views.ts";

/** D = epilogue(A.B), `count` of them at these strides; operands are what the epilogue reads, by name. */
export interface Product {
  readonly kind: "product";
  readonly a: View;
  readonly b: View;
  readonly d: View;
  readonly batch: {
    readonly count: number;
    readonly a: number;
    readonly b: number;
    readonly d: number;
  } | null;
  readonly epilogue: string;
  readonly operands: readonly View[];
}

/** A tile program over rows: its text but for the sizes, and its parameters. */
export interface Rows {
  readonly kind: "rows";
  readonly op: "softmax" | "layernorm";
  readonly epsilon: number;
  readonly x: View;
  readonly vectors: readonly View[];
  readonly d: View;
}

export type Step = Product | Rows;

export interface Lowered {
  readonly steps: readonly Step[];
  readonly inputs: ReadonlyMap<string, View>;
  readonly outputs: ReadonlyMap<string, View>;
}

/** Element-wise functions of a product's epilogue. */
const functions: Readonly<Record<string, (node: Node) => string>> = {
  Gelu: (node) => (node.attributes.get("approximate") === "tanh" ? "gelu_tanh" : "gelu"),
  Relu: () => "relu",
  Tanh: () => "tanh",
  Sigmoid: () => "sigmoid",
};

export function lower(graph: Graph): Lowered {
  const lowering = new Lowering(graph);
  // Constants first: a product looks ahead for what follows it.
  for (const node of graph.nodes) lowering.constant(node);
  for (const node of graph.nodes) lowering.node(node);
  return lowering.done();
}

class Lowering {
  readonly #graph: Graph;
  readonly #constants: Map<string, Tensor>;
  readonly #views = new Map<string, View>();
  readonly #storages = new Map<string, Storage>();
  readonly #uses = new Map<string, Node[]>();
  /** Nodes that a kernel before them has taken in. */
  readonly #taken = new Set<Node>();
  readonly #steps: Step[] = [];

  constructor(graph: Graph) {
    this.#graph = graph;
    this.#constants = new Map(graph.constants);
    for (const node of graph.nodes)
      for (const name of node.inputs) this.#uses.set(name, [...(this.#uses.get(name) ?? []), node]);
    // What is added to scores, axes of one query for all of them, is a vector: it stays f32.
    for (const [name, dims] of graph.inputs)
      this.#views.set(
        name,
        wholeView(this.#storage(name, dims.at(-2) === 1 ? "f32" : "bf16", product(dims)), dims),
      );
  }

  done(): Lowered {
    const named = (names: Iterable<string>) =>
      new Map([...names].map((name) => [name, this.#view(name)] as const));
    return {
      steps: this.#steps,
      inputs: named(this.#graph.inputs.keys()),
      outputs: named(this.#graph.outputs),
    };
  }

  /** Constant, Concat and Identity of constants. */
  constant({ op, inputs, output, attributes }: Node): void {
    const tensors = inputs.flatMap((name) => this.#constants.get(name) ?? []);
    if (tensors.length < inputs.length) return;
    const [first] = tensors;
    const values = tensors.flatMap((tensor) => Array.from(tensor.values));
    if (op === "Constant") {
      const [value] = attributes.values();
      const list = typeof value === "number" ? [value] : Array.isArray(value) ? value : null;
      this.#constants.set(output, list === null ? (value as Tensor) : { dims: [list.length], values: list });
    } else if (op === "Concat") this.#constants.set(output, { dims: [values.length], values });
    else if (op === "Identity" && first !== undefined) this.#constants.set(output, first);
    else return;
    this.#taken.add(this.#graph.nodes.find((node) => node.output === output) as Node);
  }

  node(node: Node): void {
    if (this.#taken.has(node)) return;
    if (node.op === "MatMul") this.#matmul(node);
    else if (node.op === "Softmax" || node.op === "LayerNormalization") this.#rows(node);
    // The rest moves nothing: another view of the same memory.
    else
      this.#views.set(node.output, this.#moved(node, this.#view(node.inputs[0] ?? "")) ?? this.#refuse(node));
  }

  #refuse({ op, output }: Node): never {
    throw new Error(
      `no kernel for ${op}, of ${output}: it is no product, softmax or norm, and joins no product`,
    );
  }

  /** Reshape, Transpose and Identity of a view; null where bytes would move. */
  #moved(node: Node, view: View): View | null {
    if (node.op === "Identity") return view;
    if (node.op === "Transpose") return transposed(view, node.attributes.get("perm") as readonly number[]);
    if (node.op !== "Reshape") return null;
    const sizes = Array.from(this.#constant(node.inputs[1] ?? "").values);
    return reshaped(
      view,
      sizes.map((size, i) => (size === 0 ? (view.shape[i] ?? 1) : size)),
    );
  }

  #constant(name: string): Tensor {
    const found = this.#constants.get(name);
    if (found === undefined) throw new Error(`${name} is no constant`);
    return found;
  }

  #storage(
    name: string,
    dtype: Storage["dtype"],
    elements: number,
    constant: Storage["constant"] = null,
  ): Storage {
    const key = `${name} ${dtype}`;
    const found = this.#storages.get(key) ?? { name, dtype, elements, constant };
    this.#storages.set(key, found);
    return found;
  }

  /** Initializers one behind the other along their first axis. */
  #weights(names: readonly string[], dtype: Storage["dtype"]): View {
    const tensors = names.map((name) => this.#constant(name));
    const [first = 1, ...rest] = tensors[0]?.dims ?? [];
    const storage = this.#storage(names.join("+"), dtype, first * names.length * product(rest), names);
    return wholeView(storage, [first * names.length, ...rest]);
  }

  #view(name: string): View {
    const found = this.#views.get(name);
    if (found !== undefined) return found;
    if (this.#constants.has(name)) return this.#weights([name], "bf16");
    throw new Error(`${name} is used before it is made`);
  }

  /** The one node that uses a value; null of none, or several, or of a result of the graph. */
  #onlyUse(name: string): Node | null {
    const [use, ...more] = this.#uses.get(name) ?? [];
    return use === undefined || more.length > 0 || this.#graph.outputs.includes(name) ? null : use;
  }

  /** Memory for a value of this shape; where all that follows is Transpose and Reshape, in the order in which they leave it. */
  #result(output: string, shape: readonly number[]): View {
    const use = this.#onlyUse(output);
    const perm =
      use?.op === "Transpose" ? (use.attributes.get("perm") as readonly number[]) : shape.map((_, i) => i);
    const stored = wholeView(
      this.#storage(output, "bf16", product(shape)),
      perm.map((axis) => shape[axis] ?? 1),
    );
    return transposed(
      stored,
      shape.map((_, axis) => perm.indexOf(axis)),
    );
  }

  #matmul(node: Node): void {
    const [left = "", right = ""] = node.inputs;
    const siblings = this.#siblings(node);
    const a = this.#view(left);
    const names = siblings.map((each) => this.#weightOf(each) ?? "");
    const weights = names.every((name) => name !== "") ? this.#weights(names, "bf16") : null;
    const turned = siblings.length > 1 || this.#weightOf(node) !== right;
    const b = weights === null ? this.#view(right) : turned ? transposed(weights, [1, 0]) : weights;
    const [k = 1, n = 1] = b.shape.slice(-2);
    const shape = [...a.shape.slice(0, -1), n];
    const chain = this.#chain(siblings, shape);
    const result = this.#result(chain.output, shape);
    for (const [i, each] of siblings.entries()) {
      const width = n / siblings.length;
      const part = { ...result, offset: i * width, shape: [...shape.slice(0, -1), width] };
      this.#views.set(siblings.length > 1 ? (chain.outputs[i] ?? each.output) : chain.output, part);
    }
    const { epilogue } = chain;
    if (b.shape.length === 2) {
      const flat = (view: View): View => reshaped(view, [-1, view.shape.at(-1) ?? 1]) ?? this.#refuse(node);
      const operands = chain.operands.map((view) => (view.shape.length === 1 ? view : flat(view)));
      this.#steps.push({ kind: "product", a: flat(a), b, d: flat(result), batch: null, epilogue, operands });
      return;
    }
    // The axis before the matrices is a batch; those before it are launches of their own.
    const outer = shape.slice(0, -3);
    const inner = shape.length - 3;
    for (let i = 0; i < product(outer); i++) {
      const at = packed(outer).map((stride, axis) => Math.floor(i / stride) % (outer[axis] ?? 1));
      const stride = (view: View): number => view.strides[inner] ?? 0;
      this.#steps.push({
        ...{ kind: "product", a: matrixAt(a, at), b: matrixAt(b, at), d: matrixAt(result, at), epilogue },
        batch: { count: shape[inner] ?? 1, a: stride(a), b: stride(b), d: stride(result) },
        operands: chain.operands.map((view) => {
          const { offset } = matrixAt(view, at);
          return { ...view, offset, shape: [n], strides: [1] };
        }),
      });
    }
    if (k !== a.shape.at(-1)) this.#refuse(node);
  }

  /** The initializer that a product multiplies by, as it is or transposed; null for other operands. */
  #weightOf({ inputs }: Node): string | null {
    const [, right = ""] = inputs;
    if (this.#constants.has(right)) return right;
    const made = this.#graph.nodes.find(({ output }) => output === right);
    const [from = ""] = made?.inputs ?? [];
    return made?.op === "Transpose" && this.#constants.has(from) ? from : null;
  }

  /** Products of the same matrix and transposed weights, each plus a bias and nothing more: one product of all weights. */
  #siblings(node: Node): readonly Node[] {
    const plain = (other: Node): boolean => {
      const weight = this.#weightOf(other);
      const bias = this.#onlyUse(other.output);
      const after = bias && this.#onlyUse(bias.output);
      return (
        other.op === "MatMul" &&
        other.inputs[0] === node.inputs[0] &&
        weight !== null &&
        weight !== other.inputs[1] &&
        bias?.op === "Add" &&
        bias.inputs.some((name) => this.#constants.has(name)) &&
        after?.op === "Reshape"
      );
    };
    const dims = (other: Node) => this.#constant(this.#weightOf(other) ?? "").dims.join();
    const found = plain(node)
      ? this.#graph.nodes.filter((other) => plain(other) && dims(other) === dims(node))
      : [node];
    for (const other of found) this.#taken.add(other);
    return found;
  }

  /** What follows a product and can be computed where its sums are: an expression, and what it reads. */
  #chain(nodes: readonly Node[], shape: readonly number[]) {
    const operands: View[] = [];
    let epilogue = "acc";
    let outputs = nodes.map(({ output }) => output);
    for (;;) {
      const uses = outputs.map((output) => this.#onlyUse(output));
      const [use = null] = uses;
      if (use === null) break;
      const next = this.#joined(use, outputs[0] ?? "", shape, operands.length, uses);
      if (next === null) break;
      if (next.operand !== null) operands.push(next.operand);
      epilogue = next.expression(epilogue);
      for (const each of uses) if (each !== null) this.#taken.add(each);
      outputs = uses.map((each) => each?.output ?? "");
    }
    return { epilogue, operands, outputs, output: outputs[0] ?? "" };
  }

  #joined(node: Node, x: string, shape: readonly number[], place: number, all: readonly (Node | null)[]) {
    const named = functions[node.op]?.(node);
    if (named !== undefined) return { operand: null, expression: (e: string) => `${named}(${e})` };
    const sign = { Add: "+", Sub: "-", Mul: "*", Div: "/" }[node.op];
    const [other = x] = node.inputs.filter((name) => name !== x);
    if (sign === undefined || (node.inputs[0] !== x && (sign === "-" || sign === "/"))) return null;
    const constant = this.#constants.get(other);
    if (constant !== undefined && product(constant.dims) === 1) {
      const value = constant.values[0] ?? 0;
      // A factor rounds as a quotient by a power of two does, and costs less.
      return {
        operand: null,
        expression: (e: string) => (sign === "/" ? `(${e}) * ${1 / value}` : `(${e}) ${sign} ${value}`),
      };
    }
    const rest = (names: readonly string[]) => names.find((name) => this.#constants.has(name)) ?? "";
    const operand =
      constant?.dims.length === 1
        ? this.#weights(
            all.map((each) => rest(each?.inputs ?? [])),
            "f32",
          )
        : constant === undefined && all.length === 1
          ? (this.#views.get(other) ?? null)
          : null;
    if (operand === null) return null;
    const vector = operand.shape.length === 1 || operand.shape.at(-2) === 1;
    // Matrices are of products without a batch; vectors are those of all matrices of a batch.
    if (!vector && (operand.shape.join() !== shape.join() || operand.storage.dtype !== "bf16")) return null;
    if (vector && operand.shape.length > 1 && (operand.shape.at(-3) !== 1 || shape.length < 4)) return null;
    const read = vector ? `v${place}[n]:${operand.storage.dtype}` : `v${place}[m,n]:bf16`;
    return {
      operand,
      expression: (e: string) => `${e.includes(" ") && sign !== "+" ? `(${e})` : e} ${sign} ${read}`,
    };
  }

  #rows(node: Node): void {
    const [x = "", ...vectors] = node.inputs;
    const view = this.#view(x);
    const n = view.shape.at(-1) ?? 1;
    const axis = node.attributes.get("axis") ?? -1;
    if (axis !== -1 && axis !== view.shape.length - 1) this.#refuse(node);
    const flat = reshaped(view, [-1, n]);
    if (flat === null || flat.strides[0] !== n) this.#refuse(node);
    const d = wholeView(this.#storage(node.output, "bf16", product(view.shape)), view.shape);
    this.#views.set(node.output, d);
    this.#steps.push({
      kind: "rows",
      op: node.op === "Softmax" ? "softmax" : "layernorm",
      epsilon: Number(node.attributes.get("epsilon") ?? 1e-5),
      x: flat,
      vectors: vectors.map((name) => this.#weights([name], "f32")),
      d: reshaped(d, [-1, n]) ?? this.#refuse(node),
    });
  }
}
