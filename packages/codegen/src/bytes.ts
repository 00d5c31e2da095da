/**
 * The 8-bit floats as values: by the conversions of sm_89 and later, by integer arithmetic before. Rounding is to nearest even; beyond the
 * range comes the largest finite value where the caller saturates, else infinity (e5m2) or NaN (e4m3, which has no infinity).
 */
import { hasFeature, type Target } from "@tilewright/ir";
import { f32imm, imm, vec } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { Word } from "./words.ts";

/** What arithmetic needs to know of a format of one sign bit, `8 - 1 - mantissa` exponent bits and `mantissa` bits. */
interface ByteFloat {
  readonly mantissa: number;
  readonly bias: number;
  /** Code of the largest finite value. */
  readonly largest: number;
  /** Code of what lies beyond it. */
  readonly beyond: number;
  /** Magnitudes that do not round to a finite value: half a step above the largest; a tie goes to the even neighbour. */
  readonly overflow: { readonly op: "gt" | "ge"; readonly at: number };
}

const NAN_CODE = 0x7f;

const rows: Readonly<Record<"e4m3" | "e5m2", ByteFloat>> = {
  // 448 = 1.75 * 2^8 is even, so 464 still rounds to it; 0x7f is NaN.
  e4m3: { mantissa: 3, bias: 7, largest: 0x7e, beyond: NAN_CODE, overflow: { op: "gt", at: 464 } },
  // 57344 = 1.75 * 2^15 is odd (mantissa 3 of 3), so 61440 rounds to infinity.
  e5m2: { mantissa: 2, bias: 15, largest: 0x7b, beyond: 0x7c, overflow: { op: "ge", at: 61_440 } },
};

/** cvt from and to pairs of 8-bit floats came with the products of them (PTX ISA, cvt: target ISA notes). */
export const convertsBytes = (target: Target): boolean => hasFeature(target, "mma.e4m3");

const word = (ctx: Context): Word => ctx.entry.reg("b32", "word");

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
  const nan = ctx.entry.reg("pred", "p");
  const { mantissa, bias } = rows.e4m3;
  ctx.emit(guard, "and.b32", magnitude, from, imm(0x7f));
  ctx.emitAny(guard, "setp.eq.u32", nan, magnitude, imm(NAN_CODE));
  // Exponent and mantissa where f32 has them; the product moves the bias, and makes subnormal numbers normal.
  ctx.emit(guard, "shl.b32", bits, magnitude, imm(23 - mantissa));
  ctx.emit(guard, "mov.b32", d, bits);
  ctx.emit(guard, "mul.rn.f32", d, d, f32imm(2 ** (127 - bias)));
  ctx.emit(guard, "mov.b32", bits, d);
  ctx.emit(guard, "selp.b32", bits, imm(0x7fc00000), bits, nan);
  ctx.emit(guard, "shl.b32", sign, from, imm(24));
  ctx.emit(guard, "and.b32", sign, sign, imm(0x80000000));
  ctx.emit(guard, "or.b32", bits, bits, sign);
  ctx.emit(guard, "mov.b32", d, bits);
}

/** An f32 value as an 8-bit float, in the low byte of a word whose other bytes are 0. */
export function writeByteFloat(
  ctx: Context,
  guard: Pred | null,
  dtype: "e4m3" | "e5m2",
  value: Reg<"f32">,
  saturate: boolean,
): Word {
  const code = convertsBytes(ctx.target)
    ? convertedByte(ctx, guard, dtype, value)
    : roundedByte(ctx, guard, rows[dtype], value);
  if (saturate) return code;
  const { beyond, overflow } = rows[dtype];
  const [magnitude, outside] = [ctx.entry.reg("f32", "e"), ctx.entry.reg("pred", "p")];
  const [sign, d] = [word(ctx), word(ctx)];
  ctx.emit(guard, "abs.f32", magnitude, value);
  ctx.emitAny(guard, `setp.${overflow.op}.f32`, outside, magnitude, f32imm(overflow.at));
  ctx.emit(guard, "and.b32", sign, code, imm(0x80));
  ctx.emit(guard, "or.b32", sign, sign, imm(beyond));
  ctx.emit(guard, "selp.b32", d, sign, code, outside);
  return d;
}

function convertedByte(ctx: Context, guard: Pred | null, dtype: "e4m3" | "e5m2", value: Reg<"f32">): Word {
  const [pair, zero, d] = [ctx.entry.reg("b16", "h"), ctx.entry.reg("f32", "e"), word(ctx)];
  ctx.emit(guard, "mov.f32", zero, f32imm(0));
  // The second source goes to the lower byte.
  ctx.emitAny(guard, `cvt.rn.satfinite.${dtype}x2.f32`, pair, zero, value);
  ctx.emitAny(guard, "cvt.u32.u16", d, pair);
  return d;
}

function roundedByte(ctx: Context, guard: Pred | null, row: ByteFloat, value: Reg<"f32">): Word {
  const { mantissa, bias, largest } = row;
  const shift = 23 - mantissa;
  const [bits, magnitude, odd, code, small, sign] = [
    word(ctx),
    word(ctx),
    word(ctx),
    word(ctx),
    word(ctx),
    word(ctx),
  ];
  const [isSmall, isNan] = [ctx.entry.reg("pred", "p"), ctx.entry.reg("pred", "p")];
  const aligned = ctx.entry.reg("f32", "e");
  ctx.emit(guard, "mov.b32", bits, value);
  ctx.emit(guard, "and.b32", magnitude, bits, imm(0x7fffffff));
  // Half a step, and one more where the kept part is odd: ties go to even. A carry runs into the exponent, as it should.
  ctx.emitAny(guard, "bfe.u32", odd, bits, imm(shift), imm(1));
  ctx.emitAny(guard, "add.u32", code, magnitude, odd);
  ctx.emitAny(guard, "add.u32", code, code, imm(2 ** (shift - 1) - 1));
  ctx.emitAny(guard, "shr.u32", code, code, imm(shift));
  ctx.emitAny(guard, "sub.u32", code, code, imm((127 - bias) << mantissa));
  // Below the normal numbers: added to a power of two whose last bit has the weight of the smallest one, the sum's bits are the code.
  const aligner = 2 ** (23 + 1 - bias - mantissa);
  ctx.emit(guard, "mov.b32", aligned, magnitude);
  ctx.emit(guard, "add.rn.f32", aligned, aligned, f32imm(aligner));
  ctx.emit(guard, "mov.b32", small, aligned);
  ctx.emit(guard, "and.b32", small, small, imm(0xff));
  ctx.emitAny(guard, "setp.lt.u32", isSmall, magnitude, imm((127 + 1 - bias) << 23));
  ctx.emit(guard, "selp.b32", code, small, code, isSmall);
  ctx.emitAny(guard, "min.u32", code, code, imm(largest));
  ctx.emitAny(guard, "setp.gt.u32", isNan, magnitude, imm(0x7f800000));
  ctx.emit(guard, "selp.b32", code, imm(NAN_CODE), code, isNan);
  ctx.emit(guard, "shr.u32", sign, bits, imm(24));
  ctx.emit(guard, "and.b32", sign, sign, imm(0x80));
  ctx.emit(guard, "or.b32", code, code, sign);
  return code;
}
