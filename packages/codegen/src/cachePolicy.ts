/** Cache hints of matrices: qualifiers of the accesses, and the register that says what a policy means. */
import { bufferOf } from "@tilewright/ir";
import { f32imm, type Operand } from "@tilewright/ptx";
import type { Context } from "./context.ts";

/** What an access carries of a policy: part of its mnemonic, and its last operands. */
export interface CachePolicyUse {
  readonly hint: string;
  readonly operands: readonly Operand[];
}

/** Without a policy. */
export const asOthers: CachePolicyUse = { hint: "", operands: [] };

/** Loads and stores by threads; asynchronous copies by them; bulk copies, whose maps say what misses bring. */
export type CachedAccess = "load" | "store" | "async" | "bulk";

/** The hints of a buffer's accesses; a policy's register is made once for all tiles of a role. */
export function cachePolicy(ctx: Context, buffer: string, access: CachedAccess): CachePolicyUse {
  const { cache, l2PrefetchBytes: fetch, noAllocate: passing } = bufferOf(ctx.program, buffer);
  const first = passing === true && (access === "load" || access === "store") ? ".L1::no_allocate" : "";
  const last = fetch !== undefined && (access === "load" || access === "async") ? `.L2::${fetch}B` : "";
  if (cache === undefined) return first + last === "" ? asOthers : { hint: first + last, operands: [] };
  const policy = ctx.roleValue(`policy ${cache}`, (code) => {
    const d = ctx.entry.reg("u64", "policy");
    // For all of the accesses.
    code.emitAny(null, `createpolicy.fractional.L2::${cache}.b64`, [d, f32imm(1)]);
    return d;
  });
  return { hint: `${first}.L2::cache_hint${last}`, operands: [policy] };
}
