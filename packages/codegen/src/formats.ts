/** Elements of a memory dtype as values that the epilogue computes with: loads with conversion, stores with rounding, casts. */
import { type DType, type EpilogueKind, hasFeature, sizeOf, type Target } from "@tilewright/core";
import { imm, type Operand } from "@tilewright/ptx";
import { Arithmetic } from "./arithmetic.ts";
import { readByteFloat, writeByteFloat } from "./bytes.ts";
import { asOthers, type CachePolicyUse } from "./cachePolicy.ts";
import { CannotLower } from "./cannotLower.ts";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { freshRun, loadRun, operandOf, packElements, sliceRun, storeRun, type Word } from "./words.ts";

/** What the epilogue computes in. */
export type Kind = EpilogueKind;

interface Format {
  /** `d` <- one element, in the low bits of a word. */
  read(ctx: Context, guard: Pred | null, word: Word, d: Reg<"f32">): void;
  /**
   * An f32 value rounded (nearest even) to the dtype, in the low bits of a word. Integers end at the ends of their range in any case,
   * floats only where they `saturate`.
   */
  write(ctx: Context, guard: Pred | null, value: Reg<"f32">, saturate: boolean): Word;
  /** Instruction that puts two values in one word; null where the target has none. */
  writePair(target: Target): string | null;
}

const word = (ctx: Context): Word => ctx.entry.reg("b32", "word");
const float = (ctx: Context): Reg<"f32"> => ctx.entry.reg("f32", "e");

/** A fresh register for a value of the epilogue; a prefix has one type. */
export const valueRegister = (ctx: Context, kind: Kind, prefix = "e"): Reg<Kind> =>
  ctx.entry.reg(kind, kind === "f32" ? prefix : `${prefix}_${kind}_`);

/** cvt to bf16, and to two halves at once, came with sm_80 (PTX ISA, cvt). */
const hasPairs = (target: Target): boolean => hasFeature(target, "mma.bf16");

const f16: Format = {
  read(ctx, guard, from, d) {
    const narrow = ctx.entry.reg("b16", "h");
    ctx.emitAny(guard, "cvt.u16.u32", narrow, from);
    ctx.emitAny(guard, "cvt.f32.f16", d, narrow);
  },
  write: (ctx, guard, value, saturate) =>
    roundedHalf(ctx, guard, "f16", saturate ? finite(ctx, guard, "f16", value) : value),
  writePair: (target) => (hasPairs(target) ? "cvt.rn.f16x2.f32" : null),
};

function roundedHalf(ctx: Context, guard: Pred | null, dtype: "f16" | "bf16", value: Reg<"f32">): Word {
  const [narrow, d] = [ctx.entry.reg("b16", "h"), word(ctx)];
  ctx.emitAny(guard, `cvt.rn.${dtype}.f32`, narrow, value);
  ctx.emitAny(guard, "cvt.u32.u16", d, narrow);
  return d;
}

/** The upper half of an f32. */
const bf16: Format = {
  read(ctx, guard, from, d) {
    const high = word(ctx);
    ctx.emit(guard, "shl.b32", high, from, imm(16));
    ctx.emit(guard, "mov.b32", d, high);
  },
  write(ctx, guard, value, saturate) {
    const inside = saturate ? finite(ctx, guard, "bf16", value) : value;
    return hasPairs(ctx.target)
      ? roundedHalf(ctx, guard, "bf16", inside)
      : roundedUpperHalf(ctx, guard, inside);
  },
  writePair: (target) => (hasPairs(target) ? "cvt.rn.bf16x2.f32" : null),
};

/** Adds half a unit of the upper half, and one more where that half is odd: ties go to even. A NaN could overflow, so it gets bits of its own. */
function roundedUpperHalf(ctx: Context, guard: Pred | null, x: Reg<"f32">): Word {
  const [bits, odd, d] = [ctx.entry.reg("u32", "xb"), ctx.entry.reg("u32", "xo"), word(ctx)];
  const nan = ctx.entry.reg("pred", "p");
  ctx.emit(guard, "mov.b32", bits, x);
  ctx.emit(guard, "bfe.u32", odd, bits, imm(16), imm(1));
  ctx.emit(guard, "add.u32", bits, bits, odd);
  ctx.emit(guard, "add.u32", bits, bits, imm(0x7fff));
  ctx.emit(guard, "setp.nan.f32", nan, x, x);
  ctx.emit(guard, "selp.b32", bits, imm(0x7fff0000), bits, nan);
  ctx.emit(guard, "shr.u32", d, bits, imm(16));
  return d;
}

