/**
 * Grouped problems: the grid's second axis is the group, or blocks go through a list of them (`listTiles.ts`), and its row of a table in device memory has
 * sizes and pointers.
 */
import { GROUP_TABLE } from "@tilewright/ir";
import { type AddressOperand, addr, imm, special } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

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
