/**
 * Time of a kernel on a GPU from what the machine is, for ranking schedules and for `plan`. A prediction: docs/perf/model.md has it
 * beside published and measured figures, with its errors.
 */
import { dtypes } from "../dtype.ts";
import type { Problem } from "../problem.ts";
import { streamKFor } from "../tile/streamK.ts";
import { blockTileOf, chunkCost, chunkCycles, dtypeSpeed } from "./chunk.ts";
import type { ModelKernel } from "./kernel.ts";
import { energyGHz, type Machine, narrowExponent, voltageExponent } from "./machine.ts";
import { memoryBytes } from "./traffic.ts";

export interface Prediction {
  readonly timeUs: number;
  /** FLOP of the problem over `timeUs`. */
  readonly tflops: number;
  /** Clock of the SMs: below boost where the power cap holds it down. */
  readonly ghz: number;
  readonly watts: number;
  /** What most of a chunk's time goes to. */
  readonly bound: "multiply" | "shared memory" | "L2" | "copy engine" | "ring" | "hand-over" | "DRAM";
  /** Rounds in which the units work through the tiles. */
  readonly rounds: number;
  /** Share of the time in which the multiplying units of all SMs are busy. */
  readonly busy: number;
  /** Parts of `timeUs`: all chunks, starts and ends of blocks or tiles that nothing hides, the launch. */
  readonly parts: { readonly chunksUs: number; readonly tilesUs: number; readonly launchUs: number };
}

interface Run {
  readonly us: number;
  readonly chunksUs: number;
  readonly tilesUs: number;
  readonly rounds: number;
  readonly multiplyUs: number;
  readonly bound: Prediction["bound"];
  /** Over all SMs and the whole launch. */
  readonly sharedBytes: number;
  readonly intakeBytes: number;
  readonly memoryBytes: number;
}

/** Units that a launch has at once. */
function unitsOf(machine: Machine, kernel: ModelKernel): number {
  const cluster = Math.max(kernel.unit, kernel.unit * kernel.multicast[0] * kernel.multicast[1]);
  const clusters = machine.clusters[cluster] ?? Math.floor(machine.sms / cluster);
  const units = (clusters * cluster) / kernel.unit;
  return kernel.workers === null || kernel.sched === "tiles" ? units : Math.min(units, kernel.workers);
}

/** Throws a RangeError (a bug of the caller) where the machine lacks the kernel's engine. */
export function predict(problem: Problem, kernel: ModelKernel, machine: Machine): Prediction {
  const batch = problem.batch.kind === "none" ? 1 : problem.batch.count;
  const flops = 2 * problem.m * problem.n * problem.k * batch;
  const flopEnergy =
    (machine.energy.flop[kernel.engine] ?? 0) *
    dtypeSpeed(machine, problem.a.dtype, kernel.engine) ** narrowExponent;
  const at = (ghz: number) => {
    const run = runAt(problem, kernel, machine, ghz);
    return { run, watts: wattsOf(run, flops * flopEnergy, machine, ghz) };
  };
  let ghz = machine.boostGHz;
  const cap = machine.powerCap ?? Number.POSITIVE_INFINITY;
  if (at(ghz).watts > cap) {
    let [low, high] = [ghz / 4, ghz];
    for (let i = 0; i < 30; i++) {
      const middle = (low + high) / 2;
      if (at(middle).watts > cap) high = middle;
      else low = middle;
    }
    ghz = low;
  }
  const { run, watts } = at(ghz);
  return {
    timeUs: run.us,
    tflops: flops / (run.us * 1e6),
    ghz,
    watts,
    bound: run.bound,
    rounds: run.rounds,
    busy: run.multiplyUs / run.us,
    parts: { chunksUs: run.chunksUs, tilesUs: run.tilesUs, launchUs: machine.launchNs / 1e3 },
  };
}

/**
 * Average power of a launch whose multiplications take `picojoules`. Energies on the chip grow with the voltage, and that with the
 * clock; DRAM's do not.
 */
function wattsOf(run: Run, picojoules: number, machine: Machine, ghz: number): number {
  const { energy } = machine;
  const chip = picojoules + run.sharedBytes * energy.sharedByte + run.intakeBytes * energy.l2Byte;
  const joules = (chip * (ghz / energyGHz) ** voltageExponent + run.memoryBytes * energy.memoryByte) * 1e-12;
  return machine.idleWatts + joules / (run.us * 1e-6);
}

