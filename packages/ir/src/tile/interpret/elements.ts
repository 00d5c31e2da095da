/** `map` and `reduce.row` on places, in f32 arithmetic. */
import { fmaF32, foldExpression, mapLeaves, roundTo, valueOfFunction } from "@tilewright/core";
import { type ElementStmt, elementDomain } from "../elements.ts";
import type { ElementLeaf } from "../types.ts";
import { clip, markWritten, offsetOf, type Place, requireWritten } from "./memory.ts";
import { memoryType, storeOf } from "./tileOps.ts";

/** A leaf whose view is a place. */
type Source =
  | { readonly kind: "row" | "col"; readonly from: number }
  | { readonly kind: "place"; readonly place: Place };

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
    return { kind: "place", place };
  });
  const [rows, cols] = elementDomain(stmt);
  const inside = sources.map((place) => {
    const guard = place.memory.buffer.space === "global";
    const box = clip(place, [guard, guard], at);
    requireWritten(place, box, at);
    return [place, box] as const;
  });
  const boxes = new Map(inside);
  const element = (row: number, col: number): number =>
    foldExpression(value, {
      number: (x) => x,
      apply: (fn, args) => {
        const [x = 0, y = 0, z = 0] = args;
        return fn === "fma" ? fmaF32(x, y, z) : Math.fround(valueOfFunction(fn, args));
      },
      leaf: (leaf) => {
        if (leaf.kind !== "place") return Math.fround(leaf.from + (leaf.kind === "row" ? row : col));
        const { place } = leaf;
        const box = boxes.get(place);
        const [r, c] = [place.rows === 1 ? 0 : row, place.cols === 1 ? 0 : col];
        if (box === undefined || r < box.row0 || r >= box.row1 || c < box.col0 || c >= box.col1) return 0;
        return place.memory.data[offsetOf(place, r, c)] ?? 0;
      },
    });
  const out = storeOf(dst.memory, at);
  const rounded = (x: number): number => roundTo(memoryType(dst.memory.buffer.dtype), x);
  const outside = dst.memory.buffer.space === "global";
  const box = clip(dst, [outside, outside], at);
  if (stmt.kind === "map") {
    const made = Array.from({ length: rows * cols }, (_, i) => element(Math.floor(i / cols), i % cols));
    for (let row = box.row0; row < box.row1; row++)
      for (let col = box.col0; col < box.col1; col++)
        out[offsetOf(dst, row, col)] = rounded(made[row * cols + col] ?? 0);
    markWritten(dst, box);
    return;
  }
  if (stmt.adds) requireWritten(dst, box, at);
  const join =
    stmt.op === "max" ? Math.max : (x: number, y: number): number => Math.fround(Math.fround(x) + y);
  for (let row = 0; row < rows; row++) {
    const place = offsetOf(dst, row, 0);
    let sum = stmt.adds ? (out[place] ?? 0) : stmt.op === "max" ? Number.NEGATIVE_INFINITY : 0;
    for (let col = 0; col < Math.min(cols, stmt.below ?? cols); col++) sum = join(sum, element(row, col));
    out[place] = rounded(sum);
  }
  markWritten(dst, box);
}
