/**
 * Grouped problems: the grid's second axis is the group, or blocks go through a list of them (`listTiles.ts`). Its row of a table in device memory has sizes and pointers; of experts,
 * int32 there say which rows it has, and all else follows from its number.
 */
import { type ExpertRows, type GroupBlocks, packedSize } from "@tilewright/core";
import { type ArrayDeclaration, GROUP_TABLE } from "@tilewright/ir";
import { type AddressOperand, addr, imm, special } from "@tilewright/ptx";
import type { Code, Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { ExpertPlace } from "./scopes.ts";

/** Whether groups of a launch differ in size, by a table or by rows of experts. */
export const isGrouped = ({ kernel }: Context): boolean =>
  kernel.params.some(({ name }) => name === GROUP_TABLE);

/** Where a field of this block's group lies in global memory; null where the problem is not grouped, or the field is a parameter. */
export function groupField(ctx: Context, name: string): AddressOperand | null {
  const field = ctx.groups?.fields.find((each) => each.name === name);
  return field === undefined ? null : addr(rowOf(ctx), field.offset);
}

/** The number of the group that the block works on. */
export const groupNumber = (ctx: Context): Reg<"u32"> =>
  ctx.group ??
  ctx.invariant("group", (code) => {
    const d = ctx.entry.reg("u32", "group");
    code.emit(null, "mov.u32", d, special("%ctaid.y"));
    return d;
  });

/** The address of this block's row. */
function rowOf(ctx: Context): Reg<"u64"> {
  const bytes = ctx.groups?.bytes ?? 0;
  const group = groupNumber(ctx);
  return ctx.invariant("row of the group", (code) => {
    const [row, offset] = [ctx.entry.reg("u64", "grow"), ctx.entry.reg("u64", "w")];
    code.emit(null, "ld.param.u64", row, ctx.param(GROUP_TABLE));
    code.emit(null, "cvta.to.global.u64", row, row);
    code.emit(null, "mul.wide.u32", offset, group, imm(bytes));
    code.emit(null, "add.s64", row, row, offset);
    return row;
  });
}

/** Bytes of what tells the rows of an expert apart. */
const ROWS_BYTES = 4;

/** The first row of the group at hand, of all, and how many it has: no more than there are, multiples of what the problem promises, none where offsets decrease. */
function rowsOfExpert(ctx: Context, rows: ExpertRows): ExpertPlace {
  if (ctx.expert !== null) return ctx.expert;
  const group = groupNumber(ctx);
  const { entry } = ctx;
  const { divisor: multiple, mostRows: most } = ctx;
  const place = ctx.invariant("rows of the group", (code) => {
    const [base, offset] = [entry.reg("u64", "grow"), entry.reg("u64", "w")];
    code.emit(null, "ld.param.u64", base, ctx.param(GROUP_TABLE));
    code.emit(null, "cvta.to.global.u64", base, base);
    code.emit(null, "mul.wide.u32", offset, group, imm(ROWS_BYTES));
    code.emit(null, "add.s64", base, base, offset);
    return base;
  });
  const clamped = (code: Code, thread: Pred | null, d: Reg<"u32">, at: number): void => {
    code.emit(thread, "ld.global.u32", d, addr(place, at));
    code.emit(null, "max.s32", d, d, imm(0));
    code.emit(null, "min.s32", d, d, imm(most));
    if (multiple === 1) return;
    const rest = entry.reg("u32", "rest");
    code.emit(null, "rem.u32", rest, d, imm(multiple));
    code.emit(null, "sub.u32", d, d, rest);
  };
  if (rows === "counts")
    return {
      first: null,
      count: ctx.invariant(`size ${ctx.expertAxis}`, (code) => {
        const count = entry.reg("u32", "size");
        clamped(code, null, count, 0);
        return count;
      }),
    };
  const first = ctx.invariant("first row of the group", (code) => {
    const [d, later] = [entry.reg("u32", "first"), entry.reg("pred", "p")];
    code.emit(null, "mov.u32", d, imm(0));
    code.emit(null, "setp.ne.u32", later, group, imm(0));
    clamped(code, later, d, -ROWS_BYTES);
    return d;
  });
  const count = ctx.invariant(`size ${ctx.expertAxis}`, (code) => {
    const d = entry.reg("u32", "size");
    clamped(code, null, d, 0);
    code.emit(null, "sub.s32", d, d, first);
    code.emit(null, "max.s32", d, d, imm(0));
    return d;
  });
  return { first, count };
}

/** Rows of the group at hand; null where a parameter or a field says. */
export function expertCount(ctx: Context): Reg<"u32"> | null {
  const rows = ctx.experts;
  return rows === null ? null : rowsOfExpert(ctx, rows).count;
}

/** Where the operand's part of the group at hand begins: numbers with the bytes of each, to be added to the operand's pointer. */
export function expertSteps(ctx: Context, name: string): readonly (readonly [Reg<"u32">, number])[] {
  const { experts } = ctx;
  const array = ctx.arrays.get(name);
  if (experts === null || array === undefined) return [];
  const { dtype, rows, groups } = array;
  const first = firstOfGroup(ctx, array);
  const unit = packedSize(dtype);
  return [
    ...(first === null || rows === undefined ? [] : [[first, rows * unit] as const]),
    ...(groups === undefined ? [] : [[groupNumber(ctx), groups * unit] as const]),
  ];
}

/** The first row, or block, of the group at hand; null where its number says where its part begins. */
function firstOfGroup(ctx: Context, { rows, blocks }: ArrayDeclaration): Reg<"u32"> | null {
  const row = rows === undefined || ctx.experts === null ? null : rowsOfExpert(ctx, ctx.experts).first;
  return row === null || blocks === undefined ? row : firstBlock(ctx, row, blocks);
}

/** The first block of the group at hand, which no other group has rows in. */
const firstBlock = (ctx: Context, row: Reg<"u32">, { rows, slack }: GroupBlocks): Reg<"u32"> => {
  const group = groupNumber(ctx);
  return ctx.invariant(`first block of the group of ${rows} + ${slack}`, (code) => {
    const d = ctx.entry.reg("u32", "first");
    code.emit(null, "mad.lo.u32", d, group, imm(slack), row);
    code.emit(null, "add.u32", d, d, imm(rows - 1));
    code.emit(null, "div.u32", d, d, imm(rows));
    return d;
  });
};

/** The first row, or block of rows, of the group at hand in a map of all rows, which factors of A have; null where maps are a group's own, or the number of the group says. */
export function firstRowInMap(ctx: Context, buffer: string): Reg<"u32"> | null {
  const array = buffer === "SFA" ? ctx.arrays.get("sfa") : undefined;
  return array === undefined ? null : firstOfGroup(ctx, array);
}

/** Registers for the rows of the group at hand that last from tile to tile; null where a table says what groups have. */
export function keptRows(ctx: Context): ExpertPlace | null {
  const rows = ctx.experts;
  if (rows === null) return null;
  const first = rows === "counts" ? null : ctx.entry.reg("u32", "first");
  return { first, count: ctx.entry.reg("u32", "size") };
}

/** The rows of the group that the block has turned to, loaded once. */
export function keepRows(ctx: Context, kept: ExpertPlace): void {
  const rows = ctx.experts;
  if (rows === null) return;
  const { first, count } = rowsOfExpert(ctx, rows);
  if (kept.first !== null && first !== null) ctx.body.emit(null, "mov.u32", kept.first, first);
  ctx.body.emit(null, "mov.u32", kept.count, count);
}
