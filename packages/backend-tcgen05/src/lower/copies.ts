/** Copies of this backend: bulk tensor copies into the ring of operands, and loads of accumulators. */

import {
  barrierAt,
  batchCoordinates,
  CannotLower,
  type Context,
  mapAddress,
  ownedTile,
  type Reg,
  type StmtOf,
  signalOf,
  slotAddress,
  smemBase,
} from "@tilewright/codegen";
import { stepOfBuffer } from "@tilewright/core";
import {
  type Buffer,
  blockShape,
  blocksOfTile,
  bufferOf,
  type Expr,
  elementBytes,
  LANE_STRIDE,
  loadCut,
  readersOf,
  tensorPlace,
} from "@tilewright/ir";
import { addr, type IntegerOperand, imm, tensorAddr, vec } from "@tilewright/ptx";
import { LEADER_MASK, moved, scratch } from "./barriers.ts";
import { tensorAddress } from "./multiply.ts";
import { copyMask, unitAlong } from "./units.ts";

type Copy = StmtOf<"copy">;

/** One thread issues a copy for each box of the tile's half (or whole) that lies in this block. */
export function copyTensor(ctx: Context, copy: Copy): void {
  const tile = bufferOf(ctx.program, copy.dst.buffer);
  const at = `%${tile.name}`;
  if (!ctx.solo) throw new CannotLower(at, "is not filled by a role of one thread");
  const target = slotAddress(ctx, copy.dst);
  const { ring } = target.at;
  // What each block reads by itself comes to its own barrier.
  const ofEpilogue = copy.src.buffer === "C" || stepOfBuffer(copy.src.buffer) !== null;
  const group = ofEpilogue ? 1 : blocksOfTile(ctx.program);
  const slot = moved(ctx, target);
  const barrier = barrierAt(ctx, signalOf(copy, ring), group === 2 ? ofLeader(ctx) : null);
  const parts = readersOf(ctx.program, copy);
  const cut = loadCut(ctx.program, copy);
  const map = mapAddress(ctx, copy.src.buffer);
  const across = 1 - cut.contiguous;
  const step = Math.min(blockShape(tile)[across] ?? 0, copy.dst.extent[across] ?? 0) / parts;
  // Parts lie one behind the other across the contiguous axis, in every panel.
  const part = copy.multicast === null ? null : unitAlong(ctx, copy.multicast);
  const origin = [0, 1].map((axis) =>
    blockOrigin(
      ctx,
      tile,
      copy.src.origin[axis],
      axis,
      part && axis === across ? scaledBy(ctx, part, step) : null,
    ),
  );
  const dst =
    part === null ? slot : plus(ctx, slot, scaledBy(ctx, part, step * cut.box[0] * elementBytes(tile)));
  const batch = batchCoordinates(ctx, copy.src.buffer);
  const dims = 2 + batch.length;
  const form = `${part === null ? "" : ".multicast::cluster"}${group === 2 ? ".cta_group::2" : ""}`;
  const mask = copy.multicast === null ? [] : [copyMask(ctx, copy.multicast)];
  for (const piece of cut.pieces.slice(0, cut.pieces.length / parts)) {
    const coordinates = [
      coordinate(ctx, origin[cut.contiguous], cut.contiguous === 0 ? piece.row : piece.col),
      coordinate(ctx, origin[across], cut.contiguous === 0 ? piece.col : piece.row),
      ...batch,
    ];
    ctx.body.emitAny(
      null,
      `cp.async.bulk.tensor.${dims}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes${form}`,
      [addr(dst, piece.offset), tensorAddr(map, ...coordinates), barrier, ...mask],
    );
  }
}

/** Bytes arrive at the barrier of the pair's leader, whichever block copies. */
const ofLeader = (ctx: Context) => ({
  key: "barrier of the pair's leader",
  start: (): Reg<"u32"> =>
    ctx.crewValue("shared memory of the pair's leader", (code) => {
      const own = smemBase(ctx);
      const d = scratch(ctx);
      code.emit(null, "and.b32", d, own, imm(LEADER_MASK));
      return d;
    }),
});

interface Origin {
  readonly reg: Reg<"u32"> | null;
  readonly constant: number;
}

/** Where this block's part of a tile begins in the matrix, along one axis. */
function blockOrigin(
  ctx: Context,
  tile: Buffer,
  e: Expr | undefined,
  axis: number,
  part: Reg<"u32"> | null,
): Origin {
  if (e === undefined) return { reg: null, constant: 0 };
  const { constant, terms } = ctx.linear(e);
  let sum: Reg<"u32"> | null = part;
  const add = (term: Reg<"u32">): void => {
    sum = sum === null ? term : plus(ctx, sum, term);
  };
  for (const [name, factor] of terms) {
    const tileVar = ctx.tileVars.get(name);
    // The only tile of an axis has no register: its number is 0.
    if (tileVar !== undefined && tileVar.reg === null) continue;
    add(scaledBy(ctx, ctx.variable(name), factor));
  }
  if (tile.halves === axis) add(scaledBy(ctx, second(ctx), blockShape(tile)[axis] ?? 0));
  return { reg: sum, constant };
}

