/** Rows that an index in device memory names: of A, which lie anywhere, or of D, which go anywhere. Each is looked up once for a tile, before its loop. */
import { stepBuffer } from "@tilewright/core";
import { bufferOf, type Expr } from "@tilewright/ir";
import { addr, imm } from "@tilewright/ptx";
import type { Code, Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { axisIndex, globalArray, pointer } from "./globalAddress.ts";
import { advance } from "./pointers.ts";
import { countOperand, extentOf } from "./sizes.ts";
import type { ThreadCoord } from "./threads.ts";

/** Bytes of an entry of the index. */
const ENTRY = 4;

/** What stands for a row behind the last one: no row that a matrix has. */
const NO_ROW = -1;

/** The index of a buffer's rows: the name of its array, and the rows that memory has; null where they are the problem's own. */
export interface RowIndex {
  readonly buffer: string;
  readonly array: string;
  readonly rows: number;
}

/** The index of rows in pages that are no runs'. */
export function indexOfRows(ctx: Context, buffer: string): RowIndex | null {
  const { paged, shape } = bufferOf(ctx.program, buffer);
  if (paged === undefined || ctx.runs.some(({ step }) => step === paged.step)) return null;
  return { buffer, array: globalArray(ctx, stepBuffer(paged.step)).name, rows: shape[0] };
}

/** Where an entry of the index is, and whether it is one of the problem at hand: of row `origin` + the thread's own + `row`. */
function entryOf(ctx: Context, { buffer, array }: RowIndex, origin: Expr, thread: ThreadCoord, row: number) {
  const { constant, terms } = ctx.linear(origin);
  const at = axisIndex(ctx, terms, thread);
  const entries = advance(ctx, pointer(ctx, array), at, ENTRY);
  const extent = extentOf(ctx, buffer, 0, bufferOf(ctx.program, buffer).shape);
  const from = constant + row;
  return {
    key: `row ${at?.name ?? ""}+${from} of ${buffer}`,
    /** Sets `d` to what the entry says, and leaves it as it is behind the last row. */
    load(code: Code, d: Reg<"u32">): Pred {
      const [inside, left] = [ctx.entry.reg("pred", "p"), ctx.entry.reg("u32", "left")];
      code.emit(null, "mov.b32", left, countOperand(extent));
      if (at !== null) code.emit(null, "sub.u32", left, left, at);
      code.emit(null, "setp.gt.s32", inside, left, imm(from));
      code.emit(null, "mov.b32", d, imm(NO_ROW));
      code.emit(inside, "ld.global.u32", d, addr(entries, from * ENTRY));
      return inside;
    },
  };
}

/** The row in memory, as a coordinate of a bulk copy: behind the last one of the problem at hand none, where such copies read 0, and the last of memory for one that there is not. */
export function rowCoordinate(
  ctx: Context,
  index: RowIndex,
  origin: Expr,
  thread: ThreadCoord,
  row: number,
): Reg<"u32"> {
  const { key, load } = entryOf(ctx, index, origin, thread, row);
  return ctx.invariant(`${key}, coordinate`, (code) => {
    const d = ctx.entry.reg("u32", "named");
    const inside = load(code, d);
    code.emit(inside, "min.u32", d, d, imm(index.rows - 1));
    return d;
  });
}

/**
 * The row in memory of row `origin` + the thread's own + `row`, and whether there is one: what the index says of it is a row of the matrix. `row` is the last one where there is none, so that it
 * can be read.
 */
export function namedRow(
  ctx: Context,
  index: RowIndex,
  origin: Expr,
  thread: ThreadCoord,
  row: number,
): { readonly row: Reg<"u32">; readonly there: Pred } {
  const { rows } = index;
  const { key, load } = entryOf(ctx, index, origin, thread, row);
  const named = ctx.invariant(key, (code) => {
    const d = ctx.entry.reg("u32", "named");
    load(code, d);
    return d;
  });
  return {
    row: ctx.invariant(`${key}, clamped`, (code) => {
      const d = ctx.entry.reg("u32", "named");
      code.emit(null, "min.u32", d, named, imm(rows - 1));
      return d;
    }),
    there: ctx.invariant(`${key}, there`, (code) => {
      const p = ctx.entry.reg("pred", "p");
      code.emit(null, "setp.lt.u32", p, named, imm(rows));
      return p;
    }),
  };
}
