/** `map` and `reduce.row` on places, in f32 arithmetic. */
import {
  codeValue,
  dtypes,
  fmaF32,
  foldExpression,
  functionNamed,
  mapLeaves,
  memoryType,
  roundTo,
  WEIGHT_COLUMNS,
  type WeightType,
  weightPlace,
} from "@tilewright/core";
import { type ElementStmt, elementDomain } from "../elements.ts";
import type { ElementLeaf } from "../types.ts";
import { clip, markWritten, offsetOf, type Place, requireWritten } from "./memory.ts";
import { storeOf } from "./tileOps.ts";

/** A leaf whose view is a place. */
type Source =
  | { readonly kind: "row" | "col"; readonly from: number }
  | { readonly kind: "place"; readonly place: Place; readonly codes: WeightType | null };

type ElementAt = (row: number, col: number) => number;
const zero: ElementAt = () => 0;

/** `sources`: the places of the expression's views, in their order; `from`: where its rows and columns are counted from, likewise. What lies outside a global one reads 0, and is not written. */
export function runElements(
  stmt: ElementStmt,
  dst: Place,
  sources: readonly Place[],
  from: readonly number[],
  at: string,
): void {
  let [next, counted] = [0, 0];
  const value = mapLeaves<ElementLeaf, Source>(stmt.value, (leaf) => {
    if (leaf.kind !== "view") return { kind: leaf.kind, from: from[counted++] ?? 0 };
    const place = sources[next++];
    if (place === undefined) throw new RangeError("a place for each view");
    return { kind: "place", place, codes: leaf.codes ?? null };
  });
  const [rows, cols] = elementDomain(stmt);
  const inside = sources.map((place) => {
    const guard = place.memory.buffer.space === "global";
    const box = clip(place, [guard, guard], at);
    requireWritten(place, box, at);
    return [place, box] as const;
  });
  const boxes = new Map(inside);
  // One walk of the expression for all elements.
  const element = foldExpression<Source, ElementAt>(value, {
    number: (x) => () => x,
    apply: (fn, [x = zero, y = zero, z = zero, w = zero]) => {
      if (fn === "fma") return (row, col) => fmaF32(x(row, col), y(row, col), z(row, col));
      const of = functionNamed(fn);
      if (z === zero) return (row, col) => Math.fround(of(x(row, col), y(row, col)));
      return (row, col) => Math.fround(of(x(row, col), y(row, col), z(row, col), w(row, col)));
    },
    leaf: (leaf) => {
      if (leaf.kind !== "place")
        return leaf.kind === "row"
          ? (row) => Math.fround(leaf.from + row)
          : (_, col) => Math.fround(leaf.from + col);
      const { place } = leaf;
      const box = boxes.get(place);
      if (box === undefined) return zero;
      const { data, rowStride, colStride } = place.memory;
      const start = offsetOf(place, 0, 0);
      const { codes } = leaf;
      if (codes !== null) {
        const mask = 2 ** dtypes[codes].bits - 1;
        return (row, col) => {
          const [c, bit] = weightPlace(codes, row, col);
          const r = Math.floor(col / WEIGHT_COLUMNS);
          if (r < box.row0 || r >= box.row1 || c < box.col0 || c >= box.col1) return 0;
          return codeValue(codes, ((data[start + r * rowStride + c * colStride] ?? 0) >>> bit) & mask);
        };
      }
      const [eachRow, eachCol] = [rows / place.rows, cols / place.cols];
      return (row, col) => {
        const [r, c] = [Math.floor(row / eachRow), Math.floor(col / eachCol)];
        if (r < box.row0 || r >= box.row1 || c < box.col0 || c >= box.col1) return 0;
        return data[start + r * rowStride + c * colStride] ?? 0;
      };
    },
  });
  const out = storeOf(dst.memory, at);
  const rounded = (x: number): number => roundTo(memoryType(dst.memory.buffer.dtype), x);
  const outside = dst.memory.buffer.space === "global";
  const box = clip(dst, [outside, outside], at);
  if (stmt.kind === "map") {
    // All of them before the first is stored: the expression may read the tile.
    const made = new Float64Array(rows * cols);
    for (let row = 0, i = 0; row < rows; row++)
      for (let col = 0; col < cols; col++, i++) made[i] = element(row, col);
    for (let row = box.row0; row < box.row1; row++)
      for (let col = box.col0; col < box.col1; col++)
        out[offsetOf(dst, row, col)] = rounded(made[row * cols + col] ?? 0);
    markWritten(dst, box);
    return;
  }
  if (stmt.adds) requireWritten(dst, box, at);
  const join =
    stmt.op === "max" ? Math.max : (x: number, y: number): number => Math.fround(Math.fround(x) + y);
  const { runs = cols } = stmt;
  for (let row = 0; row < rows; row++)
    for (let to = 0; to < dst.cols; to++) {
      const place = offsetOf(dst, row, to);
      let sum = stmt.adds ? (out[place] ?? 0) : stmt.op === "max" ? Number.NEGATIVE_INFINITY : 0;
      for (let col = 0; col < Math.min(cols, stmt.below ?? cols); col++)
        if (Math.floor(col / runs) % dst.cols === to) sum = join(sum, element(row, col));
      out[place] = rounded(sum);
    }
  markWritten(dst, box);
}
