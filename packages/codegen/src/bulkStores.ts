/**
 * D through shared memory: the threads that own rows put them into a tile, one of them has bulk copies take it to global memory while the others go on.
 * The tile has some of the columns; it is filled as often as that takes.
 */

import { hasFeature, sizeOf } from "@tilewright/core";
import {
  blockShape,
  boxesOf,
  bufferOf,
  contiguousIn,
  lit,
  matrixLoad,
  must,
  type OwnedRegister,
  ownedRegisters,
  type Stmt,
  type StoreGroups,
  stagedOwner,
  type View,
  vectorAxis,
  wholeView,
} from "@tilewright/ir";
import { type AddressOperand, addr, imm, special, sym, tensorAddr, vec } from "@tilewright/ptx";
import { coordinatesOf } from "./bulkCopies.ts";
import { cachePolicy } from "./cachePolicy.ts";
import type { Reg } from "./code.ts";
import type { Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";
import { indexValue } from "./indexValue.ts";
import { fenceText } from "./machine.ts";
import { placeOf } from "./pipelines.ts";
import { firstOf } from "./roles.ts";
import { sharedAddress } from "./sharedAddress.ts";
import { SMEM } from "./smem.ts";
import { boxOf, declaredMap, mapAddress } from "./tensorMaps.ts";
import { insideBlock, ownedPosition, type ThreadPosition } from "./threads.ts";

type U32 = Reg<"u32">;

/** Some columns of D, from registers into the tile. */
export interface StagedColumns {
  /** Whether these elements are among the columns. */
  takes(group: readonly OwnedRegister[]): boolean;
  /** Where they go. */
  address(position: ThreadPosition, element: OwnedRegister): AddressOperand;
}

/** The statements of an epilogue by bulk stores but `stage`, in the order in which they are emitted. */
export type StoreLowering = (stmt: Exclude<Stmt, StmtOf<"stage">>) => void;

/** Columns of a `stage` statement: those of one group of warps lie in the tile from its first on. */
export const stagedColumns = (ctx: Context, { via, columns }: StmtOf<"stage">): StagedColumns => {
  const tile = bufferOf(ctx.program, via.buffer);
  const slot = ctx.constant(via.slot, `slot of %${via.buffer}`);
  const { from, to } = columns;
  return {
    takes: (elements) => elements.every((e) => e.col >= from && e.col < to),
    address: (position, e) =>
      sharedAddress(ctx, { ...wholeView(tile), slot: lit(slot) }, position, e.row, e.col - from),
  };
};

/** Groups of warps that store by themselves, below each other and side by side: as many as meet at its barriers, each with so many columns of the accumulator. */
function groupsOf({ acc, body }: StmtOf<"epilogue">): StoreGroups {
  const meet = body.find((each) => each.kind === "barrier");
  const stored = body.find((each) => each.kind === "bulk.store");
  const n = stored === undefined ? 1 : acc.extent[1] / stored.columns.of;
  return { m: (meet?.groups ?? n) / n, n };
}

/** How threads meet, wait and store in an epilogue through the shared tile `via`: each group of its warps by itself. */
export function storeLowering(ctx: Context, stmt: StmtOf<"epilogue">, { buffer: via }: View): StoreLowering {
  const { program } = ctx;
  const tile = bufferOf(program, via);
  const place = placeOf(ctx, via);
  const own = bufferOf(program, stmt.acc.buffer).own;
  const groups = groupsOf(stmt);
  const { number: group, threads } = storeGroup(ctx, groups);
  const contiguous = contiguousIn(tile);
  const boxes = boxesOf({ ...tile, shape: blockShape(tile) }, boxOf(ctx, stmt.dst.buffer, tile));
  // A group's part of the tile, and of the accumulator.
  const rows = blockShape(tile)[0] / groups.m;
  const cols = tile.shape[1] / groups.n;
  const width = stmt.acc.extent[1] / groups.n;
  const each = boxes.filter((piece) => piece.row < rows && piece.col < cols);
  const offsetOf = (row: number, col: number): number =>
    boxes.find((piece) => piece.row === row && piece.col === col)?.offset ?? 0;
  const [below, beside] = placeOfGroup(ctx, group, groups);
  // Once for all statements, where they begin.
  for (const each of stmt.body) if (each.kind === "barrier") groupBarrier(ctx, group, each.id);
  const storing = firstOf(ctx, threads);
  const base = tileBase(ctx, [
    [below, offsetOf(rows, 0)],
    [beside, offsetOf(0, cols)],
  ]);
  const dims = declaredMap(ctx, stmt.dst.buffer).dims.length;
  const policy = cachePolicy(ctx, stmt.dst.buffer, "bulk");
  const form = `cp.async.bulk.tensor.${dims}d.global.shared::cta.tile.bulk_group${policy.hint}`;
  // A pair's block stores its own half of the tile.
  const half = own === null ? null : ownedPosition(ctx.values, own, ["cluster"]);
  const store = ({ via: view, columns }: StmtOf<"bulk.store">): void => {
    const slot = ctx.constant(view.slot, `slot of %${via}`);
    for (const piece of each) {
      const row = moved(ctx, indexValue(ctx, stmt.dst.origin[0], piece.row), [
        below && ctx.values.scale(below, rows),
        half?.row.reg ?? null,
      ]);
      const col = moved(ctx, indexValue(ctx, stmt.dst.origin[1], columns.from + piece.col), [
        beside && ctx.values.scale(beside, width),
        half?.col.reg ?? null,
      ]);
      const map = tensorAddr(
        mapAddress(ctx, stmt.dst.buffer),
        ...coordinatesOf(ctx, stmt.dst.buffer, contiguous, row, col),
      );
      const source = addr(base, place.offset + slot * place.every + piece.offset);
      ctx.emitAny(storing, form, map, source, ...policy.operands);
    }
  };
  return (each) => {
    switch (each.kind) {
      case "barrier":
        ctx.emit(null, "bar.sync", groupBarrier(ctx, group, each.id), imm(each.threads ?? threads));
        return;
      case "fence":
        ctx.emitAny(null, fenceText[each.what]);
        return;
      case "bulk.store":
        store(each);
        return;
      case "bulk.commit":
        ctx.emit(storing, "cp.async.bulk.commit_group");
        return;
      case "bulk.wait":
        ctx.emit(storing, "cp.async.bulk.wait_group.read", imm(each.pending));
        return;
      default:
        must(null, `${each.kind} stands in no epilogue by bulk stores (stores)`);
    }
  };
}

/** The barrier of the thread's group: `first` is that of the first. */
const groupBarrier = (ctx: Context, group: U32 | null, first: number): U32 =>
  ctx.roleValue(`barrier ${first} of the group`, (code) => {
    const d = ctx.entry.reg("u32", "bar");
    if (group === null) code.emit(null, "mov.u32", d, imm(first));
    else code.emit(null, "add.u32", d, group, imm(first));
    return d;
  });

/** One stmatrix: four matrices of 8 x 8 elements of 16 bits, a word of two neighbours in a row from every lane for each. */
export interface MatrixStore {
  /** Whether a pair of neighbours is one of its words; they come in the order of the matrices. */
  takes(group: readonly OwnedRegister[]): boolean;
  emit(pass: StagedColumns, words: readonly Reg[]): void;
}

/** Matrices of one stmatrix, and words of each lane. */
export const MATRICES = 4;

/**
 * The instructions that put an accumulator's fragment into the staged tile, in the order of their registers; null where stmatrix does not fit: other
 * than 16 bits, another fragment, or a target without it. Lanes give addresses as for ldmatrix; into a tile that is contiguous across the pairs matrices go
 * transposed.
 */
export function matrixStores(ctx: Context, stmt: StmtOf<"epilogue">): readonly MatrixStore[] | null {
  const tile = bufferOf(ctx.program, stmt.via?.buffer ?? "");
  const own = bufferOf(ctx.program, stmt.acc.buffer).own;
  if (own === null || sizeOf(tile.dtype) !== 2 || !hasFeature(ctx.target, "stmatrix")) return null;
  const contiguous = contiguousIn(tile);
  const load = matrixLoad(own, 2, contiguous, MATRICES);
  if (load === null || load.trans !== (contiguous !== vectorAxis(own)) || load.count !== MATRICES)
    return null;
  const position = ownedPosition(ctx.values, stagedOwner(load.address, tile.shape[1]), insideBlock);
  return ownedRegisters(load.address).map(
    (at): MatrixStore => ({
      takes: ([first]) => first !== undefined && Math.floor(first.register / (2 * MATRICES)) === at.register,
      emit: (pass, words) =>
        ctx.emitAny(
          null,
          `stmatrix.sync.aligned.m8n8.x4${load.trans ? ".trans" : ""}.shared.b16`,
          pass.address(position, at),
          vec(...words),
        ),
    }),
  );
}

/** An index moved on by what depends on the thread. */
const moved = (
  ctx: Context,
  index: ReturnType<typeof indexValue>,
  by: readonly (U32 | null)[],
): ReturnType<typeof indexValue> =>
  by.reduce(
    (sum: ReturnType<typeof indexValue>, term) =>
      term === null ? sum : sum.kind === "integer" && sum.value === 0n ? term : ctx.values.sum(term, sum),
    index,
  );

/** The group of threads that a thread of the role stores with: its number, null where there is one, and how many they are. */
export function storeGroup(
  ctx: Context,
  { m, n }: StoreGroups,
): { readonly number: U32 | null; readonly threads: number } {
  const threads = (ctx.values.role.warps * 32) / (m * n);
  return { number: m * n === 1 ? null : groupNumber(ctx, threads), threads };
}

/** Which group of the role a thread belongs to, the same for the whole warp and known to be. */
const groupNumber = (ctx: Context, threads: number): U32 =>
  ctx.roleValue(`group of ${threads}`, (code) => {
    const d = ctx.entry.reg("u32", "group");
    const { first } = ctx.values.role;
    code.emit(null, "mov.u32", d, special("%tid.x"));
    if (first > 0) code.emit(null, "sub.u32", d, d, imm(32 * first));
    code.emit(null, "shr.u32", d, d, imm(Math.log2(threads)));
    code.emit(null, "shfl.sync.idx.b32", d, d, imm(0), imm(31), imm(0xffffffff));
    return d;
  });

/** Which group below each other and which side by side; null where there is one. */
function placeOfGroup(
  ctx: Context,
  group: U32 | null,
  { m, n }: StoreGroups,
): readonly [U32 | null, U32 | null] {
  if (group === null) return [null, null];
  if (n === 1 || m === 1) return n === 1 ? [group, null] : [null, group];
  const part = (name: string, mnemonic: "div.u32" | "rem.u32"): U32 =>
    ctx.roleValue(name, (code) => {
      const d = ctx.entry.reg("u32", "group");
      code.emitAny(null, mnemonic, [d, group, imm(n)]);
      return d;
    });
  return [part("group below", "div.u32"), part("group beside", "rem.u32")];
}

/** Start of shared memory, moved on to the group's part of the tile: indices and the bytes that they go by. */
const tileBase = (ctx: Context, steps: readonly (readonly [U32 | null, number])[]): U32 =>
  ctx.roleValue("start of the group's part", (code) => {
    const d = ctx.entry.reg("u32", "sm");
    code.emit(null, "mov.u32", d, sym(SMEM));
    for (const [index, bytes] of steps)
      if (index !== null) code.emit(null, "mad.lo.u32", d, index, imm(bytes), d);
    return d;
  });
