/** GPU targets as data: what an architecture can do. The table itself is in `targets/`. */

/** Threads of a warp, on every target. */
export const WARP = 32;

/** PTX ISA version, e.g. [8, 0]. */
export type PtxVersion = readonly [major: number, minor: number];

/** Capabilities that passes and backends ask for by name; never by architecture. */
export const features = [
  "cp.async",
  "ldmatrix",
  "tanh.approx",
  "stmatrix",
  "mma.f16",
  "mma.bf16",
  "mma.tf32",
  "mma.f64",
  "mma.s8",
  "mma.e4m3",
  "mma.blockScale",
  "mbarrier",
  "max.NaN",
  "min.xorsign",
  "tma",
  "tma.gather4",
  "cluster",
  "wgmma",
  "setmaxnreg",
  "tcgen05",
  "tcgen05.i8",
  "clc",
  "pdl",
  "f32x2",
  "cvt.e2m1",
  "red.vector",
] as const;

export type Feature = (typeof features)[number];

export interface TargetLimits {
  readonly maxThreadsPerBlock: number;
  readonly maxThreadsPerSm: number;
  readonly maxBlocksPerSm: number;
  /** 32-bit registers. */
  readonly registersPerSm: number;
  readonly registersPerBlock: number;
  readonly maxRegistersPerThread: number;
  /** Bytes that a block may use with opt-in. */
  readonly maxSmemPerBlock: number;
  /** Bytes without opt-in. */
  readonly defaultSmemPerBlock: number;
  readonly smemPerSm: number;
  /** Bytes the driver reserves in each block. */
  readonly reservedSmemPerBlock: number;
  /** Portable cluster size, 1 where there are none. */
  readonly maxClusterSize: number;
  /** With opt-in, on GPUs that have room for it (CUDA programming guide: non-portable cluster size). */
  readonly maxWideClusterSize: number;
  /** 32-bit columns of tensor memory in an SM, 0 where there is none. */
  readonly tensorMemoryColumns: number;
}

export interface Target {
  /** `sm_70` … `sm_120a`: what `.target` and `--arch` say. */
  readonly arch: string;
  readonly major: number;
  readonly minor: number;
  /** `portable` text also runs on later GPUs; `arch` text runs on this one only. */
  readonly portability: "portable" | "family" | "arch";
  readonly generation: string;
  readonly minPtx: PtxVersion;
  readonly features: readonly Feature[];
  readonly limits: TargetLimits;
}

/** A GPU by name, for the planner. */
export interface Gpu {
  readonly name: string;
  readonly arch: string;
  readonly sms: number;
  readonly boostMHz: number;
  readonly memoryGBs: number;
  readonly l2Bytes: number;
  /** Dense peak in TFLOP/s (TOP/s for integers) by dtype of A and B. */
  readonly peakTflops: Readonly<Record<string, number>>;
}

export const hasFeature = (target: Target, feature: Feature): boolean => target.features.includes(feature);