const integer = (dtype: "s32" | "s8" | "u8"): Format => ({
  read: (ctx, guard, from, d) => ctx.emitAny(guard, `cvt.rn.f32.${dtype}`, d, from),
  // Out of range ends at the ends of the dtype, NaN at 0 (PTX ISA, cvt).
  write(ctx, guard, value) {
    const d = word(ctx);
    ctx.emitAny(guard, `cvt.rni${dtype === "s32" ? "" : ".sat"}.${dtype}.f32`, d, value);
    return d;
  },
  writePair: () => null,
});

const byteFloat = (dtype: "e4m3" | "e5m2", saturates = false): Format => ({
  read: (ctx, guard, from, d) => readByteFloat(ctx, guard, dtype, from, d),
  // Under a guard registers keep what they held: ptxas 13.0 spills 20 of 255 beside the sums of a 64 x 64 warp tile.
  write: (ctx, guard, value, saturate) =>
    writeByteFloat(ctx, saturates ? null : guard, dtype, value, saturates || saturate),
  writePair: () => null,
});

/** Of 4 bits, stored by pairs alone. */
const e2m1: Format = {
  read: () => {
    throw new RangeError("quantised elements are stored, and not read (TW1011)");
  },
  write: (ctx, _, value) => writeByteFloat(ctx, null, "e2m1", value, true),
  writePair: () => null,
};

const formats: Readonly<Partial<Record<DType, Format>>> = {
  f32: {
    read: (ctx, guard, from, d) => ctx.emit(guard, "mov.b32", d, from),
    write(ctx, guard, value, saturate) {
      const d = word(ctx);
      ctx.emit(guard, "mov.b32", d, saturate ? finite(ctx, guard, "f32", value) : value);
      return d;
    },
    writePair: () => null,
  },
  f16,
  bf16,
  s32: integer("s32"),
  s8: integer("s8"),
  u8: integer("u8"),
  e4m3: byteFloat("e4m3"),
  e5m2: byteFloat("e5m2"),
  mxf8: byteFloat("e4m3", true),
  mxf8e5m2: byteFloat("e5m2", true),
  mxf4: e2m1,
  nvf4: e2m1,
};

/** dtypes that the epilogue reads, stores and casts to as f32 values, beside f64 and s32 in their own arithmetic. */
export const servedFormats = Object.keys(formats) as readonly DType[];

function formatOf(dtype: DType): Format {
  const format = formats[dtype];
  if (!format) throw new CannotLower("epilogue", `${dtype} in memory is not served by this backend`);
  return format;
}

/** An element in the low bits of a word as f32. */
export function widened(ctx: Context, guard: Pred | null, dtype: DType, from: Word): Reg<"f32"> {
  const d = float(ctx);
  formatOf(dtype).read(ctx, guard, from, d);
  return d;
}

/** `values` <- the elements of a run, of a dtype other than f32 (whose run is its values). */
export function widenRun(
  ctx: Context,
  guard: Pred | null,
  dtype: DType,
  registers: readonly Reg[],
  values: readonly Reg<"f32">[],
): void {
  values.forEach((d, i) => {
    const [element] = sliceRun(ctx, guard, dtype, registers, i, 1);
    if (element) formatOf(dtype).read(ctx, guard, element as Word, d);
  });
}

const suffix = (count: number, type: string): string => (count === 1 ? type : `v${count}.${type}`);

/** Neighbours in global memory as values of `kind`, in fresh registers. */
export function loadElements(
  ctx: Context,
  guard: Pred | null,
  kind: Kind,
  dtype: DType,
  count: number,
  address: Operand,
  prefix: string,
  space: "global" | "shared" = "global",
  policy: CachePolicyUse = asOthers,
): readonly Reg[] {
  // Memory holds values as the epilogue computes with them.
  if (kind === dtype) {
    const d = Array.from({ length: count }, () => valueRegister(ctx, kind, prefix));
    ctx.emitAny(
      guard,
      `ld.${space}${policy.hint}.${suffix(count, kind)}`,
      operandOf(d),
      address,
      ...policy.operands,
    );
    return d;
  }
  const registers = freshRun(ctx, dtype, count, "mem");
  loadRun(ctx, guard, space, dtype, count, registers, address, policy);
  const values = Array.from({ length: count }, () => ctx.entry.reg("f32", prefix));
  widenRun(ctx, guard, dtype, registers, values);
  return values;
}

