/** What the epilogue of a problem computes in: one answer for interpreter and kernels. */
import type { Operand, Problem, Scalar } from "../problem.ts";

/** Arithmetic of an epilogue. */
export type EpilogueKind = "f32" | "f64" | "s32";

const isInteger = (scalar: Scalar): boolean => typeof scalar === "number" && Number.isSafeInteger(scalar);

/**
 * What the epilogue computes in: f64 for f64; s32 where an s32 accumulator goes to an s32 matrix with integral scalars and no steps, so
 * that nothing is rounded; f32 for everything else.
 */
export function epilogueKind(
  problem: Pick<Problem, "acc" | "alpha" | "beta" | "epilogue"> & {
    readonly c: Pick<Operand, "dtype"> | null;
    readonly d: Pick<Operand, "dtype">;
  },
): EpilogueKind {
  const { acc, c, d, alpha, beta, epilogue } = problem;
  if (acc === "f64") return "f64";
  const exact =
    d.dtype === "s32" &&
    (c === null || c.dtype === "s32") &&
    isInteger(alpha) &&
    isInteger(beta) &&
    epilogue.length === 0;
  return acc === "s32" && exact ? "s32" : "f32";
}
