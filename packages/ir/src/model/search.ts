/** Candidates in the order of their predicted time, those alone evaluated whose lower bound could still come next. */
import { dtypes, type Problem } from "@tilewright/core";
import { chunkAt, chunkCost, dtypeSpeed, wholeNorm } from "./chunk.ts";
import { issueEngine } from "./issue.ts";
import type { ModelKernel } from "./kernel.ts";
import { type Engine, energyGHz, type Machine, narrowExponent, voltageExponent } from "./machine.ts";
import { norm } from "./norm.ts";

/** The shape of a kernel that bounds its time: output tile of a unit in elements, units that share its K loop, SMs of a unit. */
export interface BoundedTile {
  readonly tile: readonly [m: number, n: number];
  readonly split: number;
  readonly unit?: 1 | 2;
}

/** Of a block's start, first load and epilogue what products hide. */
const MOST_HIDDEN_NS = 400;

/** What a launch does at least, besides what memory moves once: cycles of its busiest SM, energy beyond that of the products in picojoules, bytes that all SMs take in. */
interface Least {
  readonly cycles: number;
  readonly alone: boolean;
  readonly picojoules?: number;
  readonly intakeBytes?: number;
}

/** Microseconds below which nothing is predicted that does so much: at the clock that the power cap leaves at best. Engines whose warps issue products have it in their constants. */
function leastUs(problem: Problem, engine: Engine, machine: Machine): (least: Least) => number {
  const { m, n, k, a, b, d } = problem;
  const batch = problem.batch.kind === "none" ? 1 : Math.max(1, problem.batch.count);
  const issue = issueEngine({ engine });
  const launchUs = (machine.launchNs + (issue?.launchNs ?? 0)) / 1e3;
  const bits = m * k * dtypes[a.dtype].bits + n * k * dtypes[b.dtype].bits + m * n * dtypes[d.dtype].bits;
  const memoryUs = (batch * bits) / 8 / (machine.memoryGBs * machine.memoryShare * 1e3);
  const { startNs, loadNs, handOverNs, powerCap, boostGHz } = machine;
  const endsUs =
    issue === undefined ? Math.max(0, startNs + 2 * loadNs + handOverNs - MOST_HIDDEN_NS) / 1e3 : 0;
  const flop = (machine.energy.flop[engine] ?? 0) * dtypeSpeed(machine, a.dtype, engine) ** narrowExponent;
  const products = 2 * m * n * k * batch * flop;
  const watts =
    powerCap === null || issue !== undefined ? Number.POSITIVE_INFINITY : powerCap - machine.idleWatts;
  const share = voltageExponent / (voltageExponent + 1);
  return ({ cycles, alone, picojoules = 0, intakeBytes = 0 }) => {
    const l2Us = issue === undefined ? intakeBytes / (machine.l2Rate * machine.sms * boostGHz * 1e3) : 0;
    const atBoost = norm(
      issue?.norm ?? wholeNorm,
      cycles / (boostGHz * 1e3) + (alone ? endsUs : 0),
      l2Us,
      memoryUs,
    );
    // Energy grows with the fourth power of the clock, time falls with the first: no clock is better than where both take as long.
    const cappedUs = ((products + picojoules) * 1e-6) / watts / energyGHz ** voltageExponent;
    return Math.max(launchUs + atBoost, (cycles / 1e3) ** share * cappedUs ** (1 - share));
  };
}

/**
 * A function of shapes: microseconds below which no kernel of an engine is predicted, without stream-K: a launch, products or operands from L2 of the busiest SM, what memory
 * moves once.
 */
export function tileBound(
  problem: Problem,
  engine: Engine,
  machine: Machine,
): (shape: BoundedTile) => number {
  const { m, n, k, a, b } = problem;
  const batch = problem.batch.kind === "none" ? 1 : Math.max(1, problem.batch.count);
  // Slots of FFMA are counted one by one.
  const sustained = engine === "fma" ? 1 : (machine.sustained[engine] ?? 1);
  const rate = (machine.flopsPerCycle[engine] ?? 0) * dtypeSpeed(machine, a.dtype, engine) * sustained;
  const bytes = [dtypes[a.dtype].bits / 8, dtypes[b.dtype].bits / 8] as const;
  const least = leastUs(problem, engine, machine);
  return ({ tile: [tm, tn], split, unit = 1 }) => {
    const tiles = Math.ceil(m / tm) * Math.ceil(n / tn) * batch * split;
    const busiest = Math.ceil((tiles * unit) / machine.sms);
    const step = Math.max((2 * tm * tn) / rate, (tm * bytes[0] + tn * bytes[1]) / machine.intakeBytes);
    return least({ cycles: (busiest * k * step) / split / unit, alone: false });
  };
}

/** The same for kernels that differ from one in how blocks come to tiles and share them: `alone` where no other block of the SM hides the start and the end of one. */
export function kernelBound(
  problem: Problem,
  machine: Machine,
): (kernel: ModelKernel) => (split: number, alone: boolean) => number {
  const { m, n, k } = problem;
  const batch = problem.batch.kind === "none" ? 1 : Math.max(1, problem.batch.count);
  return (kernel) => {
    const [tm, tn, tk] = kernel.tile;
    const least = leastUs(problem, kernel.engine, machine);
    // Rows that begin inside a sector may be shared: none counts here.
    const cost = chunkCost(machine, kernel, problem, machine.boostGHz, 0);
    const { cycles: own } = chunkAt(machine, kernel, problem, cost, 1);
    const beside = chunkAt(machine, kernel, problem, { ...cost, ring: 0, exposed: 0, fixed: 0 }, 1).cycles;
    return (split, alone) => {
      const tiles = Math.ceil(m / tm) * Math.ceil(n / tn) * batch * split;
      const chunks = Math.ceil(Math.ceil(k / tk) / split);
      const cycles = Math.ceil(tiles / machine.sms) * chunks * (alone ? own : beside);
      const all = tiles * chunks;
      const { sharedByte, l2Byte } = machine.energy;
      const picojoules = all * (cost.sharedBytes * sharedByte + cost.intakeBytes * l2Byte);
      return least({ cycles, alone, picojoules, intakeBytes: all * cost.intakeBytes });
    };
  };
}

interface Place {
  readonly key: number;
  readonly index: number;
}

const comesBefore = (x: Place, y: Place): boolean => x.key < y.key || (x.key === y.key && x.index < y.index);

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
  const known: (Place & { readonly result: R })[] = [];
  for (;;) {
    const [first] = known;
    const next = waiting.at(-1);
    if (next !== undefined && (first === undefined || next.bound <= first.key)) {
      waiting.pop();
      const result = evaluate(next.item);
      if (result === null) continue;
      const key = keyOf(result);
      const place = { key, index: next.index };
      let [low, high] = [0, known.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        const other = known[middle];
        if (other !== undefined && comesBefore(other, place)) low = middle + 1;
        else high = middle;
      }
      known.splice(low, 0, { result, ...place });
    } else if (first === undefined) return;
    else {
      known.shift();
      yield first.result;
    }
  }
}
