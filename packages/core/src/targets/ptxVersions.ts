/**
 * Which CUDA release first understands which PTX version.
 * Source: PTX ISA, release notes ("PTX Release History") for PTX to CUDA; CUDA toolkit release notes, table of minimum drivers, for CUDA to driver branch.
 */
import type { PtxVersion } from "../target.ts";

export interface PtxVersionRow {
  readonly ptx: PtxVersion;
  /** First CUDA release whose driver accepts it; `cuDriverGetVersion` says 1000 * major + 10 * minor. */
  readonly cuda: readonly [major: number, minor: number];
  /** First branch of the Linux driver of that release. */
  readonly branch: number;
}

/** Oldest first. */
export const ptxVersions: readonly PtxVersionRow[] = [
  { ptx: [6, 0], cuda: [9, 0], branch: 384 },
  { ptx: [6, 1], cuda: [9, 1], branch: 390 },
  { ptx: [6, 2], cuda: [9, 2], branch: 396 },
  { ptx: [6, 3], cuda: [10, 0], branch: 410 },
  { ptx: [6, 4], cuda: [10, 1], branch: 418 },
  { ptx: [6, 5], cuda: [10, 2], branch: 440 },
  { ptx: [7, 0], cuda: [11, 0], branch: 450 },
  { ptx: [7, 1], cuda: [11, 1], branch: 455 },
  { ptx: [7, 2], cuda: [11, 2], branch: 460 },
  { ptx: [7, 3], cuda: [11, 3], branch: 465 },
  { ptx: [7, 4], cuda: [11, 4], branch: 470 },
  { ptx: [7, 5], cuda: [11, 5], branch: 495 },
  { ptx: [7, 6], cuda: [11, 6], branch: 510 },
  { ptx: [7, 7], cuda: [11, 7], branch: 515 },
  { ptx: [7, 8], cuda: [11, 8], branch: 520 },
  { ptx: [8, 0], cuda: [12, 0], branch: 525 },
  { ptx: [8, 1], cuda: [12, 1], branch: 530 },
  { ptx: [8, 2], cuda: [12, 2], branch: 535 },
  { ptx: [8, 3], cuda: [12, 3], branch: 545 },
  { ptx: [8, 4], cuda: [12, 4], branch: 550 },
  { ptx: [8, 5], cuda: [12, 5], branch: 555 },
  // CUDA 12.6 still speaks PTX 8.5.
  { ptx: [8, 6], cuda: [12, 7], branch: 565 },
  { ptx: [8, 7], cuda: [12, 8], branch: 570 },
  { ptx: [8, 8], cuda: [12, 9], branch: 575 },
  { ptx: [9, 0], cuda: [13, 0], branch: 580 },
  { ptx: [9, 1], cuda: [13, 1], branch: 590 },
];

/** The release whose driver first takes text of this PTX version; null for versions newer than the table. */
export const firstCudaFor = ([major, minor]: PtxVersion): PtxVersionRow | null =>
  ptxVersions.find(({ ptx }) => ptx[0] > major || (ptx[0] === major && ptx[1] >= minor)) ?? null;
