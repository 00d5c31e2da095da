/** Structure: tile coordinates from the block number, loops, conditions, and the edges of rings. */
import type { Edge, Raster, Ring, Stmt } from "@tilewright/ir";
import { f32imm, f64imm, imm } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import { lowerCombine } from "./combine.ts";
import { CannotLower, type Context, type LoopState } from "./context.ts";
import { lowerCopy } from "./copy.ts";
import { lowerEpilogue } from "./epilogue.ts";
import { lowerMultiply } from "./multiply.ts";
import { ownedTile, registerType } from "./registers.ts";

export function lowerStmts(ctx: Context, stmts: readonly Stmt[]): void {
  for (const stmt of stmts) lowerStmt(ctx, stmt);
}

function lowerStmt(ctx: Context, stmt: Stmt): void {
  switch (stmt.kind) {
    case "tiles":
      lowerTiles(ctx, stmt);
      return;
    case "for":
      lowerFor(ctx, stmt);
      return;
    case "if": {
      const condition = ctx.condition(stmt.cond);
      if (condition === false) return;
      const outer = ctx.active;
      if (condition !== true) ctx.active = ctx.both(outer, condition);
      lowerStmts(ctx, stmt.body);
      ctx.active = outer;
      return;
    }
    case "fill": {
      const tile = ownedTile(ctx, stmt.dst.buffer, ctx.constant(stmt.dst.slot, "slot"));
      if (stmt.value !== 0) throw new CannotLower("fill", "accumulators of this backend begin with 0");
      const type = registerType(tile.dtype);
      const zero = type === "f32" ? f32imm(0) : type === "f64" ? f64imm(0) : imm(0);
      for (const register of tile.registers) ctx.emitAny(null, `mov.${type}`, register, zero);
      return;
    }
    case "copy":
      lowerCopy(ctx, stmt);
      return;
    case "mma":
      lowerMultiply(ctx, stmt);
      return;
    case "epilogue":
      lowerEpilogue(ctx, stmt);
      return;
    case "combine":
      lowerCombine(ctx, stmt, () => lowerStmts(ctx, stmt.body));
      return;
    case "barrier":
      ctx.emit(null, "bar.sync", imm(stmt.id));
      return;
    case "acquire":
      lowerEdge(ctx, ringOf(ctx, stmt.ring).empty);
      return;
    case "commit":
      if (ringOf(ctx, stmt.ring).transport === "cp.async") ctx.emit(null, "cp.async.commit_group");
      return;
    case "wait": {
      const ring = ringOf(ctx, stmt.ring);
      if (ring.transport === "cp.async") ctx.emit(null, "cp.async.wait_group", imm(stmt.pending));
      lowerEdge(ctx, ring.full);
      return;
    }
    case "release":
      return;
    case "role":
      throw new CannotLower(`role ${stmt.name}`, "this backend has one role: all warps copy and multiply");
    default:
      stmt satisfies never;
  }
}

function ringOf(ctx: Context, name: string): Ring {
  const ring = ctx.program.rings.find((r) => r.name === name);
  if (!ring) throw new CannotLower(`%${name}`, "is no ring");
  return ring;
}

function lowerEdge(ctx: Context, edge: Edge | null): void {
  if (edge === null || edge.kind === "implied") return;
  if (edge.kind === "mbarrier") throw new CannotLower("ring", "mbarrier edges need a producer role");
  ctx.emit(null, "bar.sync", imm(edge.id));
}

function lowerTiles(ctx: Context, stmt: Extract<Stmt, { kind: "tiles" }>): void {
  const [tilesM, tilesN] = stmt.extents;
  const [m, n] = rasterise(ctx, stmt.raster, tilesM, tilesN);
  ctx.tileVars.set(stmt.vars[0], { reg: m, extent: tilesM });
  ctx.tileVars.set(stmt.vars[1], { reg: n, extent: tilesN });
  if (stmt.split) ctx.tileVars.set(stmt.split.var, { reg: ctx.values.split(), extent: stmt.split.extent });
  lowerStmts(ctx, stmt.body);
}

type Coordinate = Reg<"u32"> | null;

/** Tile row and column of this block; null where there is one only. */
function rasterise(ctx: Context, raster: Raster, tilesM: number, tilesN: number): [Coordinate, Coordinate] {
  const { values } = ctx;
  if (tilesM === 1) return [null, tilesN === 1 ? null : values.block()];
  if (tilesN === 1) return [values.block(), null];
  switch (raster.kind) {
    case "row":
      return [values.divide(values.block(), tilesN), values.modulo(values.block(), tilesN, tilesM * tilesN)];
    case "col":
      return [values.modulo(values.block(), tilesM, tilesM * tilesN), values.divide(values.block(), tilesM)];
    case "grouped":
      return grouped(ctx, Math.min(raster.group, tilesM), tilesM, tilesN);
  }
}

/** Groups of `group` tile rows, the last one shorter; rows fastest inside a group. */
function grouped(ctx: Context, group: number, tilesM: number, tilesN: number): [Coordinate, Coordinate] {
  const { values } = ctx;
  const block = values.block();
  const index = values.divide(block, group * tilesN);
  const first = values.scale(index, group);
  const local = values.difference(block, values.scale(index, group * tilesN));
  if (tilesM % group === 0)
    return [values.sum(first, values.modulo(local, group, group * tilesN)), values.divide(local, group)];
  const size = values.least(values.difference(imm(tilesM), first), imm(group));
  const column = values.divide(local, size);
  const row = values.memo(`${local.name}%${size.name}`, "v", (d) => {
    ctx.prologue.emit(null, "rem.u32", d, local, size);
  });
  return [values.sum(first, row), column];
}

function lowerFor(ctx: Context, stmt: Extract<Stmt, { kind: "for" }>): void {
  const from = ctx.constant(stmt.from, `start of loop %${stmt.var}`);
  const to = ctx.constant(stmt.to, `end of loop %${stmt.var}`);
  if (stmt.unroll || to - from <= 1) {
    for (let i = from; i < to; i++) {
      ctx.constants.set(stmt.var, i);
      lowerStmts(ctx, stmt.body);
    }
    ctx.constants.delete(stmt.var);
    return;
  }
  if (ctx.loop) throw new CannotLower(`loop %${stmt.var}`, "stands inside another loop that is not unrolled");
  const outer = ctx.body;
  const pre = outer.nest();
  const label = ctx.entry.label(`loop_${stmt.var}`);
  const counter = ctx.entry.reg("u32", `${stmt.var}_`);
  pre.emit(null, "mov.u32", counter, imm(from));
  outer.label(label);
  const body = outer.nest();
  const latch = outer.nest();
  const state: LoopState = {
    var: stmt.var,
    counter,
    from,
    to,
    pre,
    latch,
    running: new Map(),
    iteration: new Map(),
  };
  ctx.loop = state;
  ctx.body = body;
  lowerStmts(ctx, stmt.body);
  ctx.body = outer;
  ctx.loop = null;
  const more = ctx.entry.reg("pred", "p");
  latch.emit(null, "add.u32", counter, counter, imm(1));
  latch.emit(null, "setp.lt.u32", more, counter, imm(to));
  latch.emit(more, "bra", label);
}
