/** Bulk tensor copies from global into shared memory: one thread issues them, a ring's barrier counts their bytes. */
import { stepOfBuffer } from "@tilewright/core";
import {
  type BarrierRef,
  blockShape,
  blocksOfTile,
  bufferOf,
  contiguousIn,
  GATHERED_ROWS,
  gathersRows,
  loadBoxes,
  must,
  type Ring,
  readersOf,
} from "@tilewright/ir";
import { addr, type IntegerOperand, imm, tensorAddr } from "@tilewright/ptx";
import { cachePolicy } from "./cachePolicy.ts";
import { clusterPlace, multicastMask, placeInPair } from "./clusters.ts";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { gatheredBoxes } from "./gatheredRows.ts";
import { batchCoordinates } from "./globalAddress.ts";
import { firstRowInMap } from "./groups.ts";
import { indexValue } from "./indexValue.ts";
import { grainOf, inPages, type PageStart, pageStart, rowInPages } from "./pages.ts";
import { barrierAt, slotAddress, smemBase } from "./pipelines.ts";
import { indexOfRows } from "./rowIndex.ts";
import { boxOf, declaredMap, mapAddress, runsOf } from "./tensorMaps.ts";
import { tableEntries } from "./viewAddress.ts";

type U32 = Reg<"u32">;
/** What a tensor coordinate may be. */
export type Coordinates = readonly (U32 | IntegerOperand)[];

/** Boxes of a copy up to which their coordinates have registers of their own: a producer with a budget has 24 in all. */
const KEPT_BOXES = 4;

/** Pages of a copy whose numbers are loaded before the first box: more would take the registers of a producer with a budget. */
const PAGES_AHEAD = 8;

/** Of a box of a global buffer: innermost coordinate first, the batch's last. `runs`: more than 1 where rows across are interleaved; a copy takes all runs of them. */
export function coordinatesOf(
  ctx: Context,
  buffer: string,
  contiguous: 0 | 1,
  row: U32 | IntegerOperand,
  col: U32 | IntegerOperand,
  runs = 1,
): Coordinates {
  const [inner, outer] = contiguous === 1 ? [col, row] : [row, col];
  const own = [inner, outer, ...(runs > 1 ? [imm(0)] : [])];
  return [...own, ...batchCoordinates(ctx, buffer, declaredMap(ctx, buffer).dims.length > own.length)];
}

function offsetBy(ctx: Context, base: U32, index: U32, bytes: number): U32 {
  const d = ctx.entry.reg("u32", "st");
  ctx.body.emit(null, "mad.lo.u32", d, index, imm(bytes), base);
  return d;
}

/** The barrier at which a copy's bytes arrive: that of the slot's full edge. */
const signalOf = ({ dst: { slot } }: StmtOf<"copy">, ring: Ring): BarrierRef => ({
  ring: ring.name,
  edge: "full",
  pipeline: must(slot.kind === "var" ? slot.name : null, "bulk copies fill slots of pipelines (rings)"),
});

/** Clears the bit in which addresses of the two blocks of a pair differ: what is left names the leader's (PTX ISA, cta_group::2). */
const LEADER_MASK = 0xfeffffff;

/** Bytes of operands arrive at the barrier of the pair's leader, whichever block copies. */
const ofLeader = (ctx: Context) => ({
  key: "barrier of the pair's leader",
  start: (): U32 =>
    ctx.roleValue("shared memory of the pair's leader", (code) => {
      const d = ctx.entry.reg("u32", "sm");
      code.emit(null, "and.b32", d, smemBase(ctx), imm(LEADER_MASK));
      return d;
    }),
});

