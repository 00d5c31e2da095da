/** CTAs that share a work tile: each hands in its partial tile, through the workspace or in shared memory of a cluster, and some go on with the sum. */

import {
  bufferOf,
  type Expr,
  mergeOf,
  must,
  type ReductionStmt,
  registerTileBytes,
  type Stmt,
} from "@tilewright/ir";
import { addr, f32imm, f64imm, type IntegerOperand, imm, type Operand } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import { beginExchange, dsmemStatements } from "./dsmemReduction.ts";
import type { RegisterType, Statements, StmtOf } from "./engine.ts";
import { partialTilePlaces } from "./partialTilePlaces.ts";
import {
  addPartials,
  addToPartial,
  barrierOperands,
  bulkRoom,
  bytesOf,
  clearPartial,
  loadPartial,
  moveInBulk,
  type Partials,
  partialsOf,
  storePartial,
} from "./partialTiles.ts";
import { endOf, partialOf, type Reduction, reductionOf } from "./reduction.ts";
import { ownedTile } from "./registers.ts";
import { countOperand } from "./sizes.ts";
import { lowerSlices, registersInSlices } from "./slices.ts";

type Combine = StmtOf<"reduce">;
type Lower = (stmts: readonly Stmt[]) => void;

export function lowerReduction(ctx: Context, stmt: Combine, lower: Lower): void {
  ctx.placeLate();
  // No main loop stands in front of it where another kernel goes on.
  if (ctx.kernel.role === "main") ctx.restartInvariants();
  const reduction: Reduction = {
    combine: stmt,
    partial: null,
    exchange: null,
    room: null,
    end: null,
    counted: null,
    leaving: null,
  };
  ctx.reduction = reduction;
  lower(stmt.body);
  const { end } = ctx.reduction;
  ctx.reduction = null;
  if (end !== null) ctx.body.label(end);
  // Those who have left have none of the body's values.
  if (stmt.by !== "kernel") ctx.restartInvariants();
}

function enterReduction(ctx: Context, { unless, body }: StmtOf<"reduction">, lower: Lower): void {
  const { combine } = reductionOf(ctx);
  if (combine.by === "cluster") {
    ctx.reduction = { ...reductionOf(ctx), exchange: beginExchange(ctx, combine, body) };
    lower(body);
    return;
  }
  const shared = partialsOf(ctx, combine);
  const sum = ctx.entry.label("sum");
  if (unless !== null) {
    const whole = ctx.entry.reg("pred", "p");
    const { count } = must(ctx.part, "chunks are counted in a stream-K loop (context)");
    ctx.emit(null, "setp.eq.u32", whole, count, total(ctx, unless.rhs));
    ctx.emit(whole, "bra", sum);
  }
  ctx.reduction = { ...reductionOf(ctx), partial: { shared, place: partialTilePlaces(ctx, shared) } };
  lower(body);
  if (combine.by !== "kernel" && combine.by !== "slices") ctx.body.label(sum);
}

/** Chunks of a whole tile, where the launch supplies them one at least; a number of CTAs. */
function total(ctx: Context, e: Expr): Reg<"u32"> | IntegerOperand {
  if (e.kind === "const") return imm(e.value);
  return countOperand(must(ctx.part, "chunks are counted in a stream-K loop (context)").chunks);
}

const zeros: Readonly<Record<RegisterType, Operand>> = {
  f32: f32imm(0),
  f64: f64imm(0),
  s32: imm(0),
  b32: imm(0),
};

function addToCounter(ctx: Context, { by }: StmtOf<"counter.add">): void {
  const { entry } = ctx;
  const reduction = reductionOf(ctx);
  const { place } = partialOf(ctx);
  const first = entry.reg("pred", "p");
  const earlier = entry.reg("u32", "came");
  reduction.leaving = { waits: entry.reg("pred", "p"), leave: entry.reg("pred", "p") };
  const count =
    by.kind === "const" ? by.value : must(ctx.part, "chunks are counted in a stream-K loop (context)").count;
  ctx.emit(null, "setp.eq.u32", first, ctx.values.thread(), imm(0));
  ctx.emit(null, "mov.u32", earlier, imm(0));
  const added = typeof count === "number" ? imm(count) : count;
  ctx.emit(
    first,
    "atom.relaxed.gpu.global.add.u32",
    earlier,
    addr(must(place.counter, "tiles have counters (context)")),
    added,
  );
  reduction.counted = { earlier, by: count, first };
}

