/** Cache policies of matrices: a qualifier of the accesses, and the register that says what it means. */
import { bufferOf, type PtxVersion, type TileProgram } from "@tilewright/ir";
import { f32imm, type Operand } from "@tilewright/ptx";
import type { Context } from "./context.ts";

/** What an access carries of a policy: part of its mnemonic, and its last operands. */
export interface CachePolicyUse {
  readonly hint: "" | ".L2::cache_hint";
  readonly operands: readonly Operand[];
}

/** Without a policy. */
export const asOthers: CachePolicyUse = { hint: "", operands: [] };

/** Cache hints came with 7.4, for sm_80 and later (PTX ISA, createpolicy). */
const HINTED_PTX: PtxVersion = [7, 4];

/** The policy of a buffer's accesses; the register is made once for all tiles of a role. */
export function cachePolicy(ctx: Context, buffer: string): CachePolicyUse {
  const { cache } = bufferOf(ctx.program, buffer);
  if (cache === undefined) return asOthers;
  const policy = ctx.crewValue(`policy ${cache}`, (code) => {
    const d = ctx.entry.reg("u64", "policy");
    // For all of the accesses.
    code.emitAny(null, `createpolicy.fractional.L2::${cache}.b64`, [d, f32imm(1)]);
    return d;
  });
  return { hint: ".L2::cache_hint", operands: [policy] };
}

/** The PTX that a program's policies need. */
export const ptxOfPolicies = ({ buffers }: TileProgram): PtxVersion =>
  buffers.some((b) => b.cache !== undefined) ? HINTED_PTX : [1, 0];
