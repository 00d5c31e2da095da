/** Blocks that share a tile's K loop and meet in a cluster: how many, what each adds up, and what that takes of shared memory. */
import { elementBytes } from "./elementBytes.ts";
import { bufferOf, eachStmt } from "./rewrite.ts";
import type { Split, Stmt, TileProgram, View } from "./types.ts";

export interface DsmemReduction {
  readonly combine: Extract<Stmt, { kind: "reduce" }>;
  /** Its blocks are the cluster, along the grid's third axis: the split's number is the rank. */
  readonly split: Split;
  /** Blocks that add up and store, the first ones: each has a slice of the rows (0) or columns (1). */
  readonly slices: number;
  readonly axis: 0 | 1;
  readonly slice: View;
}

/** The meeting of a program; null where blocks have tiles of their own, or meet through memory. */
export function dsmemReduction({ body }: Pick<TileProgram, "body">): DsmemReduction | null {
  let split: Split | null = null;
  for (const stmt of eachStmt(body)) {
    if (stmt.kind === "tiles") ({ split } = stmt);
    if (stmt.kind !== "reduce" || stmt.by !== "cluster" || stmt.into === null || split === null) continue;
    const axis = stmt.into.extent[0] < stmt.acc.extent[0] ? 0 : 1;
    const slices = Math.max(1, Math.floor(stmt.acc.extent[axis] / stmt.into.extent[axis]));
    return { combine: stmt, split, slices, axis, slice: stmt.into };
  }
  return null;
}

/** Slices of a tile of `units` equal groups of rows or columns among `blocks`: as many as divide it; one where `units` is no whole number. */
export function slicesOf(units: number, blocks: number): number {
  let slices = Math.max(1, Math.min(units, blocks));
  while (slices > 1 && units % slices !== 0) slices--;
  return slices;
}

/** Bytes of shared memory through which a warp's sums go that bulk copies add to memory, and its slots, which take turns. */
export const REDUCTION_ROOM = 2048;
export const REDUCTION_SLOTS = 2;

/** Threads that hold the accumulators which meet: those of the role around the combine, or of the block. */
export function reducingThreads(program: TileProgram): number {
  for (const stmt of eachStmt(program.body))
    if (stmt.kind === "role")
      for (const inner of eachStmt(stmt.body)) if (inner.kind === "reduce") return stmt.warps * 32;
  return program.launch.threads;
}

/** Bytes of shared memory through which the parts of a tile go to bulk copies that add them; 0 where none do. */
export function reductionBytes(program: TileProgram): number {
  const reduces = eachStmt(program.body).some((stmt) => stmt.kind === "reduce" && stmt.by === "bulk");
  return reduces ? (reducingThreads(program) / 32) * REDUCTION_ROOM : 0;
}

/** Slices that a block of a cluster has room for: of two blocks the other's, as sums of two have one order, so that the own stays in registers; else of each, in the order of their additions. */
export const slicesHeld = (blocks: number): number => (blocks === 2 ? 1 : blocks);

/** Bytes of shared memory where a block's slices arrive. */
export function dsmemReductionBytes(program: TileProgram): number {
  const meeting = dsmemReduction(program);
  if (meeting === null) return 0;
  const [rows, columns] = meeting.slice.extent;
  return (
    slicesHeld(meeting.split.extent) * rows * columns * elementBytes(bufferOf(program, meeting.slice.buffer))
  );
}

/** How a `reduce` goes from one CTA's tiles to the next one's, where that is no sum. */
export const mergeOf = ({
  body,
}: Extract<Stmt, { kind: "reduce" }>): Extract<Stmt, { kind: "merge" }> | null =>
  eachStmt(body).find((stmt) => stmt.kind === "merge") ?? null;

/** What a `reduce` does with the sum, wherever that stands in it: its body, from stage machine on without the reduction in front, and without what is there for ptxas. */
export const withSum = ({ body }: Extract<Stmt, { kind: "reduce" }>): readonly Stmt[] =>
  body
    .flatMap((stmt) => (stmt.kind === "slices" ? stmt.body : [stmt]))
    .filter(({ kind }) => kind !== "reduction" && kind !== "pin");
