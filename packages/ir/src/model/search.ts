/** Candidates in the order of their predicted time, those alone evaluated whose lower bound could still come next. */
import { dtypes, type Problem, packedSize } from "@tilewright/core";
import type { ReductionKind } from "../tile/types.ts";
import { type ChunkCost, chunkAt, chunkCost, dtypeSpeed, flopEnergy, wholeNorm } from "./chunk.ts";
import { partialBytes } from "./counts.ts";
import { blockCycles, issueEngine } from "./issue.ts";
import type { ModelKernel } from "./kernel.ts";
import { type Engine, energyGHz, type Machine, voltageExponent } from "./machine.ts";
import { norm } from "./norm.ts";
import { reductionTime } from "./reductions.ts";
import { firstBytes, LONG_RUNS, slowWrites, transposingTime } from "./traffic.ts";

/** The shape of a kernel that bounds its time: output tile of a unit in elements, units that share its K loop, SMs of a unit. */
export interface BoundedTile {
  readonly tile: readonly [m: number, n: number];
  readonly split: number;
  readonly unit?: 1 | 2;
  /** Blocks share tiles by chunks: no SM waits for another's last tile. */
  readonly shares?: boolean;
}

/** Blocks that begin at once over the number of SMs, where clusters leave some empty. */
const LEAST_UNITS = 0.75;

/** Of a block's start, first load and epilogue what products hide. */
const MOST_HIDDEN_NS = 400;

/**
 * What a launch does at least, besides what memory moves once: cycles of its busiest SM, and those of them in which L2 and DRAM rest; energy beyond that of the products in
 * picojoules, bytes that all SMs take in, microseconds of a reduction, and of a kernel before.
 */
interface Least {
  readonly cycles: number;
  readonly apart?: number;
  readonly alone: boolean;
  /** Blocks, and the bytes that the first of them wait for before they begin. */
  readonly blocks?: number;
  readonly firstBytes?: number;
  readonly picojoules?: number;
  readonly intakeBytes?: number;
  readonly besideUs?: number;
}

/** Microseconds below which nothing is predicted that does so much: at the clock that the power cap leaves at best. Engines whose warps issue products have it in their constants. `through`: threads copy, and
 * set nothing up before their first load. */
function leastUs(
  problem: Problem,
  engine: Engine,
  machine: Machine,
  through = false,
): (least: Least) => number {
  const { m, n, k, a, b, d } = problem;
  const batch = problem.batch.kind === "none" ? 1 : Math.max(1, problem.batch.count);
  const issue = issueEngine({ engine });
  const launchUs = (machine.launchNs + (issue?.launchNs ?? 0)) / 1e3;
  const bits = m * k * dtypes[a.dtype].bits + n * k * dtypes[b.dtype].bits + m * n * dtypes[d.dtype].bits;
  const memoryRate = machine.memoryGBs * machine.memoryShare * 1e3;
  const longRuns = issue === undefined ? LONG_RUNS : 1;
  const memoryUs = (longRuns * ((batch * bits) / 8 + slowWrites(problem, { engine }))) / memoryRate;
  const { startNs, loadNs, handOverNs, fillNs, powerCap, powerRestUs, boostGHz, sms } = machine;
  const l2Rate = (issue?.l2Bytes ?? machine.l2Rate) * sms * boostGHz * 1e3;
  const begins = through ? 0 : startNs + loadNs;
  const endsUs = issue === undefined ? Math.max(0, begins + loadNs + handOverNs - MOST_HIDDEN_NS) / 1e3 : 0;
  const products = 2 * m * n * k * batch * flopEnergy(machine, problem, engine);
  const watts =
    powerCap === null || issue !== undefined ? Number.POSITIVE_INFINITY : powerCap - machine.idleWatts;
  const share = voltageExponent / (voltageExponent + 1);
  return ({
    cycles,
    apart = 0,
    alone,
    blocks = 0,
    firstBytes = 0,
    picojoules = 0,
    intakeBytes = 0,
    besideUs = 0,
  }) => {
    const l2Us = intakeBytes / l2Rate;
    const toUs = 1 / (boostGHz * 1e3);
    const atBoost =
      apart * toUs +
      norm(issue?.norm ?? wholeNorm, (cycles - apart) * toUs + (alone ? endsUs : 0), l2Us, memoryUs);
    // Energy grows with the fourth power of the clock, time falls with the first: no clock is better than where both take as long, `capped` were there no rest.
    const cappedUs = ((products + picojoules) * 1e-6) / watts / energyGHz ** voltageExponent;
    const capped = (cycles / 1e3) ** share * cappedUs ** (1 - share);
    const beginUs = (fillNs / 1e3) * Math.min(1, blocks / sms) + firstBytes / memoryRate;
    return Math.max(
      launchUs + beginUs + atBoost + besideUs,
      capped === 0 ? 0 : capped * (capped / (capped + powerRestUs)) ** (1 / voltageExponent),
    );
  };
}

