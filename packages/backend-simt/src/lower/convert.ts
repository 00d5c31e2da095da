/** Between the dtypes of memory and the f32 registers that all arithmetic happens in. */
import type { DType } from "@tilewright/ir";
import { f32imm, imm, type Operand, vec } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";

type F32 = Reg<"f32">;
type B16 = Reg<"b16">;

/** A register that holds one element as memory does. */
export type Element = F32 | B16;

/** dtypes of matrices and vectors in memory that this backend reads and stores. */
export const memoryDTypes: readonly DType[] = ["f32", "f16", "bf16"];

/** dtypes that a cast of the epilogue may round to. */
export const castDTypes: readonly DType[] = ["f32", "f16", "bf16", "s8", "u8"];

const isHalf = (dtype: DType): dtype is "f16" | "bf16" => dtype === "f16" || dtype === "bf16";

/** `f32`, `v4.f32`, `b16`, `v2.b16`: the type of an access to `width` elements. */
export const accessType = (dtype: DType, width: number): string =>
  `${width === 1 ? "" : `v${width}.`}${isHalf(dtype) ? "b16" : "f32"}`;

/** A fresh register for an element as memory has it. */
export const elementRegister = (ctx: Context, dtype: DType, prefix: string): Element =>
  isHalf(dtype) ? ctx.entry.reg("b16", `${prefix}h`) : ctx.entry.reg("f32", prefix);

/** One register, or a vector of them. */
export function operandOf(registers: readonly Element[]): Operand {
  const [first] = registers;
  if (!first) throw new CannotLower("vector", "has no elements");
  // A vector's elements have one type, which the mnemonic says; the table checks it.
  return registers.length === 1 ? first : vec(...(registers as readonly F32[]));
}

/** `d` <- the element's value; f16 and bf16 widen exactly. */
export function widen(ctx: Context, guard: Pred | null, dtype: DType, d: F32, element: Element): void {
  if (dtype === "f16") ctx.emitAny(guard, "cvt.f32.f16", d, element);
  else if (dtype === "bf16") ctx.emitAny(guard, "mov.b32", d, vec(zeroHalf(ctx), element as B16));
  else if (d !== element) ctx.emitAny(guard, "mov.f32", d, element);
}

/** bf16 is the upper half of f32; the lower half is this. */
const zeroHalf = (ctx: Context): B16 =>
  ctx.invariant("half 0", (code) => {
    const d = ctx.entry.reg("b16", "zh");
    code.emit(null, "mov.b16", d, imm(0));
    return d;
  });

/** An f32 value rounded (nearest even, overflow to infinity) to what memory holds. */
export function narrow(ctx: Context, guard: Pred | null, dtype: DType, x: F32): Element {
  if (!isHalf(dtype)) return x;
  const d = ctx.entry.reg("b16", "h");
  // cvt to bf16 came with sm_80 (PTX ISA, cvt).
  if (dtype === "f16" || ctx.target.major >= 8) ctx.emitAny(guard, `cvt.rn.${dtype}.f32`, d, x);
  else roundToBf16(ctx, guard, d, x);
  return d;
}

/** Adds half a unit of the upper half, and one more where that half is odd: ties go to even. A NaN could overflow, so it gets bits of its own. */
function roundToBf16(ctx: Context, guard: Pred | null, d: B16, x: F32): void {
  const [bits, odd] = [ctx.entry.reg("u32", "xb"), ctx.entry.reg("u32", "xo")];
  const [nan, low] = [ctx.entry.reg("pred", "p"), ctx.entry.reg("b16", "xl")];
  ctx.emit(guard, "mov.b32", bits, x);
  ctx.emit(guard, "bfe.u32", odd, bits, imm(16), imm(1));
  ctx.emit(guard, "add.u32", bits, bits, odd);
  ctx.emit(guard, "add.u32", bits, bits, imm(0x7fff));
  ctx.emit(guard, "setp.nan.f32", nan, x, x);
  ctx.emit(guard, "selp.b32", bits, imm(0x7fff0000), bits, nan);
  ctx.emit(guard, "mov.b32", vec(low, d), bits);
}

