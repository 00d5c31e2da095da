/** The least time a GEMM can take on a GPU. */
import { type DType, dtypes, productDType } from "../dtype.ts";
import { type BatchedOperand, batchAxes } from "../problem/batch.ts";
import { expertAxisOf } from "../problem/expertRows.ts";
import { longestRuns } from "../problem/runs.ts";
import { factorsSize } from "../problem/scales.ts";
import { stepExtents } from "../problem/stepInputs.ts";
import { type EpilogueStep, type Operand, operandShape, type Problem, productColumns } from "../problem.ts";
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

/** Steps whose matrices have extents of their own. */
const apart: ReadonlySet<EpilogueStep["kind"]> = new Set(["factor", "result", "quantize"]);

/**
 * Roofline of a problem. Grouped batches are taken at their upper bounds. Batch strides of 0 share a matrix, which then counts once.
 * Scale factors count with their operands. Epilogue operands (residual, gate, second output) count with D's extent, vectors not at all.
 */
export function roofline(problem: Problem, gpu: Gpu): Roofline {
  const { batch } = problem;
  const count = batch.kind === "none" ? 1 : batch.count;
  // Experts that offsets tell apart share the rows of one A and D; where they differ in k, of one A and B.
  const shared = batch.kind === "grouped" && batch.rows === "offsets" ? expertAxisOf(problem) : null;
  const parts = shared === null ? count : 1;
  const [ofB, ofD] = [shared === "k" ? 1 : count, shared === "k" ? count : parts];
  // Along an axis of the batch that a matrix lacks all share it.
  const copies = (which: BatchedOperand, otherwise: number): number =>
    batch.kind === "strided" && batch.axes !== undefined
      ? batchAxes(problem, which).reduce((product, { extent }) => product * extent, 1)
      : otherwise;
  const own = (stride: number): number => (stride === 0 ? 1 : count);
  const bytesOf = ({ dtype }: Operand, [rows, columns]: readonly [number, number], times: number): number =>
    Math.ceil((rows * columns * dtypes[dtype].bits) / 8) * times;
  const strides = batch.kind === "strided" ? batch : { strideA: 1, strideB: 1, strideC: 1 };
  const [shapeOf, { a, b, c, d }] = [operandShape.bind(null, problem), problem];
  let bytes =
    bytesOf(a, shapeOf("a"), copies("a", Math.min(parts, own(strides.strideA)))) +
    bytesOf(b, shapeOf("b"), copies("b", Math.min(ofB, own(strides.strideB))));
  if (c !== null) bytes += bytesOf(c, shapeOf("c"), Math.min(ofD, own(strides.strideC)));
  bytes += bytesOf(d, shapeOf("d"), copies("d", ofD));
  for (const which of ["a", "b"] as const) bytes += factorsSize(problem, which);
  for (const [i, step] of problem.epilogue.entries())
    if ("operand" in step) {
      const shape = apart.has(step.kind) ? stepExtents(problem, step) : shapeOf("d");
      bytes += bytesOf(step.operand, shape, copies(`epilogue${i}`, step.kind === "factor" ? count : ofD));
    }

  const longest = longestRuns(problem);
  const flops = 2 * longest.m * productColumns(longest) * longest.k * parts;
  return rooflineOf({ flops, bytes }, productDType(problem.a.dtype, problem.b.dtype), gpu);
}

/** Roofline of so many multiplications and additions of products of a dtype, and so many bytes that must cross device memory. */
export function rooflineOf(
  { flops, bytes }: Pick<Roofline, "flops" | "bytes">,
  dtype: DType,
  gpu: Gpu,
): Roofline {
  const peakTflops = gpu.peakTflops[dtype] ?? null;
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
