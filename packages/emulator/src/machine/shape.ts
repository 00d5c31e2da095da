/** What a launch is: which blocks are there together, how much each of them takes, and where it lies. */
import { type Checked, ok, roundUp } from "@tilewright/core";
import type { LaunchConfig, MemoryRange, Order } from "../api.ts";
import type { Range } from "../checkers/global-race.ts";
import type { Block } from "../compile/blocks.ts";
import type { Scratch } from "../compile/environment.ts";
import { geometryIndex } from "../isa/special.ts";
import type { KernelProgram } from "../load/module.ts";
import type { Arena } from "../memory/arena.ts";
import type { TensorArithmetic } from "../numerics/tensorcore.ts";
import { defaultRegisters } from "./registers.ts";

export type Vector = readonly [number, number, number];

/** A stretch of the waves of a launch; `to` is Infinity for the last one. */
export interface WaveRange {
  readonly from: number;
  readonly to: number;
}

/** What a launch has been checked to be (machine/validate.ts). */
export interface LaunchShape {
  readonly grid: Vector;
  readonly block: Vector;
  readonly cluster: Vector;
  readonly explicitCluster: boolean;
  readonly dynamicShared: number;
  /** Bytes of each block's shared window. */
  readonly sharedBytes: number;
  readonly order: Order;
  readonly seed: number;
  readonly fuel: number;
  /** Clusters resident at a time. */
  readonly resident: number;
  /** Registers per thread at the start, for setmaxnreg. */
  readonly registersPerThread: number;
  /**
   * Clusters that know nothing of one another run in waves, each from its own random numbers on, so that waves can be run apart:
   * those from `from` up to `to`. Null for all others: the next cluster starts when one ends.
   */
  readonly waves: WaveRange | null;
  /** Memory of the grid before that this one may overtake (LaunchConfig.before). */
  readonly before: { readonly writes: readonly Range[]; readonly reads: readonly Range[] };
  /** Whose tensor cores compute. */
  readonly arithmetic: TensorArithmetic;
}

/** Where the launch's own memory lies in the arena. */
export interface LaunchArea {
  readonly parameters: number;
  /** Bytes per block of each kind, and where the first block's begin. */
  readonly registers: number;
  readonly registerBytes: number;
  readonly shared: number;
  readonly sharedStride: number;
  readonly local: number;
  readonly localBytes: number;
}

/** Blocks of a kernel that waits for other blocks. */
const defaultResident = 512;
/** Three times what a GEMM of 2048 cubed takes, and a minute or two of time. */
export const defaultFuel = 1e9;
/** Clusters that a kernel with cluster launch control starts with: few, so that most of the work is taken over by them. */
const startedClusters = (order: Order, seed: number): number =>
  order === "random" ? 1 + (Math.abs(seed) % 3) : order === "eager" ? 2 : 1;
/** Launch state (registers, shared memory) that co-resident blocks may take together. */
const residentBytes = 2 ** 28;

