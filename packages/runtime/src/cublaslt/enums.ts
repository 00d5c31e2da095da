/**
 * Enumerators and structure layouts of cuBLASLt, from cublasLt.h, cublas_api.h and library_types.h of CUDA 11.8 to 13.0 (the cuBLAS
 * documentation lists the same numbers under "cuBLASLt Datatypes Reference"). They have not changed within these versions.
 */
import type { DType } from "@tilewright/core";

/** Major versions of the library whose numbers these are. */
export const knownMajors = [11, 12, 13] as const;

/** `cudaDataType_t` (library_types.h). */
export const dataType = {
  f32: 0,
  f64: 1,
  f16: 2,
  s8: 3,
  u8: 8,
  s32: 10,
  bf16: 14,
  e4m3: 28,
  e5m2: 29,
  e2m1: 33,
} as const;
export type CublasDataType = keyof typeof dataType;

/** Types of operands by another name: tf32 is f32 in memory, its rounding is the compute type's; elements with factors are what they are without. */
const others: Readonly<Partial<Record<DType, CublasDataType | null>>> = {
  tf32: "f32",
  mxf8: "e4m3",
  mxf8e5m2: "e5m2",
  nvf4: "e2m1",
  // Not without the factors of nvf4.
  e2m1: null,
};

/** The type of an operand as cuBLASLt names it; null where it has none. */
export function dataTypeOf(dtype: DType): CublasDataType | null {
  const other = others[dtype];
  if (other !== undefined) return other;
  return dtype in dataType ? (dtype as CublasDataType) : null;
}

/** `cublasComputeType_t`. */
export const computeType = { f16: 64, f32: 68, f64: 70, s32: 72, fastTf32: 77 } as const;

/** `cublasOperation_t`. */
export const operation = { none: 0, transposed: 1 } as const;

/** `cublasLtMatmulDescAttributes_t`. */
export const descAttribute = {
  transA: 3,
  transB: 4,
  epilogue: 7,
  biasPointer: 8,
  aScalePointer: 17,
  bScalePointer: 18,
  fastAccumulation: 25,
  biasDataType: 26,
  // Since 12.8.
  aScaleMode: 31,
  bScaleMode: 32,
} as const;

/** `cublasLtMatmulMatrixScale_t`: factors of 16 and 32 elements (since 12.8); in f32, of rows and of squares (since 12.9). */
export const scaleMode = { ue4m3: 1, ue8m0: 2, "1x128": 4, "128x128": 5 } as const;

/** `cublasLtMatrixLayoutAttribute_t`. */
export const layoutAttribute = { batchCount: 5, stridedBatchOffset: 6 } as const;

/** `cublasLtMatmulPreferenceAttributes_t`. */
export const preferenceAttribute = { maxWorkspaceBytes: 1 } as const;

/** `cublasLtEpilogue_t`; bits. */
export const epilogueBit = { none: 1, relu: 2, bias: 4, gelu: 32 } as const;

/** `cublasLtMatmulAlgoConfigAttributes_t`: what tells one algorithm from another. */
export const algoConfig = {
  id: 0,
  tile: 1,
  splitK: 2,
  swizzle: 4,
  custom: 5,
  stages: 6,
  cluster: 8,
} as const;

/** `cublasLtMatmulAlgo_t`: eight u64. */
export const algoBytes = 64;

/**
 * `cublasLtMatmulHeuristicResult_t`: the algorithm (64 bytes), workspaceSize (size_t at 64), state (cublasStatus_t at 72),
 * wavesCount (float at 76), four reserved int.
 */
export const heuristicBytes = 96;
export const heuristicOffset = { workspace: 64, state: 72, waves: 76 } as const;

/** `cublasStatus_t`. */
export const statusNames: Readonly<Record<number, string>> = {
  1: "CUBLAS_STATUS_NOT_INITIALIZED",
  3: "CUBLAS_STATUS_ALLOC_FAILED",
  7: "CUBLAS_STATUS_INVALID_VALUE",
  8: "CUBLAS_STATUS_ARCH_MISMATCH",
  11: "CUBLAS_STATUS_MAPPING_ERROR",
  13: "CUBLAS_STATUS_EXECUTION_FAILED",
  14: "CUBLAS_STATUS_INTERNAL_ERROR",
  15: "CUBLAS_STATUS_NOT_SUPPORTED",
  16: "CUBLAS_STATUS_LICENSE_ERROR",
};
/** `CUBLAS_STATUS_NOT_SUPPORTED`: the heuristic knows no algorithm for this product. */
export const notSupported = 15;
