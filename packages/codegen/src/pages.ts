/** Rows of a matrix that lie in pages: the number of the page comes out of a table in device memory, the row in it from the problem's own row. */
import { commonDivisor, stepBuffer } from "@tilewright/core";
import { bufferOf, type Expr } from "@tilewright/ir";
import { type AddressOperand, addr, type IntegerOperand, imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";

type U32 = Reg<"u32">;
type Index = U32 | IntegerOperand;

/** Bytes of an entry of the table. */
const ENTRY = 4;

/** What stands for a page behind the last row: rows of it lie before the matrix, where bulk copies read 0 and guards let nothing be read. */
const NO_PAGE = -1;

/** How a buffer lies in pages, along which axis. */
export interface InPages {
  readonly axis: 0 | 1;
  readonly size: number;
  /** Variable: rows of the problem at hand. */
  readonly count: string;
  readonly table: string;
}

/** Null of a buffer that lies in no pages. */
export function inPages(ctx: Context, buffer: string): InPages | null {
  const { paged } = bufferOf(ctx.program, buffer);
  if (paged === undefined) return null;
  const runs = ctx.runs.find(({ step }) => step === paged.step);
  if (runs?.pages === undefined || runs.table === undefined) return null;
  return { axis: paged.axis, size: runs.pages, count: runs.count, table: stepBuffer(runs.table) };
}

/** Rows that an index is a multiple of, up to those of a page. */
export function grainOf(ctx: Context, index: Expr, { size }: InPages): number {
  const { constant, terms } = ctx.linear(index);
  return [constant, ...terms.values()].reduce(commonDivisor, size);
}

/** A row of the problem at hand, and what is computed once of those that lie a whole number of pages behind it. */
export interface PageStart {
  readonly pages: InPages;
  /** The entry of its page. */
  readonly entry: AddressOperand;
  /** Rows of the page before it; rows of the problem from it on. */
  readonly within: Index;
  readonly left: U32;
}

/** `entries`: the problem's in the table. `aligned`: the row is the first one of its page. Computed where instructions go now. */
export function pageStart(
  ctx: Context,
  pages: InPages,
  entries: Reg<"u64">,
  row: Index,
  aligned: boolean,
): PageStart {
  const { body: code, entry: made } = ctx;
  const rows = ctx.variable(pages.count);
  const left = made.reg("u32", "left");
  code.emit(null, "sub.s32", left, rows, row);
  if (row.kind !== "register") {
    const at = Number(row.value);
    const entry = addr(entries, Math.floor(at / pages.size) * ENTRY);
    return { pages, entry, within: imm(at % pages.size), left };
  }
  const [number, place] = [made.reg("u32", "at"), made.reg("u64", "gp")];
  code.emit(null, "shr.u32", number, row, imm(Math.log2(pages.size)));
  code.emit(null, "mul.wide.u32", place, number, imm(ENTRY));
  code.emit(null, "add.s64", place, place, entries);
  if (aligned) return { pages, entry: addr(place, 0), within: imm(0), left };
  const within = made.reg("u32", "at");
  code.emit(null, "and.b32", within, row, imm(pages.size - 1));
  return { pages, entry: addr(place, 0), within, left };
}

/** The row in memory of the row so many pages further on: below 0 behind the problem's last one. */
export function rowInPages(ctx: Context, { pages, entry, within, left }: PageStart, further: number): U32 {
  const [page, d] = [ctx.entry.reg("u32", "page"), ctx.entry.reg("u32", "in_pool")];
  const there = ctx.entry.reg("pred", "p");
  const { body: code } = ctx;
  code.emit(null, "setp.gt.s32", there, left, imm(further * pages.size));
  code.emit(null, "mov.b32", page, imm(NO_PAGE));
  code.emit(there, "ld.global.u32", page, { ...entry, offset: entry.offset + BigInt(further * ENTRY) });
  if (within.kind !== "register" && Number(within.value) === 0)
    code.emit(null, "shl.b32", d, page, imm(Math.log2(pages.size)));
  else code.emit(null, "mad.lo.s32", d, page, imm(pages.size), within);
  return d;
}
