import { boundaryOf, clusterSize, must, type Stmt, type StreamK, type TileLoop } from "@tilewright/ir";
import { type IntegerOperand, imm, type SymbolOperand, special } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { countStreamK } from "./countedStreamK.ts";
import { cutStreamK } from "./cutStreamK.ts";
import type { StmtOf } from "./engine.ts";
import { isGrouped } from "./groups.ts";
import { walkTileList } from "./listTiles.ts";
import { forgetSlots } from "./pipelines.ts";
import { bindRuns } from "./runs.ts";
import { countOperand } from "./sizes.ts";
import { clustersOf, place, placeTile, schedulerOf } from "./tilePlace.ts";

type Tiles = StmtOf<"tiles">;
type U32 = Reg<"u32">;

export function lowerTiles(ctx: Context, stmt: Tiles, lower: (stmts: readonly Stmt[]) => void): void {
  if (stmt.loop === null || !severalProblems(ctx, stmt.loop)) bindRuns(ctx);
  ctx.loopsOverTiles ||= stmt.loop !== null || stmt.streamK !== undefined;
  if (stmt.streamK !== undefined) {
    const body = (): void => lower(stmt.body);
    const between = (): void => lower(boundaryOf(stmt, "between"));
    const { counted } = stmt.streamK;
    if (counted !== undefined) countStreamK(ctx, stmt, { share: stmt.streamK, counted }, body, between);
    else if (stmt.loop === null) shareOut(ctx, stmt, stmt.streamK, body, between);
    else walkStreamK(ctx, stmt, stmt.streamK, body);
  } else if (stmt.loop === null) {
    const behind = placeTile(ctx, stmt);
    if (behind === null) lower(stmt.body);
    else {
      ctx.scope(() => lower(stmt.body));
      forgetSlots(ctx);
      ctx.body.label(behind);
    }
  } else persist(ctx, stmt, stmt.loop, lower);
}

/**
 * Block (or cluster) b takes numbers b, b + blocks, …, or b and then those that it is told; there are no more blocks than tiles, so each has one at least. Of
 * ping-pong roles those after the first may have none.
 */
