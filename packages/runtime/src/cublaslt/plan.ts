/** A problem in cuBLASLt's terms: column-major matrices, transpositions, compute and scale types, an epilogue of its own short list. */
import {
  bytesOfStorage,
  type Checked,
  type DType,
  type EpilogueStep,
  encodeArray,
  err,
  isScaled,
  type Operand,
  ok,
  operandShape,
  type Problem,
  scaledTypes,
} from "@tilewright/core";
import { measuringProblem } from "../timing/diagnostics.ts";
import {
  type CublasDataType,
  computeType,
  dataType,
  dataTypeOf,
  epilogueBit,
  operation,
  scaleMode,
} from "./enums.ts";

/** A matrix as cuBLASLt sees it, column-major. */
export interface PlanMatrix {
  readonly type: number;
  readonly rows: number;
  readonly columns: number;
  /** Elements between columns. */
  readonly ld: number;
  /** Elements between the matrices of a batch. */
  readonly stride: number;
}

export interface MatmulPlan {
  readonly compute: number;
  readonly scale: number;
  /** Which of our buffers is cuBLASLt's first operand: `b` where D is row-major, since D^T = B^T A^T. */
  readonly first: "a" | "b";
  readonly second: "a" | "b";
  readonly transA: number;
  readonly transB: number;
  /** The first operand, whichever of ours it is, and the second. */
  readonly a: PlanMatrix;
  readonly b: PlanMatrix;
  /** C and D have one layout; without C it is D, read with beta 0. */
  readonly c: PlanMatrix;
  readonly d: PlanMatrix;
  readonly batch: number;
  readonly alpha: Uint8Array;
  readonly beta: Uint8Array;
  readonly epilogue: number;
  /** Sums of 8-bit floats stay in the tensor cores, as they do where no promotion is asked for. */
  readonly fast: boolean;
  /** Scale modes of the first operand and of the second; null without factors. */
  readonly scales: readonly [first: number, second: number] | null;
  /** Step of the epilogue whose vector is the bias; null without one. */
  readonly bias: { readonly step: number; readonly type: number } | null;
}

interface Arithmetic {
  readonly compute: number;
  readonly scale: CublasDataType;
}

/** By dtype of the accumulator. f32 products never use TF32 unless the problem is one of tf32: COMPUTE_32F promises that. */
function arithmeticOf(problem: Problem): Arithmetic | null {
  if (problem.a.dtype === "tf32") return { compute: computeType.fastTf32, scale: "f32" };
  switch (problem.acc) {
    case "f32":
      return { compute: computeType.f32, scale: "f32" };
    case "f16":
      return { compute: computeType.f16, scale: "f16" };
    case "f64":
      return { compute: computeType.f64, scale: "f64" };
    case "s32":
      // With s8 results cuBLASLt scales in f32.
      return { compute: computeType.s32, scale: problem.d.dtype === "s32" ? "s32" : "f32" };
    default:
      return null;
  }
}

/** cuBLASLt promotes sums of 8-bit floats unless told otherwise: like is measured against like. */
const accumulatesFast = ({ a, precision, blockScales }: Problem): boolean =>
  (a.dtype === "e4m3" || a.dtype === "e5m2") && precision !== "promoted" && blockScales === undefined;

const unfit = (at: string, message: string, hint?: string) =>
  measuringProblem("cublasUnfit", at, message, hint ?? "it is measured without cuBLAS");

