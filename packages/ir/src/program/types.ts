/**
 * Programs over named axes: what a kernel computes, before anything is said of threads, tiles' sizes or an architecture. A statement speaks of the work tile at hand:
 * `%A` is the part of a parameter that the tile, or the turn of a loop, has. `scheduleProgram` makes a tile program of it.
 */
import type { DType, Expression } from "@tilewright/core";
import type { RowReduction } from "../tile/types.ts";

/** An axis; of one that is `whole` every work tile has all, of one of the batch one position. */
export interface AxisDeclaration {
  readonly name: string;
  readonly extent: number;
  readonly whole: boolean;
  readonly batch: boolean;
  /** Each position along an axis of the batch has a run of its elements, at most `extent`: where in those of all together, `total`, cumulative offsets say, a parameter. */
  readonly runs?: AxisRuns;
}

/** With `pages` elements lie in pages of `size`, which a parameter `table` names for each position, and `offsets` has how many elements it has. */
export interface AxisRuns {
  readonly offsets: string;
  readonly along: string;
  readonly total: number;
  readonly pages?: { readonly size: number; readonly table: string };
}

/** The axis whose elements a parameter tells apart. */
export const toldBy = (axes: readonly AxisDeclaration[], parameter: string): AxisDeclaration | undefined =>
  axes.find(({ runs }) => runs?.offsets === parameter || runs?.pages?.table === parameter);

/** Elements of an axis in memory: of runs those of all together. */
export const memoryExtent = ({ extent, runs }: AxisDeclaration): number => runs?.total ?? extent;

/** A matrix in global memory, or a vector along one axis, for each position along its axes of the batch. */
export interface Parameter {
  readonly name: string;
  readonly dtype: DType;
  /** What a work tile sees: rows and columns. */
  readonly axes: readonly string[];
  /** `row`: columns are contiguous. */
  readonly layout: "row" | "col";
  /** The parameter in whose buffer it lies: its rows are the first columns of that one's. */
  readonly of?: string;
  /** All axes as declared, with elements between neighbours. */
  readonly memory: readonly { readonly axis: string; readonly stride: number }[];
}

/** What a work tile holds: a matrix of two axes, or a vector along one. */
interface ProgramTile {
  readonly name: string;
  readonly dtype: DType;
  readonly axes: readonly string[];
}

/** An element of a parameter or tile, or its position along an axis, which with `end` is counted from behind the last one: of that -1. */
export type NamedLeaf =
  | { readonly kind: "element"; readonly name: string }
  | { readonly kind: "position"; readonly axis: string; readonly end?: true };

export type NamedExpr = Expression<NamedLeaf>;

export type AxisStmt =
  | { readonly kind: "fill"; readonly tile: string; readonly value: number }
  /** The axis in turns. `all`: also those of which a mask leaves nothing (`hidden.ts`). */
  | {
      readonly kind: "for";
      readonly axis: string;
      readonly all?: true;
      readonly body: readonly AxisStmt[];
    }
  /** `exchanged`: of a parameter that statements before read with other axes, rows and columns of the right factor are exchanged. */
  | {
      readonly kind: "mma";
      readonly acc: string;
      readonly a: string;
      readonly b: string;
      readonly exchanged?: true;
    }
  | { readonly kind: "map"; readonly tile: string; readonly value: NamedExpr }
  | {
      readonly kind: "reduce";
      readonly tile: string;
      readonly op: RowReduction;
      readonly value: NamedExpr;
      readonly along: string;
      readonly adds: boolean;
    }
  /** Behind a loop over parts: what two runs of parts have come to, the tiles `of` and those `from` another, the body makes into one, in `of`. A schedule may split the axis there. */
  | {
      readonly kind: "merge";
      readonly of: readonly string[];
      readonly from: readonly string[];
      readonly body: readonly AxisStmt[];
    }
  | { readonly kind: "store"; readonly param: string; readonly value: NamedExpr };

export interface AxisProgram {
  readonly name: string;
  readonly axes: readonly AxisDeclaration[];
  readonly params: readonly Parameter[];
  readonly tiles: readonly ProgramTile[];
  /** Axes of the work tiles: rows and columns. */
  readonly grid: readonly [string, string];
  readonly body: readonly AxisStmt[];
}

/** What a name stands for. */
export type Named = Parameter | ProgramTile;

export const namedIn = (program: AxisProgram, name: string): Named => {
  const found = [...program.params, ...program.tiles].find((each) => each.name === name);
  if (found === undefined) throw new RangeError(`unresolved %${name}`);
  return found;
};

export const axisOf = (program: AxisProgram, name: string): AxisDeclaration => {
  const found = program.axes.find((axis) => axis.name === name);
  if (found === undefined) throw new RangeError(`unresolved axis ${name}`);
  return found;
};

/** Axes of the batch, the innermost last. */
export const batchOf = (program: AxisProgram): readonly AxisDeclaration[] =>
  program.axes.filter(({ batch }) => batch);

/** Elements between neighbours of a parameter along an axis; 0 along one that it lacks. */
export const strideAlong = ({ memory }: Parameter, axis: string): number =>
  memory.find((each) => each.axis === axis)?.stride ?? 0;

/** Strides of axes of these extents that lie packed, the last one contiguous. */
export const packedStrides = (extents: readonly number[]): readonly number[] =>
  extents.map((_, i) => extents.slice(i + 1).reduce((product, extent) => product * extent, 1));