function persist(ctx: Context, stmt: Tiles, loop: TileLoop, lower: (stmts: readonly Stmt[]) => void): void {
  const { entry } = ctx;
  const { unit, below, deferred, counts } = schedulerOf(stmt);
  const clustered = unit > 1;
  const requests = loop.by === "ring";
  const { turn, of } = loop;
  const zigzag = loop.by === "zigzag";
  if (isGrouped(ctx)) {
    const ordinal = counts ? countTiles(ctx, loop) : null;
    walkTileList(ctx, stmt, loop, () => {
      lower(stmt.body);
      countTile(ctx, ordinal);
    });
    return;
  }
  const count = countOperand(below ?? clustersOf(ctx, stmt));
  const tile = entry.reg("u32", "tile");
  const step = entry.reg("u32", "tile");
  ctx.body.emit(null, "mov.u32", tile, special(clustered ? "%clusterid.x" : "%ctaid.x"));
  if (!requests) ctx.body.emit(null, "mov.u32", step, special(clustered ? "%nclusterid.x" : "%nctaid.x"));
  const rounds = zigzag ? zigzagSteps(ctx, tile, step) : null;
  ctx.tileLoop = { number: tile, following: null, loop, below };
  const batch = anyProblem(ctx, loop) ? ownProblem(ctx) : null;
  ctx.batch = batch;
  const ordinal = counts ? countTiles(ctx, loop) : null;
  const again = entry.label("tiles");
  const none = entry.label("no_tiles");
  const single = of === 1 ? step : entry.reg("u32", "tile");
  if (of > 1 && !requests) ctx.body.emit(null, "mov.u32", single, step);
  lower(boundaryOf(stmt, "first"));
  // The turn behind the last tile, and where a role goes that has no tile and no turn left.
  const last = entry.label("last_turn");
  if (requests && turn > 0) followResponses(ctx, stmt, lower, { tile, count: turn, none, last });
  else if (turn > 0) {
    const absent = entry.reg("pred", "p");
    ctx.body.emit(null, "mad.lo.u32", tile, step, imm(turn), tile);
    ctx.body.emit(null, "setp.ge.u32", absent, tile, count);
    ctx.body.emit(absent, "bra", none);
  }
  if (of > 1 && !requests) ctx.body.emit(null, "mul.lo.u32", step, single, imm(of));
  ctx.body.label(again);
  forgetSlots(ctx);
  ctx.scope(() => {
    const number = loop.batch === undefined ? tile : ofOneProblem(ctx, stmt, tile, loop.batch);
    if (severalProblems(ctx, loop)) bindRuns(ctx);
    if (deferred) ctx.recordLate(() => place(ctx, stmt, number));
    else place(ctx, stmt, number);
    lower(stmt.body);
  });
  ctx.batch = batch;
  const { following } = ctx.tileLoop;
  countTile(ctx, ordinal);
  if (requests) {
    const next = must(following, "one statement reads which tile follows (tileSources)");
    const { number, more } = next;
    ctx.body.emit(null, "mov.u32", tile, number);
    if (batch !== null && next.batch !== null) ctx.body.emit(null, "mov.u32", batch, next.batch);
    if (of === 1) {
      ctx.tileLoop = null;
      ctx.batch = null;
      ctx.body.emit(more, "bra", again);
      return;
    }
    unless(ctx, more, none);
    followResponses(ctx, stmt, lower, { tile, count: of - 1, none, last });
    ctx.tileLoop = null;
    ctx.body.emit(null, "bra", again);
    ctx.body.label(last);
    lower(boundaryOf(stmt, "last"));
    ctx.body.label(none);
    return;
  }
  ctx.tileLoop = null;
  const more = entry.reg("pred", "p");
  ctx.body.emit(null, "add.u32", tile, tile, step);
  if (rounds !== null) ctx.body.emit(null, "sub.u32", step, rounds, step);
  ctx.body.emit(null, "setp.lt.u32", more, tile, count);
  ctx.body.emit(more, "bra", again);
  if (turn > 0) ctx.body.label(none);
  const behind = boundaryOf(stmt, "last");
  if (behind.length > 0) atLast(ctx, tile, single, count, () => lower(behind));
}

/** Whether the launch control hands out tiles of a batch: any block may then be answered with a tile of any problem. */
function anyProblem({ program, problems }: Context, loop: TileLoop): boolean {
  const ring = program.rings.find(({ name }) => name === loop.ring);
  return ring?.transport === "clc" && problems !== null;
}

/** Whether tiles of a loop are of several problems, each with runs of its own. */
const severalProblems = (ctx: Context, loop: TileLoop): boolean =>
  loop.batch !== undefined || anyProblem(ctx, loop);

/** The problem of the block's first tile. */
function ownProblem(ctx: Context): U32 {
  const d = ctx.entry.reg("u32", "batch");
  ctx.body.emit(null, "mov.u32", d, special("%ctaid.y"));
  return d;
}

/**
 * The number of a work tile in its own problem, of a list in which `together` problems take turns, tile by tile; the problem is the batch's from here on.
 */
function ofOneProblem(ctx: Context, stmt: Tiles, number: U32, together: number): U32 {
  const count = clustersOf(ctx, stmt);
  const tiles = must(
    typeof count === "number" ? count : null,
    "a list has as many as the text says (visits)",
  );
  const { values } = ctx;
  const before = values.divide(number, tiles * together);
  const within = values.difference(number, values.scale(before, tiles * together));
  if (together === 1) {
    ctx.batch = before;
    return within;
  }
  const tile = values.divide(within, together);
  ctx.batch = values.sum(
    values.scale(before, together),
    values.difference(within, values.scale(tile, together)),
  );
  return tile;
}

/** A register that counts the work tiles, for copies whose origins go by their number. */
function countTiles(ctx: Context, { var: name }: TileLoop): U32 {
  const d = ctx.entry.reg("u32", "tiles");
  ctx.body.emit(null, "mov.u32", d, imm(0));
  ctx.tileVars.set(name, { reg: d, extent: Number.MAX_SAFE_INTEGER });
  return d;
}

