/**
 * Programs over named axes: what a kernel computes, before anything is said of threads, tiles' sizes or an architecture. A statement speaks of the work tile at hand:
 * `%A` is the part of a parameter that the tile, or the turn of a loop, has. `scheduleProgram` makes a tile program of it.
 */
import type { DType, Expression } from "@tilewright/core";
import type { RowReduction } from "../tile/types.ts";

/** An axis; of one that is `whole` every work tile has all. */
export interface AxisDeclaration {
  readonly name: string;
  readonly extent: number;
  readonly whole: boolean;
}

/** A matrix in global memory, or a vector along one axis; the last axis is contiguous, with `layout col` the first. */
export interface Parameter {
  readonly name: string;
  readonly dtype: DType;
  readonly axes: readonly string[];
  readonly layout: "row" | "col";
}

/** What a work tile holds: a matrix of two axes, or a vector along one. */
interface ProgramTile {
  readonly name: string;
  readonly dtype: DType;
  readonly axes: readonly string[];
}

/** An element of a parameter or tile, or its position along an axis that is whole. */
export type NamedLeaf =
  | { readonly kind: "element"; readonly name: string }
  | { readonly kind: "position"; readonly axis: string };

export type NamedExpr = Expression<NamedLeaf>;

export type AxisStmt =
  | { readonly kind: "fill"; readonly tile: string; readonly value: number }
  /** The axis in turns. */
  | { readonly kind: "for"; readonly axis: string; readonly body: readonly AxisStmt[] }
  | { readonly kind: "mma"; readonly acc: string; readonly a: string; readonly b: string }
  | { readonly kind: "map"; readonly tile: string; readonly value: NamedExpr }
  | {
      readonly kind: "reduce";
      readonly tile: string;
      readonly op: RowReduction;
      readonly value: NamedExpr;
      readonly along: string;
      readonly adds: boolean;
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
