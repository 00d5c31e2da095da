/**
 * Time of a kernel on a GPU from what the machine is, for ranking schedules and for `plan`. A prediction: docs/perf/model.md has it
 * beside published and measured figures, with its errors.
 */

import type { Problem } from "@tilewright/core";
import { dtypes, residentInClusters } from "@tilewright/core";
import { streamKFor } from "../tile/streamK.ts";
import type { ReductionKind } from "../tile/types.ts";
import { blockTileOf, type ChunkCost, chunkCost, chunkCycles, dtypeSpeed, norm, wholeNorm } from "./chunk.ts";
import type { ModelKernel } from "./kernel.ts";
import { type Engine, energyGHz, type Machine, narrowExponent, voltageExponent } from "./machine.ts";
import { memoryBytes } from "./traffic.ts";

/**
 * What time goes to: products; what a chunk takes longer than its products, by the unit that it waits for (`latency`: ring and hand-overs, which no unit explains); SMs that
 * have no tile in the last round; starts of blocks with their first loads; epilogues; reductions of split tiles; DRAM beyond what the SMs take; the launch.
 */
export const causes = [
  "multiply",
  "shared memory",
  "L2",
  "copy engine",
  "latency",
  "idle SMs",
  "start",
  "epilogue",
  "reduction",
  "DRAM",
  "launch",
] as const;
export type Cause = (typeof causes)[number];

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
  /** BlockTile of the time in which the multiplying units of all SMs are busy. */
  readonly busy: number;
  /** Parts of `timeUs`: all chunks, starts and ends of blocks or tiles that nothing hides, the launch. */
  readonly parts: { readonly chunksUs: number; readonly tilesUs: number; readonly launchUs: number };
  /** Microseconds of `timeUs` by cause; their sum is `timeUs`. */
  readonly causes: Readonly<Record<Cause, number>>;
  /** Microseconds in which each unit of an SM is busy with chunks, and DRAM with the launch: they overlap. */
  readonly busyUs: Readonly<Record<"multiply" | "shared memory" | "L2" | "copy engine" | "DRAM", number>>;
}

interface Run {
  readonly us: number;
  readonly chunksUs: number;
  readonly tilesUs: number;
  readonly causes: Prediction["causes"];
  readonly rounds: number;
  readonly multiplyUs: number;
  readonly bound: Prediction["bound"];
  readonly busyUs: Prediction["busyUs"];
  /** Over all SMs and the whole launch. */
  readonly sharedBytes: number;
  readonly intakeBytes: number;
  readonly memoryBytes: number;
}

/** SMs of the GPUs whose GPCs `residentInClusters` has. */
const GPC_SMS = 132;

/** Units that a launch has at once. */
function unitsOf(machine: Machine, kernel: ModelKernel): number {
  const meeting = kernel.combine === "cluster" ? kernel.split : 1;
  const cluster = kernel.unit * kernel.multicast[0] * kernel.multicast[1] * meeting;
  // Clusters lie in a GPC each, some of whose SMs stay empty.
  const clusters =
    machine.clusters[cluster] ??
    (cluster <= 2
      ? Math.floor(machine.sms / cluster)
      : Math.floor((residentInClusters(cluster, 1) * machine.sms) / GPC_SMS / cluster));
  const units = (clusters * cluster) / kernel.unit;
  return kernel.workers === null || kernel.sched === "tiles" ? units : Math.min(units, kernel.workers);
}