/** Only one thread knows: all leave unless it has seen all others come. */
function leave(ctx: Context, { unless, id }: StmtOf<"counter.leave">): void {
  const { entry } = ctx;
  const reduction = reductionOf(ctx);
  const { earlier, by } = must(reduction.counted, "one thread has counted (context)");
  const leaving = must(reduction.leaving, "one thread has counted (context)");
  const all = total(ctx, unless);
  if (typeof by === "number" && unless.kind === "const")
    ctx.emit(null, "setp.ne.u32", leaving.waits, earlier, imm(unless.value - by));
  else {
    const others = entry.reg("u32", "others");
    ctx.emitAny(null, "sub.u32", others, all, typeof by === "number" ? imm(by) : by);
    ctx.emit(null, "setp.ne.u32", leaving.waits, earlier, others);
  }
  ctx.emitAny(null, "bar.red.and.pred", leaving.leave, ...barrierOperands(ctx, id), leaving.waits);
  ctx.emit(leaving.leave, "bra", endOf(ctx));
}

/** Bytes in a partial tile before those of a register tile. */
function placeInPart(ctx: Context, shared: Partials, name: string): number {
  const of = mergeOf(reductionOf(ctx).combine)?.of ?? [];
  const tiles = of.slice(0, Math.max(0, of.indexOf(name))).map((each) => bufferOf(ctx.program, each));
  return registerTileBytes(tiles, shared.threads, bytesOf(shared.type));
}

/** Registers of a statement's tile. */
const registersOf = (ctx: Context, stmt: { readonly acc: Combine["acc"] }) =>
  ownedTile(ctx, stmt.acc.buffer, 0).registers;

function moveRegisters(ctx: Context, stmt: StmtOf<"partial.stage"> | StmtOf<"bulk.reduce">): void {
  const room = must(reductionOf(ctx).room, "it stands in a reduction by bulk copies (context)");
  const { shared, place } = partialOf(ctx);
  moveInBulk(ctx, shared, room, registersOf(ctx, stmt), stmt, place.first);
}

type Rows = { readonly [K in ReductionStmt["kind"]]: Statements[K] };

export const reductionStatements = (lowerIn: (ctx: Context, stmts: readonly Stmt[]) => void): Rows => ({
  reduction: (ctx, stmt) => enterReduction(ctx, stmt, (stmts) => lowerIn(ctx, stmts)),
  "partial.store"(ctx, stmt) {
    const { combine } = reductionOf(ctx);
    const { shared, place } = partialOf(ctx);
    const registers =
      combine.by === "slices" ? registersInSlices(ctx, combine, shared) : registersOf(ctx, stmt);
    storePartial(ctx, shared, registers, place.own(), placeInPart(ctx, shared, stmt.acc.buffer));
  },
  "partial.reduce"(ctx, stmt) {
    const { shared, place } = partialOf(ctx);
    if (stmt.by === "atomics") {
      addToPartial(ctx, shared, registersOf(ctx, stmt), place.first);
      return;
    }
    const reduction = reductionOf(ctx);
    reduction.room = bulkRoom(ctx, shared);
    ctx.storing = reduction.room.first;
    lowerIn(ctx, stmt.body);
    reduction.room = null;
    ctx.storing = null;
  },
  "partial.stage": moveRegisters,
  "bulk.reduce": moveRegisters,
  "partial.load"(ctx, stmt) {
    const { shared, place } = partialOf(ctx);
    loadPartial(ctx, shared, registersOf(ctx, stmt), place.first, placeInPart(ctx, shared, stmt.acc.buffer));
  },
  "partial.add"(ctx, stmt) {
    const { shared, place } = partialOf(ctx);
    addPartials(ctx, shared, registersOf(ctx, stmt), place.further(stmt.partials));
  },
  merge(ctx, { of, from, partials, body }) {
    const { entry } = ctx;
    const { shared, place } = partialOf(ctx);
    const { before, left } = place.further(partials);
    const [label, more] = [entry.label("merge"), entry.reg("pred", "p")];
    ctx.body.label(label);
    ctx.emit(null, "add.s64", before, before, imm(shared.stride));
    from.forEach((name, i) => {
      const { registers } = ownedTile(ctx, name, 0);
      loadPartial(ctx, shared, registers, before, placeInPart(ctx, shared, of[i] ?? ""));
    });
    lowerIn(ctx, body);
    ctx.emit(null, "sub.u32", left, left, imm(1));
    ctx.emit(null, "setp.ge.u32", more, left, imm(1));
    ctx.emit(more, "bra", label);
  },
  "partial.clear"(ctx) {
    const { shared, place } = partialOf(ctx);
    clearPartial(ctx, shared, zeros[shared.type], place.first);
  },
  "counter.add": addToCounter,
  "counter.leave": leave,
  "counter.clear"(ctx) {
    const counted = must(reductionOf(ctx).counted, "one thread has counted (context)");
    ctx.emit(
      counted.first,
      "st.global.u32",
      addr(must(partialOf(ctx).place.counter, "tiles have counters (context)")),
      imm(0),
    );
  },
  slices: (ctx, { id, body }) =>
    lowerSlices(ctx, { ...partialOf(ctx), combine: reductionOf(ctx).combine, id, end: endOf(ctx) }, () =>
      lowerIn(ctx, body),
    ),
  ...dsmemStatements,
});
