/** Some columns of a tile: which they are, and whether they are whole. */
import type { Columns } from "./types.ts";

/** Neighbouring columns, `from` to `to` - 1. */
export interface Run {
  readonly from: number;
  readonly to: number;
}

/** The runs of some columns in a tile of `width`, ascending; all of it where nothing is said. */
export const columnRuns = (columns: Columns | undefined, width: number): readonly Run[] =>
  columns === undefined
    ? [{ from: 0, to: width }]
    : Array.from({ length: Math.floor(width / columns.of) }, (_, i) => ({
        from: i * columns.of + columns.from,
        to: i * columns.of + columns.to,
      }));

/** Whether a column of a tile is among some of them. */
export const takesColumn = (columns: Columns | undefined, column: number): boolean =>
  columns === undefined || (column % columns.of >= columns.from && column % columns.of < columns.to);