/**
 * A function of shapes: microseconds below which no kernel of an engine is predicted: a launch, products or operands from L2 of the busiest SM, what memory
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
  const bytes = [packedSize(a.dtype), packedSize(b.dtype)] as const;
  const { sms, intakeBytes } = machine;
  const least = leastUs(problem, engine, machine);
  return ({ tile: [tm, tn], split, unit = 1, shares = false }) => {
    const tiles = Math.ceil(m / tm) * Math.ceil(n / tn) * batch * split;
    const busiest = shares ? (tiles * unit) / sms : Math.ceil((tiles * unit) / sms);
    const step = Math.max((2 * tm * tn) / rate, (tm * bytes[0] + tn * bytes[1]) / intakeBytes);
    return least({ cycles: (busiest * k * step) / split / unit, alone: false, blocks: tiles * unit });
  };
}

/** How kernels that differ only in this come to tiles and share them. */
export interface BoundedSpread {
  /** Blocks that share the K loop of a tile. */
  readonly split: number;
  /** Blocks share tiles by chunks: no SM waits for another's last tile. */
  readonly shares?: boolean;
  /** No other block of the SM hides the start and the end of one; says nothing where warps issue products. */
  readonly alone?: boolean;
  /** How the parts may be added up; none: as if that took no time. */
  readonly combine?: readonly ReductionKind[];
}

/** The same for kernels that differ from one in how blocks come to tiles and share them. Where warps issue products: for no more blocks on an SM than the kernel has. */
export function kernelBound(
  problem: Problem,
  machine: Machine,
): (kernel: ModelKernel) => (spread: BoundedSpread) => number {
  const { m, n, k } = problem;
  const batch = problem.batch.kind === "none" ? 1 : Math.max(1, problem.batch.count);
  return (kernel) => {
    const [tm, tn, tk] = kernel.tile;
    const least = leastUs(problem, kernel.engine, machine, kernel.through);
    // Rows that begin inside a sector may be shared, and tiles may come in the order of which neighbours share most.
    const cost = chunkCost(machine, kernel, problem, machine.boostGHz, 0);
    const cyclesOf = (issueEngine(kernel) === undefined ? besideWarps : byWarps)(
      machine,
      kernel,
      problem,
      cost,
    );
    const { sharedByte, l2Byte } = machine.energy;
    const operandBytes = (m * k * dtypes[problem.a.dtype].bits + n * k * dtypes[problem.b.dtype].bits) / 8;
    return ({ split, alone = false, combine = [], shares = false }) => {
      const tiles = Math.ceil(m / tm) * Math.ceil(n / tn) * batch * split;
      const chunks = Math.ceil(Math.ceil(k / tk) / split);
      const all = tiles * chunks;
      const partials = { ...partialBytes(problem, kernel), most: split, handed: tiles };
      const reductions =
        split === 1 ? [] : combine.map((each) => reductionTime({ ...kernel, combine: each }, partials));
      return least({
        ...cyclesOf(shares ? tiles / machine.sms : Math.ceil(tiles / machine.sms), chunks, alone),
        alone,
        blocks: tiles,
        firstBytes: Math.min(
          firstBytes(problem, { ...kernel, split }, cost, Math.min(tiles, LEAST_UNITS * machine.sms)),
          operandBytes,
        ),
        picojoules: all * (cost.sharedBytes * sharedByte + cost.intakeBytes * l2Byte),
        intakeBytes: all * cost.intakeBytes,
        besideUs: transposingTime(kernel, machine) + (reductions.length === 0 ? 0 : Math.min(...reductions)),
      });
    };
  };
}

