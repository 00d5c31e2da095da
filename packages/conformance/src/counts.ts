/** The planner's closed forms beside what a program of stage machine comes to: its work tiles, what its CTAs leave in the workspace, and what a block has of memory. */
import type { Problem, Schedule, Target } from "@tilewright/core";
import {
  type Artifact,
  type Backend,
  blocksOfTile,
  eachStmt,
  inOnePlace,
  launchCounts,
  partialTilesOf,
  type TileProgram,
} from "@tilewright/ir";

/**
 * Bytes of shared memory and columns of tensor memory that legality counts for a block of a legal schedule; bytes null where it counts in other ways. `rounded`: bytes by which it may count too
 * much, since tiles begin where the widest swizzle's pattern does.
 */
export type Footprint = (
  problem: Problem,
  schedule: Schedule,
  target: Target,
) => { readonly shared: number | null; readonly rounded: number; readonly tensor: number };

const tilesOf = ({ body }: TileProgram) => eachStmt(body).find((stmt) => stmt.kind === "tiles");

/** What closed forms say otherwise than the program; sizes that launches supply are no numbers, and gated products and groups are planned as other problems. */
export function countFaults(
  backend: Backend,
  { problem, program, target }: Artifact,
  schedule: Schedule,
  footprint?: Footprint,
): readonly string[] {
  const { machine } = program;
  const tiles = tilesOf(program);
  if (machine?.launches === undefined || tiles?.kind !== "tiles") return [];
  const faults: string[] = [];
  const same = (what: string, planned: unknown, own: unknown): void => {
    if (planned !== own) faults.push(`counts: ${what}: ${planned} planned, ${own} in the program`);
  };
  const within = (what: string, planned: number, own: number, more: number): void => {
    if (planned < own || planned > own + more)
      faults.push(`counts: ${what}: ${planned} planned, ${own} in the program, and ${more} may be too many`);
  };
  const taken = footprint?.(problem, schedule, target) ?? null;
  if (taken !== null) {
    same("columns of tensor memory", taken.tensor, machine.memory.tensor);
    if (taken.shared !== null)
      within("bytes of shared memory", taken.shared, machine.memory.shared, taken.rounded);
  }
  if (
    backend.kernel === undefined ||
    problem.symbolic !== undefined ||
    problem.batch.kind === "grouped" ||
    problem.gated !== undefined
  )
    return faults;
  const kernel = backend.kernel(problem, schedule, target);
  const planned = launchCounts(problem, kernel);
  const problems = problem.batch.kind === "strided" ? problem.batch.count : 1;
  const all = tiles.extents[0] * tiles.extents[1];
  const splits = tiles.split?.extent ?? 1;
  same("work tiles", planned.tiles, all * splits * problems);
  same("CTAs of a work tile", kernel.split, splits);
  const region = (name: string) => machine.launches?.regions.find((each) => each.name === name);
  const bytes = (name: string): number => Number(region(name)?.bytes ?? 0);
  same("bytes of transposed copies", kernel.transposedBytes, bytes("a") + bytes("b"));
  const combine = eachStmt(program.body).find((stmt) => stmt.kind === "reduce");
  if (combine?.kind !== "reduce") {
    same("partial tiles", planned.partials, null);
    return faults;
  }
  const { by } = combine;
  same("reduction", kernel.combine, by);
  const { partials, streams, chunks } = planned;
  if (partials === null) return [...faults, "counts: no partial tiles planned"];
  const behind = machine.launches.kernels.filter(({ role }) => role === "reduce");
  same(
    "kernels that add partial tiles",
    by === "kernel",
    behind.some(({ name }) => name.endsWith("_sum")),
  );
  const stored = region("partials");
  same("partial tiles in the workspace", by !== "cluster", stored !== undefined);
  if (stored === undefined) return faults;
  same("bytes of a partial tile", partials.bytes, stored.stride);
  const pair = blocksOfTile(program);
  if (tiles.streamK === undefined) {
    // A CTA writes its own, and one of each work tile reads them all, or each its slice of all.
    same("partial tiles", partials.handed, all * splits * problems);
    same("partial tiles of a work tile", partials.most, splits);
    const places = inOnePlace(by) ? partials.handed / splits : partials.handed;
    same("bytes of partial tiles", places * pair * partials.bytes, bytes("partials"));
    return faults;
  }
  const { streamK } = tiles;
  const parts = partialTilesOf(streamK, streamK.tiles);
  same("K chunks", chunks, streamK.chunks);
  same("K chunks of a CTA's share", streams?.each, streamK.each);
  same("tiles that are shared", streams?.tiles, streamK.tiles);
  // Where a share's end is a tile's, there is a part less than planned; tiles that are one CTA's alone are in no workspace.
  const handed = parts.filter(({ count }) => count < streamK.chunks).length;
  within("partial tiles of shares", partials.handed, handed * problems, partials.handed);
  const most = Math.max(...parts.map(({ tile }) => parts.filter((part) => part.tile === tile).length));
  within("partial tiles of a shared work tile", partials.most, most, 1);
  return faults;
}
