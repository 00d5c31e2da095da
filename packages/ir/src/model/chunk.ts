/** One K chunk on one SM: what each of its units is busy for, in cycles, and how long the chunk takes. */

import {
  BLOCK_SCALE,
  type DType,
  dtypes,
  gpus,
  isScaled,
  type Operand,
  type Problem,
  packedSize,
  scaledTypes,
} from "@tilewright/core";
import { type CopyCosts, issuedChunk, issueEngine } from "./issue.ts";
import type { ModelKernel } from "./kernel.ts";
import { type Engine, engineRow, integerEnergy, type Machine, narrowExponent } from "./machine.ts";
import { norm } from "./norm.ts";
import { askedByBoth } from "./traffic.ts";
import { weightNorm, weightRatio, weightWork } from "./weights.ts";

/** Cycles of an SM. */
export interface ChunkCost {
  /** Tensor cores (FFMA: issue slots). */
  readonly multiply: number;
  /** Operands read from shared memory. */
  readonly shared: number;
  /** Operands taken in from L2. */
  readonly intake: number;
  /** Requests of the copy engine. */
  readonly requests: number;
  /** A slot's way round its ring, over the slots. */
  readonly ring: number;
  /** What nothing hides within one block: its one role turns from loads to multiplications and back. */
  readonly exposed: number;
  /** Of weights in few bits, what their making takes of the units that products keep busy, and one warpgroup's own way through a chunk. 0 of elements. */
  readonly made: number;
  readonly alone: number;
  /** Of that, waiting for copies that pass through registers. */
  readonly waited: number;
  /** Of each chunk whatever else it does: its loop, and sums that are added up elsewhere. */
  readonly fixed: number;
  /** A chunk takes no less: what it waits for was asked for a chunk before. */
  readonly least: number;
  /** Blocks of a cluster that meet: nobody begins the next chunk before. */
  readonly meeting: number;
  /** Bytes behind `shared` and `intake`, for the energy. */
  readonly sharedBytes: number;
  readonly intakeBytes: number;
  readonly kBytes: number;
}

/** The part of the tile in one SM: rows of A, rows (columns of D) of B that it loads, columns that it multiplies; A and B as the instruction has them. */
export interface BlockTile {
  readonly rows: number;
  readonly loadedCols: number;
  readonly cols: number;
}

/** A pair splits the rows of A and D, and each block loads half of B. */
export function blockTileOf({ tile: [m, n], unit, swapped }: ModelKernel): BlockTile {
  const [rows, cols] = swapped ? [n, m] : [m, n];
  return { rows: rows / unit, loadedCols: cols / unit, cols };
}

/** Bytes that the operands of a chunk make the multiplication read from shared memory. */
function readBytes(
  kernel: ModelKernel,
  { rows, loadedCols, cols }: BlockTile,
  kBytes: number,
  [rowRatio, columnRatio]: readonly [rows: number, cols: number],
): number {
  const [im, instructionN] = kernel.instruction;
  const panels = Math.ceil(rows / im);
  const columnPanels = Math.ceil(cols / instructionN);
  // A pair's instruction reads half of B from each SM.
  const b = (instructionN / cols) * loadedCols * columnRatio;
  const once = panels * columnPanels * (im * rowRatio + b) * kBytes;
  // Lanes that ask for the same words are served together, so that a load of 512 bytes takes three of four wavefronts (seen).
  return kernel.engine === "fma" ? once * 0.75 : once;
}

/** FLOP rate of a dtype of A and B over that of f16: as the datasheet's peaks. CUDA cores multiply f32 whatever the operands were. */
export function dtypeSpeed({ gpu }: Machine, dtype: DType, engine: Engine): number {
  if (engine === "fma") return 1;
  const peaks = gpus.find(({ name }) => name === gpu)?.peakTflops ?? {};
  // A dtype without tensor cores is multiplied as f16 would be at a quarter of the rate; no backend does it.
  return (peaks[sameRate[dtype] ?? dtype] ?? (peaks.f16 ?? 0) / 4) / (peaks.f16 ?? 1);
}

/** Picojoules of a FLOP of a problem's products at `energyGHz`. */
export const flopEnergy = (machine: Machine, { a }: Pick<Problem, "a">, engine: Engine): number =>
  (machine.energy.flop[engine] ?? 0) *
  dtypeSpeed(machine, a.dtype, engine) ** narrowExponent *
  (dtypes[a.dtype].kind === "int" ? integerEnergy : 1);

