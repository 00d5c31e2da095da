/**
 * Grouped problems: the grid's second axis is the group, or blocks go through a list of them (`listTiles.ts`), and its row of a table in device memory has
 * sizes and pointers.
 */
import {
  type GroupField,
  type GroupRow,
  type ParamSpec,
  type Problem,
  sizeExpr,
  symbolicSizes,
} from "@tilewright/core";
import { type AddressOperand, addr, imm, special } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

/** The parameter that points to the table. */
const TABLE = "groups";
const POINTER_BYTES = 8;
const SIZE_BYTES = 4;

/** A pointer that each group has its own of. */
export type OperandParam = Extract<ParamSpec, { kind: "pointer" }>;

type PointerField = Extract<GroupField, { kind: "pointer" }>;

/** Names that a row has, of the pointers of a kernel. */
const inRow = (name: OperandParam["name"]): name is PointerField["name"] =>
  name !== "sfa" && name !== "sfb" && name !== "workspace" && name !== TABLE;

/** The row of a group: the pointers of the kernel's operands, then its sizes. */
export function groupRow(problem: Problem, operands: readonly OperandParam[]): GroupRow {
  const pointers = operands.flatMap(({ name, align, access }): Omit<PointerField, "offset">[] =>
    inRow(name) ? [{ kind: "pointer", name, align, access }] : [],
  );
  const sizes = symbolicSizes(problem);
  const end = POINTER_BYTES * pointers.length;
  return {
    // Rows begin where a pointer may.
    bytes: Math.ceil((end + SIZE_BYTES * sizes.length) / POINTER_BYTES) * POINTER_BYTES,
    fields: [
      ...pointers.map((field, i): GroupField => ({ ...field, offset: POINTER_BYTES * i })),
      ...sizes.map(
        (name, i): GroupField => ({
          kind: "size",
          name,
          offset: end + SIZE_BYTES * i,
          value: sizeExpr(problem, name),
        }),
      ),
    ],
  };
}

/** The parameter of the table, at `offset`. */
export const tableParam = (offset: number): ParamSpec => ({
  kind: "pointer",
  name: TABLE,
  offset,
  size: 8,
  align: POINTER_BYTES,
  access: "read",
});

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
    code.emit(null, "ld.param.u64", row, ctx.param(TABLE));
    code.emit(null, "cvta.to.global.u64", row, row);
    code.emit(null, "mul.wide.u32", offset, group, imm(bytes));
    code.emit(null, "add.s64", row, row, offset);
    return row;
  });
}
