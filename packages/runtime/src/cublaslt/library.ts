/** The part of cuBLASLt that a peer needs, typed. Two implementations: `koffi.ts` and `test/fake/cublaslt.ts`. Handles are opaque; 0n is none. */
import type { Result } from "@tilewright/core";

/** `cublasStatus_t` without 0, which is success. */
type CublasStatus = number;
export type CublasResult<T> = Result<T, CublasStatus>;

/** One proposal of the heuristic. */
export interface CublasAlgorithm {
  /** `cublasLtMatmulAlgo_t`. */
  readonly bytes: Uint8Array;
  /** What it needs; at most what was offered. */
  readonly workspaceBytes: number;
  /** Share of full waves, by the library's own estimate. */
  readonly waves: number;
}

export interface MatmulCall {
  readonly handle: bigint;
  readonly desc: bigint;
  /** In the scale type, little-endian. */
  readonly alpha: Uint8Array;
  readonly beta: Uint8Array;
  readonly a: bigint;
  readonly aLayout: bigint;
  readonly b: bigint;
  readonly bLayout: bigint;
  readonly c: bigint;
  readonly cLayout: bigint;
  readonly d: bigint;
  readonly dLayout: bigint;
  readonly algorithm: Uint8Array;
  readonly workspace: bigint;
  readonly workspaceBytes: number;
  readonly stream: bigint;
}

export interface CublasLt {
  /** Path that was loaded. */
  readonly library: string;
  /** 10000 * major + 100 * minor + patch: 130100 is 13.1.0. */
  version(): number;
  create(): CublasResult<bigint>;
  destroy(handle: bigint): CublasResult<true>;
  descCreate(computeType: number, scaleType: number): CublasResult<bigint>;
  descSet(desc: bigint, attribute: number, value: Uint8Array): CublasResult<true>;
  descDestroy(desc: bigint): CublasResult<true>;
  /** Column-major, `ld` elements between columns. */
  layoutCreate(type: number, rows: number, columns: number, ld: number): CublasResult<bigint>;
  layoutSet(layout: bigint, attribute: number, value: Uint8Array): CublasResult<true>;
  layoutDestroy(layout: bigint): CublasResult<true>;
  preferenceCreate(): CublasResult<bigint>;
  preferenceSet(preference: bigint, attribute: number, value: Uint8Array): CublasResult<true>;
  preferenceDestroy(preference: bigint): CublasResult<true>;
  /** At most `count` usable algorithms, the library's favourite first. */
  heuristic(
    handle: bigint,
    desc: bigint,
    layouts: { readonly a: bigint; readonly b: bigint; readonly c: bigint; readonly d: bigint },
    preference: bigint,
    count: number,
  ): CublasResult<readonly CublasAlgorithm[]>;
  /** A number of the algorithm's configuration; null where it has none. */
  algorithmConfig(algorithm: Uint8Array, attribute: number): number | null;
  /** Queue the product on the stream; `algorithm`, `alpha` and `beta` may be reused when this returns. */
  matmul(call: MatmulCall): CublasResult<true>;
}

export const cublasPrototypes = {
  version: ["size_t cublasLtGetVersion()"],
  create: ["int cublasLtCreate(_Out_ uint64_t *handle)"],
  destroy: ["int cublasLtDestroy(uint64_t handle)"],
  descCreate: ["int cublasLtMatmulDescCreate(_Out_ uint64_t *desc, int computeType, int scaleType)"],
  descSet: ["int cublasLtMatmulDescSetAttribute(uint64_t desc, int attribute, void *value, size_t size)"],
  descDestroy: ["int cublasLtMatmulDescDestroy(uint64_t desc)"],
  layoutCreate: [
    "int cublasLtMatrixLayoutCreate(_Out_ uint64_t *layout, int type, uint64_t rows, uint64_t columns, int64_t ld)",
  ],
  layoutSet: [
    "int cublasLtMatrixLayoutSetAttribute(uint64_t layout, int attribute, void *value, size_t size)",
  ],
  layoutDestroy: ["int cublasLtMatrixLayoutDestroy(uint64_t layout)"],
  preferenceCreate: ["int cublasLtMatmulPreferenceCreate(_Out_ uint64_t *preference)"],
  preferenceSet: [
    "int cublasLtMatmulPreferenceSetAttribute(uint64_t preference, int attribute, void *value, size_t size)",
  ],
  preferenceDestroy: ["int cublasLtMatmulPreferenceDestroy(uint64_t preference)"],
  heuristic: [
    "int cublasLtMatmulAlgoGetHeuristic(uint64_t handle, uint64_t desc, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t preference, int count, void *results, _Out_ int *found)",
  ],
  algorithmConfig: [
    "int cublasLtMatmulAlgoConfigGetAttribute(void *algorithm, int attribute, void *value, size_t size, _Out_ size_t *written)",
  ],
  matmul: [
    "int cublasLtMatmul(uint64_t handle, uint64_t desc, void *alpha, uint64_t a, uint64_t aLayout, uint64_t b, uint64_t bLayout, void *beta, uint64_t c, uint64_t cLayout, uint64_t d, uint64_t dLayout, void *algorithm, uint64_t workspace, size_t workspaceBytes, uint64_t stream)",
  ],
} as const satisfies Record<string, readonly string[]>;
export type CublasFunction = keyof typeof cublasPrototypes;
