/**
 * The launch manifest: what any host needs to launch a kernel without parsing PTX.
 * The zod schema (and so the JSON Schema of `tilewright schema manifest`) is in `schema/manifest.ts`.
 */
import type { DType } from "./dtype.ts";
import type { WEIGHT_ORDER } from "./problem/weights.ts";
import type { Problem } from "./problem.ts";
import type { Schedule } from "./schedule.ts";
import type { Feature, Target } from "./target.ts";

/** Bytes; cudaMalloc's alignment: workspaces hold counters, partial sums of any dtype and copies of operands. */
export const WORKSPACE_ALIGN = 256;

/**
 * Launch-time integer arithmetic as JSON: a number, the name of a dimension or attribute (`m`, `n`, `k`, `batch`, `lda`, `ldb`, `ldc`, `ldd`, `strideA` … `strideD`, `numSms`; as a parameter's value also `alpha`, `beta`),
 * or an operation on expressions. `epilogueI` is the launch-time scalar of step I. `ceilDiv` rounds up, `div` down; they and `mod` take integers only. `launch/evaluate.ts` evaluates.
 */
export type LaunchExpr =
  | number
  | string
  | readonly ["add" | "sub" | "mul" | "div" | "ceilDiv" | "mod" | "min" | "max", LaunchExpr, LaunchExpr];

/** A condition that the launcher must check: `[op, lhs, rhs]`. */
export type Constraint = readonly ["eq" | "ne" | "lt" | "le" | "gt" | "ge", LaunchExpr, LaunchExpr];

export type ParamSpec =
  /** Device pointer to an operand. */
  | {
      readonly kind: "pointer";
      /** `sfa`, `sfb`: scale factors of A and B (`problem/scales.ts` says how they lie). `epilogueI`: the vector, matrix or result of step I of the epilogue. `groups`: the table of a grouped problem, whose rows `GroupRow` describes; of experts (`batch.rows` of the request) int32, one for each. */
      readonly name: "a" | "b" | "c" | "d" | "sfa" | "sfb" | "workspace" | "groups" | `epilogue${number}`;
      readonly offset: number;
      readonly size: 8;
      readonly align: number;
      readonly access: "read" | "write" | "readwrite";
    }
  /** A scalar of the problem, or a value computed from it. */
  | {
      readonly kind: "scalar";
      readonly name: string;
      readonly dtype: "f32" | "f64" | "u32" | "s32" | "u64";
      readonly offset: number;
      readonly size: number;
      readonly value: LaunchExpr;
    }
  /** 128-byte tensor map, 64-byte aligned, encoded by the driver from this recipe. */
  | {
      readonly kind: "tensorMap";
      readonly name: string;
      readonly offset: number;
      readonly size: 128;
      readonly tensorMap: {
        /** `groups`: a template over the table of a grouped problem, from which the kernel makes the map of each group. */
        readonly operand: "a" | "b" | "c" | "d" | "sfa" | "sfb" | "groups" | `epilogue${number}`;
        readonly dtype: DType;
        readonly dims: readonly LaunchExpr[];
        /** Byte strides of dimensions 1 and up. */
        readonly strides: readonly LaunchExpr[];
        readonly box: readonly number[];
        readonly elementStrides: readonly number[];
        readonly interleave: "none" | "16B" | "32B";
        readonly swizzle: "none" | "32B" | "64B" | "128B" | "128B_ATOM_32B";
        readonly l2: "none" | "64B" | "128B" | "256B";
        readonly oob: "zero" | "nan";
      };
    };

/** A value in the row of a group. */
export type GroupField =
  /** A size of the group, unsigned, 4 bytes. */
  | { readonly kind: "size"; readonly name: string; readonly offset: number; readonly value: LaunchExpr }
  /** Device pointer to an operand of the group. */
  | {
      readonly kind: "pointer";
      readonly name: "a" | "b" | "c" | "d" | `epilogue${number}`;
      readonly offset: number;
      readonly align: number;
      readonly access: "read" | "write" | "readwrite";
    };

