/** Copies of A and B in the workspace that lie along the other axis: `transposed` of a global buffer. */
import { operandShape, type Problem, roundUp, sizeOf, strideNames } from "@tilewright/core";
import { matrixAlign } from "./sizes.ts";
import type { Buffer, Stmt, TileProgram } from "./types.ts";

/** Bytes of a line of L2: what a line of the copy is rounded up to, and what it begins at a multiple of. */
export const TRANSPOSED_ALIGN = 128;

/** Elements that are transposed: they have a register each. */
const ELEMENT_BYTES = 4;

/** (row stride, column stride) of the copy in elements: the axis that was far becomes contiguous, in whole lines of L2. */
export function transposedStrides(problem: Problem, which: "a" | "b"): readonly [number, number] {
  const { dtype, layout } = problem[which];
  const [rows, columns] = operandShape(problem, which);
  const line = TRANSPOSED_ALIGN / sizeOf(dtype);
  const whole = (extent: number): number => roundUp(extent, line);
  return layout === "row" ? [1, whole(rows)] : [whole(columns), 1];
}

/** Bytes of the copy of one matrix. */
export function transposedBytes(problem: Problem, which: "a" | "b"): number {
  const [rows, columns] = operandShape(problem, which);
  const [rowStride, columnStride] = transposedStrides(problem, which);
  return (rowStride === 1 ? columnStride * columns : rowStride * rows) * sizeOf(problem[which].dtype);
}

/** The problem as a kernel sees it that reads copies of `operands` (a word of the field `transpose`): they lie along the other axis, in whole lines of L2. */
export function afterTransposing(problem: Problem, operands: string): Problem {
  const seen = { ...problem };
  for (const which of ["a", "b"] as const) {
    if (!operands.includes(which)) continue;
    const strides = transposedStrides(problem, which);
    const layout = strides[0] === 1 ? "col" : "row";
    seen[which] = { ...problem[which], layout, ld: Math.max(...strides), align: TRANSPOSED_ALIGN };
    if (seen.batch.kind === "strided")
      seen.batch = {
        ...seen.batch,
        [strideNames[which]]: transposedBytes(problem, which) / sizeOf(problem[which].dtype),
      };
  }
  return seen;
}

const liesAlongK = (problem: Problem, which: "a" | "b"): boolean =>
  problem[which].layout === (which === "a" ? "row" : "col");

/** Why operands cannot be transposed, or need not be, where those serve that lie along k (`wanted` k) or across it (mn). */
export const transposeFaults = (
  problem: Problem,
  operands: string,
  wanted: "k" | "mn",
): readonly { readonly message: string; readonly hint: string }[] =>
  (["a", "b"] as const).flatMap((which) => {
    if (!operands.includes(which)) return [];
    const alongK = liesAlongK(problem, which);
    if (alongK !== (wanted === "k")) {
      const fault = transposeFault(problem, which);
      return fault === null ? [] : [{ ...fault, hint: "nearest legal: transpose=off" }];
    }
    const axis = alongK ? "k" : which === "a" ? "m" : "n";
    return [
      {
        message: `${which.toUpperCase()} is contiguous along ${axis} already, and serves without another copy`,
        hint: `nearest legal: transpose=${operands.replace(which, "") || "off"}`,
      },
    ];
  });

/** Bytes of workspace up to which copies of operands are offered unasked: as much as the operands themselves, which a launch may not have to spare. */
export const MOST_COPIED = 2 ** 30;

/** Operands that do not lie as is `wanted`, and that a kernel before can transpose: a word of the field. */
export const transposable = (problem: Problem, wanted: "k" | "mn"): string =>
  (["a", "b"] as const)
    .filter(
      (which) => liesAlongK(problem, which) !== (wanted === "k") && transposeFault(problem, which) === null,
    )
    .join("") || "off";

/** Bytes of the copies of one operand: each problem of a batch has its own, of a matrix that they share, too. */
export const copiesBytes = (problem: Problem, which: "a" | "b"): number =>
  transposedBytes(problem, which) * (problem.batch.kind === "none" ? 1 : problem.batch.count);