/** An element in global memory as an f32, in a fresh register; 0 where the guard does not hold, as words of zeros are in every dtype. */
export function loadOrZero(
  ctx: Context,
  guard: Pred,
  dtype: DType,
  address: Operand,
  prefix: string,
  policy: CachePolicyUse,
): Reg<"f32"> {
  const registers = freshRun(ctx, dtype, 1, "mem");
  for (const register of registers) ctx.emitAny(null, "mov.b32", register, imm(0));
  loadRun(ctx, guard, "global", dtype, 1, registers, address, policy);
  const value = ctx.entry.reg("f32", prefix);
  widenRun(ctx, null, dtype, registers, [value]);
  return value;
}

/** Store neighbours to global memory, or to shared memory that holds what will be there, rounded to its dtype. */
export function storeElements(
  ctx: Context,
  guard: Pred | null,
  kind: Kind,
  dtype: DType,
  values: readonly Reg[],
  address: Operand,
  space: "global" | "shared" = "global",
  policy: CachePolicyUse = asOthers,
): void {
  if (kind === dtype) {
    ctx.emitAny(
      guard,
      `st.${space}${policy.hint}.${suffix(values.length, kind)}`,
      address,
      operandOf(values),
      ...policy.operands,
    );
    return;
  }
  const words = roundedWords(ctx, guard, dtype, values as readonly Reg<"f32">[]);
  storeRun(ctx, guard, space, dtype, values.length, words, address, policy);
}

/** Values as words of memory, rounded to its dtype. */
export function roundedWords(
  ctx: Context,
  guard: Pred | null,
  dtype: DType,
  values: readonly Reg<"f32">[],
): readonly Word[] {
  const format = formatOf(dtype);
  if (format === e2m1) return packElements(ctx, guard, 1, pairsOf(ctx, guard, values));
  const bytes = sizeOf(dtype);
  const pair = format.writePair(ctx.target);
  if (pair === null || values.length === 1) {
    const parts = values.map((value) => format.write(ctx, guard, value, false));
    return bytes === 4 ? parts : packElements(ctx, guard, bytes === 1 ? 1 : 2, parts);
  }
  const out: Word[] = [];
  for (let i = 0; i < values.length; i += 2) {
    const [low, high] = [values[i], values[i + 1]];
    if (!low || !high) continue;
    const d = word(ctx);
    // The first source goes to the upper half (PTX ISA, cvt).
    ctx.emitAny(guard, pair, d, high, low);
    out.push(d);
  }
  return out;
}

/** Values as pairs of e2m1, a byte each; the first in the lower bits. */
function pairsOf(ctx: Context, guard: Pred | null, values: readonly Reg<"f32">[]): readonly Word[] {
  const out: Word[] = [];
  for (let i = 0; i < values.length; i += 2) {
    const [low, high] = [values[i], values[i + 1]];
    if (!low || !high) throw new RangeError("elements that share a byte are stored together (TW3113)");
    const d = word(ctx);
    if (hasFeature(ctx.target, "cvt.e2m1")) {
      const pair = ctx.entry.reg("b8", "pair");
      // The first source goes to the upper half (PTX ISA, cvt).
      ctx.emitAny(guard, "cvt.rn.satfinite.e2m1x2.f32", pair, high, low);
      ctx.emitAny(guard, "cvt.u32.u8", d, pair);
    } else {
      const [first, second] = [low, high].map((value) => e2m1.write(ctx, guard, value, true));
      if (first && second) ctx.emitAny(guard, "mad.lo.u32", d, second, imm(16), first);
    }
    out.push(d);
  }
  return out;
}

/** Largest finite values (IEEE 754: binary16; bf16 is the upper half of f32's). */
const LARGEST = { f16: 65_504, bf16: 2 ** 127 * (2 - 2 ** -7), f32: 2 ** 127 * (2 - 2 ** -23) } as const;

const finite = (
  ctx: Context,
  guard: Pred | null,
  dtype: keyof typeof LARGEST,
  value: Reg<"f32">,
): Reg<"f32"> => clamped(ctx, guard, value, -LARGEST[dtype], LARGEST[dtype]);

/** A value rounded to another dtype and back. Integers clamp in any case, as cvt.sat does; floats overflow unless they saturate. */
export function cast(
  ctx: Context,
  guard: Pred | null,
  { dtype, saturate }: { readonly dtype: DType; readonly saturate: boolean },
  x: Reg<"f32">,
): Reg<"f32"> {
  if (dtype === "f32") return saturate ? finite(ctx, guard, dtype, x) : x;
  return widened(ctx, guard, dtype, formatOf(dtype).write(ctx, guard, x, saturate));
}

/** x between two bounds; NaN stays NaN. */
export function clamped(
  ctx: Context,
  guard: Pred | null,
  x: Reg<"f32">,
  low: number,
  high: number,
): Reg<"f32"> {
  const on = new Arithmetic(ctx, guard);
  return on.atMost(on.atLeast(x, low), high);
}