/** How the table of a grouped problem lies in device memory: one row a group, `bytes` apart, each with these fields. Little-endian. */
export interface GroupRow {
  readonly bytes: number;
  readonly fields: readonly GroupField[];
}

/** One kernel of an artefact: how to launch it. */
export interface KernelSpec {
  readonly entry: string;
  /** `prepare`: what the main kernel reads of the workspace; `reduce`: what is to be done with what it leaves. */
  readonly role: "prepare" | "main" | "reduce";
  readonly launch: {
    readonly grid: readonly [LaunchExpr, LaunchExpr, LaunchExpr];
    readonly block: readonly [number, number, number];
    readonly cluster: readonly [number, number, number];
    /** Bytes of dynamic shared memory. */
    readonly dynamicSmem: number;
    /** Bytes of static shared memory in the PTX. */
    readonly staticSmem: number;
    readonly cooperative: boolean;
    /**
     * The kernel may be launched so that it begins while the one before it in the stream still runs (programmatic dependent launch): it waits for that one
     * itself, before it touches memory. Launched otherwise it does the same.
     */
    readonly programmatic?: true;
    /** The cluster is larger than every GPU launches: the function's attribute that allows it has to be set (non-portable cluster size). */
    readonly nonPortableCluster?: true;
  };
  /** In the order of the entry's parameters. */
  readonly params: readonly ParamSpec[];
  /**
   * Of a grouped problem: the rows of the table that parameter `groups` points to. `m`, `n` and `k` in the launch's expressions are then those of the group for
   * which the grid is largest, or more. A group with m, n or k of 0 is skipped, and its pointers are not followed.
   */
  readonly groups?: GroupRow;
  readonly workspaceBytes: LaunchExpr;
}

/** A file with code. Paths are relative to the manifest's folder. */
export interface ManifestImage {
  readonly format: "ptx" | "cubin";
  /**
   * PTX: its `.target`. A cubin: what it was assembled for, which may be a later GPU than the text's; it runs there, and on later ones of the
   * same major version.
   */
  readonly arch: string;
  readonly path: string;
  /** Hexadecimal SHA-256 of the file's bytes. */
  readonly sha256: string;
  /** What assembled a cubin: version of ptxas and its flags. */
  readonly ptxas?: string;
  readonly flags?: readonly string[];
}

/** What ptxas said about one kernel, assembled for one architecture. */
export interface KernelResources {
  readonly entry: string;
  /** Of the cubin. */
  readonly arch: string;
  /** Per thread. */
  readonly registers: number;
  /** Bytes a thread that are stored to local memory. */
  readonly spillBytes: number;
  /** Bytes. */
  readonly staticSmem: number;
  /** Blocks that fit on a multiprocessor at once. */
  readonly blocksPerSm: number;
}

/** What ptxas said; null as a whole where it was not run. */
export interface ManifestResources {
  /** `ptxas 13.0`. */
  readonly by: string;
  readonly kernels: readonly KernelResources[];
}

/** What a kernel was checked by before it shipped (`compile --library --certify`). It had no finding, and every order gave the same bits. */
export interface Certificate {
  /** Whether this very kernel was run, or one of the same schedule at smaller sizes, which an emulator reaches. */
  readonly kernel: "own" | "smaller";
  readonly sizes: { readonly m: number; readonly n: number; readonly k: number; readonly batch: number };
  /** SHA-256 of the text that was run. */
  readonly ptx: string;
  readonly emulator: {
    readonly version: string;
    /** Completion orders, a run each, with this seed for inputs and random orders. */
    readonly orders: readonly string[];
    readonly seed: number;
    /** Hazard rules that looked on: `H001`. */
    readonly rules: readonly string[];
  };
  /** Largest error over its bound against float64: at most 1. */
  readonly boundRatio: number;
  /** SHA-256 of D's bytes. */
  readonly d: string;
  /** A GPU's D of the same inputs, and whether its bits are the emulator's; `unordered` where sums are added as they come. Null without one. */
  readonly gpu: {
    readonly name: string;
    readonly d: string;
    readonly bits: "equal" | "differ" | "unordered";
  } | null;
}

