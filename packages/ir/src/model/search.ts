/** Candidates in the order of their predicted time, those alone evaluated whose lower bound could still come next. */
import type { Problem } from "@tilewright/core";
import { dtypeSpeed } from "./chunk.ts";
import { issueEngine } from "./issue.ts";
import type { Engine, Machine } from "./machine.ts";

/** The shape of a kernel that bounds its time: output tile of a unit in elements, units that share its K loop, SMs of a unit. */
export interface BoundedTile {
  readonly tile: readonly [m: number, n: number];
  readonly split: number;
  readonly unit?: 1 | 2;
}

/** A function of such shapes: microseconds below which no kernel of an engine is predicted, without stream-K: products of the busiest SM at boost, a launch. */
export function tileBound(
  problem: Problem,
  engine: Engine,
  machine: Machine,
): (shape: BoundedTile) => number {
  const { m, n, k, a } = problem;
  const batch = problem.batch.kind === "none" ? 1 : Math.max(1, problem.batch.count);
  const rate =
    (machine.flopsPerCycle[engine] ?? 0) *
    dtypeSpeed(machine, a.dtype, engine) *
    // Slots of FFMA are counted one by one.
    (engine === "fma" ? 1 : (machine.sustained[engine] ?? 1)) *
    machine.boostGHz *
    1e3;
  const launchUs = (machine.launchNs + (issueEngine({ engine })?.launchNs ?? 0)) / 1e3;
  return ({ tile: [tm, tn], split, unit = 1 }) => {
    const tiles = Math.ceil(m / tm) * Math.ceil(n / tn) * batch * split;
    const busiest = Math.ceil((tiles * unit) / machine.sms);
    return launchUs + (busiest * 2 * tm * tn * (k / split)) / unit / rate;
  };
}

/**
 * What `evaluate` makes of items, by `keyOf` and then in the items' order; null is left out. `bound` of an item must not exceed the key of what is made of it: an item is
 * evaluated only when its bound comes before all keys that are known.
 */
export function* inOrder<T, R>(
  items: readonly T[],
  bound: (item: T) => number,
  evaluate: (item: T) => R | null,
  keyOf: (result: R) => number,
): Generator<R> {
  const waiting = items
    .map((item, index) => ({ item, index, bound: bound(item) }))
    .sort((x, y) => y.bound - x.bound || y.index - x.index);
  const known: { readonly result: R; readonly key: number; readonly index: number }[] = [];
  for (;;) {
    const [first] = known;
    const next = waiting.at(-1);
    if (next !== undefined && (first === undefined || next.bound <= first.key)) {
      waiting.pop();
      const result = evaluate(next.item);
      if (result === null) continue;
      const key = keyOf(result);
      const behind = known.findIndex(
        (other) => other.key > key || (other.key === key && other.index > next.index),
      );
      known.splice(behind < 0 ? known.length : behind, 0, { result, key, index: next.index });
    } else if (first === undefined) return;
    else {
      known.shift();
      yield first.result;
    }
  }
}
