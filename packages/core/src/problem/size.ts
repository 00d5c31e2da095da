/** How many elements the matrices of a problem span. */
import type { Operand } from "../problem.ts";

/** Elements from the first to the last one of a matrix, both included; what a buffer must hold. */
export function operandSpan(operand: Operand, rows: number, columns: number): number {
  // Of a group with k = 0.
  if (rows === 0 || columns === 0) return 0;
  return operand.layout === "row" ? (rows - 1) * operand.ld + columns : (columns - 1) * operand.ld + rows;
}

/** Elements between consecutive matrices of a batch that stand one after the other, each with its padding. */
export function packedStride(operand: Operand, rows: number, columns: number): number {
  return operand.ld * (operand.layout === "row" ? rows : columns);
}
