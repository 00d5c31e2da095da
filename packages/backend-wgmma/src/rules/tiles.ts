/** Tiles: what instructions, and squares of factors, divide. */
import { BLOCK_SCALE } from "@tilewright/core";
import { nearestMultiple } from "@tilewright/ir";
import { ATOM_ROWS, atomK, atomOf, widensA, widthsOf } from "../instructions.ts";
import { sumSides } from "../schedule.ts";
import { isTwoLevel } from "../twoLevel.ts";
import { type Found, type Rule, rule } from "./rule.ts";

export const tileRules: readonly Rule[] = [
  rule("TW2301", "tile", ({ s }) => {
    const { axis, tile, groups } = sumSides(s).rows;
    return tile % (groups * ATOM_ROWS) === 0
      ? null
      : {
          message: `tile ${axis} ${tile} is no multiple of the ${ATOM_ROWS} rows of each of ${groups} warpgroups`,
          hint: `nearest legal: tile ${axis} ${nearestMultiple(tile, groups * ATOM_ROWS)}`,
        };
  }),
  rule("TW2302", "tile", ({ s, problem }) => {
    const { axis, tile, groups } = sumSides(s).columns;
    const columns = tile / groups;
    if (Number.isInteger(columns) && atomOf(problem, columns, s.swapAB) !== null) return null;
    const widths = widthsOf(problem);
    const nearest = widths.reduce(
      (best, n) => (Math.abs(n - columns) < Math.abs(best - columns) ? n : best),
      widths[0] ?? 8,
    );
    return {
      message: `no instruction divides the ${columns} columns of each of ${groups} warpgroups`,
      hint: `nearest legal: tile ${axis} ${nearest * groups}`,
    };
  }),
  rule("TW2303", "tile", ({ s, problem }) => {
    const unit = isTwoLevel(problem) ? BLOCK_SCALE : atomK(problem);
    return s.tileK % unit === 0
      ? null
      : {
          message: `tile k ${s.tileK} is no multiple of the ${unit} of ${isTwoLevel(problem) ? "a sum that is promoted" : `an instruction of ${problem.a.dtype}`}`,
          hint: `nearest legal: tile k ${nearestMultiple(s.tileK, unit)}`,
        };
  }),
  rule("TW2352", "swapAB", ({ s, problem }) => {
    if (!s.swapAB) return [];
    const found: Found[] = [];
    const refuse = (message: string): void => {
      found.push({ message, hint: "nearest legal: swapAB=off" });
    };
    if (widensA(problem))
      refuse(`A of ${problem.a.dtype} is widened in the registers that bring an instruction its 64 rows`);
    if (isTwoLevel(problem))
      refuse("sums that are promoted, and their factors, go by rows of D as the 64 of an instruction");
    return found;
  }),
];
