/** Bulk tensor copies from global into shared memory: one thread issues them, a ring's barrier counts their bytes. */
import { stepOfBuffer } from "@tilewright/core";
import {
  type BarrierRef,
  batchDimensions,
  blockShape,
  blocksOfTile,
  bufferOf,
  type Expr,
  loadCut,
  type Ring,
  readersOf,
} from "@tilewright/ir";
import { addr, type IntegerOperand, imm, tensorAddr } from "@tilewright/ptx";
import { cachePolicy } from "./cachePolicy.ts";
import { clusterPlace, multicastMask, placeInPair } from "./clusters.ts";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { batchCoordinate } from "./globalAddress.ts";
import { barrierAt, slotAddress, smemBase } from "./pipelines.ts";
import { mapAddress, mapDimensions } from "./tensorMaps.ts";

type U32 = Reg<"u32">;
/** What a tensor coordinate may be. */
export type Coordinates = readonly (U32 | IntegerOperand)[];

/**
 * An index as a register or a constant: tile variables, the open loop's counter, a constant, and `by`, which no loop changes. `per`: divided by it, where
 * every term but `by` is a multiple. `kept`: in a register of its own; off: computed where it is used.
 */
export function indexValue(
  ctx: Context,
  e: Expr,
  extra = 0,
  by: U32 | null = null,
  per = 1,
  kept = true,
): U32 | IntegerOperand {
  const folded = ctx.fold(e);
  const [whole, beyond] =
    folded.kind === "add" && folded.rhs.kind === "const" ? [folded.lhs, folded.rhs.value] : [folded, 0];
  if (whole.kind === "div") {
    const at = quotientValue(ctx, indexValue(ctx, whole.lhs), whole.divisor);
    const offset = beyond + extra;
    if (at.kind !== "register") return imm(Number(at.value) + offset);
    return offset === 0 ? at : moved(ctx, at, offset);
  }
  const { constant, terms } = ctx.linear(folded);
  const quotient = (value: number): number => {
    if (value % per !== 0) throw new CannotLower("index", `${value} is no multiple of ${per}`);
    return value / per;
  };
  const fixed = quotient(constant + extra);
  let sum: U32 | null = by;
  const { loop } = ctx;
  for (const [name, factor] of terms) {
    if (loop?.var === name) continue;
    const tile = ctx.tileVars.get(name);
    if (!tile) throw new CannotLower(`%${name}`, "is not in scope here");
    if (tile.reg === null) continue;
    const term = ctx.values.scale(tile.reg, quotient(factor));
    sum = sum === null ? term : ctx.values.sum(sum, term);
  }
  const base: U32 | IntegerOperand =
    sum === null
      ? imm(fixed)
      : fixed === 0
        ? sum
        : kept
          ? ctx.values.sum(sum, imm(fixed))
          : moved(ctx, sum, fixed);
  const factor = loop === null ? 0 : quotient(terms.get(loop.var) ?? 0);
  if (loop === null || factor === 0) return base;
  const key = `${base.kind === "register" ? base.name : fixed}+${loop.counter.name}*${factor}`;
  return ctx.perIteration(key, (code) => {
    const d = ctx.entry.reg("u32", "at");
    code.emit(null, "mad.lo.u32", d, loop.counter, imm(factor), base);
    return d;
  });
}

/** An index divided, without its remainder. */
function quotientValue(ctx: Context, index: U32 | IntegerOperand, divisor: number): U32 | IntegerOperand {
  if (index.kind !== "register") return imm(Math.floor(Number(index.value) / divisor));
  const [d, log] = [ctx.entry.reg("u32", "at"), Math.log2(divisor)];
  if (Number.isInteger(log)) ctx.body.emit(null, "shr.u32", d, index, imm(log));
  else ctx.body.emit(null, "div.u32", d, index, imm(divisor));
  return d;
}

/** So far on, as a value that nothing after it asks for again. */
function moved(ctx: Context, from: U32, by: number): U32 {
  const d = ctx.entry.reg("u32", "at");
  ctx.body.emit(null, "add.u32", d, from, imm(by));
  return d;
}

/** Boxes of a copy up to which their coordinates have registers of their own: a producer with a budget has 24 in all. */
const KEPT_BOXES = 4;

/** Coordinates of the block's problem in the map of a global buffer. */
const batchCoordinates = (ctx: Context, buffer: string): readonly U32[] =>
  batchDimensions(ctx.program.problem, buffer).map((axis) => batchCoordinate(ctx, axis));

