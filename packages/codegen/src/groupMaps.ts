/**
 * Tensor maps of a grouped problem. The launch brings a template of each, whose box, swizzle and types hold for every group; a thread makes the map of the group that its CTA
 * turns to from it, in the workspace: address, extents and pitch are replaced by those of the group's row, and then handed to the proxy that reads maps (PTX ISA,
 * tensormap.replace and fence.proxy.tensormap).
 */

import type { PtxVersion } from "@tilewright/core";
import { bufferOf, MAP_BYTES, mapName, must, v, WORKSPACE } from "@tilewright/ir";
import { addr, imm, param, special, vec } from "@tilewright/ptx";
import { storeGroup } from "./bulkStores.ts";
import type { Pred, Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { globalArray, pointer } from "./globalAddress.ts";
import { firstOf } from "./roles.ts";
import { countOf, countOperand, extentOf, strideRegister } from "./sizes.ts";
import { mapAddress } from "./tensorMaps.ts";

type U64 = Reg<"u64">;

/** tensormap.replace came with 8.3; since the ptxas of 8.5 (CUDA 12.5) it takes strides in bytes, before without their last four bits. */
export const GROUP_MAPS_PTX: PtxVersion = [8, 5];

/** The maps of the group at hand, made anew where the CTA has turned to it. */
export function makeMaps(
  ctx: Context,
  { maps: kinds, slots, offset, every, groups }: StmtOf<"tensormap.make">,
): void {
  const { entry } = ctx;
  const group = must(ctx.group, "lists have groups");
  const by = groups === undefined ? null : storingThread(ctx, groups);
  const setBytes = kinds.length * MAP_BYTES;
  const value = (key: string, start: number) =>
    ctx.roleValue(key, (code) => {
      const d = entry.reg("u32", "maps");
      code.emit(null, "mov.u32", d, imm(start));
      return d;
    });
  const mapped = value("group of the maps", 0xffffffff);
  const slot = value("slot of the maps", slots - 1);
  const [kept, same, wrapped] = [entry.label("maps"), entry.reg("pred", "p"), entry.reg("pred", "p")];
  ctx.body.emit(null, "setp.eq.u32", same, mapped, group);
  ctx.body.emit(same, "bra", kept);
  // Of a group without chunks only D is there; maps of the others would have no extent along k.
  const depth = by === null && ctx.sizes.has("k") ? countOf(ctx, v("k")) : 1;
  if (typeof depth !== "number") {
    const empty = entry.reg("pred", "p");
    ctx.body.emit(null, "setp.eq.u32", empty, depth, imm(0));
    ctx.body.emit(empty, "bra", kept);
  }
  ctx.scope(() => {
    const { body } = ctx;
    const thread = by?.first ?? null;
    body.emit(null, "mov.u32", mapped, group);
    body.emit(null, "add.u32", slot, slot, imm(1));
    body.emit(null, "setp.eq.u32", wrapped, slot, imm(slots));
    body.emit(wrapped, "mov.u32", slot, imm(0));
    const [at, block, bytes] = [entry.reg("u64", "mp"), entry.reg("u32", "block"), entry.reg("u64", "w")];
    body.emit(null, "ld.param.u64", at, ctx.param(WORKSPACE));
    body.emit(null, "cvta.to.global.u64", at, at);
    const on = (index: Reg<"u32">, each: number): void => {
      body.emit(null, "mul.wide.u32", bytes, index, imm(each));
      body.emit(null, "add.s64", at, at, bytes);
    };
    body.emit(null, "mov.u32", block, special("%ctaid.x"));
    on(block, every);
    if (by !== null && by.group !== null) on(by.group, slots * setBytes);
    on(slot, setBytes);
    // Stores through the map that was in this slot have read it.
    if (by !== null) body.emit(thread, "cp.async.bulk.wait_group.read", imm(slots - 1));
    const maps = kinds.map(({ buffer, contiguous }, i): U64 => {
      const map = mapAddress(ctx, buffer);
      body.emit(null, "add.s64", map, at, imm(offset + i * MAP_BYTES));
      writeMap(ctx, { buffer, contiguous }, map, thread);
      return map;
    });
    body.emitAny(thread, "fence.proxy.tensormap::generic.release.gpu", []);
    for (const map of maps)
      body.emitAny(thread, "fence.proxy.tensormap::generic.acquire.gpu", [addr(map), imm(MAP_BYTES)]);
  });
  ctx.body.label(kept);
}

/** The thread that stores of each group of threads, and the number of that; null where there is one group. */
function storingThread(ctx: Context, [m, n]: readonly [number, number]) {
  const { number, threads } = storeGroup(ctx, { m, n });
  return { first: firstOf(ctx, threads), group: number };
}

/** The template's bytes, and in them what the group's row says, written by a thread for which `thread` holds. */
function writeMap(
  ctx: Context,
  { buffer: global, contiguous }: StmtOf<"tensormap.make">["maps"][number],
  map: U64,
  thread: Pred | null,
): void {
  const { body, entry } = ctx;
  const { name, rowStride, colStride } = globalArray(ctx, global);
  const [low, high] = [entry.reg("u64", "map"), entry.reg("u64", "map")];
  for (let at = 0; at < MAP_BYTES; at += 16) {
    body.emitAny(thread, "ld.param.v2.u64", [vec(low, high), param(`p_${mapName(global)}`, at)]);
    body.emitAny(thread, "st.global.v2.u64", [addr(map, at), vec(low, high)]);
  }
  const { shape } = bufferOf(ctx.program, global);
  const extent = (axis: 0 | 1) => {
    return countOperand(extentOf(ctx, global, axis, shape));
  };
  const pitch = contiguous === 1 ? rowStride : colStride;
  const bytes = typeof pitch === "number" ? imm(pitch) : strideRegister(ctx, pitch, 1);
  const replace = "tensormap.replace.tile";
  body.emitAny(thread, `${replace}.global_address.global.b1024.b64`, [addr(map), pointer(ctx, name)]);
  body.emitAny(thread, `${replace}.global_dim.global.b1024.b32`, [addr(map), imm(0), extent(contiguous)]);
  const other = contiguous === 0 ? 1 : 0;
  body.emitAny(thread, `${replace}.global_dim.global.b1024.b32`, [addr(map), imm(1), extent(other)]);
  body.emitAny(thread, `${replace}.global_stride.global.b1024.b64`, [addr(map), imm(0), bytes]);
}
