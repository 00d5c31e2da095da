/** Which instructions multiply the operands of a problem, and what they ask of these. */
import { type DType, type Problem, quantizeOf, sizeOf, widensTo } from "@tilewright/core";
import { type WarpgroupAtom, warpgroupAtom, warpgroupWidths, widensIntoFragments } from "@tilewright/ir";

/** Rows of every instruction. */
export const ATOM_ROWS = 64;

/** Warps of a warpgroup, each of which has as many of an instruction's rows. */
export const WARPS = 4;

/**
 * Of so many instructions of a warpgroup those whose rows a warp has beside each other: rows are columns of weights, whose registers may have any of them, and of an output that is quantised
 * by groups of columns each warp has whole groups. Else each instruction has 64 neighbours.
 */
export function instructionsBeside(problem: Problem, instructions: number): number {
  const group = problem.weights === undefined ? undefined : quantizeOf(problem)?.step.group;
  const wanted = (group ?? 0) / (ATOM_ROWS / WARPS);
  return wanted > 1 && instructions % wanted === 0 ? wanted : 1;
}

/** Whether A is narrower than B: its elements are widened on their way through registers, from which instructions take A alone. */
export const widensA = ({ a, b, weights }: Problem): boolean =>
  weights === undefined && widensTo(a.dtype, b.dtype);

/** Whether B is narrower than A: threads that copy it widen it on its way to shared memory. */
export const widensB = ({ a, b, weights }: Problem): boolean =>
  weights === undefined && widensIntoFragments(b.dtype, a.dtype);

/** What B is multiplied as: weights in few bits, and a narrower B, as A. */
export const factorType = (problem: Problem): DType =>
  (problem.weights === undefined && !widensB(problem) ? problem.b : problem.a).dtype;

/** dtypes that instructions multiply. */
const multiplied = (problem: Problem): readonly [a: DType, b: DType] => [
  widensA(problem) ? problem.b.dtype : problem.a.dtype,
  factorType(problem),
];

/** Widths of the instructions that multiply A by B of a problem, or B^T by A^T; empty where there are none. */
export const widthsOf = (problem: Problem): readonly number[] =>
  warpgroupWidths(...multiplied(problem), problem.acc);

/** The widest instruction that divides the columns of a warpgroup's sum; null where none does. `swap`: it multiplies B^T by A^T. */
export function atomOf(problem: Problem, columns: number, swap = false): WarpgroupAtom | null {
  const width = widthsOf(problem).findLast((n) => columns % n === 0);
  const [a, b] = multiplied(problem);
  return width === undefined ? null : warpgroupAtom(swap ? b : a, swap ? a : b, problem.acc, width);
}

/** Elements of k of one instruction: 32 bytes. */
export const atomK = (problem: Problem): number => 32 / sizeOf(factorType(problem));

/** A chunk longer than k would only multiply zeros. */
export const chunkK = (problem: Problem, tileK: number): number =>
  Math.min(tileK, Math.ceil(problem.k / atomK(problem)) * atomK(problem));

/** Whether operands have to lie along k in shared memory, whatever they do in global memory: all but those of 16 bits (PTX ISA, wgmma). */
export const needsKMajor = (problem: Problem): boolean => sizeOf(factorType(problem)) !== 2;

/** Whether A and B are contiguous along k in global memory. */
export const isKMajor = (problem: Problem): boolean =>
  problem.a.layout === "row" && problem.b.layout === "col";
