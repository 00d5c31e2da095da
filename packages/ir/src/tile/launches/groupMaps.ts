/**
 * Tensor maps of a grouped problem, which CTAs make in the workspace: where they lie, and in how many places each turns round.
 *
 * A place is written again so many groups later that no copy through its old map is still under way: between two maps in a place lie as many groups as the ring has slots, each with
 * a chunk at least (those without have no map of A and B), and the first of those chunks is acquired behind the release of the last one that was copied through the old map.
 *
 * Each group of threads that stores by itself has two places for maps of D, which its one storing thread writes by turns. Between two maps in a place lies another group, with a
 * store at least: when all but the last of the thread's stores have been read, those through the old map have.
 */
import type { LaunchExpr } from "@tilewright/core";
import { hasOneMap } from "../../launch/tensor-copies.ts";
import { contiguousIn } from "../../layout/layout.ts";
import { bufferOf } from "../rewrite.ts";
import type { GroupMaps, Stmt, TileProgram } from "../types.ts";
import { clusterSize, times } from "./counts.ts";
import {
  type BulkAccess,
  bulkAccesses,
  bulkAccessesOf,
  bulkStore,
  type Copy,
  MAP_BYTES,
} from "./tensorMaps.ts";
import type { Unplaced } from "./workspace.ts";

/** Places of a group of threads for maps of D. */
const STORE_SLOTS = 2;

/** Places of a CTA for maps of A and B: one more than the ring has slots that the copies go into. */
function copySlots(program: TileProgram, copies: readonly Copy[]): number {
  const tiles = new Set(copies.map((copy) => copy.dst.buffer));
  return (
    1 + Math.max(0, ...program.rings.filter((r) => r.buffers.some((b) => tiles.has(b))).map((r) => r.slots))
  );
}

/** The first bulk copy of each matrix whose map a group has its own of. */
function copiesByMatrix({ problem }: TileProgram, accesses: readonly BulkAccess[]): readonly Copy[] {
  const found = new Map<string, Copy>();
  for (const { stmt } of accesses)
    if (stmt.kind === "copy" && !hasOneMap(problem, stmt.src.buffer) && !found.has(stmt.src.buffer))
      found.set(stmt.src.buffer, stmt);
  return [...found.values()];
}

const storeOf = (program: TileProgram, accesses: readonly BulkAccess[]) =>
  accesses.flatMap(({ stmt, warps }) =>
    stmt.kind === "epilogue" && !hasOneMap(program.problem, stmt.dst.buffer)
      ? [{ dst: stmt.dst.buffer, ...bulkStore(program, stmt, warps) }]
      : [],
  )[0];

/** Bytes of the workspace that the maps of a CTA of a grouped problem take, those of its copies first; 0 where the launch makes all maps. */
function bytesOfBlock(program: TileProgram): { readonly copies: number; readonly stores: number } {
  if (program.problem.batch.kind !== "grouped") return { copies: 0, stores: 0 };
  const accesses = bulkAccessesOf(program);
  const copies = copiesByMatrix(program, accesses);
  const groups = storeOf(program, accesses)?.groups;
  return {
    copies: copies.length === 0 ? 0 : copySlots(program, copies) * copies.length * MAP_BYTES,
    stores: groups === undefined ? 0 : groups.m * groups.n * STORE_SLOTS * MAP_BYTES,
  };
}

/** Where the maps of all CTAs lie; nothing where the launch makes them. */
export function mapRegion(program: TileProgram): readonly Unplaced[] {
  const { copies, stores } = bytesOfBlock(program);
  const stride = copies + stores;
  const size = clusterSize(program);
  // A grid of persistent CTAs has no more of them than there are SMs, but a cluster at least.
  const ctas: LaunchExpr = size === 1 ? "numSms" : ["max", "numSms", size];
  return stride === 0 ? [] : [{ name: "maps", stride, bytes: times(ctas, stride) }];
}

/** The maps that a loop over work tiles makes, whose body so many warps run; none but of grouped problems. */
export function groupMapsOf(
  program: TileProgram,
  body: readonly Stmt[],
  warps: number,
): readonly GroupMaps[] {
  if (program.problem.batch.kind !== "grouped") return [];
  const accesses = bulkAccesses(body, warps);
  const { copies: copyBytes, stores } = bytesOfBlock(program);
  const every = copyBytes + stores;
  const copies = copiesByMatrix(program, accesses);
  const store = storeOf(program, accesses);
  const made: GroupMaps[] = [];
  if (copies.length > 0) {
    const maps = copies.map((copy) => ({
      buffer: copy.src.buffer,
      contiguous: contiguousIn(bufferOf(program, copy.dst.buffer)),
    }));
    made.push({ kind: "tensormap.make", maps, slots: copySlots(program, copies), offset: 0, every });
  }
  if (store !== undefined) {
    const { m, n } = store.groups;
    const maps = [{ buffer: store.dst, contiguous: store.cut.contiguous }];
    made.push({
      kind: "tensormap.make",
      maps,
      slots: STORE_SLOTS,
      offset: copyBytes,
      every,
      groups: [m, n],
    });
  }
  return made;
}
