/** Loops that take some of their turns: those that the bounds of `within` leave, and one at least. */
import { add, lit } from "./expr.ts";
import { eachStmt } from "./rewrite.ts";
import type { Expr, Of, TileProgram, Within } from "./types.ts";

/** First turn and end, of a loop's own, of its bounds, and of those that it takes. */
export function iterationsWithin(
  [from, to]: readonly [number, number],
  [low, high]: readonly [number, number],
  take: Within["take"],
): readonly [number, number] {
  const first = Math.max(from, Math.min(low, to - 1));
  const end = Math.min(to, Math.max(high, first + 1));
  switch (take) {
    case "all":
      return [first, end];
    case "first":
      return [first, first + 1];
    case "rest":
      return [first + 1, end];
    case "last":
      return [end - 1, end];
  }
}

/**
 * The first turn that a loop takes, which of the last one is so where there is no other; null where bounds that follow from sizes or positions may leave out turns before it.
 */
export function firstIteration({ from, within }: Of<"for">): Expr | null {
  if (within === undefined) return from;
  const [low] = within.bounds;
  if (low.kind !== "const" || from.kind !== "const" || low.value > from.value) return null;
  return within.take === "rest" ? add(from, lit(1)) : from;
}

/** Whether loops of a program skip turns, so that chunks of rings have numbers with gaps. */
export const skipsIterations = ({ body }: Pick<TileProgram, "body">): boolean =>
  eachStmt(body).some((stmt) => stmt.kind === "for" && stmt.within !== undefined);
