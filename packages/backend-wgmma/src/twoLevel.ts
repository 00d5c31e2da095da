/** Sums that are made apart in short runs of k: the columns that go at once, and where the factors that scale them come from. */
import { BLOCK_SCALE, blockFactors, expertRowsOf, type Problem, sizeMultiple } from "@tilewright/core";
import { commonRows, type Directive } from "@tilewright/ir";
import { widthsOf } from "./instructions.ts";
import type { WgmmaSchedule } from "./schedule.ts";

/** Whether sums of 128 along k are made apart and added in f32, scaled or not. */
export const isTwoLevel = ({ precision, blockScales }: Problem): boolean =>
  precision === "promoted" || blockScales !== undefined;

/** Most registers of a thread that sums take which are held twice, whole and in part (ptxas 13.0 spills none of a budget of 240 beside factors and addresses). */
const MOST_HELD = 192;

/** Registers of a thread for so many rows and columns of a warpgroup. */
const registersOf = (rows: number, columns: number): number => (rows * columns) / 128;

/**
 * Columns of a warpgroup whose sums are made at once where they are made apart: all, or the most of them beside whose sums registers hold the whole ones, and that begin where
 * factors do. Null where sums are not made apart, or no part of them is small enough.
 */
export function columnsApart(problem: Problem, s: WgmmaSchedule): number | null {
  if (!isTwoLevel(problem)) return null;
  const [rows, columns] = [s.tileM / s.groupsM, s.tileN / s.groupsN];
  const under = problem.blockScales?.b === "128x128" ? commonRows(columns, BLOCK_SCALE) : 1;
  const fits = (part: number): boolean =>
    columns % part === 0 &&
    part % under === 0 &&
    // Those of warpgroups beside each other are no columns in a row.
    (part === columns || s.groupsN === 1) &&
    registersOf(rows, columns) + registersOf(rows, part) <= MOST_HELD;
  return widthsOf(problem).findLast(fits) ?? null;
}

/** Whether factors that each have a row or column of their own come to shared memory with the chunk: bulk copies take vectors of whole 16 bytes, and so have those of every expert to begin. */
export const bringsFactors = (problem: Problem, s: WgmmaSchedule): boolean =>
  s.copy === "tma" &&
  (expertRowsOf(problem) !== "offsets" || sizeMultiple(problem, "m") % FACTORS_A_COPY === 0) &&
  factorVectors(problem, s).length > 0 &&
  factorVectors(problem, s).every(({ rows, tile }) => rows % FACTORS_A_COPY === 0 && tile <= MOST_VECTOR);

/** Factors of 16 bytes, and most of a box (cuTensorMapEncodeTiled). */
const FACTORS_A_COPY = 4;
const MOST_VECTOR = 256;

/** Operands of whose rows or columns each has factors of its own: how many there are, and how many of a tile. */
export function factorVectors(
  problem: Problem,
  s: WgmmaSchedule,
): readonly { readonly name: string; readonly rows: number; readonly tile: number }[] {
  return (["a", "b"] as const).flatMap((side) => {
    const factors = blockFactors(problem, side);
    const tile = side === "a" ? s.tileM : s.tileN;
    return factors?.form === "1x128" ? [{ name: `SF${side.toUpperCase()}`, rows: factors.rows, tile }] : [];
  });
}

/** What `accumulateInTwoLevels` shall do; null where sums are not made apart. */
export function twoLevelDirective(problem: Problem, s: WgmmaSchedule): Directive | null {
  const columns = columnsApart(problem, s);
  if (columns === null) return null;
  return { name: "twoLevel", args: { every: BLOCK_SCALE, columns: columns * s.groupsN } };
}
