/** Order of the multiply-adds of one register tile step. */
import { type LineOrder, linesInOrder, type Stmt, type Walk } from "@tilewright/ir";

/** `outer`: axis of the runs' index; `snake`: every other run is walked backwards, so that its first operand is the last one's. */
const orders: Readonly<Record<Walk, { readonly outer: "row" | "col"; readonly snake: boolean }>> = {
  rows: { outer: "row", snake: false },
  cols: { outer: "col", snake: false },
  "snake-rows": { outer: "row", snake: true },
  "snake-cols": { outer: "col", snake: true },
};

/** How a statement walks its register tile. */
export type WalkOf = Pick<Extract<Stmt, { kind: "mma" }>, "walk" | "lines" | "along">;

/** Elements or atoms of a register tile in walking order; they come rows outermost, ascending. */
export function walkOrder<T extends { readonly row: number; readonly col: number }>(
  list: readonly T[],
  { walk, lines, along }: WalkOf,
): readonly T[] {
  const { outer, snake } = orders[walk];
  const runs = new Map<number, T[]>();
  for (const e of list) {
    const run = runs.get(e[outer]) ?? [];
    run.push(e);
    runs.set(e[outer], run);
  }
  const all = [...runs.values()];
  return ordered(all, lines).flatMap((run, i) => {
    const forwards = ordered(run, along);
    return snake && i % 2 === 1 ? [...forwards].reverse() : forwards;
  });
}

const ordered = <T>(list: readonly T[], order: LineOrder): readonly T[] =>
  linesInOrder(list.length, order).flatMap((i) => list.slice(i, i + 1));
