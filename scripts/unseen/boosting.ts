/**
 * Regression trees that are fitted one after the other to what is left (gradient boosting), of values whose mean over the rows of a group counts little: what is learnt is how rows of a group
 * compare. Traits are cut at quantiles; a tree grows by its best leaf.
 */
import type { Random } from "@tilewright/core";
import type { Tree } from "@tilewright/ir";

export interface Rows {
  /** Rows by traits, of each the number of the trait's cuts below it. */
  readonly bins: readonly Uint8Array[];
  readonly y: Float64Array;
  readonly weight: Float64Array;
  /** A number for each group, from 0. */
  readonly group: Int32Array;
}

export interface Boosting {
  readonly trees: number;
  readonly leaves: number;
  readonly rate: number;
  /** Rows of a leaf at least, and what is added to the weights of a leaf's rows, whose mean is 1. */
  readonly rows: number;
  readonly penalty: number;
  /** Shares of the traits and of the rows that a tree sees. */
  readonly traits: number;
  readonly sample: number;
  /** Of a group's mean error what is no part of the fit. */
  readonly centred: number;
  /** Errors beyond it count by how far they are. */
  readonly far: number;
}

/** At most 255 cuts of a trait, halfway between neighbouring quantiles that differ. */
export function cutsOf(values: Float64Array, most: number): readonly number[] {
  const sorted = Float64Array.from(values).sort();
  const distinct = [...new Set(sorted)];
  const steps =
    distinct.length <= most + 1
      ? distinct
      : [
          ...new Set(
            Array.from(
              { length: most + 1 },
              (_, i) => sorted[Math.floor((i * (sorted.length - 1)) / most)] ?? 0,
            ),
          ),
        ];
  return steps.slice(1).map((value, i) => Number(((value + (steps[i] ?? 0)) / 2).toPrecision(6)));
}

export function binned(values: Float64Array, cuts: readonly number[]): Uint8Array {
  return Uint8Array.from(values, (value) => {
    let [low, high] = [0, cuts.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (value <= (cuts[middle] ?? 0)) high = middle;
      else low = middle + 1;
    }
    return low;
  });
}

interface Leaf {
  readonly rows: Int32Array;
  /** Gradient, weight and rows by trait and bin. */
  readonly sums: Float64Array;
  best: { readonly gain: number; readonly trait: number; readonly cut: number } | null;
}

const BINS = 256;