/** The shape that the configuration asks for. `wantedResident`: blocks to have at a time, null for as many as the kernel wants. */
export function shapeOf(
  program: KernelProgram,
  config: LaunchConfig,
  wantedResident: number | null,
): Omit<LaunchShape, "arithmetic" | "waves"> {
  const { kernel } = program;
  const dynamicShared = config.dynamicSmem ?? 0;
  const cluster = config.cluster ?? kernel.requiredCluster ?? [1, 1, 1];
  const sharedBytes =
    dynamicShared > 0 || kernel.dynamicSharedOffset > roundUp(kernel.staticShared, 16)
      ? kernel.dynamicSharedOffset + dynamicShared
      : kernel.staticShared;
  const ranks = cluster[0] * cluster[1] * cluster[2];
  const clusters = (config.grid[0] * config.grid[1] * config.grid[2]) / ranks;
  const perBlock = bytesPerBlock(program, config.block, sharedBytes);
  const polls = program.blocks.some((b) => b.polls && pollsMemory(b));
  const order = config.order ?? "eager";
  // Blocks that wait for one another have to be there; in random order a few at a time exercise their interleaving.
  const wanted = wantedResident ?? (polls ? defaultResident : order === "random" ? 4 : 1);
  const taking = kernel.instructions.some((i) => i.mnemonic.startsWith("clusterlaunchcontrol.try_cancel"));
  const started =
    config.residentClusters ??
    (taking ? startedClusters(order, config.seed ?? 1) : Math.ceil(wanted / ranks));
  const fitting = Math.max(1, Math.floor(residentBytes / Math.max(1, perBlock * ranks)));
  return {
    grid: config.grid,
    block: config.block,
    cluster,
    explicitCluster: config.cluster !== undefined || kernel.requiredCluster !== null,
    dynamicShared,
    sharedBytes,
    order,
    seed: config.seed ?? 1,
    fuel: config.fuel ?? defaultFuel,
    registersPerThread:
      config.registersPerThread ??
      kernel.maxRegisters ??
      defaultRegisters(kernel.maxThreads ?? config.block[0] * config.block[1] * config.block[2]),
    resident: Math.max(1, Math.min(started, fitting, clusters)),
    before: {
      writes: (config.before?.writes ?? []).map(rangeOf),
      reads: (config.before?.reads ?? []).map(rangeOf),
    },
  };
}

const rangeOf = ({ pointer, bytes }: MemoryRange): Range => ({ at: Number(pointer & 0xffffffffn), bytes });

function bytesPerBlock(program: KernelProgram, block: LaunchConfig["block"], sharedBytes: number): number {
  const threads = block[0] * block[1] * block[2];
  const warps = Math.ceil(threads / 32);
  return warps * program.slots * 128 + roundUp(sharedBytes, 1024) + warps * 32 * program.kernel.localBytes;
}

/** Lay the launch's memory out behind the heap. Error: the memory limit. */
export function placeLaunch(
  arena: Arena,
  program: KernelProgram,
  shape: LaunchShape,
): Checked<LaunchArea & { readonly end: number }> {
  const { kernel, slots } = program;
  const warps = Math.ceil((shape.block[0] * shape.block[1] * shape.block[2]) / 32);
  const places = shape.resident * shape.cluster[0] * shape.cluster[1] * shape.cluster[2];
  const parameters = roundUp(arena.heapTop, 1024);
  const registers = roundUp(parameters + Math.max(16, kernel.parameterBytes), 1024);
  const registerBytes = warps * slots * 32 * 4;
  const shared = roundUp(registers + places * registerBytes, 1024);
  const sharedStride = roundUp(Math.max(1, shape.sharedBytes), 1024);
  const local = shared + places * sharedStride;
  const localBytes = warps * 32 * kernel.localBytes;
  const end = local + places * localBytes + 1024;
  const grown = arena.ensure(end);
  if (!grown.ok) return grown;
  return ok({ parameters, registers, registerBytes, shared, sharedStride, local, localBytes, end });
}

/** What generated code reads of the launch's geometry. */
export function fillGeometry(scratch: Scratch, shape: LaunchShape): void {
  const { geometry, tid } = scratch;
  for (let k = 0; k < 3; k++) {
    geometry[geometryIndex.ntid + k] = shape.block[k] ?? 1;
    geometry[geometryIndex.nctaid + k] = shape.grid[k] ?? 1;
    geometry[geometryIndex.clusterCtas + k] = shape.cluster[k] ?? 1;
    geometry[geometryIndex.clusters + k] = (shape.grid[k] ?? 1) / (shape.cluster[k] ?? 1);
  }
  const [nx, ny] = shape.block;
  for (let t = 0; t < tid[0].length; t++) {
    tid[0][t] = t % nx;
    tid[1][t] = Math.floor(t / nx) % ny;
    tid[2][t] = Math.floor(t / (nx * ny));
  }
}

/** Whether a block reads memory that other thread blocks may write: an mbarrier.test_wait only asks its own cluster. */
const pollsMemory = (block: Block): boolean =>
  block.pieces.some((piece) =>
    (piece.kind === "region" ? piece.instructions : [piece.instruction]).some(
      (i) => i.strongRead && !i.mnemonic.startsWith("mbarrier."),
    ),
  );
