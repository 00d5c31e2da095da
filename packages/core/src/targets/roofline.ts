/** The least time a GEMM can take on a GPU. */
import { dtypes, productDType } from "../dtype.ts";
import { factorsSize } from "../problem/scales.ts";
import { stepExtents } from "../problem/stepInputs.ts";
import { type Operand, operandShape, type Problem, productColumns } from "../problem.ts";
import type { Gpu } from "../target.ts";

export interface Roofline {
  /** Multiplications and additions of the products: 2*m*n*k per problem of the batch. */
  readonly flops: number;
  /** Bytes that must cross device memory: every operand read or written once. */
  readonly bytes: number;
  /** FLOP per byte. */
  readonly intensity: number;
  /** Peak for the dtype of A and B, null when the GPU has none: then only memory bounds the time. */
  readonly peakTflops: number | null;
  readonly computeUs: number | null;
  readonly memoryUs: number;
  /** The larger of both: no kernel is faster. */
  readonly timeUs: number;
  readonly bound: "compute" | "memory";
  /** `flops` over `timeUs`: the most TFLOP/s to be had. */
  readonly attainableTflops: number;
}

/**
 * Roofline of a problem. Grouped batches are taken at their upper bounds. Batch strides of 0 share a matrix, which then counts once.
 * Scale factors count with their operands. Epilogue operands (residual, gate, second output) count with D's extent, vectors not at all.
 */
export function roofline(problem: Problem, gpu: Gpu): Roofline {
  const { batch } = problem;
  const count = batch.kind === "none" ? 1 : batch.count;
  // Experts that offsets tell apart share the rows of one A and D.
  const parts = batch.kind === "grouped" && batch.rows === "offsets" ? 1 : count;
  const copies = (stride: number) => (stride === 0 ? 1 : count);
  const bytesOf = (operand: Operand, which: "a" | "b" | "c" | "d", times: number): number => {
    const [rows, columns] = operandShape(problem, which);
    return Math.ceil((rows * columns * dtypes[operand.dtype].bits) / 8) * times;
  };
  const strides = batch.kind === "strided" ? batch : { strideA: 1, strideB: 1, strideC: 1 };
  let bytes =
    bytesOf(problem.a, "a", Math.min(parts, copies(strides.strideA))) +
    bytesOf(problem.b, "b", copies(strides.strideB));
  if (problem.c !== null) bytes += bytesOf(problem.c, "c", Math.min(parts, copies(strides.strideC)));
  bytes += bytesOf(problem.d, "d", parts);
  for (const which of ["a", "b"] as const) bytes += factorsSize(problem, which);
  for (const step of problem.epilogue)
    if ("operand" in step)
      bytes +=
        step.kind === "result" || step.kind === "quantize"
          ? (stepExtents(problem, step).reduce((x, y) => x * y, parts) * dtypes[step.operand.dtype].bits) / 8
          : bytesOf(step.operand, step.kind === "factor" ? "b" : "d", step.kind === "factor" ? count : parts);

  const flops = 2 * problem.m * productColumns(problem) * problem.k * parts;
  const peakTflops = gpu.peakTflops[productDType(problem.a.dtype, problem.b.dtype)] ?? null;
  const computeUs = peakTflops === null ? null : flops / (peakTflops * 1e6);
  const memoryUs = bytes / (gpu.memoryGBs * 1e3);
  const timeUs = Math.max(computeUs ?? 0, memoryUs);
  return {
    flops,
    bytes,
    intensity: flops / bytes,
    peakTflops,
    computeUs,
    memoryUs,
    timeUs,
    bound: computeUs !== null && computeUs >= memoryUs ? "compute" : "memory",
    attainableTflops: flops / (timeUs * 1e6),
  };
}
