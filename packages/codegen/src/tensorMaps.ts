/** Tensor maps: parameters of the kernel, made from the copies that use them. */
import type { ParamSpec, TensorMapRecipe } from "@tilewright/core";
import {
  blockShape,
  bufferOf,
  clusterUnits,
  type Ownership,
  type OwnershipMode,
  storesInBulk,
  type TensorCut,
  type TileProgram,
  tensorCut,
  tensorMapFor,
} from "@tilewright/ir";
import { sym } from "@tilewright/ptx";
import type { Reg } from "./code.ts";
import { CannotLower, type Context } from "./context.ts";
import type { StmtOf } from "./engine.ts";

/** A tensor map lies at a multiple of 64 bytes (PTX ISA, tensor maps), and has 128. */
const MAP_ALIGN = 64;
export const MAP_BYTES = 128;

/** Warps of a warpgroup. */
const WARPGROUP = 4;

/** The boxes of a bulk copy into shared memory; blocks that share it take a part each. */
export function loadCut(program: TileProgram, copy: StmtOf<"copy">): TensorCut {
  return cutOf(program, copy.dst.buffer, readersOf(program, copy));
}

/** Units of a cluster (blocks, or pairs) that share a bulk copy. */
export function readersOf({ launch }: TileProgram, { multicast }: StmtOf<"copy">): number {
  const [m, n] = clusterUnits(launch);
  return multicast === null ? 1 : multicast === "m" ? m : n;
}

/** The boxes of an epilogue's bulk stores: none reaches over two groups of warps that store by themselves. */
export function storeCut(program: TileProgram, via: string, groups: StoreGroups): TensorCut {
  const whole = cutOf(program, via, 1);
  const parts = whole.contiguous === 1 ? groups.m : groups.n;
  return parts === 1 ? whole : cutOf(program, via, parts);
}

function cutOf(program: TileProgram, tile: string, parts: number): TensorCut {
  const buffer = bufferOf(program, tile);
  const cut = tensorCut({ ...buffer, shape: blockShape(buffer) }, parts);
  if (cut === null) throw new CannotLower(`%${tile}`, "has a layout that bulk tensor copies cannot make");
  return cut;
}

/** Groups of warps that store their part of an epilogue's tile by themselves: how many below each other, and side by side. */
export interface StoreGroups {
  readonly m: number;
  readonly n: number;
}

/**
 * Warpgroups, where rows go to them in order, and parts of the columns to those side by side, which count first; else all warps together. Warps that
 * share rows in another way cannot pass them through one tile.
 */
export function storeGroups(program: TileProgram, stmt: StmtOf<"epilogue">, warps: number): StoreGroups {
  const own = bufferOf(program, stmt.acc.buffer).own;
  const beside = own === null ? null : besides(own);
  const n = beside?.extent ?? 1;
  if (beside !== null && beside.stride !== WARPGROUP)
    throw new CannotLower(
      `%${stmt.via?.buffer ?? stmt.acc.buffer}`,
      "warps that share rows cannot pass them through one tile",
    );
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
  if (n > 1)
    throw new CannotLower(`%${tile?.name ?? stmt.acc.buffer}`, "has no part of its own for each warpgroup");
  return { m: 1, n: 1 };
}

/** The factor by which warpgroups share the columns of a tile; null where none does, or where the warps of one do, which store together. */
const besides = (own: Ownership): OwnershipMode | null =>
  own.cols.find((f) => f.tier === "warp" && f.extent > 1 && f.stride * f.extent > WARPGROUP) ?? null;

/** `tma_a`: the map through which bulk copies see an operand. */
export const mapName = (global: string): string => `tma_${global.toLowerCase()}`;

/** The template of a map of a grouped problem (`groupMaps.ts`): over the table itself, which is there in every launch. Only what is no group's own counts. */
const templateOf = (map: TensorMapRecipe): TensorMapRecipe => ({
  ...map,
  operand: "groups",
  dims: [1, 1],
  strides: [TEMPLATE_PITCH],
});

/** Any pitch that maps take. */
const TEMPLATE_PITCH = 16;

/** The first of a program's epilogues that store in bulk, and the warps that run it; null without one. */
export function bulkStoreOf(
  program: TileProgram,
): { readonly stmt: StmtOf<"epilogue">; readonly warps: number } | null {
  const find = (warps: number, stmts: TileProgram["body"]): ReturnType<typeof bulkStoreOf> => {
    for (const stmt of stmts) {
      if (stmt.kind === "epilogue" && storesInBulk(stmt)) return { stmt, warps };
      const inner = "body" in stmt ? find(stmt.kind === "role" ? stmt.warps : warps, stmt.body) : null;
      if (inner !== null) return inner;
    }
    return null;
  };
  return find(program.launch.threads / 32, program.body);
}

/** One map for each matrix that bulk copies read or write, behind the parameters that end at `offset`. */
export function tensorMaps(program: TileProgram, offset: number): readonly ParamSpec[] {
  const found = new Map<string, TensorCut>();
  const visit = (warps: number, stmts: TileProgram["body"]): void => {
    for (const stmt of stmts) {
      if (stmt.kind === "copy" && stmt.transport === "tma")
        found.set(stmt.src.buffer, loadCut(program, stmt));
      if (stmt.kind === "epilogue" && stmt.via !== null && storesInBulk(stmt))
        found.set(stmt.dst.buffer, storeCut(program, stmt.via.buffer, storeGroups(program, stmt, warps)));
      if ("body" in stmt) visit(stmt.kind === "role" ? stmt.warps : warps, stmt.body);
    }
  };
  visit(program.launch.threads / 32, program.body);
  const grouped = program.problem.batch.kind === "grouped";
  let at = offset;
  return [...found].map(([global, cut]): ParamSpec => {
    at = Math.ceil(at / MAP_ALIGN) * MAP_ALIGN;
    const map = tensorMapFor(program, global, cut);
    const spec: ParamSpec = {
      kind: "tensorMap",
      name: mapName(global),
      offset: at,
      size: MAP_BYTES,
      tensorMap: grouped ? templateOf(map) : map,
    };
    at += MAP_BYTES;
    return spec;
  });
}

/** Address of an operand's map. */
export const mapAddress = (ctx: Context, global: string): Reg<"u64"> =>
  ctx.crewValue(mapName(global), (code) => {
    const d = ctx.entry.reg("u64", "map");
    code.emitAny(null, "mov.b64", [d, sym(ctx.paramName(mapName(global)))]);
    code.emit(null, "cvta.param.u64", d, d);
    return d;
  });
