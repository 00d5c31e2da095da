/** Who uses the rings of a program. */
import { childrenOf } from "../rewrite.ts";
import type { Stmt, TileProgram } from "../types.ts";
import { BLOCK } from "./control/running.ts";
import type { Consumers } from "./rings.ts";

/**
 * Roles (or the block) that wait for a ring: all of them must release a slot before it is free, or the one whose turn its chunk's tile is. Answers about
 * tiles are for all, also where they take turns.
 */
export function consumersOf(program: TileProgram, ring: string): Consumers {
  const names = new Set<string>();
  let turns = false;
  const walk = (stmts: readonly Stmt[], name: string, taking: boolean): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "wait" && stmt.ring === ring) {
        names.add(name);
        turns ||= taking;
      }
      const loop = stmt.kind === "tiles" && stmt.loop?.ring !== ring ? stmt.loop : null;
      const of = loop?.of ?? 1;
      walk(childrenOf(stmt), stmt.kind === "role" ? stmt.name : name, taking || of > 1);
    }
  };
  walk(program.body, BLOCK, false);
  return { names: [...names], turns };
}

/** The ring that manages each buffer. */
export const ringsByBuffer = (program: TileProgram): ReadonlyMap<string, string> =>
  new Map(program.rings.flatMap((ring) => ring.buffers.map((b) => [b, ring.name] as const)));
