/** Ping-pong roles: where in a tile the turn is taken and handed on. */
import { isElementStmt } from "./elements.ts";
import { eachStmt } from "./rewrite.ts";
import type { Stmt } from "./types.ts";

/** Indices in the body of a loop over tiles: the turn is taken before statement `take`, and handed on before statement `pass`. */
export interface PingPongPoints {
  readonly take: number;
  readonly pass: number;
}

/** Named barriers of ping-pong roles, one for each: behind those of warpgroups that store (a block has at most 7 of them beside a producer). */
export const PING_PONG_BARRIER = 8;

/** What a role that takes turns does at work tiles of the others: it learns from the ring of responses which tile follows. */
export const responses = ({ loop, body }: Extract<Stmt, { kind: "tiles" }>): readonly Stmt[] =>
  loop?.ring === undefined || loop.of === 1
    ? []
    : body.filter((stmt) => "ring" in stmt && stmt.ring === loop.ring);

/**
 * A turn lasts from the first wait of a tile to its last products: outside of it no role waits for a chunk, so that none can be a whole round of a ring
 * behind, where its barriers' parities would be those of another chunk. Null where the body waits for nothing or multiplies nothing.
 *
 * The turn is handed on while the last products run, where D goes as it is, in pairs, through a shared tile; before other epilogues only when they are done: ptxas
 * 13.0 moves what those do with accumulators up to the barrier, and then serialises the products (C7514).
 */
export function pingPongPoints(body: readonly Stmt[]): PingPongPoints | null {
  const has = (stmt: Stmt, kind: Stmt["kind"]): boolean =>
    eachStmt([stmt]).some((inner) => inner.kind === kind);
  const take = body.findIndex((stmt) => has(stmt, "wait"));
  const last = body.findLastIndex((stmt) => has(stmt, "mma"));
  if (take < 0 || last < take) return null;
  const store = body.findIndex((stmt, at) => stmt.kind === "epilogue" || (at > last && isElementStmt(stmt)));
  if (store < 0 || isPlain(body[store])) return { take, pass: last + 1 };
  // The wait for the products of what is stored belongs to the epilogue.
  return { take, pass: body[store - 1]?.kind === "wgmma.wait" ? store - 1 : store };
}

const isPlain = (stmt: Stmt | undefined): boolean =>
  stmt?.kind === "epilogue" &&
  stmt.via !== null &&
  stmt.vector === 2 &&
  stmt.c === null &&
  stmt.steps.length === 0;
