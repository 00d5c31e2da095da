/**
 * Time of a kernel on a GPU from what the machine is, for ranking schedules and for `plan`. A prediction: docs/perf/model.md has it
 * beside published and measured figures, with its errors.
 */

import type { Problem } from "@tilewright/core";
import { dtypes } from "@tilewright/core";
import { besideWarps, issuedByWarps, type Work } from "./busiest.ts";
import { type Chunk, chunkAt, chunkCost, dtypeSpeed, flopEnergy, wholeNorm } from "./chunk.ts";
import { launchCounts } from "./counts.ts";
import { blockCycles, issueEngine } from "./issue.ts";
import type { ModelKernel } from "./kernel.ts";
import { type Engine, energyGHz, type Machine, voltageExponent } from "./machine.ts";
import { norm } from "./norm.ts";
import { reductionTime } from "./reductions.ts";
import { firstBytes, memoryBytes, shortRuns, slowWrites, transposingTime } from "./traffic.ts";

/**
 * What time goes to: products; what threads compute of elements between products beyond what these hide; what a chunk takes longer than its products, by the unit that it waits for (`latency`: ring and hand-overs, which no unit explains); SMs that
 * have no tile in the last round; starts of blocks with their first loads; epilogues; reductions of split tiles; DRAM beyond what the SMs take; the launch; what measured
 * kernels of other problems say that the rest of these have too little or, below 0, too much (model/residuals.ts).
 */
export const causes = [
  "multiply",
  "elements",
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
  "residual",
] as const;
export type Cause = (typeof causes)[number];
export type Causes = Readonly<Record<Cause, number>>;

/** What most of the time goes to. */
export type Bound =
  | "multiply"
  | "elements"
  | "shared memory"
  | "L2"
  | "copy engine"
  | "ring"
  | "hand-over"
  | "DRAM";

export interface Prediction {
  /** Of a program whose products follow each other: FLOP of those that it computes, and bytes of its matrices, each once. Absent of one product, whose problem says both. */
  readonly work?: { readonly flops: number; readonly bytes: number };
  readonly timeUs: number;
  /** FLOP of the problem over `timeUs`. */
  readonly tflops: number;
  /** Clock of the SMs: below boost where the power cap holds it down. */
  readonly ghz: number;
  readonly watts: number;
  /** What most of a chunk's time goes to. */
  readonly bound: Bound;
  /** Rounds in which the units work through the tiles. */
  readonly rounds: number;
  /** BlockTile of the time in which the multiplying units of all SMs are busy. */
  readonly busy: number;
  /** Parts of `timeUs`: all chunks, starts and ends of blocks or tiles that nothing hides, the launch. */
  readonly parts: { readonly chunksUs: number; readonly tilesUs: number; readonly launchUs: number };
  /** Microseconds of `timeUs` by cause; their sum is `timeUs`. */
  readonly causes: Causes;
  /** Microseconds in which each unit of an SM is busy with chunks, its threads with elements, and DRAM with the launch: they overlap. */
  readonly busyUs: Readonly<
    Record<"multiply" | "elements" | "shared memory" | "L2" | "copy engine" | "DRAM", number>
  >;
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

/** Clusters of so many blocks that are resident at once, where an SM has room for `perSm` blocks: by the GPCs that are known, as if the GPU had as many of each for its SMs. */
function clustersAtOnce({ gpcs, sms }: Machine, blocks: number, perSm: number): number {
  const known = gpcs.reduce((sum, gpc) => sum + gpc.count * gpc.sms, 0);
  const pairs = 2 * Math.ceil(blocks / 2);
  const fit = gpcs.reduce((sum, gpc) => sum + gpc.count * Math.floor((gpc.sms * perSm) / pairs), 0);
  return Math.floor((fit * sms) / known / perSm);
}

/** Units that a launch has at once. */
function unitsOf(machine: Machine, kernel: ModelKernel): number {
  const meeting = kernel.combine === "cluster" ? kernel.split : 1;
  const cluster = kernel.unit * kernel.multicast[0] * kernel.multicast[1] * meeting;
  const residents = Math.max(1, kernel.residents);
  // Clusters lie in a GPC each, some of whose SMs stay empty.
  const clusters =
    machine.clusters[cluster] ??
    (cluster <= 2 ? Math.floor(machine.sms / cluster) : clustersAtOnce(machine, cluster, residents));
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
  const picojoules = flops * flopEnergy(machine, problem, kernel.engine);
  // Where warps issue products, the constants hold at the clock that their load leaves.
  const fixed = issueEngine(kernel) === undefined ? null : runAt(problem, kernel, machine, machine.boostGHz);
  const at = (ghz: number) => {
    const run = fixed ?? runAt(problem, kernel, machine, ghz);
    return { run, watts: wattsOf(run, picojoules, machine, ghz) };
  };
  const ghz = clockUnder(machine, (clock) => at(clock).watts);
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
    parts: { chunksUs: run.chunksUs, tilesUs: run.tilesUs, launchUs: run.causes.launch },
  };
}

