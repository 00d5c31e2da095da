/** How many blocks of a kernel fit on an SM, and what stops one more. */
import { roundUp } from "../divisors.ts";
import type { Target } from "../target.ts";

export interface BlockUse {
  /** Threads of a block. */
  readonly threads: number;
  /** 32-bit registers per thread, as ptxas reports them. */
  readonly registers: number;
  /** Bytes of shared memory, static and dynamic. */
  readonly smem: number;
}

export type OccupancyLimiter = "threads" | "blocks" | "registers" | "smem";

export interface Occupancy {
  /** 0 when not even one block fits. */
  readonly blocksPerSm: number;
  readonly warpsPerSm: number;
  /** Warps over the most an SM can hold. */
  readonly fraction: number;
  /** Every resource that allows no further block. */
  readonly limiters: readonly OccupancyLimiter[];
}

// Allocation units, from the CUDA occupancy calculator: registers in 256s per warp, dealt to four partitions of an SM.
const registerUnit = 256;
const partitions = 4;
/**
 * Most registers of a thread with which a block of so many warps launches: the warps take the partitions of an SM in turn, so that nine of them are three
 * on one. ptxas shares out a block's registers evenly and does not know (on an H200 such a launch ends with error 701).
 */
export function launchableRegisters(warps: number, { limits }: Target): number {
  const perWarp = limits.registersPerBlock / partitions / Math.ceil(warps / partitions);
  return Math.min(limits.maxRegistersPerThread, (Math.floor(perWarp / registerUnit) * registerUnit) / 32);
}

/** Occupancy by the rules of NVIDIA's occupancy calculator. Threads and registers must be at least 1. */
export function occupancy(use: BlockUse, target: Target): Occupancy {
  const { limits } = target;
  const warps = Math.ceil(use.threads / 32);
  const registersPerWarp = roundUp(use.registers * 32, registerUnit);
  // A warp's registers lie in one partition.
  const warpsByRegisters = Math.floor(limits.registersPerSm / partitions / registersPerWarp) * partitions;
  const blockRegisters = registersPerWarp * roundUp(warps, partitions);
  const smemUnit = limits.reservedSmemPerBlock > 0 ? 128 : 256;
  const smem = roundUp(use.smem + limits.reservedSmemPerBlock, smemUnit);
  const fits: Record<OccupancyLimiter, number> = {
    threads: use.threads > limits.maxThreadsPerBlock ? 0 : Math.floor(limits.maxThreadsPerSm / 32 / warps),
    blocks: limits.maxBlocksPerSm,
    registers:
      use.registers > limits.maxRegistersPerThread || blockRegisters > limits.registersPerBlock
        ? 0
        : Math.floor(warpsByRegisters / warps),
    smem:
      use.smem > limits.maxSmemPerBlock
        ? 0
        : smem === 0
          ? Number.POSITIVE_INFINITY
          : Math.floor(limits.smemPerSm / smem),
  };
  const blocksPerSm = Math.min(...Object.values(fits));
  const names: readonly OccupancyLimiter[] = ["threads", "blocks", "registers", "smem"];
  return {
    blocksPerSm,
    warpsPerSm: blocksPerSm * warps,
    fraction: (blocksPerSm * warps) / (limits.maxThreadsPerSm / 32),
    limiters: names.filter((name) => fits[name] === blocksPerSm),
  };
}
