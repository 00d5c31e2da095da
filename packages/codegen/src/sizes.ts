/** Sizes that the launch supplies, as registers: counts of tiles and chunks, and strides in bytes. */
import { type BatchAxis, extentNames, matrixOf, SCALE_ROWS, type SizeName } from "@tilewright/core";
import { asLinear, type Expr, must, simplify, sizeDType } from "@tilewright/ir";
import { type IntegerOperand, imm, param } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { expertCount, groupField } from "./groups.ts";
import { inPages } from "./pages.ts";

type U32 = Reg<"u32">;

/** A number, or a register where the launch supplies it. */
export type Count = number | U32;

/** A count as an instruction takes it. */
export const countOperand = (count: Count): U32 | IntegerOperand =>
  typeof count === "number" ? imm(count) : count;

/** Bytes from one place to the next: a number, or `unit` bytes times the product of sizes that the launch supplies. */
export type Stride = number | { readonly unit: number; readonly sizes: readonly SizeName[] };

/** The parameter of a size, or its field in the group's row. */
function sizeRegister(ctx: Context, name: SizeName): U32 {
  const rows = name === ctx.expertAxis ? expertCount(ctx) : null;
  if (rows !== null) return rows;
  return ctx.invariant(`size ${name}`, (code) => {
    const d = ctx.entry.reg("u32", "size");
    const place = groupField(ctx, name);
    if (place === null) code.emit(null, "ld.param.u32", d, param(`p_${name}`));
    else code.emit(null, "ld.global.u32", d, place);
    return d;
  });
}

/** The extent of an axis of a global buffer. */
export function extentOf(ctx: Context, buffer: string, axis: 0 | 1, shape: readonly [number, number]): Count {
  const rows = axis === 0 ? ctx.runs.find(({ stored }) => stored?.includes(buffer)) : undefined;
  if (rows !== undefined) return ctx.values.sum(ctx.variable(rows.first), ctx.variable(rows.count));
  const paged = inPages(ctx, buffer);
  if (paged?.axis === axis) return ctx.variable(paged.count);
  if (buffer === "SFA" && axis === 0 && ctx.sizes.has("m")) return factorRows(ctx);
  const which = matrixOf(buffer);
  if (which === null) return shape[axis];
  const name = extentNames[which][axis];
  return ctx.sizes.has(name) ? sizeRegister(ctx, name) : shape[axis];
}

/** A factor in f32 for each row of A; a row of words for each 128. */
function factorRows(ctx: Context): U32 {
  const rows = sizeRegister(ctx, "m");
  if (ctx.arrays.get("sfa")?.dtype === "f32") return rows;
  return ctx.invariant(`blocks of ${rows.name}`, (code) => {
    const d = ctx.entry.reg("u32", "blocks");
    code.emit(null, "add.u32", d, rows, imm(SCALE_ROWS - 1));
    code.emit(null, "div.u32", d, d, imm(SCALE_ROWS));
    return d;
  });
}

/** The value of an expression in sizes: a number where it has none. */
export function countOf(ctx: Context, e: Expr): Count {
  const folded = simplify(ctx.fold(e));
  return folded.kind === "const" ? folded.value : registerOf(ctx, folded);
}

function registerOf(ctx: Context, e: Expr): U32 {
  const { values } = ctx;
  switch (e.kind) {
    case "const":
      return values.memo(`const ${e.value}`, "v", (d) => values.code.emit(null, "mov.u32", d, imm(e.value)));
    case "var":
      return e.name === "m" || e.name === "n" || e.name === "k"
        ? sizeRegister(ctx, e.name)
        : ctx.variable(e.name);
    case "add":
      return e.rhs.kind === "const"
        ? values.sum(registerOf(ctx, e.lhs), imm(e.rhs.value))
        : values.sum(registerOf(ctx, e.lhs), registerOf(ctx, e.rhs));
    case "sub":
      return values.difference(
        registerOf(ctx, e.lhs),
        e.rhs.kind === "const" ? imm(e.rhs.value) : registerOf(ctx, e.rhs),
      );
    case "mul":
      if (e.factor < 0) return values.difference(imm(0), values.scale(registerOf(ctx, e.lhs), -e.factor));
      return values.scale(registerOf(ctx, e.lhs), e.factor);
    case "div":
      return values.divide(registerOf(ctx, e.lhs), e.divisor);
    case "mod":
      return values.modulo(registerOf(ctx, e.lhs), e.divisor, Number.POSITIVE_INFINITY);
  }
}

/** Whether an expression has sizes of the launch in it, and nothing else. */
export const isSizeOnly = (ctx: Context, e: Expr): boolean => {
  const linear = asLinear(e);
  if (linear !== null) return [...linear.terms.keys()].every((name) => ctx.sizes.has(name));
  switch (e.kind) {
    case "add":
    case "sub":
      return isSizeOnly(ctx, e.lhs) && isSizeOnly(ctx, e.rhs);
    case "mul":
    case "div":
    case "mod":
      return isSizeOnly(ctx, e.lhs);
    case "const":
    case "var":
      return false;
  }
};

/** Bytes between consecutive matrices of a batch, or by axis. */
export type BatchStride = Stride | { readonly axes: readonly BatchAxis[] };

/** `times` strides of bytes as a register. */
export function strideRegister(ctx: Context, stride: Exclude<Stride, number>, times: number): Reg<"u64"> {
  const { unit, sizes } = stride;
  return ctx.invariant(`${sizes.join("*")}*${unit * times}`, (code) => {
    let product: Reg<"u64"> | null = null;
    for (const name of sizes) {
      const factor = ctx.entry.reg("u64", "bytes");
      if (sizeDType(name) === "u64") code.emit(null, "ld.param.u64", factor, param(`p_${name}`));
      else code.emit(null, "cvt.u64.u32", factor, sizeRegister(ctx, name));
      if (product === null) product = factor;
      else code.emit(null, "mul.lo.s64", product, product, factor);
    }
    const d = must<Reg<"u64">>(product, "a stride of the launch has sizes");
    const bytes = unit * times;
    const log = Math.log2(bytes);
    if (bytes > 0 && Number.isInteger(log)) code.emit(null, "shl.b64", d, d, imm(log));
    else code.emit(null, "mul.lo.s64", d, d, imm(bytes));
    return d;
  });
}

/** What a stride is called in keys of memoised values. */
export const strideKey = (stride: Stride): string =>
  typeof stride === "number" ? String(stride) : `${stride.sizes.join("*")}*${stride.unit}`;
