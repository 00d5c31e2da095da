/** How far a turn of the loop over K goes. */
import type { Stmt } from "../types.ts";
import type { Subject } from "./verifier.ts";

export type Operand = "A" | "B";

/** Columns of A, and rows of B. */
export const K_AXIS: Readonly<Record<Operand, 0 | 1>> = { A: 1, B: 0 };

/** Elements of K that a tile's blocks multiply in one turn of their loops: those of the last may be filled up with zeros. */
export const chunkLength = ({ sites }: Subject): number =>
  Math.max(...sites.map(({ stmt }) => (stmt.kind === "tiles" ? (stmt.split?.extent ?? 1) : 1))) *
  Math.max(
    ...sites.flatMap(({ stmt, parents }) => {
      if (stmt.kind === "mma") return [stmt.a.extent[1] * innerTurns(parents)];
      if (stmt.kind !== "copy") return [];
      const { buffer, extent } = stmt.src;
      return buffer === "A" || buffer === "B" ? [extent[K_AXIS[buffer]]] : [];
    }),
  );

/** Turns of the innermost loop, over the steps of a chunk, where it stands in one over chunks. */
function innerTurns(parents: readonly Stmt[]): number {
  const [loop, around] = parents.filter((stmt) => stmt.kind === "for").reverse();
  const constant = loop?.from.kind === "const" && loop.to.kind === "const";
  return around !== undefined && constant ? loop.to.value - loop.from.value : 1;
}
