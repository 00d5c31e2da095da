/** The first chunk of a block that has one tile, copied before the block has met. From its copies to its arrival pass 2000 cycles on an H200, all of them idle (docs/perf/wgmma.md). */
import { behindLead, type Lead, lit, type Ring } from "@tilewright/ir";
import type { Code } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";

type Body = StmtOf<"role">["body"];

/** Where the copies of the first chunk go, and whether they are what is being lowered. */
export interface LeadState extends Lead {
  readonly code: Code;
  copying: boolean;
}

/** The first chunk to where the kernel begins; what is left of the role's statements. */
export function lowerLead(ctx: Context, role: StmtOf<"role">, lower: (stmts: Body) => void): Body {
  const { lead } = ctx;
  if (lead === null || role !== lead.role) return role.body;
  const outer = ctx.body;
  ctx.body = lead.code;
  lead.copying = true;
  ctx.crewScope({ first: role.first, warps: role.warps }, () => lower([{ ...lead.loop, to: lit(1) }]));
  lead.copying = false;
  ctx.body = outer;
  return behindLead(lead);
}

/** Chunks of a ring that have been copied before the copying role's own code begins. */
export const chunksLed = ({ lead }: Context, ring: Ring): number =>
  lead !== null && !lead.copying && lead.ring.name === ring.name ? 1 : 0;