/** Bytes that a kernel transposes before one that reads copies of `operands`. */
export const transposingBytes = (problem: Problem, operands: string): number =>
  (["a", "b"] as const).reduce(
    (sum, which) => (operands.includes(which) ? sum + copiesBytes(problem, which) : sum),
    0,
  );

/** Elements that one access has at most, 16 bytes of them: side of the square that a thread turns round. */
export const TRANSPOSING_SIDE = 4;

/**
 * How the kernel that makes copies divides a matrix, along and across the lines of the copy. Squares of a thread: 128 bytes in flight, with which few warps fill the memory
 * system. Lanes: eight of them load a whole line of L2 from each matrix line, and the two squares of four store one. Loads of half lines (8 along, 4 across) take 6 % longer, as do
 * loads that leave nothing in L1 or go first from there (docs/perf/simt.md).
 */
export const transposing = {
  squares: { along: 2, across: 1 },
  lanes: { along: 4, across: 8 },
  warps: { along: 4, across: 2 },
} as const;

/** Elements of a CTA: along the lines of the copy, and of the matrix. */
export const transposedBlock = {
  along: TRANSPOSING_SIDE * transposing.lanes.along * transposing.squares.along * transposing.warps.along,
  across: TRANSPOSING_SIDE * transposing.lanes.across * transposing.squares.across * transposing.warps.across,
} as const;

/** Threads of such a CTA. */
export const TRANSPOSING_THREADS = 32 * transposing.warps.along * transposing.warps.across;

/** Lines of a matrix, and elements of each, which are neighbours in memory. */
function linesOf(problem: Problem, which: "a" | "b"): { readonly lines: number; readonly run: number } {
  const [rows, columns] = operandShape(problem, which);
  return problem[which].layout === "row" ? { lines: rows, run: columns } : { lines: columns, run: rows };
}

/** The same, with the elements from one line to the next, and how many of them one load has: what alignment, leading dimension and the length of lines are multiples of. */
export function transposedLines(
  problem: Problem,
  which: "a" | "b",
): Pick<Extract<Stmt, { kind: "transpose" }>, "lines" | "run" | "pitch" | "vector"> {
  const { lines, run } = linesOf(problem, which);
  const { dtype, ld } = problem[which];
  const bytes = sizeOf(dtype);
  const align = matrixAlign(problem, which);
  const fits = (w: number): boolean => run % w === 0 && ld % w === 0 && align % (bytes * w) === 0;
  return { lines, run, pitch: ld, vector: [TRANSPOSING_SIDE, 2].find(fits) ?? 1 };
}

/** CTAs that make the copy of one matrix. */
export function copyBlocks(problem: Problem, which: "a" | "b"): number {
  const { lines, run } = linesOf(problem, which);
  return Math.ceil(lines / transposedBlock.along) * Math.ceil(run / transposedBlock.across);
}

/** Operands of which a program reads copies. */
export const transposedOperands = ({ buffers }: Pick<TileProgram, "buffers">): readonly ("a" | "b")[] =>
  (["a", "b"] as const).filter((which) =>
    buffers.some(
      (b: Buffer) => b.space === "global" && b.name === which.toUpperCase() && b.transposed === true,
    ),
  );

/** Why a problem's operand cannot be copied so; null where it can. */
export function transposeFault(
  problem: Problem,
  which: "a" | "b",
): { readonly message: string; readonly hint: string } | null {
  const { dtype } = problem[which];
  const name = which.toUpperCase();
  if (sizeOf(dtype) !== ELEMENT_BYTES)
    return {
      message: `elements of ${ELEMENT_BYTES} bytes are transposed on the way to the workspace, and ${name} is ${dtype}`,
      hint: "nearest legal: without a transposed copy",
    };
  if (problem.batch.kind === "grouped" || problem.symbolic !== undefined)
    return {
      message: `a transposed copy of ${name} has a size that is known before the launch`,
      hint: "nearest legal: without a transposed copy, or fixed sizes",
    };
  return null;
}
