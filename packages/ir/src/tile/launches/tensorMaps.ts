/** Tensor maps: parameters of the kernel, made from the copies and stores that use them. */
import { type ParamSpec, runsOf, type TensorMapRecipe } from "@tilewright/core";
import {
  boxesOf,
  type TensorCut,
  type TensorRange,
  tensorCut,
  tensorMapFor,
} from "../../launch/tensor-copies.ts";
import { linearOffset } from "../../layout/layout.ts";
import { must } from "../../must.ts";
import { elementBytes } from "../elementBytes.ts";
import { blockShape, bufferOf, childrenOf, clusterUnits } from "../rewrite.ts";
import { namesRows } from "../runs.ts";
import { storesInBulk } from "../staged.ts";
import type {
  Buffer,
  Epilogue,
  Ownership,
  OwnershipMode,
  RegionDeclaration,
  Stmt,
  TileProgram,
  View,
} from "../types.ts";

export type Copy = Extract<Stmt, { kind: "copy" }>;

/** A tensor map lies at a multiple of 64 bytes (PTX ISA, tensor maps), and has 128. */
const MAP_ALIGN = 64;
export const MAP_BYTES = 128;

/** Warps of a warpgroup. */
const WARPGROUP = 4;

/** Units of a cluster (CTAs, or pairs) that share a bulk copy. */
export function readersOf({ launch }: Pick<TileProgram, "launch">, { multicast }: Copy): number {
  const [m, n] = clusterUnits(launch);
  return multicast === null ? 1 : multicast === "m" ? m : n;
}

/** The part of its tile that a copy fills, of one CTA. */
const filled = (tile: Buffer, { extent }: View): Buffer => ({
  ...tile,
  shape: extent.some((length, axis) => length !== tile.shape[axis]) ? extent : blockShape(tile),
});

/** The boxes of a copy into a tile, of the extents that its tensor map has: those of a part begin where it does. */
export function loadBoxes(tile: Buffer, dst: View, box: readonly number[]): readonly TensorRange[] {
  const part = filled(tile, dst);
  const [row, col] = dst.origin.map((at) => (at.kind === "const" ? at.value : 0));
  const first =
    part.shape === dst.extent && tile.layout !== null
      ? linearOffset(tile.layout, [row ?? 0, col ?? 0]) * elementBytes(tile)
      : 0;
  return boxesOf(part, box).map((piece) => ({ ...piece, offset: piece.offset + first }));
}

/** The boxes of a bulk copy into shared memory, of which each reader copies a part; null where bulk copies cannot make the tile's layout. */
export function loadCutOf(program: TileProgram, copy: Copy): TensorCut | null {
  const { dst } = copy;
  const tile = bufferOf(program, dst.buffer);
  const { paged } = bufferOf(program, copy.src.buffer);
  const page = gathersRows(program, copy)
    ? "gathered"
    : (runsOf(program.problem).find(({ step }) => step === paged?.step)?.pages?.size ?? null);
  return tensorCut(filled(tile, dst), readersOf(program, copy), page);
}

/** Whether a bulk copy takes rows that an index names, some at a time. */
export function gathersRows(program: TileProgram, { transport, src }: Copy): boolean {
  const { paged } = bufferOf(program, src.buffer);
  return transport === "tma" && paged !== undefined && namesRows(program, paged);
}

/** Groups of warps that store their part of an epilogue's tile by themselves: how many below each other, and side by side. */
export interface StoreGroups {
  readonly m: number;
  readonly n: number;
}

/** How an epilogue stores in bulk: the groups that do, and the boxes, of which none reaches over two groups. */
export interface BulkStore {
  readonly groups: StoreGroups;
  readonly cut: TensorCut;
}

/**
 * Warpgroups, where rows go to them in order, and parts of the columns to those side by side, which count first; else all warps together. A string says
 * what of the layouts stands against it.
 */
export function bulkStoreOf(program: TileProgram, stmt: Epilogue, warps: number): BulkStore | string {
  const groups = storeGroups(program, stmt, warps);
  if (typeof groups === "string" || stmt.via === null) return groups as string;
  const tile = bufferOf(program, stmt.via.buffer);
  const own = { ...tile, shape: blockShape(tile) };
  const whole = tensorCut(own);
  const parts = whole?.contiguous === 1 ? groups.m : groups.n;
  const cut = parts === 1 ? whole : tensorCut(own, parts);
  return cut === null ? "has a layout that bulk tensor copies cannot make" : { groups, cut };
}

/** The same of a program that `bulkTiles` has verified. */
export function bulkStore(program: TileProgram, stmt: Epilogue, warps: number): BulkStore {
  const store = bulkStoreOf(program, stmt, warps);
  return must(typeof store === "string" ? null : store, "a verified epilogue has stores");
}