/** The boxes of a copy, or this block's share of them where the blocks along an axis of the cluster want the same; of a pair's tile each copies its half. */
export function copyBulk(ctx: Context, copy: StmtOf<"copy">): void {
  const { program } = ctx;
  const { multicast } = copy;
  const tile = bufferOf(program, copy.dst.buffer);
  const contiguous = contiguousIn(tile);
  const runs = runsOf(tile);
  const index = gathersRows(program, copy) ? indexOfRows(ctx, copy.src.buffer) : null;
  const [width = 1, ...box] = boxOf(ctx, copy.src.buffer, tile);
  const boxes = loadBoxes(tile, copy.dst, index === null ? [width, ...box] : [width, GATHERED_ROWS]);
  // What each block reads by itself comes to its own barrier.
  const ofEpilogue = copy.src.buffer === "C" || stepOfBuffer(copy.src.buffer) !== null;
  const paired = blocksOfTile(program) === 2 && !ofEpilogue;
  const parts = readersOf(program, copy);
  const place = multicast === null ? null : clusterPlace(ctx, multicast);
  const each = boxes.length / parts;
  const axis = contiguous === 1 ? 0 : 1;
  const across = Math.min(blockShape(tile)[axis], copy.dst.extent[axis]) / parts;
  const { at, base, offset } = slotAddress(ctx, copy.dst);
  const barrier = barrierAt(ctx, signalOf(copy, at.ring), paired ? ofLeader(ctx) : null);
  const [first, second] = [boxes[0], boxes[each]];
  const apart = first && second ? second.offset - first.offset : 0;
  // This block's share begins `place` parts further on, in the matrix and in the slot.
  const along = place === null ? null : ctx.values.scale(place, across);
  const half =
    tile.halves === undefined ? null : ctx.values.scale(placeInPair(ctx), blockShape(tile)[tile.halves]);
  const before = firstRowInMap(ctx, copy.src.buffer);
  const further = (side: 0 | 1): U32 | null => {
    const parts = [
      side === 0 ? before : null,
      tile.halves === side ? half : null,
      side === axis ? along : null,
    ].filter((part) => part !== null);
    return parts.length === 0 ? null : parts.reduce((sum, part) => ctx.values.sum(sum, part));
  };
  const target = place === null ? base : offsetBy(ctx, base, place, apart);
  const dims = declaredMap(ctx, copy.src.buffer).dims.length;
  const [perRow, perCol] = contiguous === 1 ? [runs, 1] : [1, runs];
  const policy = cachePolicy(ctx, copy.src.buffer, "bulk");
  const shared = multicast === null ? "" : ".multicast::cluster";
  const tiled = index === null ? "tile" : `tile::gather${GATHERED_ROWS}`;
  const form = `cp.async.bulk.tensor.${dims}d.shared::cluster.global.${tiled}.mbarrier::complete_tx::bytes${shared}${paired ? ".cta_group::2" : ""}${policy.hint}`;
  const kept = each <= KEPT_BOXES;
  const mask = multicast === null ? [] : [multicastMask(ctx, multicast)];
  if (index !== null) {
    const [row, col] = copy.src.origin;
    const { copies, bytes } = gatheredBoxes(ctx, index, boxes.slice(0, each), row, further(0));
    const to = offsetBy(ctx, target, ctx.values.lane(), bytes);
    for (const { box, lanes, rows } of copies) {
      const column = indexValue(ctx, col, box.col, further(1), 1, kept);
      const from = tensorAddr(mapAddress(ctx, copy.src.buffer), column, ...rows);
      ctx.emitAny(lanes, form, addr(to, offset + box.offset), from, barrier, ...mask, ...policy.operands);
    }
    return;
  }
  const pages = inPages(ctx, copy.src.buffer);
  const starts = new Map<number, PageStart>();
  const rowsInMemory = new Map<number, U32>();
  // Of a box so many rows and columns beyond the first one, as its map wants it.
  const coordinate = (side: 0 | 1, at: number): U32 | IntegerOperand => {
    const per = side === 0 ? perRow : perCol;
    const index = (at: number) => indexValue(ctx, copy.src.origin[side], at, further(side), per, kept);
    if (pages?.axis !== side) return index(at);
    const from = at % pages.size;
    const whole =
      from === 0 && further(side) === null && grainOf(ctx, copy.src.origin[side], pages) === pages.size;
    const start = starts.get(from) ?? pageStart(ctx, pages, tableEntries(ctx, pages), index(from), whole);
    starts.set(from, start);
    const row = rowsInMemory.get(at) ?? rowInPages(ctx, start, (at - from) / pages.size);
    rowsInMemory.set(at, row);
    return row;
  };
  // Pages first: the numbers of all come at once.
  if (pages !== null)
    for (const { row, col } of boxes.slice(0, each))
      if (rowsInMemory.size < PAGES_AHEAD) coordinate(pages.axis, pages.axis === 0 ? row : col);
  for (const piece of boxes.slice(0, each)) {
    const box = (rows: number, cols: number) => {
      const [row, col] = [coordinate(0, piece.row + rows), coordinate(1, piece.col + cols)];
      const at = coordinatesOf(ctx, copy.src.buffer, contiguous, row, col, runs);
      return tensorAddr(mapAddress(ctx, copy.src.buffer), ...at);
    };
    const dst = addr(target, offset + piece.offset);
    ctx.emitAny(ctx.acting, form, dst, box(0, 0), barrier, ...mask, ...policy.operands);
    if (copy.l2Prefetch !== undefined)
      ctx.emitAny(
        ctx.acting,
        `cp.async.bulk.prefetch.tensor.${dims}d.L2.global.tile${policy.hint}`,
        box(...copy.l2Prefetch),
        ...policy.operands,
      );
  }
}
