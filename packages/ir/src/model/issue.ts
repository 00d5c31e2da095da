/**
 * Chunks of engines whose warps issue every product and wait for what they read: FFMA and mma.sync. Constants are cycles of an SM unless said, fitted on an H200 in relative
 * error: those of FFMA to 75 schedules of 32 sizes and layouts (3.5 % in the mean, docs/perf/simt.md), those of mma.sync to 379 schedules of 11 sizes in f16 (7 % root of the mean
 * square). The clock that a full load leaves is in them.
 */
import { dtypes, type Problem } from "@tilewright/core";
import type { ModelKernel } from "./kernel.ts";
import type { Machine } from "./machine.ts";
import { norm } from "./norm.ts";

/** Schedulers of an SM, each of which issues an instruction of 32 lanes a cycle. */
const SCHEDULERS = 4;
const LANES = 32;

/** What differs between the two engines beside a chunk. */
export interface IssueEngine {
  /** Of a launch beyond the one with nothing in it, nanoseconds. */
  readonly launchNs: number;
  /** Of a block beside its chunks: launch, first chunks, barriers; of one that is persistent. */
  readonly block: number;
  readonly tile: number;
  /** Of each accumulator of a thread: whole sectors, and parts of them. */
  readonly storeWide: number;
  readonly store: number;
  /** Bytes a cycle and SM that L2 gives to all SMs. */
  readonly l2Bytes: number;
  /** Exponent of the SMs beside L2 and DRAM. */
  readonly norm: number;
}

const engines: Readonly<Partial<Record<ModelKernel["engine"], IssueEngine>>> = {
  fma: { launchNs: 890, block: 774, tile: 774, storeWide: 0, store: 0, l2Bytes: 30.2, norm: 6.96 },
  mma: { launchNs: 1000, block: 3550, tile: 710, storeWide: 3, store: 12, l2Bytes: 60.6, norm: 5 },
};

/** The costs of an engine whose warps issue products; undefined of those that multiply beside the warps. */
export const issueEngine = ({ engine }: Pick<ModelKernel, "engine">): IssueEngine | undefined =>
  engines[engine];

/** FFMA: issue slots, and what one warp waits for alone. */
const fma = {
  /** Slots of a multiply-add, with its share of bank conflicts; of a vector of fragments; of a copy with its address; of a copied element that lies in a line of its own; of a chunk. */
  multiplyAdd: 1.06,
  fragment: 1.83,
  copy: 2.31,
  line: 2,
  loop: 56.5,
  /** Waited for in a K step with fragments loaded ahead, and without; in a chunk; in one whose copies pass through registers. */
  step: 4.02,
  bareStep: 9.76,
  chunk: 17.6,
  through: 232,
  /** Of each instruction of a main loop beyond those that the instruction cache holds near: loops of 1150 run at full speed, of 2200 do not. */
  fetch: 0.146,
  near: 1400,
  /** Of a load from memory or L2. */
  latency: 774,
  norm: 4.71,
} as const;

/** mma.sync: what keeps four tensor pipes from its rate. */
const mma = {
  /** Warps that keep the pipes busy, two a pipe; what fewer do is that share to a power, smaller where a warp of its own copies. */
  warps: 8,
  few: { specialised: 0.1, alone: 0.33 },
  /** Of the bytes that copies write to shared memory, the share that keeps fragments from being read. */
  written: 0.66,
  /** Of a chunk: barrier, first fragments; blocks of an SM hide it from each other. A warp that waits for copies alone waits less. */
  barrier: 78,
  arrival: 10,
  /** Chunks of less than a row of banks. */
  bankRow: 128,
  narrow: 1.18,
  /** From the issue of a chunk's copies to its arrival; later stages hide it as far as their arithmetic lasts. */
  latency: 800,
  /** f32 in parts: three instructions and their share of the additions; taking a fragment's register apart. */
  inParts: 3.44,
  splitting: 18.8,
  norm: 3,
} as const;

/** What of a chunk of one block `chunkCost` has counted: cycles at the engine's rate, bytes of operands along K. */
interface Counted {
  readonly multiply: number;
  readonly kBytes: number;
  readonly sharedBytes: number;
}

/** Cycles of `count` blocks of an SM that do a chunk each. */
export interface IssuedChunk {
  readonly cycles: number;
  readonly multiply: number;
  readonly shared: number;
}

