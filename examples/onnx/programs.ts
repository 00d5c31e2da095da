/** Texts of the kernels that are no matrix product: programs over named axes. */
import type { View } from "./lower.ts";

type Axes = Readonly<Record<string, number>>;

/** `param %Q bf16[b, h, q, d] strides …`, without the axes along which the view has one element for all positions. */
function parameter(name: string, view: View, axes: string, extents: Axes): string {
  const { storage, shape, strides } = view;
  const kept = [...axes].flatMap((axis, i) => (shape[i] === extents[axis] ? [[axis, strides[i]]] : []));
  const [names, steps] = [0, 1].map((part) => kept.map((each) => each[part]).join(", "));
  return `param %${name} ${storage.dtype}[${names}] strides ${steps}`;
}

const program = (name: string, lines: readonly string[]): string =>
  `${["tile.ir 5", `tile.kernel @${name} stage nest {`, ...lines, "}"].join("\n")}\n`;

/** D = softmax(scale * Q.K^T + mask) . V, heads and sequences as axes of the batch: Q, V and D are [b, h, rows, columns], K is [b, h, columns, keys]. */
export function attentionText(
  { Q, K, V, D, mask }: Readonly<Record<"Q" | "K" | "V" | "D", View>> & { readonly mask?: View },
  scale: number,
): string {
  const [b = 1, h = 1, q = 1, d = 1] = Q.shape;
  const [s = 1, e = 1] = V.shape.slice(2);
  const extents: Axes = { b, h, q, s, d, e };
  return program(`attention_${[b, h, q, s, d].join("x")}`, [
    ...[
      `axis b = ${b} batch`,
      `axis h = ${h} batch`,
      `axis q = ${q}`,
      `axis s = ${s}`,
      `axis d = ${d}`,
      `axis e = ${e} whole`,
    ],
    ...[
      parameter("Q", Q, "bhqd", extents),
      parameter("K", K, "bhds", extents),
      parameter("V", V, "bhse", extents),
    ],
    ...(mask === undefined ? [] : [parameter("mask", mask, "bhqs", extents)]),
    ...[
      parameter("D", D, "bhqe", extents),
      "tile %S f32[q, s]",
      `tile %P ${V.storage.dtype}[q, s]`,
      "tile %acc f32[q, e]",
    ],
    ...["tile %x f32[q]", "tile %m f32[q]", "tile %z f32[q]", "tile %l f32[q]"],
    ...["tiles q, e {", "fill %m = -1e+30", "fill %l = 0", "fill %acc = 0"],
    // Parts of the keys, with the largest score and the sum of the weights so far; exponentials are those of 2.
    ...["for s {", "fill %S = 0", "for d {", "mma %S += %Q * %K", "}"],
    `map %S = %S * ${scale * Math.LOG2E}${mask === undefined ? "" : ` + %mask * ${Math.LOG2E}`}`,
    ...["reduce %x = max(%S) along s", "map %x = max(%m, %x)", "map %z = exp2(%m - %x)", "map %m = %x"],
    ...["map %S = exp2(%S - %x)", "map %l = %l * %z", "reduce %l += sum(%S) along s"],
    ...["map %acc = %acc * %z", "map %P = %S", "mma %acc += %P * %V", "}", "store %D = %acc / %l", "}"],
  ]);
}

/** Rows of X with a mean of 0 and a variance of 1, times gamma, plus beta. */
export function layerNormText(
  { X, gamma, beta, D }: Readonly<Record<string, View>>,
  epsilon: number,
): string {
  if (X === undefined || D === undefined) throw new TypeError("a layer norm reads X and writes D");
  const [m = 1, n = 1] = X.shape;
  const vector = (view: View | undefined, name: string) =>
    view === undefined ? [] : [`param %${name} f32[n]`];
  return program(`layernorm_${m}x${n}`, [
    ...[`axis m = ${m}`, `axis n = ${n} whole`, `param %X ${X.storage.dtype}[m, n]`],
    ...[...vector(gamma, "gamma"), ...vector(beta, "beta")],
    ...[`param %D ${D.storage.dtype}[m, n]`, "tile %S f32[m, n]", "tile %r f32[m]"],
    ...["tiles m, n {", "map %S = %X", "reduce %r = sum(%S) along n", `map %S = %S - %r / ${n}`],
    ...["reduce %r = sum(%S * %S) along n", `map %r = rsqrt(%r / ${n} + ${epsilon.toFixed(15)})`],
    ...[
      `store %D = %S * %r${gamma === undefined ? "" : " * %gamma"}${beta === undefined ? "" : " + %beta"}`,
      "}",
    ],
  ]);
}
