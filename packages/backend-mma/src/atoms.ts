/** The instruction that a problem is multiplied with, its chunks of k, and which atoms of a warp take turns or stay together. */
import {
  copyBytes,
  type DType,
  dtypes,
  type Problem,
  sizeMost,
  sizeMultiple,
  sizeOf,
  type Target,
  WEIGHT_COLUMNS,
  WEIGHT_K,
} from "@tilewright/core";
import { type Atom, atomFor, widensIntoFragments } from "@tilewright/ir";
import type { MmaSchedule } from "./schedule.ts";

/** Whether elements of a dtype share bytes. */
export const isPacked = (dtype: DType): boolean => dtypes[dtype].bits < 8;

/** k of the instruction that multiplies parts of f32. */
const PART_K = 8;

/** The instruction that a problem is multiplied with on a target; null where there is none at all. */
export const atomOf = (
  { a, b, acc, precision, weights }: Problem,
  target: Target,
  s?: Pick<MmaSchedule, "firstLevelK">,
): Atom | null => {
  const [x, y] = [a.dtype, weights === undefined ? b.dtype : a.dtype];
  const multiplied = (own: DType, other: DType): DType => (widensIntoFragments(own, other) ? other : own);
  return atomFor(multiplied(x, y), multiplied(y, x), acc, {
    precision: precision === "promoted" ? undefined : precision,
    target,
    steps: s && s.firstLevelK / PART_K,
  });
};

/** Whether fragments of an operand are loaded from bytes to registers of 16 bits. */
export const widensFragments = (problem: Problem, which: "a" | "b"): boolean =>
  problem.weights === undefined &&
  widensIntoFragments(problem[which].dtype, problem[which === "a" ? "b" : "a"].dtype);

/** As `atomOf`, for problems that the backend has accepted. */
export function acceptedAtom(problem: Problem, target: Target, s?: Pick<MmaSchedule, "firstLevelK">): Atom {
  const atom = atomOf(problem, target, s);
  if (!atom) throw new TypeError(`no instruction multiplies ${problem.a.dtype} by ${problem.b.dtype}`);
  return atom;
}

/**
 * Atoms that take turns along n: column q of atom j is column 4q + j. A lane holds two columns of each, eight neighbours in all. (Turns of
 * single columns, not of pairs: the rows of B that one ldmatrix reads are then four apart, which a swizzle can tell from each other.)
 */
export const INTERLEAVED = 4;

/**
 * Whether columns of D are interleaved: a quarter of the row stores, 16 bytes each, of a 16-bit D. It needs a B whose columns need not be
 * neighbours in shared memory, which is one that is contiguous along k (8-byte stores of 32-bit outputs fill whole sectors as they are).
 * Bulk copies interleave them as they copy, in whole groups. Not beside an epilogue through shared memory, which brings neighbours together by itself.
 */
export const interleaves = (
  problem: Problem,
  s: Pick<MmaSchedule, "interleave" | "warpN" | "copy" | "staged">,
): boolean =>
  s.interleave &&
  problem.weights === undefined &&
  !s.staged &&
  (s.copy !== "tma" || sizeMultiple(problem, "n") % INTERLEAVED === 0) &&
  problem.b.layout === "col" &&
  problem.d.layout === "row" &&
  sizeOf(problem.d.dtype) <= 2 &&
  s.warpN % (8 * INTERLEAVED) === 0;

/**
 * Whether a store of interleaved columns moves as many neighbours as atoms take turns. Narrower ones touch more sectors of D than stores of columns that are not interleaved: a
 * sector each, where rows begin at odd elements.
 */
export const interleavesWide = (problem: Problem): boolean =>
  copyBytes(problem, "d") >= INTERLEAVED * sizeOf(problem.d.dtype);

/**
 * Neighbours along an axis that belong to two atoms in turn, so that bytes across the contiguous axis of shared memory come by ldmatrix: its
 * cells are two bytes wide, and a lane keeps both. Needs matrices in pairs, or bytes that are widened, and a warp tile of whole pairs of atoms.
 */
export const PAIR = 2;

/** Whether rows of A, or columns of B, are interleaved so. Columns of bytes that are widened are where several warps divide them: one that has all of a row multiplies what it holds of them by columns next to each other. */
export function pairs(
  problem: Problem,
  s: Pick<MmaSchedule, "matrices" | "warpM" | "warpN" | "warpsN">,
  which: "a" | "b",
  atom: Atom,
): boolean {
  const { dtype, layout } = problem[which];
  const across = which === "a" ? layout === "col" : layout === "row";
  const [warp, extent] = which === "a" ? [s.warpM, atom.m] : [s.warpN, atom.n];
  const widened = widensFragments(problem, which);
  const matrices = widened ? (which === "a" || s.warpsN > 1 ? 1 : Number.POSITIVE_INFINITY) : PAIR;
  return sizeOf(dtype) === 1 && across && s.matrices >= matrices && warp % (extent * PAIR) === 0;
}

/** A chunk longer than k would only multiply zeros; its steps are even in number where two fragments alternate. */
export function chunkK(problem: Problem, s: Pick<MmaSchedule, "tileK" | "frag">, atom: Atom): number {
  const unit = problem.weights === undefined ? atom.k * s.frag : Math.max(WEIGHT_K, problem.weights.group);
  return Math.min(s.tileK, Math.ceil(sizeMost(problem, "k") / unit) * unit);
}

/** Atoms that take turns along m and n. */
export const interleavedAtoms = (problem: Problem, s: MmaSchedule, atom: Atom): readonly [number, number] => [
  pairs(problem, s, "a", atom) ? PAIR : 1,
  interleaves(problem, s) ? INTERLEAVED : pairs(problem, s, "b", atom) ? PAIR : 1,
];

/** Atoms side by side along m or n that stay together: those of the columns of a block of weights. */
export const besideOf = ({ weights }: Problem, axis: 0 | 1): number =>
  weights === undefined || axis === 0 ? 1 : WEIGHT_COLUMNS / 8;
