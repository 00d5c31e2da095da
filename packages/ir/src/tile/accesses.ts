/**
 * The shared-memory accesses of a program as lane coordinates: what the bank oracle, the layout choice and `plan` look at.
 * One pattern per copy and per kind of instruction; the other registers of a thread repeat it at constant offsets.
 */

import { exchangedOf, sizeOf, stepOfBuffer, WARP } from "@tilewright/core";
import { findAtom } from "../atoms/atoms.ts";
import { matrixLoad } from "../atoms/matrixLoad.ts";
import { findTensorKind } from "../atoms/tensorKinds.ts";
import { findWarpgroupAtom } from "../atoms/warpgroup.ts";
import { contiguousIn } from "../layout/layout.ts";
import { elementBytes } from "./elementBytes.ts";
import {
  distributedVector,
  modeCoordinate,
  registerRun,
  registersPerThread,
  vectorsPerThread,
} from "./ownership.ts";
import { bufferOf, eachStmt } from "./rewrite.ts";
import { holdsScales, scaleWordPlace } from "./scaleTiles.ts";
import { lanesOf, stagedOwner, storeOwners, storesInBulk } from "./staged.ts";
import type { Buffer, Copy, Ownership, Stmt, TileProgram } from "./types.ts";

export interface SharedAccess {
  /** Which statement, for people: `%fA <- %sA`. */
  readonly label: string;
  readonly direction: "load" | "store";
  /** Elements that one lane moves with one instruction, along `axis`. */
  readonly vector: number;
  readonly axis: 0 | 1;
  /** Instructions of this kind that a thread runs for one K chunk. */
  readonly count: number;
  /** (row, column) of each lane's first element in warp 0; null where the lane moves nothing. */
  readonly lanes: readonly (readonly [row: number, col: number] | null)[];
}

/** Operand that a shared or fragment buffer feeds: found by following copies into registers up to an `mma`. */
export function operandRole(program: TileProgram, buffer: string): "a" | "b" | null {
  const reached = new Set([buffer]);
  for (let grew = true; grew; ) {
    grew = false;
    for (const stmt of eachStmt(program.body)) {
      if (stmt.kind === "mma") {
        if (reached.has(stmt.a.buffer)) return "a";
        if (reached.has(stmt.b.buffer)) return "b";
      }
      if (stmt.kind === "copy" && reached.has(stmt.src.buffer) && !reached.has(stmt.dst.buffer)) {
        reached.add(stmt.dst.buffer);
        grew = true;
      }
    }
  }
  return null;
}

/** The global matrix whose elements copies bring to a buffer: itself; null where none does. */
export function sourceOf(program: TileProgram, buffer: string): Buffer | null {
  const seen = new Set([buffer]);
  for (const name of seen) {
    const found = bufferOf(program, name);
    if (found.space === "global") return found;
    for (const stmt of eachStmt(program.body))
      if (stmt.kind === "copy" && stmt.dst.buffer === name) seen.add(stmt.src.buffer);
  }
  return null;
}

/** Every distinct pattern in which a warp touches one shared buffer. Copies without ownership or distribution have none yet. */
export function sharedAccesses(program: TileProgram, buffer: string): readonly SharedAccess[] {
  const found = new Map<string, SharedAccess>();
  for (const stmt of eachStmt(program.body)) {
    if (stmt.kind === "epilogue" && stmt.via?.buffer === buffer)
      for (const access of stagedAccesses(program, stmt)) found.set(JSON.stringify(access), access);
    if (stmt.kind !== "copy") continue;
    const access =
      stmt.src.buffer === buffer
        ? fragmentLoad(program, stmt)
        : stmt.dst.buffer === buffer
          ? stagedStore(program, stmt)
          : null;
    if (access) found.set(JSON.stringify(access), access);
  }
  return [...found.values()];
}

function fragmentLoad(program: TileProgram, copy: Copy): SharedAccess | null {
  const fragment = bufferOf(program, copy.dst.buffer);
  if (!fragment.own) return null;
  const { own } = fragment;
  if (copy.transport === "ldmatrix") return matrixAccess(program, copy, own);
  const source = bufferOf(program, copy.src.buffer);
  const at = (row: number, col: number): readonly [number, number] =>
    copy.transport === "factors" ? scaleWordPlace(source, fragment.shape[0], row, col) : [row, col];
  return {
    label: `%${copy.dst.buffer} <- %${copy.src.buffer}`,
    direction: "load",
    vector: copy.vector[0],
    axis: vectorAxis(own),
    count: (registersPerThread(own) / copy.vector[0]) * stepsPerChunk(program, copy),
    lanes: Array.from({ length: WARP }, (_, thread) =>
      at(modeCoordinate(own.rows, { thread }), modeCoordinate(own.cols, { thread })),
    ),
  };
}

/**
 * D on its way through a tile that threads or bulk copies store from: registers, words or elements, into it, and what threads take out of it. Elements of 16 bits may
 * go in as matrices, too, where there is such an instruction.
 */
