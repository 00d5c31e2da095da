/** From a graph to kernels: what is fused, which memory each one reads and writes, in which layout. */
import { packedView, reshapedView, type StridedView, transposedView, unwrap } from "@tilewright/core";
import { attentionText, readAttention } from "@tilewright/ir";
import type { Graph, Node, Tensor } from "./onnx.ts";
import { layerNormText } from "./programs.ts";

/** A run of memory that a kernel writes, or that is filled before. */
export interface Storage {
  readonly name: string;
  readonly dtype: "bf16" | "f32";
  readonly elements: number;
  /** Of a constant: initializers, one behind the other. */
  readonly constant: readonly string[] | null;
}

export type View = StridedView<Storage>;

const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);

/** A kernel: the text of a program over axes, or a product D = epilogue(A.B); the views of its operands by the names that it has for them. */
export interface Step {
  readonly program: string | null;
  readonly epilogue: string;
  readonly operands: Readonly<Record<string, View>>;
}

export interface Lowered {
  readonly steps: readonly Step[];
  readonly inputs: ReadonlyMap<string, View>;
  readonly outputs: ReadonlyMap<string, View>;
}

/** The scores of an attention: their product, its factor, and the mask that is added. */
interface Scores {
  readonly node: Node;
  readonly scale: number;
  readonly mask: string | null;
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
  readonly #makers: ReadonlyMap<string, Node>;
  /** Nodes that a kernel before them has taken in. */
  readonly #taken = new Set<Node>();
  /** By the product with the values. */
  readonly #scored = new Map<Node, Scores>();
  readonly #steps: Step[] = [];

  constructor(graph: Graph) {
    this.#graph = graph;
    this.#constants = new Map(graph.constants);
    this.#makers = new Map(graph.nodes.map((node) => [node.output, node]));
    for (const node of graph.nodes)
      for (const name of node.inputs) this.#uses.set(name, [...(this.#uses.get(name) ?? []), node]);
    // What is added to scores, one row for all queries, stays f32.
    for (const [name, dims] of graph.inputs)
      this.#views.set(name, this.#fresh(name, dims, dims.at(-2) === 1 ? "f32" : "bf16"));
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
  constant(node: Node): void {
    const { op, inputs, output, attributes } = node;
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
    this.#taken.add(node);
  }

  node(node: Node): void {
    if (this.#taken.has(node)) return;
    const scores = this.#scored.get(node);
    if (scores !== undefined) this.#attention(node, scores);
    else if (node.op === "MatMul" && this.#weightOf(node) === null) this.#scores(node);
    else if (node.op === "MatMul") this.#product(node);
    else if (node.op === "LayerNormalization") this.#layerNorm(node);
    // The rest moves nothing: another view of the same memory.
    else
      this.#views.set(node.output, this.#moved(node, this.#view(node.inputs[0] ?? "")) ?? this.#refuse(node));
  }

  #refuse({ op, output }: Node): never {
    throw new Error(`no kernel for ${op}, of ${output}: it is no product, attention or norm, and joins none`);
  }

  /** Reshape, Transpose and Identity of a view; null where bytes would move. */
  #moved(node: Node, view: View): View | null {
    if (node.op === "Identity") return view;
    if (node.op === "Transpose")
      return transposedView(view, node.attributes.get("perm") as readonly number[]);
    if (node.op !== "Reshape") return null;
    const sizes = Array.from(this.#constant(node.inputs[1] ?? "").values);
    return reshapedView(
      view,
      sizes.map((size, i) => (size === 0 ? (view.shape[i] ?? 1) : size)),
    );
  }

  #constant(name: string): Tensor {
    const found = this.#constants.get(name);
    if (found === undefined) throw new Error(`${name} is no constant`);
    return found;
  }

  /** Memory of its own for a value; the same for the same name. */
  #fresh(
    name: string,
    shape: readonly number[],
    dtype: Storage["dtype"],
    constant: Storage["constant"] = null,
  ): View {
    const key = `${name} ${dtype}`;
    const storage = this.#storages.get(key) ?? { name, dtype, elements: product(shape), constant };
    this.#storages.set(key, storage);
    return packedView(storage, shape);
  }

