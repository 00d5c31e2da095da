/**
 * C declarations of the functions of NVIDIA's libraries, as the binding wants them: one row of data/prototypes.json per method of `CudaDriver`, `CublasLt` and `Nvml`.
 * Handles and addresses are `uint64_t`: CUDA exists on 64-bit hosts only. Versioned names are those that cuda.h maps the plain names to.
 * Each row lists its symbols from the newest to the oldest; the first one that the library exports is used.
 */
import data from "../../data/prototypes.json" with { type: "json" };

export const {
  cuda: prototypes,
  /** Functions that a driver may lack: calling one that is missing gives CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, and everything else works. */
  cudaOptional: optionalPrototypes,
  cublasLt: cublasPrototypes,
  nvml: nvmlPrototypes,
} = data;

export type PrototypeName = keyof typeof prototypes;
export type OptionalPrototypeName = keyof typeof optionalPrototypes;
export type CublasFunction = keyof typeof cublasPrototypes;
export type NvmlFunction = keyof typeof nvmlPrototypes;
