/** How wide copies of an operand by threads, and stores of D, can be. */
import { packedSize } from "../dtype.ts";
import type { Problem } from "../problem.ts";
import { leadingNames, sizeMost, sizeMultiple, strideNames } from "./symbolic.ts";

/** Widest copy of one thread: 16 bytes. */
const MAX_BYTES = 16;

export type CopiedMatrix = "a" | "b" | "d";

/** The axis that is contiguous, by layout. */
const contiguous = {
  a: { row: "k", col: "m" },
  b: { row: "n", col: "k" },
  d: { row: "n", col: "m" },
} as const satisfies Record<CopiedMatrix, Record<"row" | "col", "m" | "n" | "k">>;

/**
 * Bytes that every copy of an operand may move at once: the greatest power of two up to 16 that divides the base's alignment, the distance
 * between rows (or columns), the length of one, so that no copy straddles the edge, and the distance between the matrices of a batch.
 */
export function copyBytes(problem: Problem, which: CopiedMatrix): number {
  const { align, dtype } = problem[which];
  const size = packedSize(dtype);
  const { ld, length, between } = copyPromises(problem, which);
  const all = [align, ld * size, length * size, between * size];
  let bytes = MAX_BYTES;
  while (bytes > size && all.some((x) => x % bytes !== 0)) bytes /= 2;
  return bytes;
}

/** Elements that leading dimension, length of a row (or column) and distance in a batch are multiples of, whatever the launch supplies. */
export function copyPromises(
  problem: Problem,
  which: CopiedMatrix,
): {
  readonly along: "m" | "n" | "k";
  readonly ld: number;
  readonly length: number;
  readonly between: number;
} {
  const along = contiguous[which][problem[which].layout];
  const batched = problem.batch.kind === "strided" && sizeMost(problem, "batch") > 1;
  return {
    along,
    ld: sizeMultiple(problem, leadingNames[which]),
    length: sizeMultiple(problem, along),
    between: batched ? sizeMultiple(problem, strideNames[which]) : 0,
  };
}