/** Cycles of an SM that does so many tiles of so many chunks (parts of a tile where blocks share them), and those of them in which L2 and DRAM rest. */
type CyclesOf = (tiles: number, chunks: number, alone: boolean) => Pick<Least, "cycles" | "apart">;

function besideWarps(machine: Machine, kernel: ModelKernel, problem: Problem, cost: ChunkCost): CyclesOf {
  const { cycles: own } = chunkAt(machine, kernel, problem, cost, 1);
  const { cycles } = chunkAt(
    machine,
    kernel,
    problem,
    { ...cost, ring: 0, exposed: 0, alone: 0, fixed: 0, least: 0 },
    1,
  );
  return (tiles, chunks, alone) => ({ cycles: tiles * chunks * (alone ? own : cycles) });
}

/** The best number of blocks on an SM: rounds of as many, and of at least what is left over. */
function byWarps(machine: Machine, kernel: ModelKernel, problem: Problem, cost: ChunkCost): CyclesOf {
  const apart = blockCycles(kernel);
  const chunk = Array.from(
    { length: Math.max(1, kernel.residents) },
    (_, beside) => chunkAt(machine, kernel, problem, cost, beside + 1).cycles,
  );
  return (tiles, chunks) => {
    if (!Number.isInteger(tiles)) {
      const least = Math.min(...chunk.map((whole, beside) => whole / (beside + 1)));
      return { cycles: tiles * chunks * least, apart: 0 };
    }
    const found = chunk.map((whole, beside) => {
      const [full, rest] = [Math.floor(tiles / (beside + 1)), tiles % (beside + 1)];
      const last = rest === 0 ? 0 : chunks * Math.min(...chunk.slice(rest - 1, beside + 1)) + apart;
      return full * (chunks * whole + apart) + last;
    });
    return { cycles: Math.min(...found), apart };
  };
}

/** An item on its way to its result: how many of its bounds are known, the last of them or the result's key. */
interface Entry<T, R> {
  readonly item: T;
  readonly index: number;
  readonly key: number;
  readonly bounds: number;
  readonly result?: R;
}

/**
 * What `evaluate` makes of items, by `keyOf` and then in the items' order; null is left out. None of `bounds` of an item, cheap to close, may exceed the key of what is made of
 * it: the next one is looked at, and behind the last one the item evaluated, only when the one before it comes before all keys that are known. Ends where all keys that are left
 * are above `most`.
 */
export function* inOrder<T, R>(
  items: readonly T[],
  bounds: readonly ((item: T) => number)[],
  evaluate: (item: T) => R | null,
  keyOf: (result: R) => number,
  most = Number.POSITIVE_INFINITY,
): Generator<R> {
  const [cheap = () => Number.NEGATIVE_INFINITY] = bounds;
  const waiting = items
    .map((item, index): Entry<T, R> => ({ item, index, key: cheap(item), bounds: 1 }))
    .sort((x, y) => y.key - x.key || y.index - x.index);
  const next = ({ item, index, key, bounds: count }: Entry<T, R>): Entry<T, R> | null => {
    const bound = bounds[count];
    if (bound !== undefined) return { item, index, key: Math.max(key, bound(item)), bounds: count + 1 };
    const result = evaluate(item);
    return result === null ? null : { item, index, key: keyOf(result), bounds: count, result };
  };
  /** Those that came first, by key; of as large keys those without a result first, so that none is passed over. */
  const known: Entry<T, R>[] = [];
  for (;;) {
    const [first] = known;
    const last = waiting.at(-1);
    const waits = last !== undefined && (first === undefined || last.key <= first.key);
    const entry = waits ? waiting.pop() : known.shift();
    if (entry === undefined || entry.key > most) return;
    if (entry.result !== undefined) {
      yield entry.result;
      continue;
    }
    const then = next(entry);
    if (then === null) continue;
    let [low, high] = [0, known.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = known[middle];
      if (other !== undefined && comesBefore(other, then)) low = middle + 1;
      else high = middle;
    }
    known.splice(low, 0, then);
  }
}

function comesBefore<T, R>(x: Entry<T, R>, y: Entry<T, R>): boolean {
  if (x.key !== y.key) return x.key < y.key;
  const [later, earlier] = [x, y].map(({ result }) => (result === undefined ? 0 : 1));
  return later === earlier ? x.index < y.index : (later ?? 0) < (earlier ?? 0);
}
