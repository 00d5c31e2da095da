/** The tensors of attention as callers have them: axes in their order, heads that share keys as one axis. */
import type { DType } from "../dtype.ts";
import type { ManifestTensor } from "../manifest.ts";
import type { EpilogueStep } from "../problem.ts";

/** A tensor of a kernel whose shapes are fixed. */
export interface CallerTensor {
  /** What a launch calls it. */
  readonly operand: ManifestTensor["operand"];
  /** What callers call it: `q`, `k`, `v`, `bias`, `slopes`, `lse`, `out`; of sequences of different lengths `qOffsets`, `kOffsets`, of pages `lengths`, `table`, scales `kScale`, `vScale`, of gradients `dOut`, `delta`, `dQ`, `dK`, `dV`. */
  readonly label: string;
  readonly dtype: DType;
  /** What each axis counts: `batch`, `heads`, `queries`, `keys`, `head dim`, `value dim`; of offsets `batch + 1`, of tables `pages`, of gradients of K and V `rows`: the queries of all heads that share one of K and V. */
  readonly axes: readonly string[];
  readonly shape: readonly number[];
  /** In elements; 0 along axes that are shared. */
  readonly strides: readonly number[];
}

/** By the program's names, in the order of a call: label, and axes; `hg` are the heads of K and V with those that share each, `qr` queries, alone or of all these heads. */
const tensors: Readonly<Record<string, readonly [label: string, ...axes: readonly Axis[]]>> = {
  Q: ["q", "b", "hg", "qr", "d"],
  K: ["k", "b", "hg", "s", "d"],
  V: ["v", "b", "hg", "s", "e"],
  qo: ["qOffsets", "b+1"],
  ko: ["kOffsets", "b+1"],
  lengths: ["lengths", "b"],
  table: ["table", "b", "p"],
  kScale: ["kScale", "b", "hg"],
  vScale: ["vScale", "b", "hg"],
  bias: ["bias", "b", "hg", "qr", "s"],
  slopes: ["slopes", "hg"],
  dO: ["dOut", "b", "hg", "qr", "e"],
  O: ["out", "b", "hg", "qr", "e"],
  L: ["lse", "b", "hg", "qr"],
  delta: ["delta", "b", "hg", "qr"],
  dQ: ["dQ", "b", "hg", "qr", "d"],
  dK: ["dK", "b", "hg", "s", "d"],
  dV: ["dV", "b", "hg", "s", "e"],
};

type Axis = "b" | "b+1" | "hg" | "qr" | "s" | "d" | "e" | "p";

/** An axis of the program's: extent and stride in elements. */
interface Lying {
  readonly extent: number;
  readonly stride: number;
}

/** Of what a tensor's axes of these names make one: several in a row, one of stride 0 is shared; of none 1 element. */
function lyingOf({ axes }: ManifestTensor, names: string): Lying {
  const parts = axes.filter(({ name, stride }) => names.includes(name) && stride > 0);
  return { extent: parts.reduce((all, { extent }) => all * extent, 1), stride: parts.at(-1)?.stride ?? 0 };
}

/** What an axis counts, and how it lies. */
const axisTable: Readonly<
  Record<Axis, { readonly means: string; readonly of: (tensor: ManifestTensor) => Lying }>
> = {
  b: { means: "batch", of: (tensor) => lyingOf(tensor, "b") },
  // A sequence ends where the next one begins.
  "b+1": {
    means: "batch + 1",
    of: (tensor) => ({ ...lyingOf(tensor, "b"), extent: lyingOf(tensor, "b").extent + 1 }),
  },
  hg: { means: "heads", of: (tensor) => lyingOf(tensor, "hg") },
  qr: { means: "queries", of: (tensor) => lyingOf(tensor, "qr") },
  s: { means: "keys", of: (tensor) => lyingOf(tensor, "s") },
  d: { means: "head dim", of: (tensor) => lyingOf(tensor, "d") },
  // Gradients have one name for the columns of all.
  e: { means: "value dim", of: (tensor) => lyingOf(tensor, "ed") },
  // Pages of a sequence follow each other up to the next one's.
  p: { means: "pages", of: (tensor) => ({ extent: lyingOf(tensor, "b").stride, stride: 1 }) },
};

/** Whether a step reads attention's slopes. They lie above 0: below, the farthest keys would have all of the weight, and gradients, whose logarithms of sums are drawn, too, weights beyond all numbers. */
export const hasSlopes = (step: EpilogueStep | undefined): boolean =>
  step !== undefined && "name" in step && step.name === "slopes";

/**
 * The tensors of attention's manifest in the order of a call: Q, K, V, offsets or pages, scales, bias, slopes, and what is written. Others than attention's are left out, and a V
 * in the rows of K.
 */
export function callerTensors(found: readonly ManifestTensor[]): readonly CallerTensor[] {
  return Object.entries(tensors).flatMap(([name, [label, ...axes]]): readonly CallerTensor[] => {
    const tensor = found.find((each) => each.name === name);
    if (tensor === undefined || (label === "v" && tensor.operand === "b")) return [];
    const { operand, dtype } = tensor;
    const lying = axes.map((axis) => axisTable[axis].of(tensor));
    const rows = tensor.axes.some((axis) => axis.name === "r");
    return [
      {
        ...{ operand, label, dtype },
        axes: axes.map((axis) => (rows && axis === "qr" ? "rows" : axisTable[axis].means)),
        shape: lying.map(({ extent }) => extent),
        strides: lying.map(({ stride }) => stride),
      },
    ];
  });
}
