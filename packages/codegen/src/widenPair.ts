/**
 * Pairs of 16 bits from e4m3: exponent and mantissa are moved to their places in both halves of a word, and the difference of the exponents' biases is multiplied in, which is
 * exact for every finite element, subnormal ones included. Integer and packed arithmetic alone: targets without conversions of byte floats have it, too. A NaN counts as the number that its bits would
 * be, 480.
 */
import type { DType } from "@tilewright/core";
import { must } from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { AND_OR, pairConstant, SIGNS, twice } from "./pairs.ts";
import type { Word } from "./words.ts";

/** How two elements of e4m3 become a pair. */
interface Form {
  /** Bits by which exponent and mantissa move down from the top of a half, and where they are then, in both halves. */
  readonly down: number;
  readonly kept: number;
  /** The power of two between the biases, in both halves. */
  readonly factor: number;
}

/** Factors are 2^8 and 2^120. */
const forms: Readonly<Partial<Record<DType, Form>>> = {
  f16: { down: 1, kept: twice(0x3f80), factor: twice(0x5c00) },
  bf16: { down: 4, kept: twice(0x07f0), factor: twice(0x7b80) },
};

function formOf(dtype: DType): Form {
  const form = forms[dtype];
  // The verifier of dtypes says so.
  if (form === undefined) throw new TypeError(`e4m3 is not widened to ${dtype}`);
  return form;
}

/** The bits of a pair from bytes in the upper half of each half of a word, with the exponents that the bytes have; what stands below them does not matter. */
export function bitsOfPair(ctx: Context, dtype: DType, halves: Word): Word {
  const form = formOf(dtype);
  const fresh = (name: string): Word => ctx.entry.reg("b32", name);
  const [moved, magnitude, signed] = [fresh("moved"), fresh("magnitude"), fresh("signed")] as const;
  ctx.emit(null, "shr.u32", moved, halves, imm(form.down));
  ctx.emit(null, "and.b32", magnitude, moved, imm(form.kept));
  ctx.emitAny(null, "lop3.b32", signed, halves, pairConstant(ctx, SIGNS), magnitude, imm(AND_OR));
  return signed;
}

/** A pair from bytes in the upper half of each half of a word. */
export function widenPair(ctx: Context, dtype: DType, halves: Word, into: Reg): void {
  ctx.emitAny(
    null,
    `fma.rn.${dtype}x2`,
    into,
    bitsOfPair(ctx, dtype, halves),
    pairConstant(ctx, formOf(dtype).factor),
    pairConstant(ctx, SIGNS),
  );
}

/** Bytes 0 and 1 of a word, and bytes 2 and 3, above zeros in each half: the second operand is 0 (PTX ISA, prmt: each digit picks a byte of b:a). */
const PAIRS = [0x1404, 0x3424] as const;

/** A run of bytes as a run of `dtype`, whose registers these are. */
export function widenRunOfBytes(
  ctx: Context,
  dtype: DType,
  bytes: readonly Reg[],
  into: readonly Reg[],
): void {
  into.forEach((register, i) => {
    const halves = ctx.entry.reg("b32", "halves");
    ctx.emitAny(
      null,
      "prmt.b32",
      halves,
      must(bytes[i >> 1], "two pairs a word"),
      imm(0),
      imm(PAIRS[i % 2] ?? 0),
    );
    widenPair(ctx, dtype, halves, register);
  });
}
