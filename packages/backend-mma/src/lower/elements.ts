/** Elements of a memory dtype as values that the epilogue computes with: loads with conversion, stores with rounding. */
import { type DType, sizeOf } from "@tilewright/ir";
import { f32imm, imm, type Operand, vec } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import { freshWords, loadWords, packElements, storeWords } from "./words.ts";

/** What the epilogue computes in. */
export type Kind = "f32" | "f64" | "s32";

interface Format {
  /** One element, in the low bits of a word, as f32. */
  read(ctx: Context, guard: Pred | null, word: Reg<"b32">): Reg<"f32">;
  /** An f32 value rounded to the dtype, in the low bits of a word. */
  write(ctx: Context, guard: Pred | null, value: Reg<"f32">): Reg<"b32">;
  /** Two values in one word, the first in its low half; null where no instruction makes them. */
  readonly writePair: string | null;
}

const word = (ctx: Context): Reg<"b32"> => ctx.entry.reg("b32", "word");
const float = (ctx: Context): Reg<"f32"> => ctx.entry.reg("f32", "e");

/** f16 and bf16 differ in their conversions only. */
const half = (dtype: "f16" | "bf16", read: Format["read"]): Format => ({
  read,
  write(ctx, guard, value) {
    const [narrow, d] = [ctx.entry.reg("b16", "h"), word(ctx)];
    ctx.emitAny(guard, `cvt.rn.${dtype}.f32`, narrow, value);
    ctx.emitAny(guard, "cvt.u32.u16", d, narrow);
    return d;
  },
  writePair: `cvt.rn.${dtype}x2.f32`,
});

const integer = (dtype: "s32" | "s8" | "u8"): Format => ({
  read(ctx, guard, from) {
    const d = float(ctx);
    ctx.emitAny(guard, `cvt.rn.f32.${dtype}`, d, from);
    return d;
  },
  write(ctx, guard, value) {
    const d = word(ctx);
    ctx.emitAny(guard, `cvt.rni${dtype === "s32" ? "" : ".sat"}.${dtype}.f32`, d, value);
    return d;
  },
  writePair: null,
});

const formats: Readonly<Partial<Record<DType, Format>>> = {
  f32: {
    read(ctx, guard, from) {
      const d = float(ctx);
      ctx.emit(guard, "mov.b32", d, from);
      return d;
    },
    write(ctx, guard, value) {
      const d = word(ctx);
      ctx.emit(guard, "mov.b32", d, value);
      return d;
    },
    writePair: null,
  },
  f16: half("f16", (ctx, guard, from) => {
    const [narrow, d] = [ctx.entry.reg("b16", "h"), float(ctx)];
    ctx.emitAny(guard, "cvt.u16.u32", narrow, from);
    ctx.emitAny(guard, "cvt.f32.f16", d, narrow);
    return d;
  }),
  // The upper half of an f32.
  bf16: half("bf16", (ctx, guard, from) => {
    const [shifted, d] = [word(ctx), float(ctx)];
    ctx.emit(guard, "shl.b32", shifted, from, imm(16));
    ctx.emit(guard, "mov.b32", d, shifted);
    return d;
  }),
  s32: integer("s32"),
  s8: integer("s8"),
  u8: integer("u8"),
};

/** Dtypes that the epilogue reads and stores, beside f64 and s32 in their own arithmetic. */
export const servedFormats = Object.keys(formats) as readonly DType[];

function formatOf(dtype: DType): Format {
  const format = formats[dtype];
  if (!format) throw new CannotLower("epilogue", `${dtype} in memory is not served by this backend`);
  return format;
}

/** Whether memory holds values as the epilogue computes with them. */
const native = (kind: Kind, dtype: DType): boolean => kind === dtype;

const operandOf = (registers: readonly Reg[]): Operand => {
  const [first] = registers;
  return registers.length === 1 && first ? first : vec(...registers);
};

const suffix = (count: number, type: string): string => (count === 1 ? type : `v${count}.${type}`);

/** Neighbours in memory as values. */
export function loadElements(
  ctx: Context,
  guard: Pred | null,
  kind: Kind,
  dtype: DType,
  count: number,
  address: Operand,
): readonly Reg[] {
  if (native(kind, dtype)) {
    const d = Array.from({ length: count }, () => ctx.entry.reg(kind, `m_${kind}_`));
    ctx.emitAny(guard, `ld.global.${suffix(count, kind)}`, operandOf(d), address);
    return d;
  }
  const format = formatOf(dtype);
  const bytes = sizeOf(dtype);
  const words = freshWords(ctx, bytes * count, "mem");
  loadWords(ctx, guard, "global", bytes * count, words, address);
  const each = 4 / bytes;
  return Array.from({ length: count }, (_, i) => {
    const holder = words[Math.floor(i / each)];
    if (!holder) throw new CannotLower("epilogue", "a vector of no words");
    return format.read(ctx, guard, shifted(ctx, guard, holder, (i % each) * 8 * bytes));
  });
}

