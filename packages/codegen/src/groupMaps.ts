/**
 * Tensor maps of a grouped problem. The launch brings a template of each, whose box, swizzle and types hold for every group; a thread that copies or stores in bulk makes the
 * map of the group that it turns to from it, in slots of the workspace that are its block's own: address, extents and pitch are replaced by those of the
 * group's row, and then handed to the proxy that reads maps (PTX ISA, tensormap.replace and fence.proxy.tensormap).
 *
 * A slot is written again so many groups later that no copy through its old map is still under way: between two maps in a slot lie as many groups as the ring has slots,
 * each with a chunk at least (those without have no map of A and B), and the first of those chunks is acquired behind the release of the last one that was copied through the old map.
 *
 * Each group of threads that stores by itself has two slots for maps of D, which its one storing thread writes by turns. Between two maps in a slot lies another group, with a
 * store at least: when all but the last of the thread's stores have been read, those through the old map have.
 */
import { extentNames, leadingNames, type PtxVersion } from "@tilewright/core";
import {
  bulkAccesses,
  bulkStore,
  copiesByMatrix,
  copyMapSlots,
  groupMapBytesOfBlock,
  loadCut,
  MAP_BYTES,
  mapName,
  STORE_MAP_SLOTS,
  v,
  WORKSPACE,
} from "@tilewright/ir";
import { addr, imm, param, special, vec } from "@tilewright/ptx";
import { storeGroup } from "./bulkStores.ts";
import type { Pred, Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { pointer } from "./globalAddress.ts";
import { firstOf } from "./roles.ts";
import { countOf, countOperand, extentOf, matrixStrides, strideRegister } from "./sizes.ts";
import { mapAddress } from "./tensorMaps.ts";

type U64 = Reg<"u64">;

/** tensormap.replace came with 8.3; since the ptxas of 8.5 (CUDA 12.5) it takes strides in bytes, before without their last four bits. */
export const GROUP_MAPS_PTX: PtxVersion = [8, 5];

/** Where the role copies or stores in bulk: the maps of the group that it is at, made anew where it has turned to it. One thread does so, of a role that stores one of each group of threads. */
export function switchToMaps(ctx: Context, stmt: StmtOf<"tiles">, group: Reg<"u32">): void {
  const { program } = ctx;
  const accesses = bulkAccesses(stmt.body, ctx.values.crew.warps);
  const copies = copiesByMatrix(accesses);
  const store = accesses.map((each) => each.stmt).find((each) => each.kind === "epilogue");
  if (copies.size > 0) {
    if (!ctx.solo) throw new CannotLower("tiles", "maps of groups are made by a role of one thread");
    const kinds = [...copies].map(([global, copy]) => ({
      global,
      contiguous: loadCut(program, copy).contiguous,
    }));
    makeMaps(ctx, group, { kinds, slots: copyMapSlots(program, [...copies.values()]), offset: 0, by: null });
  }
  if (store?.via == null) return;
  const { groups, cut } = bulkStore(program, store, ctx.values.crew.warps);
  const { number, threads } = storeGroup(ctx, groups);
  const { contiguous } = cut;
  makeMaps(ctx, group, {
    kinds: [{ global: store.dst.buffer, contiguous }],
    slots: STORE_MAP_SLOTS,
    offset: groupMapBytesOfBlock(program).copies,
    by: { first: firstOf(ctx, threads), group: number },
  });
}

/** Maps that a thread makes together. */
interface MapSet {
  readonly kinds: readonly { readonly global: string; readonly contiguous: 0 | 1 }[];
  /** Sets that there is room for. */
  readonly slots: number;
  /** Bytes from the start of the block's maps to these. */
  readonly offset: number;
  /** Which thread of several makes them, and in which group of those; null where there is one thread. */
  readonly by: { readonly first: Pred; readonly group: Reg<"u32"> | null } | null;
}

function makeMaps(ctx: Context, group: Reg<"u32">, { kinds, slots, offset, by }: MapSet): void {
  const { program, entry } = ctx;
  const setBytes = kinds.length * MAP_BYTES;
  const sum = groupMapBytesOfBlock(program);
  const value = (key: string, start: number) =>
    ctx.crewValue(key, (code) => {
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
  const depth = by === null ? countOf(ctx, v("k")) : 1;
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
    on(block, sum.copies + sum.stores);
    if (by !== null && by.group !== null) on(by.group, slots * setBytes);
    on(slot, setBytes);
    // Stores through the map that was in this slot have read it.
    if (by !== null) body.emit(thread, "cp.async.bulk.wait_group.read", imm(slots - 1));
    const maps = kinds.map(({ global, contiguous }, i): U64 => {
      const map = mapAddress(ctx, global);
      body.emit(null, "add.s64", map, at, imm(offset + i * MAP_BYTES));
      writeMap(ctx, { global, contiguous }, map, thread);
      return map;
    });
    body.emitAny(thread, "fence.proxy.tensormap::generic.release.gpu", []);
    for (const map of maps)
      body.emitAny(thread, "fence.proxy.tensormap::generic.acquire.gpu", [addr(map), imm(MAP_BYTES)]);
  });
  ctx.body.label(kept);
}

/** The template's bytes, and in them what the group's row says, written by a thread for which `thread` holds. */
function writeMap(
  ctx: Context,
  { global, contiguous }: MapSet["kinds"][number],
  map: U64,
  thread: Pred | null,
): void {
  const { body, entry } = ctx;
  const { problem } = ctx.program;
  const which = global.toLowerCase();
  if (which !== "a" && which !== "b" && which !== "d")
    throw new CannotLower(`%${global}`, "has no map of each group");
  const [low, high] = [entry.reg("u64", "map"), entry.reg("u64", "map")];
  for (let at = 0; at < MAP_BYTES; at += 16) {
    body.emitAny(thread, "ld.param.v2.u64", [vec(low, high), param(`p_${mapName(global)}`, at)]);
    body.emitAny(thread, "st.global.v2.u64", [addr(map, at), vec(low, high)]);
  }
  const shape = [problem[extentNames[which][0]], problem[extentNames[which][1]]] as const;
  const extent = (axis: 0 | 1) => {
    return countOperand(extentOf(ctx, global, axis, shape));
  };
  const [row, column] = matrixStrides(problem, problem[which], leadingNames[which]);
  const pitch = contiguous === 1 ? row : column;
  const bytes = typeof pitch === "number" ? imm(pitch) : strideRegister(ctx, pitch, 1);
  const replace = "tensormap.replace.tile";
  body.emitAny(thread, `${replace}.global_address.global.b1024.b64`, [addr(map), pointer(ctx, which)]);
  body.emitAny(thread, `${replace}.global_dim.global.b1024.b32`, [addr(map), imm(0), extent(contiguous)]);
  const other = contiguous === 0 ? 1 : 0;
  body.emitAny(thread, `${replace}.global_dim.global.b1024.b32`, [addr(map), imm(1), extent(other)]);
  body.emitAny(thread, `${replace}.global_stride.global.b1024.b64`, [addr(map), imm(0), bytes]);
}