function storeGroups(program: TileProgram, stmt: Epilogue, warps: number): StoreGroups | string {
  const own = bufferOf(program, stmt.acc.buffer).own;
  const beside = own === null ? null : besides(own);
  const n = beside?.extent ?? 1;
  if (beside !== null && beside.stride !== WARPGROUP)
    return "warps that share rows cannot pass them through one tile";
  const m = warps / WARPGROUP / n;
  const [outermost] = own?.rows.filter((f) => f.extent > 1) ?? [];
  const inOrder =
    m === 1 ||
    (outermost?.tier === "warp" &&
      (outermost.extent === m * WARPGROUP && n === 1
        ? outermost.stride === 1
        : outermost.extent === m && outermost.stride === WARPGROUP * n));
  const tile = stmt.via === null ? null : bufferOf(program, stmt.via.buffer);
  const parts = tile === null || tile.layout === null ? null : tensorCut(tile)?.contiguous === 0 ? n : m;
  if (Number.isInteger(m) && inOrder && tile !== null && parts !== null && tensorCut(tile, parts) !== null)
    return { m, n };
  return n > 1 ? "has no part of its own for each warpgroup" : { m: 1, n: 1 };
}

/** The factor by which warpgroups share the columns of a tile; null where none does, or where the warps of one do, which store together. */
const besides = (own: Ownership): OwnershipMode | null =>
  own.cols.find((f) => f.tier === "warp" && f.extent > 1 && f.stride * f.extent > WARPGROUP) ?? null;

/** `tma_a`: the map through which bulk copies see an operand. */
export const mapName = (global: string): string => `tma_${global.toLowerCase()}`;

/** The template of a map of a grouped problem: over the table itself, which is there in every launch. Only what is no group's own counts. */
const templateOf = (map: TensorMapRecipe): TensorMapRecipe => ({
  ...map,
  operand: "groups",
  dims: [1, 1],
  strides: [TEMPLATE_PITCH],
});

/** Any pitch that maps take. */
const TEMPLATE_PITCH = 16;

/** A bulk copy or store of a program, and the warps that run it. */
export interface BulkAccess {
  readonly stmt: Copy | Epilogue;
  readonly warps: number;
}

/** The bulk copies into shared memory and bulk stores of statements that so many warps run, in their order. */
export function bulkAccesses(stmts: readonly Stmt[], warps: number): readonly BulkAccess[] {
  const found: BulkAccess[] = [];
  const walk = (warps: number, stmts: readonly Stmt[]): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "copy" ? stmt.transport === "tma" : stmt.kind === "epilogue" && storesInBulk(stmt))
        found.push({ stmt: stmt as Copy | Epilogue, warps });
      walk(stmt.kind === "role" ? stmt.warps : warps, childrenOf(stmt));
    }
  };
  walk(warps, stmts);
  return found;
}

/** The same of a program. */
export const bulkAccessesOf = ({ body, launch }: TileProgram): readonly BulkAccess[] =>
  bulkAccesses(body, launch.threads / 32);

/** One map for each matrix that bulk copies read or write, over the launch's or its copy in the workspace, behind the parameters that end at `offset`. */
export function tensorMaps(
  program: TileProgram,
  regions: readonly RegionDeclaration[],
  offset: number,
): readonly ParamSpec[] {
  const found = new Map<string, TensorCut>();
  const accesses = bulkAccessesOf(program);
  // Stores first, whatever the order of the roles.
  for (const { stmt, warps } of accesses)
    if (stmt.kind === "epilogue") found.set(stmt.dst.buffer, bulkStore(program, stmt, warps).cut);
  for (const { stmt } of accesses)
    if (stmt.kind === "copy")
      found.set(stmt.src.buffer, must(loadCutOf(program, stmt), "a verified tile has boxes (bulkTiles)"));
  const { batch } = program.problem;
  const table = batch.kind === "grouped" && batch.rows === undefined;
  let end = offset;
  return [...found].map(([global, cut]): ParamSpec => {
    const at = Math.ceil(end / MAP_ALIGN) * MAP_ALIGN;
    end = at + MAP_BYTES;
    const own = regions.find(({ name }) => name === global.toLowerCase());
    const transposed = bufferOf(program, global).transposed === true;
    const copy = transposed ? must(own ?? null, "a transposed operand has its place") : undefined;
    const map = tensorMapFor(program, global, cut, copy);
    return {
      kind: "tensorMap",
      name: mapName(global),
      offset: at,
      size: MAP_BYTES,
      tensorMap: table ? templateOf(map) : map,
    };
  });
}