export const issuedChunk = (
  machine: Machine,
  kernel: ModelKernel,
  problem: Problem,
  counted: Counted,
  count: number,
): IssuedChunk =>
  kernel.engine === "fma"
    ? fmaChunk(machine, kernel, counted, count)
    : mmaChunk(machine, kernel, problem, counted, count);

function fmaChunk(
  machine: Machine,
  kernel: ModelKernel,
  { sharedBytes }: Counted,
  count: number,
): IssuedChunk {
  const [tm, tn] = kernel.instruction;
  const [m, n, k] = kernel.tile;
  const [vectorA, vectorB] = kernel.copyVector ?? [4, 4];
  const { fragmentLoads, copies, lines, fragments, ahead, staged } = kernel.work ?? {
    fragmentLoads: Math.ceil(tm / 4) + Math.ceil(tn / 4),
    copies: ((kernel.through ? 2 : 1) * (m / vectorA + n / vectorB) * k) / kernel.threads,
    lines: 0,
    fragments: 2,
    ahead: kernel.stages - 1,
    staged: true,
  };
  const slots =
    k * (tm * tn * fma.multiplyAdd + fragmentLoads * fma.fragment) +
    copies * fma.copy +
    lines * fma.line +
    fma.loop;
  const warps = Math.ceil((count * kernel.threads) / LANES / SCHEDULERS);
  // Where an SM has fewer lanes than its schedulers issue for, they are busy longer than the slots.
  const lanes = (machine.flopsPerCycle.fma ?? 0) / 2;
  const busy = Math.max(slots, (k * tm * tn * fma.multiplyAdd * LANES * SCHEDULERS) / lanes);
  // Fragments that come from memory are waited for in each step that loads them, or once where ptxas loads all of a chunk.
  const straight = staged ? 0 : fragments > 1 ? (k * fma.latency) / 2 : fma.latency;
  const far = Math.max(0, slots - fma.near) * fma.fetch;
  const through = kernel.through ? fma.through : 0;
  const bare = ahead === 0 && staged ? fma.latency : 0;
  const alone = busy + k * (fragments > 1 ? fma.step : fma.bareStep) + fma.chunk + straight + bare + through;
  const multiply = warps * (busy + far + through / 2);
  const cycles = norm(fma.norm, multiply, alone, staged && ahead > 0 ? fma.latency / ahead : 0);
  return { cycles, multiply, shared: (count * sharedBytes) / 128 };
}

function mmaChunk(
  machine: Machine,
  kernel: ModelKernel,
  problem: Problem,
  { multiply: one, kBytes, sharedBytes }: Counted,
  count: number,
): IssuedChunk {
  const [warpM, warpN] = kernel.instruction;
  const [m, n, k] = kernel.tile;
  const warps = (count * m * n) / (warpM * warpN);
  const busy = Math.min(1, (warps / mma.warps) ** mma.few[kernel.specialised ? "specialised" : "alone"]);
  const times = problem.precision === "3xtf32" ? mma.inParts + mma.splitting * (1 / warpM + 1 / warpN) : 1;
  const narrow = kBytes < mma.bankRow && problem.k > k ? mma.narrow : 1;
  const multiply = (count * one * times * narrow) / busy;
  const shared = (count * (sharedBytes + mma.written * (m + n) * kBytes)) / machine.sharedBytes;
  const exposed = Math.max(0, mma.latency - (kernel.stages - 1) * Math.max(multiply, shared));
  const cycles =
    norm(mma.norm, multiply, shared) + (kernel.specialised ? mma.arrival : mma.barrier) / count + exposed;
  return { cycles, multiply, shared };
}

/** Cycles of a block beside its chunks. */
export function blockCycles(kernel: ModelKernel, problem: Problem): number {
  const costs = issueEngine(kernel);
  if (costs === undefined) return 0;
  const [m, n] = kernel.tile;
  const sums = (m * n) / (kernel.threads - (kernel.specialised ? LANES : 0));
  const wide = kernel.storeBytes >= SECTOR || dtypes[problem.d.dtype].bits > 16;
  return (
    (kernel.sched === "tiles" ? costs.block : costs.tile) + sums * (wide ? costs.storeWide : costs.store)
  );
}

const SECTOR = 32;
