/** Packed arithmetic on pairs of 16 bits in a word: constants of both halves, and the logic that puts fields together. */
import { imm } from "@tilewright/ptx";
import type { Context } from "./context.ts";
import type { Word } from "./words.ts";

/** A half in both halves of a word. */
export const twice = (half: number): number => half * 0x10001;

/** Table of lop3 for (a & b) | c (PTX ISA, lop3). */
export const AND_OR = 0xea;

/** Table of lop3 for (a & b) ^ c. */
export const AND_XOR = 0x6a;

/** Sign bits of a pair; as a pair two -0, which leave a product as it is where they are added to it. */
export const SIGNS: number = twice(0x8000);

/** A constant in a register: packed arithmetic takes no immediates. */
export const pairConstant = (ctx: Context, value: number): Word =>
  ctx.invariant(`pairs of ${value}`, (code) => {
    const d = ctx.entry.reg("b32", "pairs");
    code.emit(null, "mov.b32", d, imm(value));
    return d;
  });