function stagedAccesses(
  program: TileProgram,
  stmt: Extract<Stmt, { kind: "epilogue" }>,
): readonly SharedAccess[] {
  const { own } = bufferOf(program, stmt.acc.buffer);
  if (own === null || stmt.via === null) return [];
  const tile = bufferOf(program, stmt.via.buffer);
  const axis = contiguousAxis(program, tile.name);
  const cols = tile.shape[1];
  const owners = stmt.stores === undefined ? null : storeOwners(own, cols, axis, stmt.stores);
  if (owners === null && !storesInBulk(stmt)) return [];
  const bytes = sizeOf(tile.dtype);
  const matrix = bytes === 2 ? matrixLoad(own, bytes, axis, 4) : null;
  const vector = axis === 1 ? stmt.vector : 1;
  const into = { label: `%${tile.name} <- %${stmt.acc.buffer}`, direction: "store", axis } as const;
  return [
    {
      ...into,
      vector,
      count: registersPerThread(own) / vector,
      lanes: lanesOf(stagedOwner(own, cols)),
    },
    ...(matrix === null || matrix.count !== 4
      ? []
      : [
          {
            ...into,
            label: `${into.label}, as matrices`,
            vector: 8,
            count: registersPerThread(matrix.address),
            lanes: lanesOf(stagedOwner(matrix.address, cols)),
          },
        ]),
    ...(owners === null || stmt.stores === undefined
      ? []
      : [
          {
            label: `%${stmt.dst.buffer} <- %${tile.name}`,
            direction: "load",
            vector: stmt.stores,
            axis,
            count: registersPerThread(owners.tile),
            lanes: lanesOf(owners.tile),
          } as const,
        ]),
  ];
}

/** Lanes give the addresses of matrix rows; an instruction of fewer than four matrices ignores the upper lanes. */
function matrixAccess(program: TileProgram, copy: Copy, own: Ownership): SharedAccess | null {
  const [row, count] = copy.vector;
  const bytes = elementBytes(bufferOf(program, copy.src.buffer));
  const axis = contiguousAxis(program, copy.src.buffer);
  const load = matrixLoad(own, bytes, axis, count, elementBytes(bufferOf(program, copy.dst.buffer)));
  if (load === null) return null;
  const { address } = load;
  return {
    label: `%${copy.dst.buffer} <- %${copy.src.buffer}`,
    direction: "load",
    vector: row,
    axis,
    count: registersPerThread(address) * stepsPerChunk(program, copy),
    lanes: Array.from({ length: WARP }, (_, thread) =>
      thread < 8 * count
        ? [modeCoordinate(address.rows, { thread }), modeCoordinate(address.cols, { thread })]
        : null,
    ),
  };
}

/**
 * Axis that is contiguous in a shared operand tile. Multiply-adds of threads want the one that fragments run along (m of A, n of B);
 * matrix instructions take either, so the tile keeps the order of global memory and every copy is wide. A tile that has its layout says so itself.
 */
export function contiguousAxis(program: TileProgram, buffer: string): 0 | 1 {
  const shared = program.buffers.find((b) => b.name === buffer);
  if (shared?.space === "shared" && shared.layout !== null) return contiguousIn(shared);
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "epilogue" && stmt.via?.buffer === buffer)
      return bufferOf(program, stmt.dst.buffer).layout?.stride[1] === 1 ? 1 : 0;
  if (holdsScales(program, buffer)) return 1;
  const role = operandRole(program, buffer);
  if (!usesAtom(program)) return role === "a" ? 0 : 1;
  const source = role === null ? null : sourceOf(program, buffer);
  // What threads compute lies row by row; further factors as global memory has them.
  if (role !== null && source === null) return 1;
  const further =
    source !== null && (stepOfBuffer(source.name) !== null || exchangedOf(source.name) !== null);
  if (further) return source.layout?.stride[0] === 1 ? 0 : 1;
  return matrixAxis(program, role === "a" ? "A" : "B");
}

/**
 * Axis along which a matrix of the problem is contiguous in global memory. One element by itself is so along both: there the layout counts that the
 * problem gives it, by which kinds and schedules were judged.
 */
export function matrixAxis(program: TileProgram, name: "A" | "B" | "C"): 0 | 1 {
  const matrix = program.buffers.find((b) => b.space === "global" && b.name === name);
  const { a, b, c } = program.problem;
  if (matrix?.transposed !== true && matrix?.shape.every((extent) => extent === 1))
    return { A: a, B: b, C: c }[name]?.layout === "col" ? 0 : 1;
  return matrix?.layout?.stride[0] === 1 ? 0 : 1;
}

/** Whether a program multiplies by matrix instructions. */
export const usesAtom = (program: TileProgram): boolean => {
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "mma")
      return (
        findAtom(stmt.atom) !== null ||
        findTensorKind(stmt.atom) !== null ||
        findWarpgroupAtom(stmt.atom) !== null
      );
  return false;
};

/** K steps of one chunk: how often a fragment load runs on one slot. */
function stepsPerChunk(program: TileProgram, copy: Copy): number {
  const tile = bufferOf(program, copy.src.buffer);
  return (tile.shape[0] * tile.shape[1]) / (copy.src.extent[0] * copy.src.extent[1]);
}

/** The axis along which a thread's registers of a fragment run: the one with the longer innermost run. */
export const vectorAxis = (own: Ownership): 0 | 1 => (registerRun(own.rows) > registerRun(own.cols) ? 0 : 1);

function stagedStore(program: TileProgram, copy: Copy): SharedAccess | null {
  const { dist } = copy;
  if (!dist) return null;
  const shared: Buffer = bufferOf(program, copy.dst.buffer);
  return {
    label: `%${shared.name} <- %${copy.src.buffer}`,
    direction: "store",
    vector: copy.vector[1],
    axis: dist.fastest,
    count: vectorsPerThread(dist, copy.dst.extent) * (dist.vector / copy.vector[1]),
    lanes: Array.from({ length: WARP }, (_, lane) => distributedVector(dist, copy.dst.extent, lane, [0, 0])),
  };
}