  /** Initializers one behind the other along their first axis. */
  #weights(names: readonly string[], dtype: Storage["dtype"]): View {
    const [first = 1, ...rest] = this.#constant(names[0] ?? "").dims;
    return this.#fresh(names.join("+"), [first * names.length, ...rest], dtype, names);
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
    const axes = shape.map((_, i) => i);
    const perm = use?.op === "Transpose" ? (use.attributes.get("perm") as readonly number[]) : axes;
    const stored = this.#fresh(
      output,
      perm.map((axis) => shape[axis] ?? 1),
      "bf16",
    );
    return transposedView(
      stored,
      axes.map((axis) => perm.indexOf(axis)),
    );
  }

  /** Rows of a matrix, whatever axes they have. */
  #flat(node: Node, view: View): View {
    return view.shape.length === 1
      ? view
      : (reshapedView(view, [-1, view.shape.at(-1) ?? 1]) ?? this.#refuse(node));
  }

  /** A product of two activations: of queries and keys, times or divided by a number, plus a mask, whose softmax multiplies values. One kernel, at that product. */
  #scores(node: Node): void {
    let [last, scale, mask]: [Node, number, string | null] = [node, 1, null];
    for (;;) {
      this.#taken.add(last);
      const next = this.#onlyUse(last.output);
      const other = next?.inputs.find((name) => name !== last.output) ?? "";
      const factor = this.#constants.get(other)?.values[0] ?? Number.NaN;
      if (next?.op === "MatMul" && last.op === "Softmax" && other === next.inputs[1]) {
        this.#scored.set(next, { node, scale, mask });
        return;
      }
      if (next?.op === "Div" && mask === null) scale /= factor;
      else if (next?.op === "Mul" && mask === null) scale *= factor;
      else if (next?.op === "Add" && mask === null && this.#views.has(other)) mask = other;
      else if (next?.op !== "Softmax" || next.attributes.get("axis") !== -1) this.#refuse(next ?? last);
      last = next ?? last;
      if (Number.isNaN(scale)) this.#refuse(last);
    }
  }

  #attention(node: Node, { node: scores, scale, mask }: Scores): void {
    const [Q, K] = scores.inputs.map((name) => this.#view(name));
    const V = this.#view(node.inputs[1] ?? "");
    const [batch, heads, queries, headDim] = Q?.shape ?? [];
    const [keys, valueDim = 1] = V.shape.slice(2);
    if (Q === undefined || headDim === undefined || K === undefined) this.#refuse(node);
    const O = this.#result(node.output, [...Q.shape.slice(0, 3), valueDim]);
    this.#views.set(node.output, O);
    const bias = mask === null ? null : this.#view(mask);
    const axes =
      bias && ["b", "h", "q", "s"].filter((axis, i) => axis === "s" || bias.shape[i] !== 1).join("");
    const operands = { Q, K: transposedView(K, [0, 1, 3, 2]), V, O, ...(bias && { bias }) };
    const sizes = { batch, heads, queries, keys, headDim, valueDim };
    const request = { op: "attention", dtype: "bf16", ...sizes, scale, ...(axes && { bias: axes }) };
    // Each lies where the graph's views have it.
    const views = { ...operands, ...(bias && { bias: { ...bias, dtype: bias.storage.dtype } }) };
    const program = attentionText(unwrap(readAttention(request)), views);
    this.#steps.push({ program, epilogue: "", operands });
  }

  /** A product with a weight, and what can be computed where its sums are. */
  #product(node: Node): void {
    const siblings = this.#siblings(node);
    const names = siblings.map((each) => this.#weightOf(each) ?? "");
    const weights = this.#weights(names, "bf16");
    const b = names[0] === node.inputs[1] ? weights : transposedView(weights, [1, 0]);
    const a = this.#view(node.inputs[0] ?? "");
    const [k, n = 1] = b.shape;
    if (k !== a.shape.at(-1)) this.#refuse(node);
    const shape = [...a.shape.slice(0, -1), n];
    const { epilogue, operands, outputs } = this.#chain(siblings, shape);
    const result = this.#result(outputs[0] ?? "", shape);
    const width = n / siblings.length;
    for (const [i, output] of outputs.entries())
      this.#views.set(output, {
        ...result,
        offset: i * width,
        shape: [...shape.slice(0, -1), width],
      });
    const read = operands.map((view, i) => [`v${i}`, this.#flat(node, view)] as const);
    this.#steps.push({
      ...{ program: null, epilogue },
      operands: { a: this.#flat(node, a), b, d: this.#flat(node, result), ...Object.fromEntries(read) },
    });
  }

  /** The initializer that a product multiplies by, as it is or transposed; null for other operands. */
  #weightOf({ inputs }: Node): string | null {
    const [, right = ""] = inputs;
    if (this.#constants.has(right)) return right;
    const made = this.#makers.get(right);
    const [from = ""] = made?.inputs ?? [];
    return made?.op === "Transpose" && this.#constants.has(from) ? from : null;
  }

  /** Products of the same matrix and transposed weights, each plus a bias and nothing more: one product of all weights. */
  #siblings(node: Node): readonly Node[] {
    const plain = (other: Node): boolean => {
      const weight =
        other.op === "MatMul" && other.inputs[0] === node.inputs[0] ? this.#weightOf(other) : null;
      const bias = this.#onlyUse(other.output);
      return (
        weight !== null &&
        weight !== other.inputs[1] &&
        bias?.op === "Add" &&
        bias.inputs.some((name) => this.#constants.has(name)) &&
        this.#onlyUse(bias.output)?.op === "Reshape"
      );
    };
    const dims = (other: Node) => this.#constant(this.#weightOf(other) ?? "").dims.join();
    const found = plain(node)
      ? this.#graph.nodes.filter((other) => plain(other) && dims(other) === dims(node))
      : [node];
    for (const other of found) this.#taken.add(other);
    return found;
  }

  /** What follows products and can be computed where their sums are: an expression, what it reads, and the values that come of it. */
  #chain(nodes: readonly Node[], shape: readonly number[]) {
    const operands: View[] = [];
    let epilogue = "acc";
    let outputs = nodes.map(({ output }) => output);
    for (;;) {
      const uses = outputs.flatMap((output) => this.#onlyUse(output) ?? []);
      const next =
        uses.length < outputs.length ? null : this.#joined(uses, outputs, shape, `v${operands.length}`);
      if (next === null) return { epilogue, operands, outputs };
      if (next.operand !== null) operands.push(next.operand);
      epilogue = next.expression(epilogue);
      for (const each of uses) this.#taken.add(each);
      outputs = uses.map(({ output }) => output);
    }
  }

  #joined(uses: readonly Node[], xs: readonly string[], shape: readonly number[], name: string) {
    const [node] = uses;
    const [x = ""] = xs;
    const named = node && functions[node.op]?.(node);
    if (named !== undefined) return { operand: null, expression: (e: string) => `${named}(${e})` };
    // Of several products only biases are the same operation.
    if (node?.op !== "Add") return null;
    const others = uses.map(({ inputs }, i) => inputs.find((each) => each !== xs[i]) ?? x);
    const biases = others.every((other) => this.#constants.get(other)?.dims.length === 1);
    const operand = biases
      ? this.#weights(others, "f32")
      : others.length === 1
        ? this.#views.get(others[0] ?? "")
        : null;
    if (!operand || (!biases && operand.shape.join() !== shape.join())) return null;
    return {
      operand,
      expression: (e: string) => `${e} + ${name}[${biases ? "n" : "m,n"}]:${operand.storage.dtype}`,
    };
  }

  #layerNorm(node: Node): void {
    const [x = "", ...vectors] = node.inputs;
    const view = this.#view(x);
    const X = this.#flat(node, view);
    const axis = node.attributes.get("axis") ?? -1;
    if (
      (axis !== -1 && axis !== view.shape.length - 1) ||
      X.strides.join() !== packedView(null, X.shape).strides.join()
    )
      this.#refuse(node);
    const made = this.#fresh(node.output, view.shape, "bf16");
    this.#views.set(node.output, made);
    const [gamma, beta] = vectors.map((name) => this.#weights([name], "f32"));
    const operands = { X, ...(gamma && { gamma }), ...(beta && { beta }), D: this.#flat(node, made) };
    const epsilon = Number(node.attributes.get("epsilon") ?? 1e-5);
    this.#steps.push({ program: layerNormText(operands, epsilon), epilogue: "", operands });
  }
}