/** One tile more, where they are counted. */
function countTile(ctx: Context, ordinal: U32 | null): void {
  if (ordinal !== null) ctx.body.emit(null, "add.u32", ordinal, ordinal, imm(1));
}

/**
 * From tile b of a round of so many blocks to the one as far from the next round's end: 2 blocks - 1 - 2b tiles on, and from there 2b + 1, in turn. The sum of both is
 * returned, and the first of them in `step`.
 */
function zigzagSteps(ctx: Context, tile: Reg<"u32">, step: Reg<"u32">): Reg<"u32"> {
  const sum = ctx.entry.reg("u32", "round");
  ctx.body.emit(null, "shl.b32", sum, step, imm(1));
  ctx.body.emit(null, "mad.lo.s32", step, tile, imm(-2), sum);
  ctx.body.emit(null, "sub.u32", step, step, imm(1));
  return sum;
}

/** Off to a label where a predicate does not hold. */
function unless(ctx: Context, holds: Reg<"pred">, label: SymbolOperand): void {
  const not = ctx.entry.reg("pred", "p");
  ctx.body.emit(null, "not.pred", not, holds);
  ctx.body.emit(not, "bra", label);
}

/**
 * By `count` tiles of the other ping-pong roles, to its own next: every answer is read. Where there is no tile more, the role that would have had it
 * takes the turn that is left (`last`), and the others have none.
 */
function followResponses(
  ctx: Context,
  stmt: Tiles,
  lower: (stmts: readonly Stmt[]) => void,
  {
    tile,
    count,
    none,
    last,
  }: {
    readonly tile: U32;
    readonly count: number;
    readonly none: SymbolOperand;
    readonly last: SymbolOperand;
  },
): void {
  const stmts = stmt.body.flatMap((inner) => (inner.kind === "response" ? inner.body : []));
  for (let i = 1; i <= count; i++) {
    lower(stmts);
    const following = must(ctx.tileLoop?.following, "one statement reads which tile follows (tileSources)");
    ctx.body.emit(null, "mov.u32", tile, following.number);
    unless(ctx, following.more, i === count ? last : none);
  }
}

/** Registers that lead a block through its chunks, counted along the line of the tiles: where it is, and where its share or its whole tile ends. */
interface Line {
  readonly at: U32;
  readonly end: U32;
}

/** A register of its own with the number of the block, or of the pair that has a share. */
function ownNumber(ctx: Context, prefix: string): U32 {
  const d = ctx.entry.reg("u32", prefix);
  ctx.body.emit(null, "mov.u32", d, special(clusterSize(ctx.program) > 1 ? "%clusterid.x" : "%ctaid.x"));
  return d;
}

/** Begin with this block's share. `whole`: blocks after those that have one do a whole tile each, which stands in the line as if it followed. */
function beginShare(ctx: Context, share: StreamK, ctas: number, whole: boolean): Line {
  const { entry, body } = ctx;
  const { chunks, each, tiles } = share;
  const [at, end] = [entry.reg("u32", "at"), entry.reg("u32", "at")];
  const block = ownNumber(ctx, "block");
  body.emit(null, "mul.lo.u32", at, block, imm(each));
  body.emit(null, "add.u32", end, at, imm(each));
  body.emit(null, "min.u32", end, end, imm(tiles * chunks));
  if (whole) {
    const beyond = entry.reg("pred", "p");
    body.emit(null, "setp.ge.u32", beyond, block, imm(ctas));
    body.emit(beyond, "sub.u32", at, block, imm(ctas - tiles));
    body.emit(beyond, "mul.lo.u32", at, at, imm(chunks));
    body.emit(beyond, "add.u32", end, at, imm(chunks));
  }
  return { at, end };
}

