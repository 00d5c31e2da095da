/**
 * Tensor maps of a grouped problem. The launch brings a template of each, whose box, swizzle and types hold for every group; a role that copies in bulk makes the
 * map of the group that it turns to from it, in slots of the workspace that are its block's own: address, extents and pitch are replaced by those of the
 * group's row, and then handed to the proxy that reads maps (PTX ISA, tensormap.replace and fence.proxy.tensormap).
 *
 * A slot is written again so many groups later that no copy through its old map is still under way: between two maps in a slot lie as many groups as the ring has slots,
 * each with a chunk at least (those without have no map), and the first of those chunks is acquired behind the release of the last one that was copied through the old map.
 */
import {
  eachStmt,
  extentNames,
  type LaunchExpr,
  leadingNames,
  type PtxVersion,
  type TileProgram,
  v,
} from "@tilewright/ir";
import { addr, imm, param, special, vec } from "@tilewright/ptx";
import { clusterSize } from "./clusters.ts";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { pointer } from "./globalAddress.ts";
import { countOf, extentOf, matrixStrides, strideRegister } from "./sizes.ts";
import { loadCut, MAP_BYTES, mapAddress, mapName } from "./tensorMaps.ts";
import { WORKSPACE } from "./workspace.ts";

type U64 = Reg<"u64">;

/** tensormap.replace came with 8.3; since the ptxas of 8.5 (CUDA 12.5) it takes strides in bytes, before without their last four bits. */
export const GROUP_MAPS_PTX: PtxVersion = [8, 5];

/** Copies into shared memory through tensor maps, by matrix: the first of each. */
function copiesOf(stmts: TileProgram["body"]): ReadonlyMap<string, StmtOf<"copy">> {
  const found = new Map<string, StmtOf<"copy">>();
  for (const stmt of eachStmt(stmts))
    if (stmt.kind === "copy" && stmt.transport === "tma" && !found.has(stmt.src.buffer))
      found.set(stmt.src.buffer, stmt);
  return found;
}

/** Slots of a block for maps of one kind: one more than the ring has that the copies go into. */
function slotsOf(program: TileProgram, copies: ReadonlyMap<string, StmtOf<"copy">>): number {
  const buffers = new Set([...copies.values()].map((copy) => copy.dst.buffer));
  return (
    1 + Math.max(0, ...program.rings.filter((r) => r.buffers.some((b) => buffers.has(b))).map((r) => r.slots))
  );
}

/** Bytes of the workspace that the maps of a block take; 0 where the launch makes all maps. */
function blockBytes(program: TileProgram): number {
  if (program.problem.batch.kind !== "grouped") return 0;
  const copies = copiesOf(program.body);
  return copies.size === 0 ? 0 : slotsOf(program, copies) * copies.size * MAP_BYTES;
}

/** Bytes of the workspace that maps of groups take. */
export function groupMapBytes(program: TileProgram): LaunchExpr {
  const each = blockBytes(program);
  const size = clusterSize(program);
  // A grid of blocks that stay has no more of them than there are SMs, but a cluster at least.
  return each === 0 ? 0 : ["mul", size === 1 ? "numSms" : ["max", "numSms", size], each];
}

