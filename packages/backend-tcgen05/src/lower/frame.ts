/** Tensor memory around the roles. */

import { type Context, proven, type Reg, type Statements, smemStart } from "@tilewright/codegen";
import { blocksOfTile, bufferOf, type Place } from "@tilewright/ir";
import { type AddressOperand, addr, imm } from "@tilewright/ptx";

/** Tensor memory, by one warp of each block: of a pair both allocate, and give back. */
export const tensorStatements = {
  "tmem.alloc"(ctx, { columns }) {
    const group = `cta_group::${blocksOfTile(ctx.program)}`;
    ctx.body.emitAny(null, `tcgen05.alloc.${group}.sync.aligned.shared::cta.b32`, [word(ctx), imm(columns)]);
  },
  "tmem.relinquish"(ctx) {
    const group = `cta_group::${blocksOfTile(ctx.program)}`;
    ctx.body.emitAny(null, `tcgen05.relinquish_alloc_permit.${group}.sync.aligned`, []);
  },
  "tmem.base"(ctx) {
    const tensor = ctx.entry.reg("u32", "tensor");
    ctx.body.emit(null, "ld.shared.u32", tensor, word(ctx));
    ctx.tensor = tensor;
    ctx.loopsOverTiles = true;
    ctx.restartInvariants();
  },
  "tmem.dealloc"(ctx, { columns }) {
    const group = blocksOfTile(ctx.program);
    const tensor = proven(ctx.tensor, "tmem.dealloc", "gives back columns whose address is not known");
    ctx.body.emitAny(null, `tcgen05.dealloc.cta_group::${group}.sync.aligned.b32`, [tensor, imm(columns)]);
  },
} satisfies Partial<Statements>;

/** Where the allocation leaves the address of its first column. */
function word(ctx: Context): AddressOperand {
  const missing = "has no word in shared memory for its address";
  return addr(smemStart(ctx), proven(ctx.shared.tensorAddress, "tmem.alloc", missing));
}

/** The first column of tensor memory, and where a tile lies from there. */
export function tensorTile(
  ctx: Context,
  name: string,
): { readonly tensor: Reg<"u32">; readonly place: Place } {
  return {
    tensor: proven(ctx.tensor, `%${name}`, "lies in tensor memory, whose address is not known here"),
    place: proven(bufferOf(ctx.program, name).place, `%${name}`, "has no columns of tensor memory"),
  };
}
