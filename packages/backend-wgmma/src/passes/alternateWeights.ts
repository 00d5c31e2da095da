/** Make the weights of a chunk in parts, in two sets of registers by turns: one is made while products read the other. */

import type { Buffer, Pass, Stmt, TileProgram, View } from "@tilewright/ir";
import {
  add,
  codesOf,
  directed,
  rewriteStmts,
  rowsOfWeights,
  wholeView,
  withBody,
  withViews,
} from "@tilewright/ir";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { kind: K }>;

/**
 * Directive `alternateWeights rows=R`: a `map` that makes the weights of a chunk, and the product behind it, become as many of each as the chunk has parts of R rows. Even parts
 * are made in registers of their own, odd ones in others, so that a part is waited for no sooner than two parts later.
 */
export const alternateWeights: Pass = {
  name: "alternateWeights",
  summary: "Weights of a chunk are made in parts, one while products read the one before",
  from: "staged",
  to: "staged",
  run: directed("alternateWeights", (program, { rows }) => {
    const made = new Map<string, Of<"map">>();
    const sets = new Map<string, readonly Buffer[]>();
    const body = rewriteStmts(program.body, (stmt) => {
      if (stmt.kind === "map" && codesOf(stmt) !== null) {
        made.set(stmt.dst.buffer, stmt);
        return [];
      }
      const weights = stmt.kind === "mma" ? made.get(stmt.b.buffer) : undefined;
      if (stmt.kind !== "mma" || weights === undefined) return stmt;
      const both = setsOf(program, weights.dst.buffer, rows);
      sets.set(weights.dst.buffer, both);
      return inParts(stmt, weights, both, rows);
    });
    return { ...withBody(program, body), buffers: program.buffers.flatMap((b) => sets.get(b.name) ?? [b]) };
  }),
};

/** Registers for even and odd parts. */
const setsOf = ({ buffers }: TileProgram, name: string, rows: number): readonly Buffer[] =>
  buffers
    .filter((b) => b.name === name)
    .flatMap((b) => [0, 1].map((i) => ({ ...b, name: `${name}${i}`, shape: [rows, b.shape[1]] as const })));

function inParts(
  stmt: Of<"mma">,
  weights: Of<"map">,
  sets: readonly Buffer[],
  rows: number,
): readonly Stmt[] {
  const chunk = stmt.a.extent[1];
  const words = codesOf(weights);
  return Array.from({ length: chunk / rows }, (_, part): readonly Stmt[] => {
    const into = sets[part % sets.length];
    if (into === undefined) throw new RangeError("weights have registers");
    const at = { kind: "const", value: part * rows } as const;
    const along = ({ origin: [r, c], ...view }: View): View => ({
      ...view,
      origin: [r, add(c, at)],
      extent: [view.extent[0], rows],
    });
    return [
      withViews({ ...weights, dst: wholeView(into) }, (view) =>
        view.buffer === into.name ? view : rowsOfWeights(view, chunk, at, rows, view === words),
      ),
      { ...stmt, a: along(stmt.a), b: wholeView(into) },
    ];
  }).flat();
}