/** Microseconds below which no kernel of an engine can be: its rate at boost, and what memory moves once. */
export function leastTime(problem: Problem, engine: Engine, machine: Machine): number {
  const { m, n, k, a, b, d } = problem;
  const batch = problem.batch.kind === "none" ? 1 : problem.batch.count;
  const rate = (machine.flopsPerCycle[engine] ?? 0) * dtypeSpeed(machine, a.dtype, engine) * machine.boostGHz;
  const bits = m * k * dtypes[a.dtype].bits + n * k * dtypes[b.dtype].bits + m * n * dtypes[d.dtype].bits;
  const multiply = (2 * m * n * k * batch) / (rate * machine.sms * 1e3);
  return Math.max(multiply, (batch * bits) / 8 / (machine.memoryGBs * 1e3)) + machine.launchNs / 1e3;
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
    busyUs: run.busyUs,
    causes: run.causes,
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

/** Bytes of a sector. */
const SECTOR = 32;

/** Cycles that L2 takes for a part of a sector from each of all SMs: where rows of D begin at sectors, and where they do not (1.19 of a kernel's 2.4 us a tile at 4095x4097x4104) [measured, H200]. */
const partCycles = { aligned: 2, unaligned: 5 } as const;

/** Cycles that an SM takes to hand a tile of `bytes` to L2. */
function storeCycles(problem: Problem, kernel: ModelKernel, bytes: number, machine: Machine): number {
  if (kernel.storeBytes >= SECTOR) return bytes / machine.storeBytes;
  const pitch = (problem.d.ld * dtypes[problem.d.dtype].bits) / 8;
  return (bytes / kernel.storeBytes) * partCycles[pitch % SECTOR === 0 ? "aligned" : "unaligned"];
}

/** Of an epilogue what hides behind the products of a tile's second half, where blocks have one tile and halves are wide; narrow ones cost more than they hide, nanoseconds [measured, H200]. */
const halvesNs = { wide: -380, narrow: 160 } as const;
const WIDE_HALF = 128;

/**
 * Blocks that share a tile: microseconds, and bytes of parts a microsecond: of a tile's parts where its last block adds them, of all parts where memory takes them, of
 * one part where each block sends its own [measured, H200: least squares over 467 wgmma kernels of 18 sizes].
 */
const meetings = {
  last: { fixed: 1.5, bytes: 140_000, of: "tile" },
  atomics: { fixed: 1.29, bytes: 1.23e6, of: "all" },
  bulk: { fixed: 1.29, bytes: 1.23e6, of: "all" },
  kernel: { fixed: 3.8, bytes: 2.57e6, of: "all" },
  cluster: { fixed: 1, bytes: 60_000, of: "part" },
  slices: { fixed: 0.9, bytes: 2.8e6, of: "all" },
} as const satisfies Record<ReductionKind, unknown>;
/** Of a cluster with few rows to exchange: 8x4096x4096, 32x4096x4096 and 16x4096x11008 gain 0.4 to 0.5 us where two blocks share each of 64 tiles. */
const FEW_ROWS_MEET = 0.1;

/** Microseconds for `part` bytes a block and `parts` of a tile. */
function meetingTime({ combine, swapped }: ModelKernel, part: number, parts: number, blocks: number): number {
  const { fixed, bytes, of } = meetings[combine];
  const counted = { part: 1, tile: parts, all: blocks }[of];
  return (swapped && combine === "cluster" ? FEW_ROWS_MEET : fixed) + (counted * part) / bytes;
}

function runAt(problem: Problem, kernel: ModelKernel, machine: Machine, ghz: number): Run {
  const { m, n, k, d } = problem;
  const batch = problem.batch.kind === "none" ? 1 : problem.batch.count;
  const [tm, tn, tk] = kernel.tile;
  const [clusterM, clusterN] = kernel.multicast;
  // Clusters are launched whole.
  const along = (extent: number, tile: number, blocks: number): number =>
    Math.ceil(Math.ceil(extent / tile) / blocks) * blocks;
  const tiles = along(m, tm, clusterM) * along(n, tn, clusterN) * batch * kernel.split;
  const chunks = Math.ceil(Math.ceil(k / tk) / kernel.split);
  const units = unitsOf(machine, kernel);
  const active = Math.min(machine.sms, tiles * kernel.unit);
  const cost = chunkCost(machine, kernel, problem, ghz, active);
  const share = blockTileOf(kernel);

  const store = (share.rows * share.cols * dtypes[d.dtype].bits) / 8;
  // Blocks that share a tile leave their parts in the workspace.
  const streams = streamKCut(kernel.streamk, tiles / batch, chunks);
  const part = kernel.split > 1 || streams !== null ? share.rows * share.cols * 4 : 0;
  const epilogueBusy = Math.max(
    storeCycles(problem, kernel, store, machine) + part / machine.storeBytes,
    machine.tensorMemoryBytes > 0 ? (share.rows * share.cols * 4) / machine.tensorMemoryBytes : 0,
  );
  // C comes in as D goes out, lane by lane; brought ahead it is there when the accumulator is.
  const sourceTileBytes =
    kernel.addend === "direct" ? (share.rows * share.cols * dtypes[(problem.c ?? d).dtype].bits) / 8 : 0;
  const addendBusy = sourceTileBytes / Math.min(1, kernel.storeBytes / 32) / machine.intakeBytes;
  const [load, handOver, start, next] = [
    machine.loadNs,
    machine.handOverNs,
    machine.startNs,
    machine.nextNs,
  ].map((ns) => ns * ghz) as [number, number, number, number];
  // Stores need as long to L2 as loads from it; then the accumulator, or the block, is free.
  const parts = streams === null ? kernel.split : Math.ceil(chunks / streams.each) + 1;
  const oneRound = tiles <= machine.sms;
  const hidden =
    kernel.halves === 0 ? 0 : kernel.halves < WIDE_HALF ? halvesNs.narrow : oneRound ? halvesNs.wide : 0;
  const epilogue =
    hidden * ghz + epilogueBusy + addendBusy + (kernel.addend === "direct" ? load : 0) + load + handOver;

  let cycles = 0;
  let mainCycles = 0;
  let rounds = 0;
  if (kernel.sched === "tiles") {
    const resident = Math.max(1, kernel.residents);
    const round = (count: number): number => {
      const main = chunks * chunkCycles(cost, count);
      mainCycles += main;
      // Other blocks of the SM multiply while one starts or ends.
      const ends = next + load + epilogue;
      return main + Math.max(ends - main * (1 - 1 / count), count * epilogueBusy);
    };
    const full = Math.floor(tiles / (units * resident));
    const rest = Math.ceil((tiles - full * units * resident) / units);
    const one = full > 0 ? round(resident) : 0;
    mainCycles *= full;
    cycles = full * one + (rest > 0 ? round(rest) : 0);
    rounds = full + (rest > 0 ? 1 : 0);
    cycles += start - next;
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
  const meetingUs = part === 0 ? 0 : meetingTime(kernel, part, parts, tiles);
  const bytes = memoryBytes(problem, kernel, units * kernel.residents, machine.l2Bytes);
  const smUs = cycles / (ghz * 1e3);
  const memoryUs = bytes / (machine.memoryGBs * machine.memoryShare * 1e3);
  const all = tiles * kernel.unit * chunks;
  const busy = (cycles: number): number => (all * cycles) / active / (ghz * 1e3);
  const toUs = (cycles: number): number => cycles / (ghz * 1e3);
  const launchUs = machine.launchNs / 1e3;
  const starts = kernel.sched === "tiles" ? start - next + rounds * (next + load) : start + load;
  const ends = Math.max(0, cycles - mainCycles);
  const filled = rounds === 0 ? 1 : Math.min(1, tiles / (units * Math.max(1, kernel.residents)) / rounds);
  return {
    causes: {
      ...chunkCauses(cost, kernel, toUs(mainCycles) * filled),
      "idle SMs": toUs(mainCycles) * (1 - filled),
      start: toUs(Math.min(starts, ends)),
      epilogue: toUs(Math.max(0, ends - starts)),
      reduction: meetingUs,
      DRAM: norm(wholeNorm, smUs, memoryUs) - smUs,
      launch: launchUs,
    },
    busyUs: {
      multiply: busy(cost.multiply),
      "shared memory": busy(cost.shared),
      L2: busy(cost.intake),
      "copy engine": busy(cost.requests),
      DRAM: memoryUs,
    },
    us: norm(wholeNorm, smUs, memoryUs) + meetingUs + launchUs,
    chunksUs: mainCycles / (ghz * 1e3),
    tilesUs: (cycles - mainCycles) / (ghz * 1e3) + meetingUs,
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

/** `us` of chunks by cause: products first, what is left by the slowest unit. */
function chunkCauses(cost: ChunkCost, { residents }: ModelKernel, us: number) {
  const bound = boundOf(cost, residents);
  const all = chunkCycles(cost, residents);
  const multiply = all === 0 ? 0 : us * Math.min(1, (residents * cost.multiply) / all);
  const rest = us - multiply;
  const of = (name: Prediction["bound"]): number => (bound === name ? rest : 0);
  return {
    multiply: multiply + of("multiply"),
    "shared memory": of("shared memory"),
    L2: of("L2"),
    "copy engine": of("copy engine"),
    latency: of("ring") + of("hand-over"),
  };
}

function boundOf(cost: ChunkCost, residents: number): Prediction["bound"] {
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