/** Element at bit `bit` of a word, moved to its low bits. */
export function shifted(ctx: Context, guard: Pred | null, from: Reg<"b32">, bit: number): Reg<"b32"> {
  if (bit === 0) return from;
  const d = word(ctx);
  ctx.emit(guard, "shr.u32", d, from, imm(bit));
  return d;
}

/** Store neighbours, rounded to the dtype of memory. */
export function storeElements(
  ctx: Context,
  guard: Pred | null,
  kind: Kind,
  dtype: DType,
  values: readonly Reg[],
  address: Operand,
): void {
  if (native(kind, dtype)) {
    ctx.emitAny(guard, `st.global.${suffix(values.length, kind)}`, address, operandOf(values));
    return;
  }
  const bytes = sizeOf(dtype);
  const words = roundedWords(ctx, guard, dtype, values as readonly Reg<"f32">[]);
  storeWords(ctx, guard, "global", bytes * values.length, words, address);
}

function roundedWords(
  ctx: Context,
  guard: Pred | null,
  dtype: DType,
  values: readonly Reg<"f32">[],
): readonly Reg<"b32">[] {
  const format = formatOf(dtype);
  const bytes = sizeOf(dtype);
  if (format.writePair === null || values.length === 1) {
    const parts = values.map((value) => format.write(ctx, guard, value));
    return bytes === 4 ? parts : packElements(ctx, guard, bytes === 1 ? 1 : 2, parts);
  }
  const out: Reg<"b32">[] = [];
  for (let i = 0; i < values.length; i += 2) {
    const [low, high] = [values[i], values[i + 1]];
    if (!low || !high) continue;
    const d = word(ctx);
    // The first source goes to the upper half (PTX ISA, cvt).
    ctx.emitAny(guard, format.writePair, d, high, low);
    out.push(d);
  }
  return out;
}

/** Largest finite values (IEEE 754: binary16; bf16 is the upper half of f32's). */
const LARGEST = { f16: 65_504, bf16: 2 ** 127 * (2 - 2 ** -7), f32: 2 ** 127 * (2 - 2 ** -23) } as const;

/** dtypes that a cast of the epilogue may round to. */
export const castDTypes: readonly DType[] = ["f32", "f16", "bf16", "s8", "u8"];

/**
 * A value rounded to another dtype and back. Integers clamp in any case, as cvt.sat does; floats become infinite unless they saturate.
 */
export function cast(
  ctx: Context,
  guard: Pred | null,
  { dtype, saturate }: { readonly dtype: DType; readonly saturate: boolean },
  x: Reg<"f32">,
): Reg<"f32"> {
  const isFloat = dtype === "f32" || dtype === "f16" || dtype === "bf16";
  const inside = saturate && isFloat ? clamped(ctx, guard, x, -LARGEST[dtype], LARGEST[dtype]) : x;
  if (dtype === "f32") return inside;
  const format = formatOf(dtype);
  return format.read(ctx, guard, format.write(ctx, guard, inside));
}

/** x between two bounds. By comparisons: max.f32 and min.f32 would turn NaN into a bound. */
export function clamped(
  ctx: Context,
  guard: Pred | null,
  x: Reg<"f32">,
  low: number,
  high: number,
): Reg<"f32"> {
  const select = (mnemonic: "setp.lt.f32" | "setp.gt.f32", value: Reg<"f32">, bound: number): Reg<"f32"> => {
    const [p, d] = [ctx.entry.reg("pred", "p"), float(ctx)];
    ctx.emit(guard, mnemonic, p, value, f32imm(bound));
    ctx.emit(guard, "selp.f32", d, f32imm(bound), value, p);
    return d;
  };
  return select("setp.gt.f32", select("setp.lt.f32", x, low), high);
}

/** An element of a packed accumulator as f32. */
export const unpack = (ctx: Context, guard: Pred | null, dtype: DType, from: Reg<"b32">): Reg<"f32"> =>
  formatOf(dtype).read(ctx, guard, from);