/** dtypes that datasheets do not list, by one of the same rate: f32 is multiplied as tf32, and kinds f8f6f4 and mxf8f6f4 have one rate. */
const sameRate: Readonly<Partial<Record<DType, DType>>> = {
  f32: "tf32",
  e2m3: "e4m3",
  e3m2: "e4m3",
  e2m1: "e4m3",
  mxf8e5m2: "mxf8",
  mxf6e2m3: "mxf8",
  mxf6e3m2: "mxf8",
};

/** Bytes of `count` neighbours along K, with their block scales of a byte each. */
const bytesAlongK = (dtype: DType, count: number): number =>
  count * (packedSize(dtype) + (isScaled(dtype) ? 1 / scaledTypes[dtype].block : 0));

/** Bytes of a line of L2, and of the sectors that it is moved in. */
const LINE = 128;
const SECTOR = 32;

/** How the rows of a chunk lie in lines of L2: the share of them that begin inside a line and so end in the next, and whether some begin inside a sector. */
function linesOf(
  operand: Operand,
  contiguous: number,
): { readonly split: number; readonly unaligned: boolean } {
  const pitch = (operand.ld * dtypes[operand.dtype].bits) / 8;
  // Places in a line at which rows begin: multiples of the largest power of two that divides the pitch.
  let step = 1;
  while (step < LINE && pitch % (2 * step) === 0) step *= 2;
  return { split: contiguous < SECTOR ? 0 : 1 - step / LINE, unaligned: step < SECTOR };
}

/** Rows that threads copy come in smaller pieces than those of an engine: 41 bytes a ns and SM at 4096x4096x4100 and 38 at 4098, whatever the tile [measured, H200]. */
const piecemeal = 1.25;

/**
 * Of warpgroups' kernels whose threads copy: cycles of the load and store unit for each instruction of a lane, through registers (a load and a store) and asynchronous; nanoseconds that a chunk
 * through registers waits for once, and a thread for each of its copies where a block has 128 [fit, H200: scripts/unseen/evaluate.ts].
 */
const besideCopies: CopyCosts = { through: 0.137, asynchronous: 0.184, chunkNs: 661, copyNs: 12.6 };
const THREADS = 128;

/** Nanoseconds of a thread for each element that it stores across the rows that it loaded [fit, H200: kernels of tf32, scripts/unseen/evaluate.ts]. */
const ACROSS_NS = 24;

/** Cycles of the copy engine for 128 bytes of a row of a box that lies outside of the matrix, beside those of any row [fit, H200: scripts/unseen/evaluate.ts]. */
const OUTSIDE_ROW = 2.4;

/**
 * What factors of blocks cost, nanoseconds of each chunk: beside its products, more where a warpgroup multiplies its rows in several waves, for each factor of columns that a
 * thread takes for a block of K, and at the least, which is a latency and what each block of K adds to it. `promoted`: the share of additions that no products of another
 * warpgroup hide, more than 1 where each sum has a scale of its own to be computed. Where threads ask for all factors a chunk ahead [fit, H200: 72 kernels at 8 sizes], where those of rows come with the chunk [fit,
 * H200: 346 kernels at 8 sizes], and those of columns, too [fit, H200: 40 kernels at 8 sizes].
 */
const factorNs = {
  threads: { chunk: 58, wave: 110, column: 0, least: 232, block: 141, promoted: 1 },
  rows: { chunk: 29, wave: 110, column: 4.3, least: 76, block: 58, promoted: 0.1 },
  columns: { chunk: 29, wave: 110, column: 2.6, least: 76, block: 58, promoted: 1.9 },
} as const;

/** Lanes of an SM that add in f32. */
const ADDERS = 128;

/** Of a chunk beside its products, nanoseconds. */
const overlooked = (machine: Machine, kernel: ModelKernel): number =>
  kernel.overlap ? 0 : kernel.sets > 1 ? machine.chunkNs : machine.loneNs;

/** Of the rows (or columns) of all tiles along `extent` those that lie in it. */
const insideShare = (extent: number, tile: number): number => extent / tile / Math.ceil(extent / tile);

