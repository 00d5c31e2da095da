/** Who uses the rings of a program. */
import { childrenOf } from "../rewrite.ts";
import type { Stmt, TileProgram } from "../types.ts";
import { BLOCK } from "./control.ts";

/** Roles (or the block) that wait for a ring: all of them must release a slot before it is free. */
export function consumersOf(program: TileProgram, ring: string): readonly string[] {
  const names = new Set<string>();
  const walk = (stmts: readonly Stmt[], name: string): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "wait" && stmt.ring === ring) names.add(name);
      walk(childrenOf(stmt), stmt.kind === "role" ? stmt.name : name);
    }
  };
  walk(program.body, BLOCK);
  return [...names];
}

/** The ring that manages each buffer. */
export const ringsByBuffer = (program: TileProgram): ReadonlyMap<string, string> =>
  new Map(program.rings.flatMap((ring) => ring.buffers.map((b) => [b, ring.name] as const)));
