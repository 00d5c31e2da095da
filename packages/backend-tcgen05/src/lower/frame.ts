/** Tensor memory around the roles. */

import { type Context, type Reg, type Statements, smemStart } from "@tilewright/codegen";
import { blocksOfTile, bufferOf, must, type Place } from "@tilewright/ir";
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
    const tensor = must(ctx.tensor, "the address of tensor memory has been read (context)");
    ctx.body.emitAny(null, `tcgen05.dealloc.cta_group::${group}.sync.aligned.b32`, [tensor, imm(columns)]);
  },
} satisfies Partial<Statements>;

/** Where the allocation leaves the address of its first column. */
function word(ctx: Context): AddressOperand {
  return addr(
    smemStart(ctx),
    must(ctx.shared.tensorAddress, "the address of tensor memory has a word (declarations)"),
  );
}

/** The first column of tensor memory, and where a tile lies from there. */
export function tensorTile(
  ctx: Context,
  name: string,
): { readonly tensor: Reg<"u32">; readonly place: Place } {
  return {
    tensor: must(ctx.tensor, "the address of tensor memory has been read (context)"),
    place: must(bufferOf(ctx.program, name).place, `%${name} has columns (declarations)`),
  };
}
