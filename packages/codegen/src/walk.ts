/** Order of the multiply-adds of one register tile step. */
import type { Walk } from "@tilewright/ir";

/** `outer`: axis of the runs' index; `snake`: every other run is walked backwards, so that its first operand is the last one's. */
const orders: Readonly<Record<Walk, { readonly outer: "row" | "col"; readonly snake: boolean }>> = {
  rows: { outer: "row", snake: false },
  cols: { outer: "col", snake: false },
  "snake-rows": { outer: "row", snake: true },
  "snake-cols": { outer: "col", snake: true },
};

/** Elements or atoms of a register tile in walking order; they come rows outermost, ascending. */
export function walkOrder<T extends { readonly row: number; readonly col: number }>(
  list: readonly T[],
  walk: Walk,
): readonly T[] {
  const { outer, snake } = orders[walk];
  const runs = new Map<number, T[]>();
  for (const e of list) {
    const run = runs.get(e[outer]) ?? [];
    run.push(e);
    runs.set(e[outer], run);
  }
  return [...runs.values()].flatMap((run, i) => (snake && i % 2 === 1 ? [...run].reverse() : run));
}
