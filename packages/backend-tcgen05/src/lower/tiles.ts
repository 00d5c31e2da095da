/** Which tile a block works on: one each, by stride, or as responses say. */
import {
  barrierAt,
  CannotLower,
  type Code,
  type Context,
  type Coordinate,
  clustersAlong,
  clustersOf,
  forgetSlots,
  isGrouped,
  lowerStmts,
  mostTiles,
  putNumber,
  type Reg,
  rasterise,
  responseSlot,
  type StmtOf,
  schedulerOf,
  takeNumber,
  tileNumbers,
  walkStreamK,
  walkTileList,
} from "@tilewright/codegen";
import { clusterSize, clusterUnits, must, type TileLoop } from "@tilewright/ir";
import { addr, imm, special } from "@tilewright/ptx";
import { scratch } from "./barriers.ts";
import { unitAlong } from "./units.ts";

type Tiles = StmtOf<"tiles">;

/** Number of the cluster in the launch, which is that of its first tile, or of the first tiles of its units; or how many there are. */
function ownNumber(ctx: Context, code: Code, name: "%ctaid.x" | "%nctaid.x", prefix = "tile"): Reg<"u32"> {
  const d = scratch(ctx, prefix);
  code.emit(null, "mov.u32", d, special(name));
  const blocks = clusterSize(ctx.program);
  if (blocks > 1) code.emit(null, "div.u32", d, d, imm(blocks));
  return d;
}

export function lowerTiles(ctx: Context, stmt: Tiles): void {
  if (stmt.streamK !== undefined) {
    walkStreamK(ctx, stmt, stmt.streamK, {
      number: (prefix) => ownNumber(ctx, ctx.body, "%ctaid.x", prefix),
      place: (tile) => enterTile(ctx, stmt, tile),
      body: () => lowerStmts(ctx, stmt.body),
    });
    return;
  }
  if (stmt.loop === null) {
    placeTile(ctx, stmt);
    lowerStmts(ctx, stmt.body);
    return;
  }
  if (stmt.split) throw new CannotLower("split", "persistent CTAs do not share tiles");
  if (stmt.loop.of !== 1) throw new CannotLower("tiles", "roles of this backend have no ping-pong");
  const { entry } = ctx;
  if (isGrouped(ctx)) {
    if (stmt.loop.by !== "stride") throw new CannotLower("tiles", "a list of groups is walked at a stride");
    walkTileList(ctx, stmt, stmt.loop, {
      number: (prefix) => ownNumber(ctx, ctx.body, "%ctaid.x", prefix),
      step: (prefix) => ownNumber(ctx, ctx.body, "%nctaid.x", prefix),
      tiles: () => clustersOf(ctx, stmt),
      place: (tile) => enterTile(ctx, stmt, tile),
      body: () => lowerStmts(ctx, stmt.body),
    });
    return;
  }
  const tile = ownNumber(ctx, ctx.body, "%ctaid.x");
  ctx.batch = anyProblem(ctx, stmt) ? ownProblem(ctx) : null;
  const step = stmt.loop.by === "stride" ? ownNumber(ctx, ctx.body, "%nctaid.x") : null;
  const { counts, below } = schedulerOf(stmt);
  ctx.tileLoop = { number: tile, following: null, loop: stmt.loop, below };
  const ordinal = counts ? countTiles(ctx, stmt.loop) : null;
  const label = entry.label(`tiles_${ctx.role}`);
  ctx.body.label(label);
  forgetSlots(ctx);
  ctx.restartInvariants();
  enterTile(ctx, stmt, tile);
  lowerStmts(ctx, stmt.body);
  const { body } = ctx;
  if (ordinal !== null) body.emit(null, "add.u32", ordinal, ordinal, imm(1));
  if (step !== null) {
    const more = entry.reg("pred", "more");
    body.emit(null, "add.u32", tile, tile, step);
    const count = below ?? clustersOf(ctx, stmt);
    body.emit(null, "setp.lt.u32", more, tile, typeof count === "number" ? imm(count) : count);
    body.emit(more, "bra", label);
  } else {
    const { more } = must(ctx.tileLoop.following, "one statement reads which tile follows (tileSources)");
    body.emit(more, "bra", label);
  }
  ctx.batch = null;
  ctx.tileLoop = null;
}

/** A register that counts the work tiles. Slots and phases have registers of their own. */
function countTiles(ctx: Context, { var: name }: TileLoop): Reg<"u32"> {
  const d = scratch(ctx, "visits");
  ctx.body.emit(null, "mov.u32", d, imm(0));
  ctx.tileVars.set(name, { reg: d, extent: Number.MAX_SAFE_INTEGER });
  return d;
}