/** What a chunk of `problem` costs at a clock of `ghz`, where `active` SMs work on theirs at one time; 0: as if none had to wait for what others ask for, and neighbours shared most. */
export function chunkCost(
  machine: Machine,
  kernel: ModelKernel,
  problem: Problem,
  ghz: number,
  active: number,
): ChunkCost {
  const { dtype } = problem.a;
  const share = blockTileOf(kernel);
  const kBytes = bytesAlongK(dtype, kernel.tile[2]);
  const peak = machine.flopsPerCycle[kernel.engine] ?? 0;
  if (peak === 0) throw new RangeError(`${machine.gpu} has no ${kernel.engine}`);
  const { asynchronous, fullRows } = engineRow(kernel.engine);
  const filled = fullRows === 0 ? 1 : Math.min(1, share.rows / fullRows);
  const rate =
    peak *
    (kernel.widened ? 1 : dtypeSpeed(machine, dtype, kernel.engine)) *
    filled *
    (machine.sustained[kernel.engine] ?? 1);
  const products = (2 * share.rows * share.cols * kernel.tile[2]) / rate;
  const weights = weightWork(problem, kernel, { rows: share.rows, kBytes, products, ghz });
  const multiply = weights?.multiply ?? products;
  // Of the matrix whose rows the instruction has, and of that whose columns it has.
  const inPlace = <T>(a: T, b: T): readonly [rows: T, cols: T] => (kernel.swapped ? [b, a] : [a, b]);
  const ratios = inPlace(1, weightRatio(problem));
  const [loadedRows, loadedCols] = [share.rows * ratios[0], share.loadedCols * ratios[1]];
  const sharedBytes = readBytes(kernel, share, kBytes, ratios);
  const intakeBytes = (loadedRows + loadedCols) * kBytes;
  const shared = sharedBytes / machine.sharedBytes;
  const [rowLines, columnLines] = inPlace(linesOf(problem.a, kBytes), linesOf(problem.b, kBytes));
  // Blocks of a cluster ask for each row once.
  const [clusterM, clusterN] = kernel.multicast;
  // A row that lies in two lines comes in two pieces, of which L2 looks up one for each that asks.
  const piecesOf = (rows: number, split: number, sharing: number): number =>
    rows * (1 + (split * (1 + 1 / sharing)) / 2);
  const [sharingRows, sharingColumns] = inPlace(clusterN, clusterM);
  const pieces =
    piecesOf(loadedRows, rowLines.split, sharingRows) +
    piecesOf(loadedCols, columnLines.split, sharingColumns);
  const asked =
    (rowLines.unaligned ? share.rows / sharingRows : 0) +
    (columnLines.unaligned ? share.loadedCols / sharingColumns : 0);
  const rowsOfLines = kBytes / LINE;
  const vectors = kernel.copyVector;
  const byThreads = vectors !== null;
  // Rows of the tile that lie in the matrices, on the average over all tiles.
  const [insideM, insideN] = [insideShare(problem.m, kernel.tile[0]), insideShare(problem.n, kernel.tile[1])];
  const [insideRows, insideColumns] = inPlace(insideM, insideN);
  const insideA = share.rows * insideRows;
  const insideB = share.loadedCols * insideColumns;
  const [sharedRows, sharedColumns] = inPlace(...askedByBoth(problem, kernel));
  // Instructions of a lane for a chunk.
  const copied = vectors === null ? 0 : (insideA / vectors[0] + insideB / vectors[1]) * kernel.tile[2];
  const costs = issueEngine(kernel)?.copies ?? besideCopies;
  // Engines whose warps issue products have the way from L2 in constants of their own.
  const distinct =
    active === 0
      ? loadedRows + loadedCols - Math.max(loadedRows, loadedCols) / 2
      : loadedRows * (1 - sharedRows / 2) + loadedCols * (1 - sharedColumns / 2);
  const intake = Math.max(
    (pieces * kBytes) / machine.intakeBytes,
    asynchronous ? (distinct * kBytes) / machine.distinctBytes : 0,
    ((active * asked * rowsOfLines) / machine.unalignedRows) * (byThreads ? piecemeal : 1),
    copied * costs[kernel.through ? "through" : "asynchronous"],
  );
  const outside = (share.rows - insideA + share.loadedCols - insideB) * Math.ceil(rowsOfLines);
  const requests = byThreads
    ? 0
    : ((share.rows + share.loadedCols) * Math.ceil(kBytes / Math.min(128, kernel.boxBytes))) /
        machine.copyRequests +
      OUTSIDE_ROW * outside;

  const [load, handOver, barrier] = [machine.loadNs, machine.handOverNs, machine.barrierNs].map(
    (ns) => ns * ghz,
  ) as [number, number, number];
  const round =
    load * (weights?.loads ?? 1) +
    Math.max(intake, requests) +
    Math.max(weights?.held ?? multiply, shared) +
    (asynchronous ? handOver : barrier);
  // One role that issues loads and multiplications waits for the one before it starts the other.
  const turn = kernel.specialised ? 0 : asynchronous ? handOver : barrier;
  // Nor does a thread multiply while it waits for what it copies.
  const copies = copied / kernel.threads;
  const waited = kernel.through
    ? ghz * (costs.chunkNs + (costs.copyNs * copies * THREADS + ACROSS_NS * kernel.across) / kernel.threads)
    : 0;
  const promoted = kernel.promotions / ADDERS;
  const scales = kernel.factors === null ? null : factorNs[kernel.factors.by];
  const blocks = kernel.tile[2] / BLOCK_SCALE;
  const slotNs = kernel.through ? null : (issueEngine(kernel)?.slotNs ?? null);
  const together = asynchronous && kernel.sets > 1 && !kernel.overlap && !kernel.through && weights === null;
  const waves = share.rows / (kernel.instruction[0] * (kernel.overlap ? 1 : kernel.sets));
  return {
    multiply,
    shared,
    intake,
    requests,
    ring:
      slotNs === null
        ? (round + (clusterM * clusterN > 1 ? machine.clusterNs * ghz : 0)) / kernel.stages
        : slotNs * ghz * waitingShare(problem, kernel),
    exposed: turn + waited,
    made: weights?.made ?? 0,
    alone: weights?.alone ?? 0,
    waited,
    fixed:
      (overlooked(machine, kernel) +
        (scales === null
          ? 0
          : scales.chunk +
            scales.wave * Math.max(0, waves - 1) +
            scales.column * blocks * (kernel.factors?.columns ?? 0))) *
        ghz +
      (promoted / Math.min(2, kernel.sets)) * (scales?.promoted ?? 1),
    least:
      (scales === null ? (together ? machine.togetherNs : 0) : scales.least + scales.block * blocks) * ghz,
    meeting: kernel.meets ? 2 * handOver : 0,
    sharedBytes,
    intakeBytes,
    kBytes,
  };
}