/** Of the power cap: how far below it the clock may leave the power. */
const NEAR_CAP = 3e-5;

/** The highest clock, GHz, at which the power stays at the cap: power grows with nearly the fifth power of the clock, by which each step aims at it. */
export function clockUnder(machine: Machine, wattsAt: (ghz: number) => number): number {
  let ghz = machine.boostGHz;
  const cap = machine.powerCap ?? Number.POSITIVE_INFINITY;
  let watts = wattsAt(ghz);
  if (watts <= cap) return ghz;
  let exponent = 5;
  for (let step = 0; step < 20 && (watts > cap || watts < cap * (1 - NEAR_CAP)); step++) {
    const next = Math.max(machine.boostGHz / 4, ghz * ((cap * (1 - NEAR_CAP / 2)) / watts) ** (1 / exponent));
    const then = wattsAt(next);
    const slope = Math.log(then / watts) / Math.log(next / ghz);
    exponent = Number.isFinite(slope) ? Math.min(8, Math.max(1, slope)) : exponent;
    [ghz, watts] = [next, then];
  }
  return ghz;
}

/**
 * Average power of a launch whose multiplications take `picojoules`. Energies on the chip grow with the voltage, and that with the
 * clock; DRAM's do not.
 */
export function wattsOf(
  run: Pick<Run, "us" | "sharedBytes" | "intakeBytes" | "memoryBytes">,
  picojoules: number,
  machine: Machine,
  ghz: number,
): number {
  const { energy } = machine;
  const chip = picojoules + run.sharedBytes * energy.sharedByte + run.intakeBytes * energy.l2Byte;
  const joules = (chip * (ghz / energyGHz) ** voltageExponent + run.memoryBytes * energy.memoryByte) * 1e-12;
  return machine.idleWatts + joules / ((run.us + machine.powerRestUs) * 1e-6);
}

