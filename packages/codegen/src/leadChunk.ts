/**
 * The first chunk of a block that begins early and has one tile: its copies are issued as soon as the barrier exists on which they arrive, before the other barriers are made. From
 * there to the chunk's arrival pass 2000 cycles on an H200, all of them idle (docs/perf/wgmma.md).
 */
import { eachStmt, isSolo, lit, type Ring, type TileProgram } from "@tilewright/ir";
import { clusterSize } from "./clusters.ts";
import type { Code } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";

/** The loop over chunks of the role that copies, and the ring that it fills. */
export interface Lead {
  readonly ring: Ring;
  readonly loop: StmtOf<"for">;
}

/** Where the copies of the first chunk go, which ring they fill, and whether they are what is being lowered. */
export interface LeadState extends Lead {
  readonly code: Code;
  copying: boolean;
}

/** The role whose one thread copies in bulk, where it may begin before the block has met, and no other block has to be ready. */
export function earlyRole(program: TileProgram): StmtOf<"role"> | null {
  if (program.launch.early !== true || clusterSize(program) > 1) return null;
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "role" && isSolo(program, stmt.body)) return stmt;
  return null;
}

/** Null where the copying role does not begin with a loop that fills a ring from chunk 0 on, or goes from tile to tile; or where the grid before may still write what is copied. */
export function leadOf(program: TileProgram): Lead | null {
  const role = program.launch.overlap ? null : earlyRole(program);
  const [loop] = role?.body ?? [];
  const once = program.body.some(
    (s) => s.kind === "tiles" && s.visit === null && s.share === undefined && s.body.some((r) => r === role),
  );
  if (!once || loop?.kind !== "for" || loop.unroll || loop.apart !== undefined) return null;
  const { from, to } = loop;
  if (from.kind !== "const" || from.value !== 0 || to.kind !== "const" || to.value === 0) return null;
  const [first, ...others] = loop.body;
  const copies = others.slice(0, -1);
  if (first?.kind !== "acquire" || others.at(-1)?.kind !== "commit") return null;
  if (copies.some((s) => s.kind !== "copy" || s.when !== null)) return null;
  const ring = program.rings.find(({ name }) => name === first.ring);
  return ring === undefined ? null : { ring, loop };
}

/** The first chunk to where the kernel begins; what is left of the role's statements. */
export function lowerLead(
  ctx: Context,
  role: StmtOf<"role">,
  lower: (stmts: StmtOf<"role">["body"]) => void,
): StmtOf<"role">["body"] {
  const { lead } = ctx;
  const [loop, ...rest] = role.body;
  if (lead === null || loop !== lead.loop) return role.body;
  const outer = ctx.body;
  ctx.body = lead.code;
  lead.copying = true;
  ctx.crewScope({ first: role.first, warps: role.warps }, () => lower([{ ...lead.loop, to: lit(1) }]));
  lead.copying = false;
  ctx.body = outer;
  const { to } = lead.loop;
  return to.kind === "const" && to.value === 1 ? rest : [{ ...lead.loop, from: lit(1) }, ...rest];
}

/** Chunks of a ring that have been copied before the copying role's own code begins. */
export const chunksLed = ({ lead }: Context, ring: Ring): number =>
  lead !== null && !lead.copying && lead.ring.name === ring.name ? 1 : 0;