/** The one tile of a block; of a block that shares it also which of those blocks this is. */
export function placeTile(ctx: Context, stmt: Tiles): void {
  enterTile(ctx, stmt, ownNumber(ctx, ctx.prologue, "%ctaid.x"));
  if (stmt.split) ctx.tileVars.set(stmt.split.var, { reg: ctx.values.split(), extent: stmt.split.extent });
}

/** Whether the launch control hands out tiles of a batch: any block may then be answered with a tile of any problem. */
function anyProblem({ program }: Context, { loop }: Tiles): boolean {
  const ring = program.rings.find(({ name }) => name === loop?.ring);
  return ring?.transport === "clc" && program.problem.batch.kind === "strided";
}

/** The problem of the block's first tile. */
function ownProblem(ctx: Context): Reg<"u32"> {
  const d = scratch(ctx, "batch");
  ctx.body.emit(null, "mov.u32", d, special("%ctaid.y"));
  return d;
}

/** Bind the tile's row and column; values of the tile before are computed anew. */
function enterTile(ctx: Context, stmt: Tiles, number: Reg<"u32">): void {
  const [unitsM, unitsN] = clusterUnits(ctx.program.launch);
  const own = ctx.values.memo("tile's number", "tile", (d) => ctx.prologue.emit(null, "mov.u32", d, number));
  const [m, n] = rasterise(ctx, stmt.raster, clustersAlong(ctx, stmt, 0), clustersAlong(ctx, stmt, 1), own);
  const within = (first: Coordinate, units: number, axis: "m" | "n"): Coordinate => {
    if (units === 1) return first;
    const unit = unitAlong(ctx, axis);
    return first === null ? unit : ctx.values.sum(ctx.values.scale(first, units), unit);
  };
  ctx.tileVars.set(stmt.vars[0], { reg: within(m, unitsM, "m"), extent: mostTiles(ctx, stmt, 0) });
  ctx.tileVars.set(stmt.vars[1], { reg: within(n, unitsN, "n"), extent: mostTiles(ctx, stmt, 1) });
}

/** The request, whose answer every block of the cluster gets in its own slot. */
export function lowerTileRequest(ctx: Context, stmt: StmtOf<"request">): void {
  const { name, pipeline, slot } = responseSlot(ctx, stmt);
  const { transport } = pipeline.ring;
  if (transport === "atomic") {
    putNumber(ctx, slot, takeNumber(ctx));
    return;
  }
  const full = barrierAt(ctx, { ring: stmt.ring, edge: "full", pipeline: name });
  const all = clusterSize(ctx.program) > 1 ? ".multicast::cluster::all" : "";
  ctx.body.emitAny(
    null,
    `clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes${all}.b128`,
    [addr(slot), full],
  );
}

/** What the slot says: whether a tile follows, and which. */
export function lowerNext(ctx: Context, stmt: StmtOf<"next">): void {
  const { pipeline, slot } = responseSlot(ctx, stmt);
  const tileLoop = must(ctx.tileLoop, "it stands in a loop over tiles (tileSources)");
  const { number: tile } = tileLoop;
  const { body, entry } = ctx;
  if (pipeline.ring.transport === "atomic") {
    const number = scratch(ctx, "number");
    const follows = entry.reg("pred", "more");
    body.emit(null, "ld.shared.u32", number, addr(slot));
    body.emit(null, "setp.lt.u32", follows, number, imm(tileNumbers(ctx)));
    body.emit(follows, "mov.u32", tile, number);
    tileLoop.following = { number: tile, more: follows };
    return;
  }
  const words = entry.regs("u64", 2, "answer");
  const whole = entry.reg("b128", "answer_q");
  const more = entry.reg("pred", "more");
  body.emitAny(null, "ld.shared.v2.b64", [{ kind: "vector", elements: words }, addr(slot)]);
  body.emitAny(null, "mov.b128", [whole, { kind: "vector", elements: words }]);
  body.emit(null, "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128", more, whole);
  body.emit(more, "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128", tile, whole);
  if (ctx.batch !== null)
    body.emit(more, "clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128", ctx.batch, whole);
  const blocks = clusterSize(ctx.program);
  if (blocks > 1) body.emit(more, "div.u32", tile, tile, imm(blocks));
  tileLoop.following = { number: tile, more };
}