/** One part, from where the block is to the end of its tile or of its share, and the step to the next. Its coordinates wait where the scheduler says so. */
function doPart(ctx: Context, stmt: Tiles, share: StreamK, { at, end }: Line, make: () => void): void {
  const { entry } = ctx;
  const { chunks } = share;
  ctx.scope(() => {
    const { prologue } = ctx;
    const quotient = ctx.values.divide(at, chunks);
    const tile = entry.reg("u32", "tile");
    prologue.emit(null, "mov.u32", tile, quotient);
    const { first, count } = cutStreamK(ctx, share, { tile, within: at, at, end, chunks, most: chunks });
    prologue.emit(null, "add.u32", at, at, count);
    ctx.part = { share, tile, first, count, chunks, line: null };
    if (schedulerOf(stmt).deferred) ctx.recordLate(() => place(ctx, stmt, tile));
    else place(ctx, stmt, tile);
    make();
    ctx.part = null;
  });
}

/**
 * The parts of this block's share, or its whole tile, one after the other; `between` them what the boundary says.
 */
function shareOut(ctx: Context, stmt: Tiles, share: StreamK, make: () => void, between: () => void): void {
  const { entry } = ctx;
  const { ctas, whole } = sharesOf(stmt);
  const line = beginShare(ctx, share, ctas, whole);
  const again = entry.label("shares");
  ctx.body.label(again);
  doPart(ctx, stmt, share, line, make);
  const [last, done] = [entry.reg("pred", "p"), entry.label("shared")];
  ctx.body.emit(null, "setp.ge.u32", last, line.at, line.end);
  ctx.body.emit(last, "bra", done);
  between();
  ctx.body.emit(null, "bra", again);
  ctx.body.label(done);
}

/** How the scheduler cuts the line. */
const sharesOf = (stmt: Tiles): { readonly ctas: number; readonly whole: boolean } =>
  must(schedulerOf(stmt).streamk, "the scheduler says how the line is cut (lists)");

/** What the role does that would have the tile behind the last one, of the ping-pong roles. */
function atLast(ctx: Context, tile: U32, single: U32, count: U32 | IntegerOperand, behind: () => void): void {
  const { entry, body } = ctx;
  const [before, mine] = [entry.reg("u32", "tile"), entry.reg("pred", "p")];
  body.emit(null, "sub.u32", before, tile, single);
  body.emit(null, "setp.lt.u32", mine, before, count);
  const done = entry.label("turns_done");
  const not = entry.reg("pred", "p");
  body.emit(null, "not.pred", not, mine);
  body.emit(not, "bra", done);
  behind();
  body.label(done);
}

/** In a role of blocks (or pairs) that stay: the parts of the share, then whole tiles, one in `blocks`. */
function walkStreamK(ctx: Context, stmt: Tiles, share: StreamK, make: () => void): void {
  const { entry } = ctx;
  const all = stmt.extents[0] * stmt.extents[1];
  const { ctas, whole: goesOn } = sharesOf(stmt);
  const line = beginShare(ctx, share, ctas, false);
  const { at, end } = line;
  const whole = goesOn ? ownNumber(ctx, "whole") : null;
  const step = ctas * share.chunks;
  if (whole !== null) {
    ctx.body.emit(null, "mad.lo.u32", whole, whole, imm(share.chunks), imm(share.tiles * share.chunks));
  }
  const again = entry.label("shares");
  ctx.body.label(again);
  const over = entry.reg("pred", "p");
  if (whole !== null) {
    ctx.body.emit(null, "setp.ge.u32", over, at, end);
    ctx.body.emit(over, "mov.u32", at, whole);
    ctx.body.emit(over, "add.u32", end, whole, imm(share.chunks));
    ctx.body.emit(over, "add.u32", whole, whole, imm(step));
  }
  doPart(ctx, stmt, share, line, make);
  const more = entry.reg("pred", "p");
  ctx.body.emit(null, "setp.lt.u32", more, at, end);
  ctx.body.emit(more, "bra", again);
  if (whole === null) return;
  ctx.body.emit(null, "setp.lt.u32", more, whole, imm(all * share.chunks));
  ctx.body.emit(more, "bra", again);
}
