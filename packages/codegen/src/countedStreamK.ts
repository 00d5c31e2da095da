/**
 * Stream-K where only the kernel knows how much there is to do: the K chunks of all tiles of the launch, of a grouped problem those of all groups, stand in one line,
 * and each block takes an equal share of it. Where a share begins follows from the number of tiles of the groups before, which every block counts for itself: once
 * through the rows of the table for the length of the line, then group by group to its own place, and on from there.
 */
import { type CountedStreamK, rangeOf, type StreamK } from "@tilewright/ir";
import { type IntegerOperand, imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { cutStreamK } from "./cutStreamK.ts";
import type { StmtOf } from "./engine.ts";
import { type Count, countOf, countOperand } from "./sizes.ts";
import { clustersOf, place, schedulerOf } from "./tilePlace.ts";

type Tiles = StmtOf<"tiles">;
type U32 = Reg<"u32">;

/** Chunks of a tile of the problem at hand, in the line: one at least, so that a tile without any has a place. */
function chunksInLine(ctx: Context, { chunks }: CountedStreamK): Count {
  const count = countOf(ctx, chunks);
  if (typeof count === "number") return Math.max(1, count);
  if (rangeOf(chunks, ctx.sizes)[0] > 0) return count;
  return ctx.values.memo(`max(${count.name},1)`, "v", (d) =>
    ctx.prologue.emit(null, "max.u32", d, count, imm(1)),
  );
}

/** Chunks of the problem at hand. */
function lengthOf(ctx: Context, stmt: Tiles, counted: CountedStreamK): Count {
  const [tiles, chunks] = [clustersOf(ctx, stmt), chunksInLine(ctx, counted)];
  if (typeof chunks === "number")
    return typeof tiles === "number" ? tiles * chunks : ctx.values.scale(tiles, chunks);
  return typeof tiles === "number" ? ctx.values.scale(chunks, tiles) : ctx.values.product(tiles, chunks);
}

/** The groups of the line one after the other: `begin` before the first, `next` on to the one behind. */
interface Groups {
  readonly group: U32;
  /** Where the chunks of the group at hand begin and end in the line. */
  readonly from: U32;
  readonly to: U32;
}

/** A register with a value to begin with. */
function register(ctx: Context, prefix: string, value: U32 | IntegerOperand): U32 {
  const d = ctx.entry.reg("u32", prefix);
  ctx.body.emit(null, "mov.u32", d, value);
  return d;
}

/** Before the first group: it begins and ends at 0. */
const begin = (ctx: Context): Groups => ({
  group: register(ctx, "group", imm(0xffffffff)),
  from: register(ctx, "from", imm(0)),
  to: register(ctx, "to", imm(0)),
});

function next(ctx: Context, stmt: Tiles, counted: CountedStreamK, { group, from, to }: Groups): void {
  ctx.body.emit(null, "add.u32", group, group, imm(1));
  ctx.body.emit(null, "mov.u32", from, to);
  ctx.group = group;
  ctx.scope(() => ctx.body.emit(null, "add.u32", to, to, countOperand(lengthOf(ctx, stmt, counted))));
  ctx.group = null;
}

/** The length of the line. */
function lengthOfLine(ctx: Context, stmt: Tiles, counted: CountedStreamK, count: number | null): U32 {
  if (count === null) {
    const length = ctx.entry.reg("u32", "line");
    ctx.scope(() => ctx.body.emit(null, "mov.u32", length, countOperand(lengthOf(ctx, stmt, counted))));
    return length;
  }
  const groups = begin(ctx);
  const [again, more] = [ctx.entry.label("count"), ctx.entry.reg("pred", "p")];
  ctx.body.label(again);
  next(ctx, stmt, counted, groups);
  ctx.body.emit(null, "setp.lt.u32", more, groups.group, imm(count - 1));
  ctx.body.emit(more, "bra", again);
  return groups.to;
}

/** The parts of this block's share, one after the other; `between` them what the boundary says. */
export function countStreamK(
  ctx: Context,
  stmt: Tiles,
  { share, counted }: { readonly share: StreamK; readonly counted: CountedStreamK },
  body: () => void,
  between: () => void,
): void {
  const { entry } = ctx;
  const { groups: list = null, streamk } = schedulerOf(stmt);
  const ctas = streamk?.ctas ?? counted.blocks;
  const line = lengthOfLine(ctx, stmt, counted, list);
  const [each, at, end] = [entry.reg("u32", "each"), entry.reg("u32", "at"), entry.reg("u32", "end")];
  const [again, done] = [entry.label("shares"), entry.label("shared")];
  const [none, last] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  ctx.scope(() => {
    const { values, body } = ctx;
    body.emit(null, "mov.u32", each, values.divide(values.sum(line, imm(ctas - 1)), ctas));
    body.emit(null, "mul.lo.u32", at, values.block(), each);
    body.emit(null, "add.u32", end, at, each);
    body.emit(null, "min.u32", end, end, line);
  });
  ctx.body.emit(null, "setp.ge.u32", none, at, end);
  ctx.body.emit(none, "bra", done);
  const groups = list === null ? null : begin(ctx);
  ctx.body.label(again);
  if (groups !== null) toGroup(ctx, stmt, counted, groups, at);
  ctx.group = groups?.group ?? null;
  ctx.scope(() => {
    const { values, prologue } = ctx;
    const chunks = chunksInLine(ctx, counted);
    const most = Math.max(1, rangeOf(counted.chunks, ctx.sizes)[1]);
    const within = groups === null ? at : values.difference(at, groups.from);
    const [tile, start] = [entry.reg("u32", "tile"), entry.reg("u32", "start")];
    prologue.emit(null, "div.u32", tile, within, countOperand(chunks));
    const { first, count } = cutStreamK(ctx, share, { tile, within, at, end, chunks, most });
    prologue.emit(null, "sub.u32", start, at, first);
    prologue.emit(null, "add.u32", at, at, count);
    ctx.part = { share, tile, first, count, chunks, line: { start, each, blocks: ctas } };
    place(ctx, stmt, tile);
    body();
    ctx.part = null;
  });
  ctx.group = null;
  ctx.body.emit(null, "setp.ge.u32", last, at, end);
  ctx.body.emit(last, "bra", done);
  between();
  ctx.body.emit(null, "bra", again);
  ctx.body.label(done);
}

/** On to the group in which the chunk at `at` lies; there is one. */
function toGroup(ctx: Context, stmt: Tiles, counted: CountedStreamK, groups: Groups, at: U32): void {
  const [find, found] = [ctx.entry.label("group"), ctx.entry.label("in_group")];
  const here = ctx.entry.reg("pred", "p");
  ctx.body.label(find);
  ctx.body.emit(null, "setp.lt.u32", here, at, groups.to);
  ctx.body.emit(here, "bra", found);
  next(ctx, stmt, counted, groups);
  ctx.body.emit(null, "bra", find);
  ctx.body.label(found);
}
