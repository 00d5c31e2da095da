/** Chunks that a block asks for before it has met. */

import { isElected } from "./elected.ts";
import { lit } from "./expr.ts";
import { eachStmt } from "./rewrite.ts";
import type { For, Ring, Role, Stmt, TileProgram } from "./types.ts";

/** The role whose one thread copies in bulk, where it may begin before the block has met (`Launch.early`), and no other block has to be ready. */
export function earlyProducerRole({ launch, rings, body }: TileProgram): Role | null {
  if (launch.earlyProducerStart !== true || launch.cluster[0] * launch.cluster[1] > 1) return null;
  for (const stmt of eachStmt(body))
    if (stmt.kind === "role" && (stmt.elected === true || isElected({ rings }, stmt.body))) return stmt;
  return null;
}

/** The first chunk that a block of one tile copies: the loop over chunks that begins the role which copies, and the ring that it fills. */
export interface PrologueChunk {
  readonly role: Role;
  readonly ring: Ring;
  readonly loop: For;
}

/**
 * The chunk whose copies are issued as soon as the barrier exists on which they arrive, before the other barriers are made. Null where the copying role does not begin
 * with a loop that fills a ring from chunk 0 on, or goes from tile to tile; or where the grid before may still write what is copied.
 */
export function prologueOf(program: TileProgram): PrologueChunk | null {
  const role = program.launch.pdl ? null : earlyProducerRole(program);
  const [loop] = role?.body ?? [];
  const once = program.body.some(
    (s) =>
      s.kind === "tiles" &&
      s.loop === null &&
      s.streamK === undefined &&
      s.body.some((inner) => inner === role),
  );
  if (role === null || !once || loop?.kind !== "for" || loop.unroll || loop.apart !== undefined) return null;
  const { from, to } = loop;
  if (from.kind !== "const" || from.value !== 0 || to.kind !== "const" || to.value === 0) return null;
  const [first, ...others] = loop.body;
  if (first?.kind !== "acquire" || others.at(-1)?.kind !== "commit") return null;
  if (others.slice(0, -1).some((s) => s.kind !== "copy" || s.when !== null)) return null;
  const ring = program.rings.find(({ name }) => name === first.ring);
  return ring === undefined ? null : { role, ring, loop };
}

/** What is left of the role behind its first chunk. */
export function behindPrologue({ role, loop }: PrologueChunk): readonly Stmt[] {
  return [{ ...loop, from: lit(1) }, ...role.body.slice(1)];
}
