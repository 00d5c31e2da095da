/**
 * The target table: one row per architecture that code is made for. Data only; nothing asks for an architecture by name.
 *
 * Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" (threads, blocks, registers, shared memory,
 * cluster size); PTX ISA release notes (the first version that knows the target); PTX ISA, "Target ISA Notes" of each instruction
 * (features). What ptxas accepts for each feature and target is checked in test/targets/ptxas.test.ts.
 */
import { type Feature, hasFeature, type PtxVersion, type Target, type TargetLimits } from "../target.ts";

const KiB = 1024;

/** The same on every GPU since Volta. */
const common = {
  maxThreadsPerBlock: 1024,
  registersPerSm: 64 * KiB,
  registersPerBlock: 64 * KiB,
  maxRegistersPerThread: 255,
  defaultSmemPerBlock: 48 * KiB,
} as const;

interface SmSize {
  readonly threads: number;
  readonly blocks: number;
  readonly smem: number;
  /** Most that one block may have, with opt-in. */
  readonly blockSmem: number;
  /** Since Ampere the driver keeps 1 KiB of each block. */
  readonly reserved: 0 | 1024;
  readonly cluster?: number;
  /** The largest cluster with opt-in; the portable one unless given. */
  readonly wideCluster?: number;
  readonly tensorMemory?: number;
}

const limits = (sm: SmSize): TargetLimits => ({
  ...common,
  maxThreadsPerSm: sm.threads,
  maxBlocksPerSm: sm.blocks,
  maxSmemPerBlock: sm.blockSmem,
  smemPerSm: sm.smem,
  reservedSmemPerBlock: sm.reserved,
  maxClusterSize: sm.cluster ?? 1,
  maxWideClusterSize: sm.wideCluster ?? sm.cluster ?? 1,
  tensorMemoryColumns: sm.tensorMemory ?? 0,
});

// Features accumulate from generation to generation, except for the tensor-core instructions that only one generation has.
// Volta's own mma (m8n8k4 by quad-pairs) is no `mma.f16`: that means the m16n8 shapes that Turing began.
const turing: readonly Feature[] = ["ldmatrix", "tanh.approx", "mma.f16", "mma.s8"];
const ampere: readonly Feature[] = [
  "cp.async",
  ...turing,
  "mma.bf16",
  "mma.tf32",
  "mma.f64",
  "mbarrier",
  "max.NaN",
];
/** min and max of magnitudes with the sign of the product (PTX ISA, min). */
const ampereSmall: readonly Feature[] = [...ampere, "min.xorsign"];
const ada: readonly Feature[] = [...ampereSmall, "mma.e4m3"];
const hopperPortable: readonly Feature[] = [...ada, "stmatrix", "tma", "cluster", "pdl", "red.vector"];
const hopperShared: readonly Feature[] = [...hopperPortable, "setmaxnreg"];
const blackwell: readonly Feature[] = [...hopperShared, "clc", "f32x2", "cvt.e2m1"];

// 228 KiB of the 256 KiB L1 of a datacentre SM can be shared memory, 100 of 128 KiB in the others; a block gets 1 KiB less.
const datacentre = {
  threads: 2048,
  blocks: 32,
  smem: 228 * KiB,
  blockSmem: 227 * KiB,
  reserved: 1024,
  cluster: 8,
  wideCluster: 16,
} as const;
const small = { threads: 1536, smem: 100 * KiB, blockSmem: 99 * KiB, reserved: 1024 } as const;

function row<const Name extends string>(
  arch: Name,
  generation: string,
  minPtx: PtxVersion,
  features: readonly Feature[],
  sm: SmSize,
): Target & { readonly arch: Name } {
  const [, number = "", suffix = ""] = /^sm_(\d+)([af]?)$/.exec(arch) ?? [];
  return {
    arch,
    major: Math.floor(Number(number) / 10),
    minor: Number(number) % 10,
    portability: suffix === "a" ? "arch" : suffix === "f" ? "family" : "portable",
    generation,
    minPtx,
    features,
    limits: limits(sm),
  };
}

const rows = [
  row("sm_70", "Volta", [6, 0], [], {
    threads: 2048,
    blocks: 32,
    smem: 96 * KiB,
    blockSmem: 96 * KiB,
    reserved: 0,
  }),
  row("sm_75", "Turing", [6, 3], turing, {
    threads: 1024,
    blocks: 16,
    smem: 64 * KiB,
    blockSmem: 64 * KiB,
    reserved: 0,
  }),
  row("sm_80", "Ampere", [7, 0], ampere, {
    threads: 2048,
    blocks: 32,
    smem: 164 * KiB,
    blockSmem: 163 * KiB,
    reserved: 1024,
  }),
  row("sm_86", "Ampere", [7, 1], ampereSmall, { ...small, blocks: 16 }),
  row("sm_87", "Ampere", [7, 4], ampereSmall, {
    threads: 1536,
    blocks: 16,
    smem: 164 * KiB,
    blockSmem: 163 * KiB,
    reserved: 1024,
  }),
  row("sm_89", "Ada", [7, 8], ada, { ...small, blocks: 24 }),
  // Without what is Hopper's alone its text also runs on every later GPU.
  row("sm_90", "Hopper", [7, 8], hopperPortable, datacentre),
  row("sm_90a", "Hopper", [8, 0], [...hopperShared, "wgmma"], datacentre),
  // Text of the family also runs on sm_103; it does without what only one of its members has.
  row("sm_100f", "Blackwell", [8, 8], [...blackwell, "tma.gather4", "tcgen05"], {
    ...datacentre,
    tensorMemory: 512,
  }),
  row("sm_100a", "Blackwell", [8, 6], [...blackwell, "tma.gather4", "tcgen05", "tcgen05.i8"], {
    ...datacentre,
    tensorMemory: 512,
  }),
  row("sm_103a", "Blackwell", [8, 8], [...blackwell, "tma.gather4", "tcgen05"], {
    ...datacentre,
    tensorMemory: 512,
  }),
  row("sm_120a", "Blackwell", [8, 7], [...blackwell, "mma.blockScale"], { ...small, blocks: 24, cluster: 8 }),
];

/** Every target, oldest first. */
export const targets: readonly Target[] = rows;

/** The name of a target: `sm_90a`. */
export type ArchName = (typeof rows)[number]["arch"];

/** Targets that have a feature, oldest first. */
export const targetsSupporting = (feature: Feature): readonly Target[] =>
  targets.filter((target) => hasFeature(target, feature));

/** Which targets have a feature, for hints: `sm_80 and later`, or their names where a later one lacks it. */
export function archsWith(feature: Feature): string {
  const [first, ...others] = targetsSupporting(feature).map((target) => target.arch);
  const later = targets.slice(targets.findIndex((target) => target.arch === first) + 1);
  return later.length === others.length && later.length > 0
    ? `${first} and later`
    : [first, ...others].join(", ");
}
