/** How the global buffers of a problem's matrices lie in memory. */
import { type MatrixName, operandShape, operandStrides, type Problem } from "@tilewright/core";

/**
 * Rows, columns and strides in elements of a matrix as copies see it: those of the operand, but for B of a gated problem with interleaved columns. That is one matrix of n columns
 * twice as far apart, whose rows from the leading dimension on are those of the up projection. A problem without C has no layout of it (an exception).
 */
export function matrixLayout(
  problem: Problem,
  which: MatrixName,
): { readonly shape: readonly [number, number]; readonly stride: readonly [number, number] } {
  const { k, n, b, gated } = problem;
  if (which === "b" && gated === "interleaved") return { shape: [b.ld + k, n], stride: [1, 2 * b.ld] };
  const operand = problem[which];
  if (operand === null) throw new TypeError("a problem without C has no layout of it");
  return { shape: operandShape(problem, which), stride: operandStrides(operand) };
}