function plus(ctx: Context, a: Reg<"u32">, b: Reg<"u32">): Reg<"u32"> {
  const d = scratch(ctx);
  ctx.body.emit(null, "add.u32", d, a, b);
  return d;
}

function scaledBy(ctx: Context, reg: Reg<"u32">, factor: number): Reg<"u32"> {
  if (factor === 1) return reg;
  const d = scratch(ctx);
  ctx.body.emit(null, "mul.lo.u32", d, reg, imm(factor));
  return d;
}

/** 0 in the leader of a pair, 1 in the other block. */
const second = (ctx: Context): Reg<"u32"> =>
  ctx.invariant("place in the pair", (code) => {
    const d = ctx.entry.reg("u32", "half");
    code.emit(null, "and.b32", d, ctx.values.rank(), imm(1));
    return d;
  });

function coordinate(ctx: Context, origin: Origin | undefined, offset: number): Reg<"u32"> | IntegerOperand {
  const constant = (origin?.constant ?? 0) + offset;
  const reg = origin?.reg ?? null;
  if (reg === null || constant === 0) return reg ?? imm(constant);
  const d = scratch(ctx);
  ctx.body.emit(null, "add.u32", d, reg, imm(constant));
  return d;
}

/** Most registers of one load (PTX ISA, tcgen05.ld). */
const MOST_REGISTERS = 128;

/** Each warp loads its own lanes: a lane a row and a register a column, or, of 16 lanes, the fragment of D in mma.sync. */
export function loadTensor(ctx: Context, copy: Copy): void {
  const at = `%${copy.dst.buffer} <- %${copy.src.buffer}`;
  if (ctx.solo) throw new CannotLower(at, "tensor memory is loaded by whole warps");
  const tile = ownedTile(ctx, copy.dst.buffer, 0);
  const place = tensorPlace(bufferOf(ctx.program, copy.src.buffer));
  if (place === null) throw new CannotLower(at, "has rows that no matrix instruction has");
  if (ctx.constant(copy.src.origin[place.lanes], at) !== 0)
    throw new CannotLower(at, "rows begin with lane 0");
  const { constant: column, terms } = ctx.linear(copy.src.origin[place.lanes === 0 ? 1 : 0]);
  const base = tensorAddress(ctx, copy.src);
  const d = scratch(ctx, "tm");
  const lanes = warpLanes(ctx);
  ctx.body.emit(null, "add.u32", d, base, lanes);
  for (const [name, factor] of terms)
    ctx.body.emit(null, "add.u32", d, d, ctx.values.scale(ctx.variable(name), factor));
  // Registers of 16 lanes hold two columns each, as four of them hold eight.
  const [shape, unit, wide] =
    place.form === "half" ? (["16x256b", 4, 8] as const) : (["32x32b", 1, 1] as const);
  const across = place.lanes === 0 ? 1 : 0;
  const all = bufferOf(ctx.program, copy.dst.buffer).shape[across];
  const share = tile.registers.length / place.stacks;
  // Of the registers of each stack those of the columns that come.
  const first = (ctx.constant(copy.dst.origin[across], at) / all) * share;
  const each = (copy.dst.extent[across] / all) * share;
  const words = ctx.entry.regs("b32", each * place.stacks, "row");
  for (let stack = 0; stack < place.stacks; stack++) {
    let done = 0;
    while (done < each) {
      const count = largestPower(Math.min(each - done, MOST_REGISTERS));
      const run = words.slice(stack * each + done, stack * each + done + count);
      const from = column + stack * place.columns + (done / unit) * wide;
      ctx.body.emitAny(null, `tcgen05.ld.sync.aligned.${shape}.x${count / unit}.b32`, [
        vec(...run),
        addr(d, from),
      ]);
      done += count;
    }
  }
  ctx.body.emit(null, "tcgen05.wait::ld.sync.aligned");
  // Words have no type; what they hold has one.
  words.forEach((word, i) => {
    const register = tile.registers[Math.floor(i / each) * share + first + (i % each)];
    if (register) ctx.body.emitAny(null, `mov.${tile.type}`, [register, word]);
  });
}

const largestPower = (most: number): number => 2 ** Math.floor(Math.log2(most));

/** Lanes 32 w and up belong to warp w modulo 4 (PTX ISA, tcgen05.ld). */
const warpLanes = (ctx: Context): Reg<"u32"> =>
  ctx.invariant("lanes of the warp", (code) => {
    const d = ctx.entry.reg("u32", "lanes");
    const warp = ctx.values.modulo(ctx.values.warp(), 4, Number.POSITIVE_INFINITY);
    code.emit(null, "mul.lo.u32", d, warp, imm(32 * LANE_STRIDE));
    return d;
  });