/** Of a box of a global buffer: innermost coordinate first, the batch's last. `runs`: more than 1 where rows across are interleaved; a copy takes all runs of them. */
export function coordinatesOf(
  ctx: Context,
  buffer: string,
  contiguous: 0 | 1,
  row: U32 | IntegerOperand,
  col: U32 | IntegerOperand,
  runs = 1,
): Coordinates {
  const batch = batchCoordinates(ctx, buffer);
  const [inner, outer] = contiguous === 1 ? [col, row] : [row, col];
  return [inner, outer, ...(runs > 1 ? [imm(0)] : []), ...batch];
}

function offsetBy(ctx: Context, base: U32, index: U32, bytes: number): U32 {
  const d = ctx.entry.reg("u32", "st");
  ctx.body.emit(null, "mad.lo.u32", d, index, imm(bytes), base);
  return d;
}

/** The barrier at which a copy's bytes arrive: that of the slot's full edge. */
function signalOf({ dst }: StmtOf<"copy">, ring: Ring): BarrierRef {
  if (dst.slot.kind !== "var") throw new CannotLower(`%${dst.buffer}`, "is in no slot of a pipeline");
  return { ring: ring.name, edge: "full", pipeline: dst.slot.name };
}

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
  const cut = loadCut(program, copy);
  const { multicast } = copy;
  const tile = bufferOf(program, copy.dst.buffer);
  // What each block reads by itself comes to its own barrier.
  const ofEpilogue = copy.src.buffer === "C" || stepOfBuffer(copy.src.buffer) !== null;
  const paired = blocksOfTile(program) === 2 && !ofEpilogue;
  const parts = readersOf(program, copy);
  const place = multicast === null ? null : clusterPlace(ctx, multicast);
  const each = cut.pieces.length / parts;
  const axis = cut.contiguous === 1 ? 0 : 1;
  const across = Math.min(blockShape(tile)[axis], copy.dst.extent[axis]) / parts;
  const { at, base, offset } = slotAddress(ctx, copy.dst);
  const barrier = barrierAt(ctx, signalOf(copy, at.ring), paired ? ofLeader(ctx) : null);
  const [first, second] = [cut.pieces[0], cut.pieces[each]];
  const apart = first && second ? second.offset - first.offset : 0;
  // This block's share begins `place` parts further on, in the matrix and in the slot.
  const along = place === null ? null : ctx.values.scale(place, across);
  const half =
    tile.halves === undefined ? null : ctx.values.scale(placeInPair(ctx), blockShape(tile)[tile.halves]);
  const further = (side: 0 | 1): U32 | null => {
    const share = side === axis ? along : null;
    if (half === null || tile.halves !== side) return share;
    return share === null ? half : ctx.values.sum(half, share);
  };
  const target = place === null ? base : offsetBy(ctx, base, place, apart);
  const dims = mapDimensions(ctx, copy.src.buffer);
  const [perRow, perCol] = cut.contiguous === 1 ? [cut.runs, 1] : [1, cut.runs];
  const policy = cachePolicy(ctx, copy.src.buffer, "bulk");
  const shared = multicast === null ? "" : ".multicast::cluster";
  const form = `cp.async.bulk.tensor.${dims}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes${shared}${paired ? ".cta_group::2" : ""}${policy.hint}`;
  const kept = each <= KEPT_BOXES;
  const mask = multicast === null ? [] : [multicastMask(ctx, multicast)];
  for (const piece of cut.pieces.slice(0, each)) {
    // The box so many rows and columns beyond the piece's, as its map wants it.
    const box = (rows: number, cols: number) => {
      const row = indexValue(ctx, copy.src.origin[0], piece.row + rows, further(0), perRow, kept);
      const col = indexValue(ctx, copy.src.origin[1], piece.col + cols, further(1), perCol, kept);
      const at = coordinatesOf(ctx, copy.src.buffer, cut.contiguous, row, col, cut.runs);
      return tensorAddr(mapAddress(ctx, copy.src.buffer), ...at);
    };
    const dst = addr(target, offset + piece.offset);
    ctx.emitAny(null, form, dst, box(0, 0), barrier, ...mask, ...policy.operands);
    if (copy.l2Prefetch !== undefined)
      ctx.emitAny(
        null,
        `cp.async.bulk.prefetch.tensor.${dims}d.L2.global.tile${policy.hint}`,
        box(...copy.l2Prefetch),
        ...policy.operands,
      );
  }
}