function runAt(problem: Problem, kernel: ModelKernel, machine: Machine, ghz: number): Run {
  const counts = launchCounts(problem, kernel);
  const { tiles, chunks, streams, partials } = counts;
  const units = unitsOf(machine, kernel);
  const active = Math.min(machine.sms, tiles * kernel.unit);
  const cost = chunkCost(machine, kernel, problem, ghz, active);
  const issue = issueEngine(kernel);
  const work: Work = { ...counts, units, cost, ghz };
  const busiest = (issue === undefined ? besideWarps : issuedByWarps)(problem, kernel, machine, work);
  const { cycles, main, starts, rounds } = busiest;

  // Where the warps that multiply reduce, each round of their blocks does; of shares there is one.
  const turns = issue === undefined || streams !== null ? 1 : Math.max(1, rounds);
  const reductionUs = partials === null ? 0 : turns * reductionTime(kernel, partials);

  const toUs = (of: number): number => of / (ghz * 1e3);
  const all = tiles * kernel.unit * chunks;
  const resident = Math.max(1, kernel.residents);
  const bytes = memoryBytes(problem, kernel, units * kernel.residents, machine.l2Bytes, streams?.tiles ?? 0);
  const memoryRate = machine.memoryGBs * machine.memoryShare * 1e3;
  const memoryUs = ((bytes + slowWrites(problem, kernel)) * shortRuns(problem, kernel, cost)) / memoryRate;
  const transposingUs = transposingTime(kernel, machine);
  // Blocks that share a tile leave their parts in the workspace.
  const partBytes =
    kernel.combine === "cluster" || partials === null ? 0 : 2 * partials.handed * partials.asF32;
  const l2Us = toUs(
    (all * cost.intakeBytes + partBytes) / ((issue?.l2Bytes ?? machine.l2Rate) * machine.sms),
  );
  // DRAM and L2 are at rest while the first blocks begin.
  const apart = issue === undefined ? 0 : Math.min(cycles, blockCycles(kernel));
  const smUs = toUs(cycles);
  // Nothing hides the first chunks of the SMs' first blocks.
  const begun = Math.min(tiles * kernel.unit, units * kernel.unit * resident);
  const firstUs = Math.min(bytes, firstBytes(problem, kernel, cost, begun)) / memoryRate;
  const wholeUs =
    firstUs + toUs(apart) + norm(issue?.norm ?? wholeNorm, toUs(cycles - apart), l2Us, memoryUs);
  const filling = machine.fillNs * (active / machine.sms);
  const launchUs = (machine.launchNs + filling + (issue?.launchNs ?? 0)) / 1e3;
  const ends = Math.max(0, cycles - main - starts);
  const filled = rounds === 0 || streams !== null ? 1 : Math.min(1, tiles / (units * resident) / rounds);
  const chunk = chunkAt(machine, kernel, problem, cost, resident);
  const busy = (each: number): number => (all * toUs(each)) / active / resident;
  return {
    causes: {
      ...chunkCauses(chunk, toUs(main) * filled),
      "idle SMs": toUs(main) * (1 - filled),
      start: toUs(Math.min(starts, cycles - main)),
      epilogue: toUs(ends),
      reduction: reductionUs,
      DRAM: wholeUs - smUs + transposingUs,
      launch: launchUs,
      residual: 0,
    },
    busyUs: {
      multiply: busy(chunk.multiply),
      elements: 0,
      "shared memory": busy(chunk.shared),
      L2: Math.max(l2Us, busy(chunk.intake)),
      "copy engine": busy(chunk.requests),
      DRAM: memoryUs,
    },
    us: wholeUs + transposingUs + reductionUs + launchUs,
    chunksUs: toUs(main),
    tilesUs: toUs(cycles - main) + reductionUs,
    rounds,
    multiplyUs: (busy(chunk.multiply) * active) / machine.sms,
    bound: memoryUs > smUs ? "DRAM" : l2Us > smUs ? "L2" : boundOf(chunk),
    sharedBytes: all * cost.sharedBytes,
    intakeBytes: all * cost.intakeBytes,
    memoryBytes: bytes,
  };
}

/** `us` of chunks by cause: products first, what is left by the slowest unit. */
function chunkCauses(chunk: Chunk, us: number) {
  const bound = boundOf(chunk);
  const multiply = chunk.cycles === 0 ? 0 : us * Math.min(1, chunk.multiply / chunk.cycles);
  const rest = us - multiply;
  const of = (name: Prediction["bound"]): number => (bound === name ? rest : 0);
  return {
    multiply: multiply + of("multiply"),
    elements: 0,
    "shared memory": of("shared memory"),
    L2: of("L2"),
    "copy engine": of("copy engine"),
    latency: of("ring") + of("hand-over"),
  };
}

function boundOf({ cycles, multiply, shared, intake, requests, ring }: Chunk): Prediction["bound"] {
  const busy: readonly (readonly [Prediction["bound"], number])[] = [
    ["multiply", multiply],
    ["shared memory", shared],
    ["L2", intake],
    ["copy engine", requests],
    ["ring", ring],
  ];
  const worst = busy.reduce((most, each) => (each[1] > most[1] ? each : most));
  // A chain that no unit explains.
  return cycles > worst[1] * 1.1 ? "hand-over" : worst[0];
}