/**
 * The manifest of one artefact (`*.gemm.json`): what any host needs to pick, load and launch its kernels. Canonical key order is that of
 * this type; no absolute paths, no times. Readers ignore fields they do not know and refuse other values of `schemaVersion`.
 */
export interface Manifest {
  /** Identifies the JSON Schema; `manifestSchemaId`. */
  readonly $schema: string;
  readonly schemaVersion: 1;
  /** `sha256:` of canonical request, schedule and generator version: the key for caches. */
  readonly id: `sha256:${string}`;
  readonly generator: {
    readonly name: string;
    readonly version: string;
    /** Id of the backend that made the code. */
    readonly backend: string;
  };
  readonly target: {
    readonly arch: string;
    readonly portability: Target["portability"];
    /** `8.0` */
    readonly minPtx: string;
    /** The oldest CUDA release whose driver takes that PTX, `12.0`; what `cuDriverGetVersion` must reach. */
    readonly minDriver: string;
    /** Features that the code uses. */
    readonly features: readonly Feature[];
  };
  /** The problem, complete. */
  readonly request: Problem;
  readonly plan: {
    /** Canonical text. */
    readonly schedule: string;
    /** The same by field. */
    readonly fields: Schedule;
  };
  readonly images: readonly ManifestImage[];
  /** In launch order: what `main` needs before it, `main`, then what follows it. */
  readonly kernels: readonly KernelSpec[];
  readonly workspace: {
    /** The most any kernel needs; kernels of one launch share it. */
    readonly bytes: LaunchExpr;
    readonly align: number;
    /** `zeroOnce`: zero after allocation, kernels leave it so; `zeroEach`: before every launch. */
    readonly init: "none" | "zeroOnce" | "zeroEach";
  };
  /** What must hold at launch; a host may choose among artefacts by it. */
  readonly constraints: readonly Constraint[];
  readonly numerics: {
    readonly acc: DType;
    readonly rounding: "rn";
    /** Error over `sum |a*b|` that the accumulation may reach; 0 for integers. */
    readonly relativeBound: number;
    /** Same bits in every run; false where a float sum of the epilogue is taken in the order in which blocks finish. */
    readonly deterministic: boolean;
  };
  readonly resources: ManifestResources | null;
  /** Of weights in few bits: how the buffers b and sfb lie (`problem/weights.ts`). */
  readonly weights?: ManifestWeights;
  /** Of a program over named axes: its parameters, which `request` knows as operands only. */
  readonly tensors?: readonly ManifestTensor[];
  /** Of attention in a library: what a host needs to compute the same without a kernel. */
  readonly attention?: ManifestAttention;
  readonly certificate?: Certificate;
}

/** Codes as words, a row for 16 columns of B; scales, and zero points behind them, as rows of n. */
interface ManifestWeights {
  readonly order: typeof WEIGHT_ORDER;
  readonly words: readonly [rows: number, columns: number];
  readonly factors: readonly [rows: number, columns: number];
}

/** A parameter of a program over named axes: the operand that a launch knows it as, and how it lies in memory. */
export interface ManifestTensor {
  /** As the program calls it. */
  readonly name: string;
  readonly operand: "a" | "b" | "d" | `epilogue${number}`;
  readonly dtype: DType;
  /** In the order of declaration; strides in elements. */
  readonly axes: readonly { readonly name: string; readonly extent: number; readonly stride: number }[];
}

/** O = softmax(scale * Q.K^T + bias, mask) . V; bias and slopes are among the tensors. */
export interface ManifestAttention {
  readonly scale: number;
  readonly softCap: number | null;
  /** Where the diagonal of the causal mask ends. */
  readonly causal: false | "bottom-right" | "top-left";
  /** Keys that a query sees up to its own, and without `causal` from it on. */
  readonly window: number | null;
}