/** Load elements into f32 registers. */
export function loadWidened(
  ctx: Context,
  guard: Pred | null,
  dtype: DType,
  registers: readonly F32[],
  address: Operand,
): void {
  const type = accessType(dtype, registers.length);
  if (!isHalf(dtype)) {
    ctx.emitAny(guard, `ld.global.${type}`, operandOf(registers), address);
    return;
  }
  const loaded = registers.map(() => elementRegister(ctx, dtype, "l"));
  ctx.emitAny(guard, `ld.global.${type}`, operandOf(loaded), address);
  registers.forEach((d, i) => {
    const element = loaded[i];
    if (element) widen(ctx, guard, dtype, d, element);
  });
}

/** Store f32 values, rounded to the dtype. */
export function storeNarrowed(
  ctx: Context,
  guard: Pred | null,
  dtype: DType,
  values: readonly F32[],
  address: Operand,
): void {
  const rounded = values.map((x) => narrow(ctx, guard, dtype, x));
  ctx.emitAny(guard, `st.global.${accessType(dtype, values.length)}`, address, operandOf(rounded));
}

/** Largest finite values (IEEE 754 binary16; bf16: the upper half of f32's). */
const LARGEST = { f16: 65_504, bf16: 2 ** 127 * (2 - 2 ** -7) } as const;

const integers = { s8: [-128, 127], u8: [0, 255] } as const;

/** An f32 value rounded to another dtype and back. Integers clamp in any case, as cvt.sat does; floats become infinite unless they saturate. */
export function cast(
  ctx: Context,
  guard: Pred | null,
  { dtype, saturate }: { readonly dtype: DType; readonly saturate: boolean },
  x: F32,
): F32 {
  if (dtype === "f32" && !saturate) return x;
  if (isHalf(dtype)) {
    const inside = saturate ? clamped(ctx, guard, x, -LARGEST[dtype], LARGEST[dtype]) : x;
    const d = ctx.entry.reg("f32", "e");
    widen(ctx, guard, dtype, d, narrow(ctx, guard, dtype, inside));
    return d;
  }
  if (dtype === "f32") return clamped(ctx, guard, x, -MAX_F32, MAX_F32);
  if (dtype !== "s8" && dtype !== "u8")
    throw new CannotLower("epilogue", `a cast to ${dtype} is not served by this backend`);
  const [low, high] = integers[dtype];
  const whole = ctx.entry.reg("s32", "i");
  const d = ctx.entry.reg("f32", "e");
  // Out of range ends at the ends of s32, NaN at 0 (PTX ISA, cvt).
  ctx.emit(guard, "cvt.rni.s32.f32", whole, x);
  ctx.emit(guard, "max.s32", whole, whole, imm(low));
  ctx.emit(guard, "min.s32", whole, whole, imm(high));
  ctx.emit(guard, "cvt.rn.f32.s32", d, whole);
  return d;
}

/** Largest finite f32. */
const MAX_F32 = 2 ** 127 * (2 - 2 ** -23);

/** x between two bounds. By comparisons: max.f32 and min.f32 would turn NaN into a bound. */
export function clamped(ctx: Context, guard: Pred | null, x: F32, low: number, high: number): F32 {
  const select = (mnemonic: "setp.lt.f32" | "setp.gt.f32", value: F32, bound: number): F32 => {
    const [p, d] = [ctx.entry.reg("pred", "p"), ctx.entry.reg("f32", "e")];
    ctx.emit(guard, mnemonic, p, value, f32imm(bound));
    ctx.emit(guard, "selp.f32", d, f32imm(bound), value, p);
    return d;
  };
  return select("setp.gt.f32", select("setp.lt.f32", x, low), high);
}
