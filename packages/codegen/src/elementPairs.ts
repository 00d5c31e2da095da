/** Elements of maps in global memory: neighbours together, where their places allow it. */
import { sizeOf } from "@tilewright/core";
import {
  bufferOf,
  type OwnedRegister,
  type Ownership,
  ownedRegisters,
  registerRun,
  type View,
} from "@tilewright/ir";
import { imm } from "@tilewright/ptx";
import type { F32 } from "./arithmetic.ts";
import type { Pred } from "./code.ts";
import type { Context } from "./context.ts";
import { storeElements } from "./formats.ts";
import { groupAlong } from "./registers.ts";
import { ownedPosition, replica, type ThreadPosition } from "./threads.ts";
import { elementGuard, globalAddress } from "./viewAddress.ts";

type At = Pick<OwnedRegister, "row" | "col">;

/** Each element to global memory by one of the threads that hold it. */
export function storeResult(ctx: Context, dst: View, own: Ownership, valueAt: (at: At) => F32): void {
  const { dtype } = bufferOf(ctx.program, dst.buffer);
  const position = ownedPosition(ctx.values, own);
  const other = replica(ctx.values, own);
  const first = other === null ? null : ctx.entry.reg("pred", "p");
  if (first !== null && other !== null) ctx.emit(null, "setp.eq.u32", first, other, imm(0));
  const both = (a: Pred, b: Pred): Pred => ctx.conjunction(a, b);
  const guardOf = ({ row, col }: At) => elementGuard(ctx, dst, [true, true], position, row, col, both);
  const owned = ownedRegisters(own);
  // Neighbours together where all of them are inside.
  const width = pairOf(ctx, dst, own) === 2 && owned.every((at) => guardOf(at) === null) ? 2 : 1;
  for (const group of groupAlong(owned, 1, width)) {
    const [at] = group;
    const guard = at === undefined ? "outside" : guardOf(at);
    if (at === undefined || guard === "outside") continue;
    const stores = guard === null ? first : first === null ? guard : both(guard, first);
    const values = group.map(valueAt);
    storeElements(ctx, stores, "f32", dtype, values, globalAddress(ctx, dst, position, at.row, at.col));
  }
}

/** Neighbours along columns of a view of global memory that a thread reads or writes at once: two, where each pair that it owns begins at a multiple of their bytes, else one. */
function pairOf(ctx: Context, { buffer, origin, extent }: View, own: Ownership): 1 | 2 {
  const { dtype, layout, align, paged } = bufferOf(ctx.program, buffer);
  const bytes = 2 * sizeOf(dtype);
  const { constant, terms } = ctx.linear(origin[1]);
  // The only row begins where the matrix does.
  const begins = extent[0] === 1 && ctx.linear(origin[0]).terms.size === 0 ? [0] : [layout?.stride[0] ?? 1];
  const even = [...begins, constant, ...terms.values()].every((each) => each % 2 === 0);
  const whole = layout?.stride[1] === 1 && paged === undefined && align % bytes === 0;
  return whole && even && registerRun(own.cols) % 2 === 0 ? 2 : 1;
}

/** First column and columns of what is loaded for an element that is inside: its pair where that is inside, too. */
export function loadedRun(
  ctx: Context,
  view: View,
  own: Ownership,
  position: ThreadPosition,
  row: number,
  col: number,
): readonly [first: number, width: 1 | 2] {
  if (view.extent[1] === 1 || pairOf(ctx, view, own) === 1) return [col, 1];
  const first = col - (col % 2);
  const other = col === first ? col + 1 : first;
  return elementGuard(ctx, view, [true, true], position, row, other) === null ? [first, 2] : [col, 1];
}