/** The plan of a problem. Errors: TW6043, all that cuBLASLt has no words for; what it knows but does not support the heuristic says later. */
export function planMatmul(problem: Problem): Checked<MatmulPlan> {
  const { a, b, c, d, batch } = problem;
  const found = [];
  const arithmetic = arithmeticOf(problem);
  if (arithmetic === null) found.push(unfit("problem.acc", `cuBLASLt does not accumulate in ${problem.acc}`));
  for (const [name, operand] of [
    ["A", a],
    ["B", b],
    ["D", d],
  ] as const)
    if (dataTypeOf(operand.dtype) === null)
      found.push(unfit(`problem.${name.toLowerCase()}`, `cuBLASLt is not called here with ${operand.dtype}`));
  if (c !== null && (c.layout !== d.layout || c.dtype !== d.dtype))
    found.push(unfit("problem.c", "cuBLASLt wants C in the layout and type of D"));
  if (batch.kind === "strided" && batch.axes !== undefined)
    found.push(unfit("problem.batch", "cuBLASLt has batches along one axis"));
  if (batch.kind === "grouped") found.push(unfit("problem.batch", "cuBLASLt has no grouped products"));
  if (problem.alpha === "runtime" || problem.beta === "runtime")
    found.push(unfit("problem.alpha", "alpha and beta are left to the launch"));
  const epilogue = planEpilogue(problem);
  if (!epilogue.ok) found.push(...epilogue.error);
  if (found.length > 0 || !epilogue.ok || arithmetic === null) return err(found);

  const swapped = d.layout === "row";
  const strides = batch.kind === "strided" ? batch : { strideA: 0, strideB: 0, strideC: 0, strideD: 0 };
  // A row-major m x n matrix is a column-major n x m one.
  const matrix = (which: "a" | "b" | "c" | "d", operand: Operand, stride: number): PlanMatrix => {
    const [rows, columns] = operandShape(problem, which);
    const [tall, wide] = operand.layout === "col" ? [rows, columns] : [columns, rows];
    const type = dataTypeOf(operand.dtype) ?? "f32";
    return { type: dataType[type], rows: tall, columns: wide, ld: operand.ld, stride };
  };
  /** Transposed where memory holds the transpose of what the product wants. */
  const op = (operand: Operand): number =>
    (operand.layout === "row") === swapped ? operation.none : operation.transposed;
  const [first, second] = swapped ? (["b", "a"] as const) : (["a", "b"] as const);
  const planned = { a: matrix("a", a, strides.strideA), b: matrix("b", b, strides.strideB) };
  const dMatrix = matrix("d", d, strides.strideD);
  const scalar = (value: number | "runtime"): Uint8Array =>
    bytesOfStorage(encodeArray(arithmetic.scale as DType, [Number(value)])).slice();
  const { bits, bias } = epilogue.value;
  return ok({
    compute: arithmetic.compute,
    scale: dataType[arithmetic.scale],
    first,
    second,
    transA: op(problem[first]),
    transB: op(problem[second]),
    a: planned[first],
    b: planned[second],
    c: c === null ? dMatrix : matrix("c", c, strides.strideC),
    d: dMatrix,
    batch: batch.kind === "strided" ? batch.count : 1,
    alpha: scalar(problem.alpha),
    beta: scalar(problem.beta),
    epilogue: bits,
    fast: accumulatesFast(problem),
    scales: planScales(problem, first, second),
    bias,
  });
}

/** How the factors of the operands lie, which is as cuBLASLt takes them; null where they have none. */
function planScales(problem: Problem, first: "a" | "b", second: "a" | "b"): MatmulPlan["scales"] {
  const modeOf = (which: "a" | "b"): number | null => {
    const { dtype } = problem[which];
    if (isScaled(dtype)) return scaleMode[scaledTypes[dtype].scale];
    return problem.blockScales === undefined ? null : scaleMode[problem.blockScales[which]];
  };
  const modes = [modeOf(first), modeOf(second)] as const;
  return modes[0] === null || modes[1] === null ? null : [modes[0], modes[1]];
}

interface PlanEpilogue {
  readonly bits: number;
  readonly bias: MatmulPlan["bias"];
}

/** What cuBLASLt can do to D: a bias along its contiguous axis, then relu or gelu; a cast to D's own type is what it does anyway. */
function planEpilogue(problem: Problem): Checked<PlanEpilogue> {
  let bits = 0;
  let bias: MatmulPlan["bias"] = null;
  const found = [];
  for (const [index, step] of problem.epilogue.entries()) {
    const part = stepBits(problem, step, bits);
    if (part === null)
      found.push(
        unfit(`problem.epilogue[${index}]`, `cuBLASLt has no epilogue step like ${step.kind} there`),
      );
    else bits |= part;
    if (step.kind === "bias" && part !== null) {
      const type = dataTypeOf(step.dtype);
      if (type === null)
        found.push(unfit(`problem.epilogue[${index}]`, `cuBLASLt has no bias of ${step.dtype}`));
      else bias = { step: index, type: dataType[type] };
    }
  }
  return found.length > 0 ? err(found) : ok({ bits: bits === 0 ? epilogueBit.none : bits, bias });
}

function stepBits(problem: Problem, step: EpilogueStep, so: number): number | null {
  const { relu, gelu, bias } = epilogueBit;
  switch (step.kind) {
    case "bias":
      // Before the activation, along the rows of the column-major D: the contiguous axis of ours.
      return so === 0 && step.along === (problem.d.layout === "row" ? "n" : "m") ? bias : null;
    case "activation":
      if ((so & (relu | gelu)) !== 0) return null;
      if (step.fn === "relu") return relu;
      return step.fn === "gelu_tanh" || step.fn === "gelu_tanh_approx" ? gelu : null;
    case "cast":
      return step.dtype === problem.d.dtype ? 0 : null;
    default:
      return null;
  }
}
