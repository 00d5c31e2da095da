/** How wide the copies of an operand can be. */
import { type Problem, sizeOf } from "@tilewright/ir";

/** Widest copy of one thread: 16 bytes. */
const MAX_BYTES = 16;

/**
 * Bytes that every copy of an operand may move at once: the greatest power of two up to 16 that divides the base's alignment, the distance
 * between rows (or columns), the length of one, so that no copy straddles the edge, and the distance between the matrices of a batch.
 */
export function copyBytes(problem: Problem, which: "a" | "b"): number {
  const { dtype, layout, ld, align } = problem[which];
  const size = sizeOf(dtype);
  const along = which === "a" ? (layout === "row" ? "k" : "m") : layout === "row" ? "n" : "k";
  const { batch } = problem;
  const between = batch.kind === "strided" ? (which === "a" ? batch.strideA : batch.strideB) : 0;
  const all = [align, ld * size, problem[along] * size, between * size];
  let bytes = MAX_BYTES;
  while (bytes > size && all.some((x) => x % bytes !== 0)) bytes /= 2;
  return bytes;
}
