/**
 * The floats of at most 8 bits as values: by the conversions of sm_89 and later, by integer arithmetic before. Rounding is to nearest even; beyond the
 * range comes the largest finite value where the caller saturates, else infinity (e5m2) or NaN (e4m3, which has no infinity).
 */
import { hasFeature, type Target } from "@tilewright/core";
import { f32imm, imm, vec } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { Word } from "./words.ts";

/** What arithmetic needs to know of a format of one sign bit, exponent bits, and `mantissa` bits. */
interface ByteFloat {
  /** Bits of a code. */
  readonly bits: number;
  readonly mantissa: number;
  readonly bias: number;
  /** Code of the largest finite value; the next one is what lies beyond it, where there is one. */
  readonly largest: number;
  /** Code of NaN; that of the largest value where there is none. */
  readonly nan: number;
  /** f32 bits of the largest magnitude that still rounds to a finite value. */
  readonly lastInside: number;
}

const rows = {
  // Beyond is NaN. 448 = 1.75 * 2^8 is even, so the tie at 464 = 1.8125 * 2^8 still rounds to it.
  e4m3: { bits: 8, mantissa: 3, bias: 7, largest: 0x7e, nan: 0x7f, lastInside: 0x43e80000 },
  // Beyond is infinity. 57344 = 1.75 * 2^15 is odd, so the tie at 61440 = 1.875 * 2^15 does not round to it.
  e5m2: { bits: 8, mantissa: 2, bias: 15, largest: 0x7b, nan: 0x7f, lastInside: 0x47700000 - 1 },
  // Nothing lies beyond (OCP Microscaling 1.0).
  e2m1: { bits: 4, mantissa: 1, bias: 1, largest: 0x7, nan: 0x7, lastInside: 0x7f800000 },
} as const satisfies Record<string, ByteFloat>;

/** cvt from and to pairs of 8-bit floats came with the products of them (PTX ISA, cvt: target ISA notes). */
const convertsBytes = (target: Target): boolean => hasFeature(target, "mma.e4m3");

const word = (ctx: Context): Word => ctx.entry.reg("b32", "word");

/**
 * 1 where `value` is above `limit` (unsigned), else 0. Not by a predicate: the conversions of a whole tile would need more of them than there
 * are, and ptxas spills what it keeps them in.
 */
function isAbove(ctx: Context, guard: Pred | null, value: Word, limit: number): Word {
  const d = word(ctx);
  ctx.emitAny(guard, "max.u32", d, value, imm(limit));
  ctx.emitAny(guard, "sub.u32", d, d, imm(limit));
  ctx.emitAny(guard, "min.u32", d, d, imm(1));
  return d;
}

/** `d` <- the 8-bit float in the low byte of a word. */
export function readByteFloat(
  ctx: Context,
  guard: Pred | null,
  dtype: "e4m3" | "e5m2",
  from: Word,
  d: Reg<"f32">,
): void {
  const half = ctx.entry.reg("b16", "h");
  if (dtype === "e5m2") {
    // The upper byte of a binary16.
    const upper = word(ctx);
    ctx.emit(guard, "shl.b32", upper, from, imm(8));
    ctx.emitAny(guard, "cvt.u16.u32", half, upper);
    ctx.emitAny(guard, "cvt.f32.f16", d, half);
    return;
  }
  if (convertsBytes(ctx.target)) {
    const [pair, high] = [word(ctx), ctx.entry.reg("b16", "h")];
    ctx.emitAny(guard, "cvt.u16.u32", half, from);
    ctx.emitAny(guard, "cvt.rn.f16x2.e4m3x2", pair, half);
    ctx.emitAny(guard, "mov.b32", vec(half, high), pair);
    ctx.emitAny(guard, "cvt.f32.f16", d, half);
    return;
  }
  const [magnitude, bits, sign] = [word(ctx), word(ctx), word(ctx)];
  const { mantissa, bias, largest } = rows.e4m3;
  ctx.emit(guard, "and.b32", magnitude, from, imm(0x7f));
  // Exponent and mantissa where f32 has them; the product moves the bias, and makes subnormal numbers normal.
  ctx.emit(guard, "shl.b32", bits, magnitude, imm(23 - mantissa));
  ctx.emit(guard, "mov.b32", d, bits);
  ctx.emit(guard, "mul.rn.f32", d, d, f32imm(2 ** (127 - bias)));
  ctx.emit(guard, "mov.b32", bits, d);
  // NaN: every bit of the exponent, and one below.
  const nan = isAbove(ctx, guard, magnitude, largest);
  ctx.emitAny(guard, "mul.lo.u32", nan, nan, imm(0x7fc00000));
  ctx.emit(guard, "or.b32", bits, bits, nan);
  ctx.emit(guard, "shl.b32", sign, from, imm(24));
  ctx.emit(guard, "and.b32", sign, sign, imm(0x80000000));
  ctx.emit(guard, "or.b32", bits, bits, sign);
  ctx.emit(guard, "mov.b32", d, bits);
}

