/** What steps of the epilogue read, and tile programs store, of device memory: matrices of D's shape, vectors along m or n, as matrices of one column or row. */
import type { DType } from "../dtype.ts";
import { type EpilogueStep, type Operand, operandStrides, type Problem, upFactor } from "../problem.ts";
import { stepBuffer } from "./buffers.ts";
import { scaleExtents } from "./scales.ts";

/** The matrix or vector that a step reads, or that statements in front of the epilogue store. */
export interface StepMatrix {
  readonly dtype: DType;
  /** Rows x columns; a vector along m has one column, one along n one row. */
  readonly shape: readonly [number, number];
  /** In elements. */
  readonly strides: readonly [number, number];
  /** Of a matrix; null for a vector. */
  readonly operand: Operand | null;
  /** Axis that a vector does not have; null for a matrix. */
  readonly across: 0 | 1 | null;
}

/** The operand in whose buffer another one lies, which is mostly its own. */
export function storedIn<T extends string>({ epilogue }: Pick<Problem, "epilogue">, operand: T): T | "b" {
  const step = epilogue[Number(/^epilogue(\d+)$/.exec(operand)?.[1] ?? Number.NaN)];
  return (step?.kind === "factor" && step.of) || operand;
}

/** Whether the launch supplies what a step reads, as a number. */
export const isLaunchScalar = (step: EpilogueStep | undefined): boolean =>
  (step?.kind === "scale" || step?.kind === "load") && step.by === "scalar";

/** Rows and columns of the matrix of a step: D's unless it has its own. */
export const stepExtents = (
  { m, n }: Pick<Problem, "m" | "n">,
  step: EpilogueStep,
): readonly [number, number] =>
  step.kind === "factor" || step.kind === "result"
    ? [step.rows, step.columns]
    : step.kind === "quantize"
      ? scaleExtents({ m, n }, step.group, step.operand.dtype === "u8" ? "u8" : "f32")
      : [m, n];

/** Whether a step stores a matrix beside D. */
export const storesMatrix = (
  step: EpilogueStep | undefined,
): step is Extract<EpilogueStep, { kind: "output" | "result" | "quantize" }> =>
  step?.kind === "output" || step?.kind === "result" || step?.kind === "quantize";

/** Names of the extents of the matrix of a step, rows and columns: those of B of a gated product's second factor. */
export const stepExtentNames = (
  { gated }: Pick<Problem, "gated">,
  step: EpilogueStep,
): readonly ["m" | "k", "n"] => (step.kind === "factor" && gated !== undefined ? ["k", "n"] : ["m", "n"]);

/** The global buffer of the second matrix of a gated product; null where B has both factors. */
export function upBuffer(problem: Pick<Problem, "gated" | "epilogue">): string | null {
  const step = upFactor(problem);
  return step === null ? null : stepBuffer(step);
}

/** What a step reads, or a tile program stores, element by element; null for other steps, and those that read one value for all. */
export function stepMatrix(problem: Problem, index: number): StepMatrix | null {
  const { m, n, epilogue } = problem;
  const step = epilogue[index];
  const vector = (along: "m" | "n", dtype: DType): StepMatrix => ({
    dtype,
    shape: along === "m" ? [m, 1] : [1, n],
    strides: along === "m" ? [1, m] : [n, 1],
    operand: null,
    across: along === "m" ? 1 : 0,
  });
  switch (step?.kind) {
    case "residual":
    case "source":
    case "gate":
    case "factor":
    case "result": {
      const { operand } = step;
      const shape = stepExtents(problem, step);
      return { dtype: operand.dtype, shape, strides: operandStrides(operand), operand, across: null };
    }
    case "bias":
      return vector(step.along, step.dtype);
    case "scale":
    case "load":
      return step.by === "m" || step.by === "n" ? vector(step.by, step.dtype) : null;
    default:
      return null;
  }
}
