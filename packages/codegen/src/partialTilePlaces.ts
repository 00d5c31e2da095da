/** Where in the workspace a block finds the counter and the parts of its tile. */

import type { LaunchExpr } from "@tilewright/core";
import {
  blocksOfTile,
  COUNTER_LINE,
  inOnePlace,
  must,
  type StreamK,
  streamKBlocks,
  WORKSPACE,
} from "@tilewright/ir";
import { imm, special } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { batchIndex, pointer } from "./globalAddress.ts";
import { groupNumber, isGrouped } from "./groups.ts";
import { bytesOf, type Partials } from "./partialTiles.ts";

/** Parts after the first of a tile: registers that the addition counts on and down. */
export interface FurtherPartials {
  readonly before: Reg<"u64">;
  readonly left: Reg<"u32">;
}

/** Where a tile's counter and this thread's elements of its parts are. */
export interface PartialTilePlaces {
  /** Null where another kernel adds the parts up: nobody counts. */
  readonly counter: Reg<"u64"> | null;
  /** The first part, or the place where all of them are added up. */
  readonly first: Reg<"u64">;
  /** The part that this block hands in. */
  own(): Reg<"u64">;
  /** So many; null: as many as the blocks that have chunks of the tile. */
  further(partials: number | null): FurtherPartials;
}

export function partialTilePlaces(ctx: Context, shared: Partials): PartialTilePlaces {
  const { values, entry, part } = ctx;
  const base = pointer(ctx, WORKSPACE);
  const line = part?.line ?? null;
  const batch = !isGrouped(ctx) ? batchIndex(ctx) : line !== null ? null : groupNumber(ctx);
  // Of a launch that says how many tiles there are, the grid has a block for each along x and a place for each problem along y.
  const along = (axis: "x" | "y"): Reg<"u32"> =>
    values.memo(`nctaid.${axis}`, "v", (d) =>
      ctx.prologue.emit(null, "mov.u32", d, special(`%nctaid.${axis}`)),
    );
  const before = (count: LaunchExpr, times: number, problem: Reg<"u32">): Reg<"u32"> =>
    typeof count === "number"
      ? values.scale(problem, count)
      : values.product(problem, values.scale(along("x"), times));
  const inBatch = (count: LaunchExpr, index: Reg<"u32">, times = 1): Reg<"u32"> =>
    batch === null ? index : values.sum(before(count, times, batch), index);
  const at = (from: Reg<"u64">, index: Reg<"u32">, bytes: number): Reg<"u64"> => {
    const d = entry.reg("u64", "ws");
    ctx.prologue.emit(null, "mad.wide.u32", d, index, imm(bytes), from);
    return d;
  };
  const { stride, each } = shared;
  const { at: from, count = 1 } = shared.region;
  const counters = shared.by === "kernel" ? null : countersOf(ctx);
  const parts = entry.reg("u64", "ws");
  if (typeof from === "number") ctx.prologue.emit(null, "add.s64", parts, base, imm(from));
  else {
    const all = batch === null ? along("x") : values.product(along("x"), along("y"));
    const counted = values.scale(all, counters?.every ?? 0);
    const lines = values.divide(values.sum(counted, imm(COUNTER_LINE - 1)), COUNTER_LINE);
    ctx.prologue.emit(null, "mad.wide.u32", parts, lines, imm(COUNTER_LINE), base);
  }
  const mine = at(parts, values.thread(), shared.vector * bytesOf(shared.type));
  const place = (index: Reg<"u32">): Reg<"u64"> => at(mine, inBatch(count, index), stride);
  const share = part?.share ?? null;
  const tile =
    share === null
      ? values.block()
      : line !== null
        ? values.divide(line.start, line.each)
        : ofHalf(ctx, must(part, "parts of tiles are of a stream-K loop (context)").tile, share.tiles);
  const counter = counters === null ? null : at(base, inBatch(counters.count, tile), counters.every);
  if (inOnePlace(shared.by)) {
    const first = place(tile);
    return { counter, first, own: () => first, further: () => must<never>(null, ONE_BY_ONE) };
  }
  if (share !== null) return { counter, ...sharePlaces(ctx, share, place) };
  const all = each * stride;
  const first = at(mine, inBatch(count, tile), all);
  return {
    counter,
    first,
    own: () => at(first, values.split(), stride),
    further(partials) {
      const along = must(Number(ctx.kernel.grid[2]), ONE_BY_ONE);
      const [before, left] = [entry.reg("u64", "part"), entry.reg("u32", "left")];
      ctx.emit(null, "mov.u64", before, first);
      // Not as a constant: ptxas would unroll a loop of few turns and load all parts at once, into registers that are not there.
      ctx.emit(null, "mov.u32", left, special("%nctaid.z"));
      ctx.emit(null, "add.u32", left, left, imm((partials ?? each - 1) - along));
      return { before, left };
    },
  };
}

/** Counters of work tiles: bytes from one to the next, and how many a problem has. */
function countersOf(ctx: Context): { readonly every: number; readonly count: LaunchExpr } {
  const { stride, count } = ctx.region("counters");
  return {
    every: must(stride, "region %counters has a stride (launches)"),
    count: must(count, "region %counters has a count (launches)"),
  };
}

const ONE_BY_ONE = "partial tiles that are added one by one have places of their own (context)";

/** Number `index` of `count` among those of this block's half of tiles: of a pair the second block's follow those of the first. */
function ofHalf({ program, values }: Context, index: Reg<"u32">, count: number): Reg<"u32"> {
  const each = blocksOfTile(program);
  if (each === 1) return index;
  const half = values.modulo(values.block(), each, Number.POSITIVE_INFINITY);
  return values.sum(index, values.scale(half, count));
}

/**
 * Places of a share's parts. Of B blocks (or pairs, each block of one for its half), block b has place b for a part that begins inside its tile, and place B + b for one that begins with it. So the parts
 * of a tile are that of its first block at B + b, then those at b + 1, b + 2, … of the blocks after it.
 */
function sharePlaces(
  ctx: Context,
  share: StreamK,
  placeOf: (index: Reg<"u32">) => Reg<"u64">,
): Omit<PartialTilePlaces, "counter"> {
  const { entry, values } = ctx;
  const part = must(ctx.part, "parts of tiles are of a stream-K loop (context)");
  const { chunks, line } = part;
  const { blocks, each } = line ?? { blocks: streamKBlocks(share), each: share.each };
  const place = (index: Reg<"u32">): Reg<"u64"> => placeOf(ofHalf(ctx, index, 2 * blocks));
  const unit = values.divide(values.block(), blocksOfTile(ctx.program));
  const start = line?.start ?? values.scale(part.tile, share.chunks);
  const firstBlock = values.divide(start, each);
  const end = typeof chunks === "number" ? imm(chunks - 1) : values.sum(chunks, imm(-1));
  const lastBlock = values.divide(values.sum(start, end), each);
  return {
    first: place(values.sum(firstBlock, imm(blocks))),
    own() {
      const begins = entry.reg("pred", "p");
      const index = entry.reg("u32", "place");
      ctx.prologue.emit(null, "setp.eq.u32", begins, part.first, imm(0));
      ctx.prologue.emit(null, "add.u32", index, unit, imm(blocks));
      ctx.prologue.emit(null, "selp.b32", index, index, unit, begins);
      return place(index);
    },
    further() {
      const [before, left] = [entry.reg("u64", "part"), entry.reg("u32", "left")];
      ctx.emit(null, "mov.u64", before, place(firstBlock));
      ctx.emit(null, "sub.u32", left, lastBlock, firstBlock);
      return { before, left };
    },
  };
}
