/** Descriptors of shared memory count in 16 bytes, of an address of 18 bits (PTX ISA, shared memory descriptor). */
import type { Context, Reg } from "@tilewright/codegen";
import { imm } from "@tilewright/ptx";
import { scratch } from "./scratch.ts";

export const UNIT = 16;
const ADDRESS_MASK = 0x3ffff;

/** The words of the descriptor of an address, whose other fields `word` has. */
export function sharedDescriptor(ctx: Context, address: Reg<"u32">, word: bigint) {
  const low = scratch(ctx, "desc");
  ctx.body.emit(null, "and.b32", low, address, imm(ADDRESS_MASK));
  ctx.body.emit(null, "shr.u32", low, low, imm(Math.log2(UNIT)));
  ctx.body.emit(null, "or.b32", low, low, imm(word & 0xffffffffn));
  const high = scratch(ctx, "desc");
  ctx.body.emit(null, "mov.u32", high, imm(word >> 32n));
  return { low, high };
}
