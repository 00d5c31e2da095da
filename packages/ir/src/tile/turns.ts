/** Roles that take turns: where in a tile the turn is taken and handed on. */
import { eachStmt } from "./rewrite.ts";
import type { Stmt } from "./types.ts";

/** Indices in the body of a loop over tiles: the turn is taken before statement `take`, and handed on before statement `pass`. */
export interface TurnPoints {
  readonly take: number;
  readonly pass: number;
}

/**
 * A turn lasts from the first wait of a tile to its last products: outside of it no role waits for a chunk, so that none can be a whole round of a ring
 * behind, where its barriers' parities would be those of another chunk. Null where the body waits for nothing or multiplies nothing.
 */
export function turnPoints(body: readonly Stmt[]): TurnPoints | null {
  const has = (stmt: Stmt, kind: Stmt["kind"]): boolean =>
    [...eachStmt([stmt])].some((inner) => inner.kind === kind);
  const take = body.findIndex((stmt) => has(stmt, "wait"));
  const last = body.findLastIndex((stmt) => has(stmt, "mma"));
  return take < 0 || last < take ? null : { take, pass: last + 1 };
}
