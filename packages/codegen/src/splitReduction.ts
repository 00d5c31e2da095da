/** Blocks that share a tile: each hands in its accumulators through the workspace, one goes on with their sum. */
import type { ReductionKind } from "@tilewright/ir";
import { addr, f32imm, f64imm, imm, type LabelRef, type Operand } from "@tilewright/ptx";
import type { Context } from "./context.ts";
import { lowerDsmemReduction } from "./dsmemReduction.ts";
import type { RegisterType, StmtOf } from "./engine.ts";
import { type PartialTilePlaces, partialTilePlaces } from "./partialTilePlaces.ts";
import {
  addPartials,
  addToPartial,
  clearPartial,
  fixUpBarrier,
  loadPartial,
  reduceToPartial,
  storePartial,
} from "./partialTiles.ts";
import { type OwnedTile, ownedTile } from "./registers.ts";
import { countOperand } from "./sizes.ts";
import { lowerSlicedSum } from "./slices.ts";
import { type PartialTiles, partialTiles } from "./workspace.ts";

type Combine = StmtOf<"combine">;

/** How a block hands in, and what the block that goes on does. */
interface Meeting {
  readonly ctx: Context;
  readonly shared: PartialTiles;
  readonly acc: OwnedTile;
  readonly place: PartialTilePlaces;
}

/** Code after which one block goes on with the sum in its registers, the others at the label; null where nobody goes on. */
const ways: Readonly<
  Record<Exclude<ReductionKind, "cluster" | "slices">, (meeting: Meeting) => LabelRef | null>
> = {
  last(meeting) {
    const { ctx, shared, acc, place } = meeting;
    storePartial(ctx, shared, acc.registers, place.own());
    return lastGoesOn(meeting, () => {
      loadPartial(ctx, shared, acc.registers, place.first);
      addPartials(ctx, shared, acc.registers, place.further(shared.splits));
    });
  },
  atomics(meeting) {
    const { ctx, shared, acc, place } = meeting;
    addToPartial(ctx, shared, acc.registers, place.first);
    return lastGoesOn(meeting, () => takeSum(meeting));
  },
  bulk(meeting) {
    const { ctx, shared, acc, place } = meeting;
    reduceToPartial(ctx, shared, acc.registers, place.first);
    return lastGoesOn(meeting, () => takeSum(meeting));
  },
  // The body is another kernel's: `sumKernel.ts`.
  kernel({ ctx, shared, acc, place }) {
    storePartial(ctx, shared, acc.registers, place.own());
    return null;
  },
};

/** The sum from the place where it was added up, which is 0 again for the next launch. */
function takeSum({ ctx, shared, acc, place }: Meeting): void {
  loadPartial(ctx, shared, acc.registers, place.first);
  clearPartial(ctx, shared, zeros[shared.type], place.first);
}

const zeros: Readonly<Record<RegisterType, Operand>> = {
  f32: f32imm(0),
  f64: f64imm(0),
  s32: imm(0),
  b32: imm(0),
};

export function lowerReduction(ctx: Context, stmt: Combine, lowerBody: () => void): void {
  ctx.placeLate();
  if (stmt.by === "cluster") {
    lowerDsmemReduction(ctx, stmt, lowerBody);
    return;
  }
  const shared = partialTiles(ctx.program, ctx.engine, ctx.target);
  if (shared === null) {
    lowerBody();
    return;
  }
  ctx.restartInvariants();
  if (stmt.by === "slices") {
    lowerSlicedSum(ctx, stmt, shared, lowerBody);
    return;
  }
  const acc = ownedTile(ctx, stmt.acc.buffer, 0);
  const { entry, body, part } = ctx;
  const sum = entry.label("sum");
  // A part that is the whole tile is its sum.
  if (shared.share !== null && part !== null) {
    const whole = entry.reg("pred", "p");
    ctx.emit(null, "setp.eq.u32", whole, part.count, countOperand(part.chunks));
    ctx.emit(whole, "bra", sum);
  }
  const end = ways[stmt.by]({ ctx, shared, acc, place: partialTilePlaces(ctx, shared) });
  if (end === null) return;
  body.label(sum);
  lowerBody();
  body.label(end);
  // Those who have left have none of the body's values.
  ctx.restartInvariants();
}

/**
 * All blocks count, by one each or, where they have shares, by their chunks; the last to come collects the sum and goes on, the others leave. What was handed in is published by a fence before the counter
 * rises and read behind a fence after it (PTX ISA, memory consistency model: release and acquire patterns). The counter ends at 0, where the
 * next launch needs it.
 */
function lastGoesOn({ ctx, shared, place }: Meeting, collect: () => void): LabelRef {
  const { entry, part } = ctx;
  const meeting = fixUpBarrier(ctx);
  ctx.emit(null, "fence.acq_rel.gpu");
  ctx.emitAny(null, "bar.sync", ...meeting);
  const first = entry.reg("pred", "p");
  const earlier = entry.reg("u32", "came");
  const [waits, leave] = [entry.reg("pred", "p"), entry.reg("pred", "p")];
  ctx.emit(null, "setp.eq.u32", first, ctx.values.thread(), imm(0));
  ctx.emit(null, "mov.u32", earlier, imm(0));
  if (part !== null && shared.share !== null) {
    ctx.emit(first, "atom.relaxed.gpu.global.add.u32", earlier, addr(place.counter), part.count);
    const others = entry.reg("u32", "others");
    ctx.emit(null, "sub.u32", others, countOperand(part.chunks), part.count);
    ctx.emit(null, "setp.ne.u32", waits, earlier, others);
  } else {
    ctx.emit(first, "atom.relaxed.gpu.global.add.u32", earlier, addr(place.counter), imm(1));
    ctx.emit(null, "setp.ne.u32", waits, earlier, imm(shared.splits - 1));
  }
  // Only thread 0 knows: all threads leave unless it has seen all others come.
  ctx.emitAny(null, "bar.red.and.pred", leave, ...meeting, waits);
  const end = entry.label("parts_end");
  ctx.emit(leave, "bra", end);
  ctx.emit(null, "fence.acq_rel.gpu");
  ctx.emit(first, "st.global.u32", addr(place.counter), imm(0));
  collect();
  return end;
}
