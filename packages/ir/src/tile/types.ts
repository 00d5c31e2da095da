/**
 * The tile IR: one structured program, few operations, six stages.
 *
 * A program is written from the point of view of one thread block. Buffers are 2-D tiles; statements move, multiply and
 * store whole tiles. How a tile is spread over warps, lanes and registers is data beside the buffer (`Ownership`,
 * `Distribution`, `Layout`), filled in by later passes: absent means "not decided yet", and every stage can be
 * interpreted without it. Meaning never depends on what is filled in; speed does.
 *
 * | stage | what is explicit |
 * |---|---|
 * | nest | loop nest over grid, K chunks and K steps; operands read from global memory; directives say what passes shall do |
 * | staged | shared tiles, copies global -> shared, fragments |
 * | pipelined | rings: slots, acquire / commit / wait / release, prologue, steady state, drain; fragment double buffering |
 * | specialised | roles, register budgets, how each ring edge is realised (block barrier, mbarrier, implied) |
 * | bound | layouts, ownership, distributions, vector widths, atoms, guards of the tails, raster |
 * | machine | places in shared and tensor memory, barriers of rings |
 *
 * The text form (print.ts, parse.ts) shows every field here; nothing else exists.
 */

import type { Problem } from "@tilewright/core";
import type { Directive } from "./directives.ts";
import type { Buffer, Ring } from "./types/buffers.ts";
import type { MachineDeclarations } from "./types/declarations.ts";
import type { Nest } from "./types/placement.ts";
import type { Stmt } from "./types/statements.ts";

export * from "./types/buffers.ts";
export * from "./types/declarations.ts";
export * from "./types/machineStatements.ts";
export * from "./types/placement.ts";
export * from "./types/statements.ts";
export * from "./types/workTiles.ts";

export const stages = ["nest", "staged", "pipelined", "specialised", "bound", "machine"] as const;

export type Stage = (typeof stages)[number];

/** Whether a program of stage `at` has what `stage` makes explicit. */
export const reached = (at: Stage, stage: Stage): boolean => stages.indexOf(at) >= stages.indexOf(stage);

/** Threads of the block; `warps` = threads / 32. */
export interface Launch {
  readonly threads: number;
  readonly cluster: readonly [number, number];
  /**
   * The program is that of two neighbouring blocks of a cluster, which work on one tile: tiles with `halves` are shared out between
   * them, a role runs in both with its own half, and one with `leader` in the first of them only.
   */
  readonly pair?: true;
  /**
   * The grid may begin while the one before it in the stream still runs, and lets the next one begin as soon as all its blocks have: what stands before
   * the statements needs nothing of memory, and then every thread waits for the grid before it.
   */
  readonly pdl?: true;
  /**
   * The role whose one thread copies in bulk begins with that as soon as it has made the rings' barriers ready, where else the whole block meets first, and with the only tile's
   * first chunk as soon as the barrier is ready on which that arrives (`prologueOf`); and places of D are computed while the first chunk is on its way.
   */
  readonly earlyProducerStart?: true;
  /** The cluster may have more blocks than every GPU of the target launches. */
  readonly nonPortableCluster?: true;
}

export interface TileProgram {
  /** Entry symbol of the kernel. */
  readonly name: string;
  readonly stage: Stage;
  readonly arch: string;
  readonly problem: Problem;
  readonly launch: Launch;
  /** The factorisation; null once ownership is bound (the buffers then carry it). */
  readonly nest: Nest | null;
  readonly directives: readonly Directive[];
  readonly buffers: readonly Buffer[];
  readonly rings: readonly Ring[];
  /** From stage `machine` on. */
  readonly machine?: MachineDeclarations;
  readonly body: readonly Stmt[];
}
