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
