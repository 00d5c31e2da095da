/** Bytes between L2 and DRAM: what the units that run at one time share, and what L2 keeps for those after them. */

import { dtypes, type Problem, packedSize } from "@tilewright/core";
import type { ChunkCost } from "./chunk.ts";
import { epilogueWork } from "./epilogue.ts";
import { issueEngine, splitRows } from "./issue.ts";
import type { ModelKernel } from "./kernel.ts";
import type { Machine } from "./machine.ts";
import { sourceBytes } from "./source.ts";

/** Share of L2 that holds operands: the rest is outputs and the copies that both halves keep. */
export const L2_FOR_OPERANDS = 0.55;

/**
 * Bytes read from and written to DRAM by one launch. A wave is a rectangle of tiles; it reads the rows of A and the columns
 * of B that it spans once. Between waves L2 keeps what fits. Blocks of `shared` tiles (of one problem) are at other chunks of K each, and share what L2 keeps alone.
 */
export function memoryBytes(
  problem: Problem,
  kernel: ModelKernel,
  units: number,
  l2Bytes: number,
  shared: number,
): number {
  const { m, n, k } = problem;
  const [tm, tn] = kernel.tile;
  const [rows, cols] = [Math.ceil(m / tm), Math.ceil(n / tn)];
  const batch = problem.batch.kind === "none" ? 1 : problem.batch.count;
  const aBytes = (m * k * dtypes[problem.a.dtype].bits) / 8;
  const bBytes = (n * k * dtypes[problem.b.dtype].bits) / 8;
  const { share } = epilogueWork(problem);
  const outputs = m * n * share * (packedSize(problem.d.dtype) + sourceBytes(problem));
  const wave = Math.max(1, Math.min(units, rows * cols));
  const [high, wide] = waveShape(kernel, wave, rows, cols);
  const waveBytes = Math.min(1, high / rows) * aBytes + Math.min(1, wide / cols) * bBytes;
  const waves = (rows * cols - shared) / wave;
  const compulsory = aBytes + bBytes;
  const apart = shared * ((tm * aBytes) / m + (tn * bBytes) / n);
  const again = Math.max(0, waves * waveBytes + apart - compulsory);
  const kept = Math.min(1, (L2_FOR_OPERANDS * l2Bytes) / compulsory);
  return batch * (compulsory + again * (1 - kept) + outputs);
}

/** Bytes that DRAM could read in the time in which it writes one in bulk, beyond that one, and beyond that of rows that begin inside sectors [fit, H200: docs/perf/model.md]. */
const bulkWrites = { rows: 0.256, split: 0.16 } as const;

/** What writing D takes longer than reading as much, in bytes read. */
export function slowWrites(problem: Problem, kernel: Pick<ModelKernel, "engine">): number {
  const { m, n, d, batch } = problem;
  const count = batch.kind === "none" ? 1 : batch.count;
  const share = issueEngine(kernel)?.writes ?? bulkWrites.rows + bulkWrites.split * splitRows(problem);
  return (share * count * m * n * dtypes[d.dtype].bits) / 8;
}

/** Time of DRAM beside what `memoryShare` says where chunks have long rows, and what rows of a line cost on top [fit, H200]. */
export const LONG_RUNS = 0.835;
const LINE_RUNS = 0.074;
const LINE = 128;

/** What DRAM takes longer for chunks whose rows are short: bytes that a copy fetches from one place of it. */
export function shortRuns(
  { b }: Pick<Problem, "b">,
  kernel: Pick<ModelKernel, "engine" | "copyVector" | "transposedBytes">,
  { kBytes }: Pick<ChunkCost, "kBytes">,
): number {
  const issued = issueEngine(kernel);
  if (issued === undefined)
    return LONG_RUNS + (LINE_RUNS * LINE) / (kernel.copyVector === null ? kBytes : LINE);
  const along = b.layout === "col" && kernel.transposedBytes === 0;
  return along ? 1 + issued.leftOfLine * Math.max(0, LINE / kBytes - 1) : 1;
}

/** Of the bytes of first chunks, which all SMs ask for at once and wait for, what they take in bytes read [fit, H200]. */
const FIRST = 1.74;

/** The same of `blocks` that begin at once: nothing hides it. Where warps issue products, blocks of the same rows wait for these once. */
export function firstBytes(
  { m, n, batch }: Problem,
  kernel: ModelKernel,
  { intakeBytes, kBytes }: Pick<ChunkCost, "intakeBytes" | "kBytes">,
  blocks: number,
): number {
  const issue = issueEngine(kernel);
  const all = blocks * intakeBytes;
  if (issue === undefined) return FIRST * all;
  const count = batch.kind === "none" ? 1 : batch.count;
  return issue.first * Math.min(all, (m + n) * count * kernel.split * kBytes);
}

/** Of a kernel that transposes operands before the main one: what it takes beside what it moves, microseconds, and bytes of reads that a byte takes on its way there and back [fit, H200: docs/perf/runs/2026-11-29-h200-unseen-tf32.json]. */
const transposing = { us: 1.6, moved: 2.43 } as const;

/** Microseconds of that kernel; 0 where there is none. */
export const transposingTime = (
  { transposedBytes }: Pick<ModelKernel, "transposedBytes">,
  { memoryGBs, memoryShare }: Machine,
): number =>
  transposedBytes === 0
    ? 0
    : transposing.us + (transposing.moved * transposedBytes) / (memoryGBs * memoryShare * 1e3);

/** Blocks of every two whose neighbour in a row of so many has the same tile row (or column). */
const paired = (count: number): number => (count % 2 === 0 ? 1 : 1 - 1 / count);

/** Of the blocks on the two SMs of a pair, which have numbers next to each other, the share that ask for the same rows of the tile, and for the same columns. */
export function askedByBoth(
  { m, n }: Pick<Problem, "m" | "n">,
  { raster, tile: [tm, tn], split, combine, multicast }: ModelKernel,
): readonly [rows: number, cols: number] {
  if (multicast[0] > 1) return [0, 1];
  if (multicast[1] > 1) return [1, 0];
  // Neighbours in a cluster that shares a tile are at other chunks of K.
  if (split > 1 && combine === "cluster") return [0, 0];
  const [rows, cols] = [Math.ceil(m / tm), Math.ceil(n / tn)];
  switch (raster.kind) {
    case "row":
      return [paired(cols), 0];
    case "col":
      return [0, paired(rows)];
    case "hilbert":
      return [0.5, 0.5];
    case "grouped":
    case "snake":
    case "blocked": {
      const high = Math.min(raster.group, rows);
      return high === 1 ? [paired(cols), 0] : [0, paired(high)];
    }
  }
}

/** Tile rows and columns of a wave of `count` tiles. */
function waveShape(
  { raster }: ModelKernel,
  count: number,
  rows: number,
  cols: number,
): readonly [number, number] {
  switch (raster.kind) {
    case "row":
      return count >= cols ? [count / cols, cols] : [1, count];
    case "col":
      return count >= rows ? [rows, count / rows] : [count, 1];
    case "hilbert": {
      const high = Math.min(Math.max(Math.sqrt(count), count / cols), rows);
      return [high, Math.min(cols, count / high)];
    }
    case "grouped":
    case "snake":
    case "blocked": {
      const high = Math.min(raster.group, rows);
      return count >= high * cols ? [count / cols, cols] : [Math.min(high, count), Math.max(1, count / high)];
    }
  }
}