/** Where the role copies in bulk: the maps of the group that it is at, made anew where it has turned to it. One thread does so. */
export function turnToMaps(ctx: Context, stmt: StmtOf<"tiles">, group: Reg<"u32">): void {
  const { program, entry } = ctx;
  const copies = copiesOf(stmt.body);
  if (copies.size === 0) return;
  if (!ctx.solo) throw new CannotLower("tiles", "maps of groups are made by a role of one thread");
  const slots = slotsOf(program, copies);
  const setBytes = copies.size * MAP_BYTES;
  const number = (key: string, value: number) =>
    ctx.crewValue(key, (code) => {
      const d = entry.reg("u32", "maps");
      code.emit(null, "mov.u32", d, imm(value));
      return d;
    });
  const mapped = number("group of the maps", 0xffffffff);
  const slot = number("slot of the maps", slots - 1);
  const base = ctx.crewValue("maps of the block", (code) => {
    const [d, block, offset] = [entry.reg("u64", "mp"), entry.reg("u32", "block"), entry.reg("u64", "w")];
    code.emit(null, "ld.param.u64", d, ctx.param(WORKSPACE));
    code.emit(null, "cvta.to.global.u64", d, d);
    code.emit(null, "mov.u32", block, special("%ctaid.x"));
    code.emit(null, "mul.wide.u32", offset, block, imm(slots * setBytes));
    code.emit(null, "add.s64", d, d, offset);
    return d;
  });
  const [kept, same, wrapped] = [entry.label("maps"), entry.reg("pred", "p"), entry.reg("pred", "p")];
  ctx.body.emit(null, "setp.eq.u32", same, mapped, group);
  ctx.body.emit(same, "bra", kept);
  // Nothing is copied of a group without chunks, whose map would have no extent along k.
  const [depth, empty] = [countOf(ctx, v("k")), entry.reg("pred", "p")];
  if (typeof depth !== "number") {
    ctx.body.emit(null, "setp.eq.u32", empty, depth, imm(0));
    ctx.body.emit(empty, "bra", kept);
  }
  ctx.scope(() => {
    const { body } = ctx;
    body.emit(null, "mov.u32", mapped, group);
    body.emit(null, "add.u32", slot, slot, imm(1));
    body.emit(null, "setp.eq.u32", wrapped, slot, imm(slots));
    body.emit(wrapped, "mov.u32", slot, imm(0));
    const [at, offset] = [entry.reg("u64", "mp"), entry.reg("u64", "w")];
    body.emit(null, "mul.wide.u32", offset, slot, imm(setBytes));
    body.emit(null, "add.s64", at, base, offset);
    const maps = [...copies].map(([global, copy], i): U64 => {
      const map = mapAddress(ctx, global);
      body.emit(null, "add.s64", map, at, imm(i * MAP_BYTES));
      writeMap(ctx, global, loadCut(program, copy).contiguous, map);
      return map;
    });
    body.emitAny(null, "fence.proxy.tensormap::generic.release.gpu", []);
    for (const map of maps)
      body.emitAny(null, "fence.proxy.tensormap::generic.acquire.gpu", [addr(map), imm(MAP_BYTES)]);
  });
  ctx.body.label(kept);
}

/** The template's bytes, and in them what the group's row says. */
function writeMap(ctx: Context, global: string, contiguous: 0 | 1, map: U64): void {
  const { body, entry } = ctx;
  const { problem } = ctx.program;
  const which = global.toLowerCase();
  if (which !== "a" && which !== "b") throw new CannotLower(`%${global}`, "has no map of each group");
  const [low, high] = [entry.reg("u64", "map"), entry.reg("u64", "map")];
  for (let at = 0; at < MAP_BYTES; at += 16) {
    body.emitAny(null, "ld.param.v2.u64", [vec(low, high), param(`p_${mapName(global)}`, at)]);
    body.emitAny(null, "st.global.v2.u64", [addr(map, at), vec(low, high)]);
  }
  const shape = [problem[extentNames[which][0]], problem[extentNames[which][1]]] as const;
  const extent = (axis: 0 | 1) => {
    const count = extentOf(ctx, global, axis, shape);
    return typeof count === "number" ? imm(count) : count;
  };
  const [row, column] = matrixStrides(problem, problem[which], leadingNames[which]);
  const pitch = contiguous === 1 ? row : column;
  const bytes = typeof pitch === "number" ? imm(pitch) : strideRegister(ctx, pitch, 1);
  const replace = "tensormap.replace.tile";
  body.emitAny(null, `${replace}.global_address.global.b1024.b64`, [addr(map), pointer(ctx, which)]);
  body.emitAny(null, `${replace}.global_dim.global.b1024.b32`, [addr(map), imm(0), extent(contiguous)]);
  const other = contiguous === 0 ? 1 : 0;
  body.emitAny(null, `${replace}.global_dim.global.b1024.b32`, [addr(map), imm(1), extent(other)]);
  body.emitAny(null, `${replace}.global_stride.global.b1024.b64`, [addr(map), imm(0), bytes]);
}
