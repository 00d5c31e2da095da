/** Addresses and guards of elements of views of global memory: of a matrix as it lies, in pages, or in rows that an index names. */
import { lit, type View } from "@tilewright/ir";
import { type AddressOperand, addr, imm } from "@tilewright/ptx";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import {
  arrayAddress,
  arrayPlace,
  axisBound,
  type GlobalArray,
  globalArray,
  ofProblem,
  pointer,
} from "./globalAddress.ts";
import { indexValue } from "./indexValue.ts";
import { grainOf, type InPages, inPages, pageStart, rowInPages } from "./pages.ts";
import { advance } from "./pointers.ts";
import { indexOfRows, namedRow } from "./rowIndex.ts";
import { strideRegister } from "./sizes.ts";
import { NOWHERE, type ThreadPosition } from "./threads.ts";

/** Address of element (row, col) of a view, beside the thread's own position. */
export function globalAddress(
  ctx: Context,
  view: View,
  position: ThreadPosition,
  row: number,
  col: number,
): AddressOperand {
  const array = globalArray(ctx, view.buffer);
  const index = indexOfRows(ctx, view.buffer);
  if (index !== null) {
    const named = namedRow(ctx, index, view.origin[0], position.row, row);
    const base = advance(ctx, pointer(ctx, array.name), named.row, array.rowStride);
    return arrayAddress(
      ctx,
      { ...array, base },
      [lit(0), view.origin[1]],
      { ...position, row: NOWHERE },
      0,
      col,
    );
  }
  const pages = inPages(ctx, view.buffer);
  if (pages !== null) return pagedAddress(ctx, array, pages, view.origin, position, [row, col]);
  return arrayAddress(ctx, array, view.origin, position, row, col);
}

/** The same of a matrix in pages. Where all threads have rows of one page, its address is computed once for them, and rows of the page are constants apart. */
function pagedAddress(
  ctx: Context,
  array: GlobalArray,
  pages: InPages,
  origin: View["origin"],
  position: ThreadPosition,
  at: readonly [number, number],
): AddressOperand {
  const { axis, size } = pages;
  const along = axis === 0 ? position.row : position.col;
  const stride = axis === 0 ? array.rowStride : array.colStride;
  const { constant } = ctx.linear(origin[axis]);
  const grain = grainOf(ctx, { kind: "sub", lhs: origin[axis], rhs: lit(constant) }, pages);
  const from = Math.floor((constant + at[axis]) / grain) * grain;
  const rest = constant + at[axis] - from;
  const together = along.bits !== null && along.bits + rest < grain;
  const index = together
    ? indexValue(ctx, origin[axis], from - constant)
    : indexValue(ctx, origin[axis], at[axis], along.reg);
  const { base, offset } = arrayPlace(
    ctx,
    array,
    axis === 0 ? [lit(0), origin[1]] : [origin[0], lit(0)],
    together ? position : axis === 0 ? { ...position, row: NOWHERE } : { ...position, col: NOWHERE },
    axis === 0 ? (together ? rest : 0) : at[0],
    axis === 1 ? (together ? rest : 0) : at[1],
  );
  const key = index.kind === "register" ? index.name : index.value;
  const moved = ctx.perIteration(`${base.name} in page of ${key}`, (code) =>
    ctx.into(code, () => {
      const start = pageStart(ctx, pages, tableEntries(ctx, pages), index, together && grain === size);
      const [row, d] = [rowInPages(ctx, start, 0), ctx.entry.reg("u64", "gp")];
      if (typeof stride === "number") ctx.body.emit(null, "mad.wide.s32", d, row, imm(stride), base);
      else {
        ctx.body.emit(null, "cvt.s64.s32", d, row);
        ctx.body.emit(null, "mad.lo.s64", d, d, strideRegister(ctx, stride, 1), base);
      }
      return d;
    }),
  );
  return addr(moved, offset);
}

/** Entries of the problem at hand in the table of pages. */
export function tableEntries(ctx: Context, { table }: InPages): Reg<"u64"> {
  const { name, batchStride } = globalArray(ctx, table);
  return ofProblem(ctx, pointer(ctx, name), batchStride);
}

/** Whether the kernel writes to what a pointer points to, as its parameter says. */
const isWritten = (ctx: Context, pointer: string): boolean =>
  ctx.kernel.params.some(
    (each) => each.kind === "pointer" && each.name === pointer && each.access !== "read",
  );

/** Both guards of an element: null when it is inside for sure, "outside" when it never is. `join` makes their conjunction. */
export function elementGuard(
  ctx: Context,
  view: View,
  guard: readonly [boolean, boolean],
  position: ThreadPosition,
  row: number,
  col: number,
  join: (a: Pred, b: Pred) => Pred | null = (a, b) => ctx.both(a, b),
): Pred | null | "outside" {
  const index = indexOfRows(ctx, view.buffer);
  // Rows that are stored go where there is one; those that are read are clamped.
  const stored = index !== null && isWritten(ctx, globalArray(ctx, view.buffer).name);
  const bounds = [
    stored
      ? namedRow(ctx, index, view.origin[0], position.row, row).there
      : guard[0]
        ? axisBound(ctx, view, 0, position.row, row)
        : "inside",
    guard[1] ? axisBound(ctx, view, 1, position.col, col) : "inside",
  ] as const;
  let both: Pred | null = null;
  for (const bound of bounds) {
    if (bound === "outside") return "outside";
    if (bound !== "inside") both = both === null ? bound : join(both, bound);
  }
  return both;
}
