/** The tensors of attention as callers have them: axes in their order, heads that share keys as one axis. */
import type { DType } from "../dtype.ts";
import type { ManifestTensor } from "../manifest.ts";

/** A tensor of a kernel whose shapes are fixed. */
export interface CallerTensor {
  /** What a launch calls it. */
  readonly operand: ManifestTensor["operand"];
  /** What callers call it: `q`, `k`, `v`, `bias`, `slopes`, `lse`, `out`. */
  readonly label: string;
  readonly dtype: DType;
  /** What each axis counts: `batch`, `heads`, `queries`, `keys`, `head dim`, `value dim`. */
  readonly axes: readonly string[];
  readonly shape: readonly number[];
  /** In elements; 0 along axes that are shared. */
  readonly strides: readonly number[];
}

/** By the program's names, in the order of a call: label, and axes; `hg` are the heads of K and V with those that share each. */
const tensors: Readonly<Record<string, readonly [label: string, ...axes: readonly string[]]>> = {
  Q: ["q", "b", "hg", "q", "d"],
  K: ["k", "b", "hg", "s", "d"],
  V: ["v", "b", "hg", "s", "e"],
  bias: ["bias", "b", "hg", "q", "s"],
  slopes: ["slopes", "hg"],
  O: ["out", "b", "hg", "q", "e"],
  L: ["lse", "b", "hg", "q"],
};
const means: Readonly<Record<string, string>> = {
  ...{ b: "batch", hg: "heads", q: "queries", s: "keys", d: "head dim", e: "value dim" },
};

/** The tensors of attention's manifest in the order of a call: Q, K, V, bias, slopes, and what is written. Others than attention's are left out. */
export function callerTensors(found: readonly ManifestTensor[]): readonly CallerTensor[] {
  return Object.entries(tensors).flatMap(([name, [label, ...axes]]): readonly CallerTensor[] => {
    const tensor = found.find((each) => each.name === name);
    if (tensor === undefined) return [];
    const { operand, dtype } = tensor;
    const lying = axes.map((axis) => {
      const parts = tensor.axes.filter((each) =>
        axis === "hg" ? /^[hg]$/.test(each.name) : each.name === axis,
      );
      return {
        extent: parts.reduce((all, { extent }) => all * extent, 1),
        stride: parts.at(-1)?.stride ?? 0,
      };
    });
    return [
      {
        ...{ operand, label, dtype, axes: axes.map((axis) => means[axis] ?? axis) },
        shape: lying.map(({ extent }) => extent),
        strides: lying.map(({ stride }) => stride),
      },
    ];
  });
}
