/** What a launch counts, in closed forms: tests hold them equal to what the statements and declarations of its program come to. */
import { type Problem, sizeOf } from "@tilewright/core";
import { streamKFor } from "../tile/streamK.ts";
import { blockTileOf } from "./chunk.ts";
import type { ModelKernel } from "./kernel.ts";
import { engineRow } from "./machine.ts";

/** Partial tiles that CTAs leave for each other. */
export interface PartialCounts {
  /** Bytes of one, of a CTA; and as they would be of sums in f32, of which costs are fits. */
  readonly bytes: number;
  readonly asF32: number;
  /** Most of a work tile. */
  readonly most: number;
  /** Of all work tiles, of CTAs or pairs. */
  readonly handed: number;
}

/** Chunks of each of so many units that share tiles, and the whole tiles of each. */
interface StreamCounts {
  readonly each: number;
  readonly whole: number;
  readonly tiles: number;
}

export interface LaunchCounts {
  /** Problems of the batch. */
  readonly batch: number;
  /** Work tiles of all problems, those that clusters round up to included: each part of a split tile counts. */
  readonly tiles: number;
  /** K chunks of each. */
  readonly chunks: number;
  /** Null where no unit has parts of tiles. */
  readonly streams: StreamCounts | null;
  /** Null where no CTAs share a tile. */
  readonly partials: PartialCounts | null;
}

/** Bytes of a sum in f32, and of a column of tensor memory, whatever it holds. */
const WORD = 4;

export function launchCounts(problem: Problem, kernel: ModelKernel): LaunchCounts {
  const { m, n, k, batch: of } = problem;
  const batch = of.kind === "none" ? 1 : of.count;
  const [tm, tn, tk] = kernel.tile;
  const [clusterM, clusterN] = kernel.multicast;
  // Clusters are launched whole.
  const along = (extent: number, tile: number, blocks: number): number =>
    Math.ceil(Math.ceil(extent / tile) / blocks) * blocks;
  const tiles = along(m, tm, clusterM) * along(n, tn, clusterN) * batch * kernel.split;
  const chunks = Math.ceil(Math.ceil(k / tk) / kernel.split);
  const streams = streamKCut(kernel.streamk, tiles / batch, chunks);
  return {
    ...{ batch, tiles, chunks, streams },
    partials:
      kernel.split === 1 && streams === null
        ? null
        : {
            ...partialBytes(problem, kernel),
            most: streams === null ? kernel.split : Math.ceil(chunks / streams.each) + 1,
            handed: streams === null ? tiles : (kernel.streamk + streams.tiles) * batch,
          },
  };
}

/** Bytes of the partial tile of a CTA: its registers, or words of tensor memory. */
export function partialBytes(
  { acc }: Pick<Problem, "acc">,
  kernel: ModelKernel,
): Pick<PartialCounts, "bytes" | "asF32"> {
  const { rows, cols } = blockTileOf(kernel);
  const each = engineRow(kernel.engine).fullRows > 0 ? WORD : sizeOf(acc);
  return { bytes: rows * cols * each, asF32: rows * cols * WORD };
}

/** Null where tiles fill whole waves, or nobody shares. */
function streamKCut(units: number, tiles: number, chunks: number): StreamCounts | null {
  const shares = streamKFor(tiles, chunks, units, true);
  return shares === null
    ? null
    : { each: shares.each, whole: (tiles - shares.tiles) / units, tiles: shares.tiles };
}