/** An f32 value as a float of at most 8 bits, in the low ones of a word whose others are 0. */
export function writeByteFloat(
  ctx: Context,
  guard: Pred | null,
  dtype: keyof typeof rows,
  value: Reg<"f32">,
  saturate: boolean,
): Word {
  const row = rows[dtype];
  const bits = word(ctx);
  ctx.emit(guard, "mov.b32", bits, value);
  const magnitude = word(ctx);
  ctx.emit(guard, "and.b32", magnitude, bits, imm(0x7fffffff));
  const nan = isAbove(ctx, guard, magnitude, 0x7f800000);
  const code =
    dtype !== "e2m1" && convertsBytes(ctx.target)
      ? convertedByte(ctx, guard, dtype, value)
      : roundedByte(ctx, guard, row, { bits, magnitude, nan });
  if (saturate) return code;
  // The codes of the largest value and of what lies beyond follow each other; NaN has its code already.
  const beyond = isAbove(ctx, guard, magnitude, row.lastInside);
  ctx.emitAny(guard, "add.u32", code, code, beyond);
  ctx.emitAny(guard, "sub.u32", code, code, nan);
  return code;
}

function convertedByte(ctx: Context, guard: Pred | null, dtype: "e4m3" | "e5m2", value: Reg<"f32">): Word {
  const [pair, zero, d] = [ctx.entry.reg("b16", "h"), ctx.entry.reg("f32", "e"), word(ctx)];
  ctx.emit(guard, "mov.f32", zero, f32imm(0));
  // The second source goes to the lower byte.
  ctx.emitAny(guard, `cvt.rn.satfinite.${dtype}x2.f32`, pair, zero, value);
  ctx.emitAny(guard, "cvt.u32.u16", d, pair);
  return d;
}

function roundedByte(
  ctx: Context,
  guard: Pred | null,
  { bits: width, mantissa, bias, largest, nan: nanCode }: ByteFloat,
  { bits, magnitude, nan }: { readonly bits: Word; readonly magnitude: Word; readonly nan: Word },
): Word {
  const shift = 23 - mantissa;
  const [odd, code, small, sign] = [word(ctx), word(ctx), word(ctx), word(ctx)];
  const aligned = ctx.entry.reg("f32", "e");
  // Half a step, and one more where the kept part is odd: ties go to even. A carry runs into the exponent, as it should.
  ctx.emitAny(guard, "bfe.u32", odd, bits, imm(shift), imm(1));
  ctx.emitAny(guard, "add.u32", code, magnitude, odd);
  ctx.emitAny(guard, "add.u32", code, code, imm(2 ** (shift - 1) - 1));
  ctx.emitAny(guard, "shr.u32", code, code, imm(shift));
  ctx.emitAny(guard, "sub.u32", code, code, imm((127 - bias) << mantissa));
  // Below the normal numbers: added to a power of two whose last bit has the weight of the smallest one, the sum's bits are the code.
  // They never lie below what the other way gives there, and reach the first normal code at the first normal number.
  const aligner = 23 + 1 - bias - mantissa;
  ctx.emit(guard, "mov.b32", aligned, magnitude);
  ctx.emit(guard, "add.rn.f32", aligned, aligned, f32imm(2 ** aligner));
  ctx.emit(guard, "mov.b32", small, aligned);
  ctx.emitAny(guard, "sub.u32", small, small, imm((127 + aligner) * 2 ** 23));
  ctx.emitAny(guard, "min.u32", small, small, imm(2 ** mantissa));
  ctx.emitAny(guard, "max.s32", code, code, small);
  ctx.emitAny(guard, "min.u32", code, code, imm(largest));
  if (nanCode > largest) ctx.emitAny(guard, "mad.lo.u32", code, nan, imm(nanCode - largest), code);
  ctx.emit(guard, "shr.u32", sign, bits, imm(32 - width));
  ctx.emit(guard, "and.b32", sign, sign, imm(2 ** (width - 1)));
  ctx.emit(guard, "or.b32", code, code, sign);
  return code;
}