/** Of a chunk what it waits for a slot in times of its way, on the average over a block's chunks: those of the first stages are asked for at once. */
function waitingShare({ k }: Problem, { tile, split, stages }: ModelKernel): number {
  const chunks = Math.ceil(Math.ceil(k / tile[2]) / split);
  const ahead = Math.max(1, stages - 1);
  return Math.max(0, chunks - ahead) / chunks / ahead;
}

/** Where blocks of a cluster lie along n, beside what they share: they wait for each other more than along m [fit, H200]. */
const ALONG_N = 1.015;

/** Cycles of blocks of an SM that do a chunk each: all of it, and how long each unit is busy; `ring`: a slot's way round its ring. */
export interface Chunk {
  readonly cycles: number;
  readonly multiply: number;
  readonly shared: number;
  readonly intake: number;
  readonly requests: number;
  readonly ring: number;
}

/** A chunk of `count` blocks of an SM: the busiest unit of all, or one block's own chain. */
export function chunkAt(
  machine: Machine,
  kernel: ModelKernel,
  problem: Problem,
  cost: ChunkCost,
  count: number,
): Chunk {
  const [intake, requests] = [count * cost.intake, count * cost.requests];
  const issue = issueEngine(kernel);
  if (issue !== undefined) {
    const { cycles, multiply, shared } = issuedChunk(machine, kernel, problem, cost, count);
    // FFMA counts what its own copies wait for.
    const waits = kernel.engine !== "fma" && kernel.through;
    const alone = waits ? issuedChunk(machine, kernel, problem, cost, 1).cycles + cost.waited : 0;
    return {
      cycles: Math.max(
        norm(chunkNorm, cycles, intake, requests),
        alone,
        issue.slotNs === null || kernel.through ? 0 : cost.ring,
      ),
      multiply,
      shared,
      intake,
      requests,
      ring: 0,
    };
  }
  const busy = norm(chunkNorm, cost.multiply + cost.made, cost.shared, cost.intake, cost.requests);
  const own =
    cost.alone === 0
      ? Math.max(count * busy, busy + cost.exposed)
      : norm(weightNorm, count * busy, cost.alone);
  const chain = norm(chunkNorm, own, cost.ring);
  return {
    cycles:
      Math.max(cost.least, chain + cost.meeting + cost.fixed) *
      (kernel.unit === 1 && kernel.multicast[1] > 1 ? ALONG_N : 1),
    multiply: count * cost.multiply,
    shared: count * cost.shared,
    intake,
    requests,
    ring: cost.ring,
  };
}

/** Exponents: of what keeps an SM busy in a chunk, and of the SMs beside DRAM [fit, H200: scripts/unseen/evaluate.ts]. */
const chunkNorm = 10.9;
export const wholeNorm = 2.14;