function runAt(problem: Problem, kernel: ModelKernel, machine: Machine, ghz: number): Run {
  const { m, n, k, a, d } = problem;
  const batch = problem.batch.kind === "none" ? 1 : problem.batch.count;
  const [tm, tn, tk] = kernel.tile;
  const tiles = Math.ceil(m / tm) * Math.ceil(n / tn) * batch * kernel.split;
  const chunks = Math.ceil(Math.ceil(k / tk) / kernel.split);
  const units = unitsOf(machine, kernel);
  const cost = chunkCost(machine, kernel, a.dtype, ghz);
  const share = blockTileOf(kernel);

  const store = (share.rows * share.cols * dtypes[d.dtype].bits) / 8;
  // Blocks that share a tile leave their parts in the workspace.
  const streams = streamKCut(kernel.streamk, tiles / batch, chunks);
  const part = kernel.split > 1 || streams !== null ? share.rows * share.cols * 4 : 0;
  const epilogueBusy = Math.max(
    store / Math.min(1, kernel.storeBytes / 32) / machine.storeBytes + part / machine.storeBytes,
    machine.tensorMemoryBytes > 0 ? (share.rows * share.cols * 4) / machine.tensorMemoryBytes : 0,
  );
  // C comes in as D goes out, lane by lane; brought ahead it is there when the accumulator is.
  const sourceTileBytes =
    kernel.addend === "direct" ? (share.rows * share.cols * dtypes[(problem.c ?? d).dtype].bits) / 8 : 0;
  const addendBusy = sourceTileBytes / Math.min(1, kernel.storeBytes / 32) / machine.intakeBytes;
  const [load, handOver, start] = [machine.loadNs, machine.handOverNs, machine.startNs].map(
    (ns) => ns * ghz,
  ) as [number, number, number];
  // Stores need as long to L2 as loads from it; then the accumulator, or the block, is free.
  // Of a tile's blocks one takes up what they have left: as many parts, or their sum. Counting who has come and then loading are a round trip each.
  const parts = streams === null ? kernel.split : Math.ceil(chunks / streams.each) + 1;
  const taken = { last: parts, atomics: 1, bulk: 1, kernel: 0, cluster: 1, slices: 1 }[kernel.combine] * part;
  const meeting = taken === 0 ? 0 : taken / machine.intakeBytes + 2 * load;
  const epilogue =
    epilogueBusy + addendBusy + (kernel.addend === "direct" ? load : 0) + load + handOver + meeting;

  let cycles = 0;
  let mainCycles = 0;
  let rounds = 0;
  if (kernel.sched === "tiles") {
    const resident = Math.max(1, kernel.residents);
    const round = (count: number): number => {
      const main = chunks * chunkCycles(cost, count);
      mainCycles += main;
      // Other blocks of the SM multiply while one starts or ends.
      const ends = start + load + epilogue;
      return main + Math.max(ends - main * (1 - 1 / count), count * epilogueBusy);
    };
    const full = Math.floor(tiles / (units * resident));
    const rest = Math.ceil((tiles - full * units * resident) / units);
    const one = full > 0 ? round(resident) : 0;
    mainCycles *= full;
    cycles = full * one + (rest > 0 ? round(rest) : 0);
    rounds = full + (rest > 0 ? 1 : 0);
  } else {
    rounds =
      streams === null
        ? Math.ceil(tiles / units)
        : Math.ceil((kernel.streamk * batch) / units) * (streams.whole + streams.each / chunks);
    const main = chunks * chunkCycles(cost, 1);
    const fetch = kernel.sched === "clc-late" ? machine.fetchNs * ghz : 0;
    const tile = kernel.overlap ? Math.max(main + handOver, epilogue) : main + epilogue;
    mainCycles = rounds * main;
    // Nothing hides the last tile's epilogue.
    const last = Math.min(1, rounds) * main + epilogue;
    cycles = start + load + Math.max(0, rounds - 1) * tile + last + rounds * fetch;
  }
  // A second kernel does so on all SMs, behind the first.
  if (part > 0 && kernel.combine === "kernel")
    cycles +=
      machine.launchNs * ghz +
      start +
      2 * load +
      (tiles * kernel.unit * part) / machine.sms / machine.intakeBytes;
  const bytes = memoryBytes(problem, kernel, units * kernel.residents, machine.l2Bytes);
  const smUs = cycles / (ghz * 1e3);
  const memoryUs = bytes / (machine.memoryGBs * 1e3);
  const all = tiles * kernel.unit * chunks;
  return {
    us: Math.max(smUs, memoryUs) + machine.launchNs / 1e3,
    chunksUs: mainCycles / (ghz * 1e3),
    tilesUs: (cycles - mainCycles) / (ghz * 1e3),
    rounds,
    multiplyUs: (all * cost.multiply) / machine.sms / (ghz * 1e3),
    bound: memoryUs > smUs ? "DRAM" : boundOf(cost, kernel.residents),
    sharedBytes: all * cost.sharedBytes,
    intakeBytes: all * cost.intakeBytes,
    memoryBytes: bytes,
  };
}

/** Chunks of each of so many units that share the tiles of the last wave, and the whole tiles of each; null where tiles fill whole waves, or nobody shares. */
function streamKCut(
  units: number,
  tiles: number,
  chunks: number,
): { readonly each: number; readonly whole: number } | null {
  const shares = streamKFor(tiles, chunks, units, true);
  return shares === null ? null : { each: shares.each, whole: Math.floor(tiles / units) };
}

function boundOf(cost: ReturnType<typeof chunkCost>, residents: number): Prediction["bound"] {
  const busy: readonly (readonly [Prediction["bound"], number])[] = [
    ["multiply", residents * cost.multiply],
    ["shared memory", residents * cost.shared],
    ["L2", residents * cost.intake],
    ["copy engine", residents * cost.requests],
    ["ring", cost.ring],
  ];
  const worst = busy.reduce((most, each) => (each[1] > most[1] ? each : most));
  // A chain that no unit explains.
  return chunkCycles(cost, residents) > worst[1] * 1.1 ? "hand-over" : worst[0];
}