export function boosted(
  { bins, y, weight, group }: Rows,
  options: Boosting,
  random: Random,
): { readonly trees: readonly Tree[]; readonly unit: number } {
  const { trees, leaves: most, rate, rows: least, penalty, centred, far } = options;
  const count = y.length;
  const groups = group.reduce((top, each) => Math.max(top, each), -1) + 1;
  const unit = 1e-5;
  const predicted = new Float64Array(count);
  const gradient = new Float64Array(count);
  const hessian = new Float64Array(count);
  const found: Tree[] = [];

  /** Errors and their weights, without the groups' means. */
  const look = (): void => {
    const mean = (of: Float64Array): Float64Array => {
      const [sum, whole] = [new Float64Array(groups), new Float64Array(groups)];
      for (let i = 0; i < count; i++) {
        const g = group[i] ?? 0;
        sum[g] = (sum[g] ?? 0) + (of[i] ?? 0) * ((predicted[i] ?? 0) - (y[i] ?? 0));
        whole[g] = (whole[g] ?? 0) + (of[i] ?? 0);
      }
      return sum.map((each, g) => each / Math.max(1e-12, whole[g] ?? 0));
    };
    const level = mean(weight);
    for (let i = 0; i < count; i++) {
      const error = Math.abs((predicted[i] ?? 0) - (y[i] ?? 0) - (level[group[i] ?? 0] ?? 0));
      hessian[i] = (weight[i] ?? 0) * Math.min(1, far / Math.max(1e-9, error));
    }
    const again = mean(hessian);
    for (let i = 0; i < count; i++)
      gradient[i] =
        (hessian[i] ?? 0) * ((predicted[i] ?? 0) - (y[i] ?? 0) - centred * (again[group[i] ?? 0] ?? 0));
  };

  for (let t = 0; t < trees; t++) {
    look();
    const traits = bins.flatMap((_, trait) => (random.uniform() < options.traits ? [trait] : []));
    const sampled = Int32Array.from({ length: count }, (_, i) => i).filter(
      () => random.uniform() < options.sample,
    );
    const leafOf = (rows: Int32Array, whole?: Float64Array, other?: Float64Array): Leaf => {
      const sums = new Float64Array(3 * BINS * traits.length);
      if (whole !== undefined && other !== undefined)
        for (let i = 0; i < sums.length; i++) sums[i] = (whole[i] ?? 0) - (other[i] ?? 0);
      else
        for (const [place, trait] of traits.entries()) {
          const own = bins[trait];
          if (own === undefined) continue;
          const base = 3 * BINS * place;
          for (const row of rows) {
            const at = base + 3 * (own[row] ?? 0);
            sums[at] = (sums[at] ?? 0) + (gradient[row] ?? 0);
            sums[at + 1] = (sums[at + 1] ?? 0) + (hessian[row] ?? 0);
            sums[at + 2] = (sums[at + 2] ?? 0) + 1;
          }
        }
      return { rows, sums, best: bestOf(sums, rows.length) };
    };
    const bestOf = (sums: Float64Array, rows: number): Leaf["best"] => {
      let best: Leaf["best"] = null;
      let [g, h] = [0, 0];
      for (let bin = 0; bin < BINS; bin++) {
        g += sums[3 * bin] ?? 0;
        h += sums[3 * bin + 1] ?? 0;
      }
      const whole = (g * g) / (h + penalty);
      for (let place = 0; place < traits.length; place++) {
        let [left, weights, number] = [0, 0, 0];
        for (let bin = 0; bin < BINS - 1; bin++) {
          const at = 3 * (BINS * place + bin);
          if (sums[at + 2] === 0) continue;
          left += sums[at] ?? 0;
          weights += sums[at + 1] ?? 0;
          number += sums[at + 2] ?? 0;
          if (number < least) continue;
          if (rows - number < least) break;
          const gain =
            (left * left) / (weights + penalty) + (g - left) ** 2 / (h - weights + penalty) - whole;
          if (gain > (best?.gain ?? 1e-9)) best = { gain, trait: place, cut: bin };
        }
      }
      return best;
    };
    const leaves = [leafOf(sampled)];
    const questions: [number, number, number, number][] = [];
    // Where a leaf hangs: question and way.
    const hangs: (readonly [question: number, way: 2 | 3] | null)[] = [null];
    while (leaves.length < most) {
      let at = -1;
      for (const [i, { best }] of leaves.entries())
        if (best !== null && (at < 0 || best.gain > (leaves[at]?.best?.gain ?? 0))) at = i;
      const leaf = leaves[at];
      const best = leaf?.best;
      if (leaf === undefined || best == null) break;
      const trait = traits[best.trait] ?? 0;
      const own = bins[trait];
      const yes = leaf.rows.filter((row) => (own?.[row] ?? 0) <= best.cut);
      const no = leaf.rows.filter((row) => (own?.[row] ?? 0) > best.cut);
      const small = leafOf(yes.length < no.length ? yes : no);
      const large = leafOf(yes.length < no.length ? no : yes, leaf.sums, small.sums);
      const hang = hangs[at];
      const question = questions.length;
      if (hang != null) {
        const above = questions[hang[0]];
        if (above !== undefined) above[hang[1]] = question;
      }
      questions.push([trait, best.cut, ~at, ~leaves.length]);
      leaves[at] = yes.length < no.length ? small : large;
      hangs[at] = [question, 2];
      hangs.push([question, 3]);
      leaves.push(yes.length < no.length ? large : small);
    }
    const values = leaves.map(({ rows }) => {
      let [g, h] = [0, 0];
      for (const row of rows) {
        g += gradient[row] ?? 0;
        h += hessian[row] ?? 0;
      }
      return Math.max(-32767, Math.min(32767, Math.round((-rate * g) / (h + penalty) / unit)));
    });
    found.push({ questions, leaves: values });
    for (let row = 0; row < count; row++) {
      let at = questions.length === 0 ? -1 : 0;
      while (at >= 0) {
        const [trait = 0, cut = 0, yes = -1, no = -1] = questions[at] ?? [];
        at = (bins[trait]?.[row] ?? 0) <= cut ? yes : no;
      }
      predicted[row] = (predicted[row] ?? 0) + unit * (values[~at] ?? 0);
    }
  }
  return { trees: found, unit };
}
