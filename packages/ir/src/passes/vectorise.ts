/** Widen copies and stores to vectors wherever sizes, leading dimensions, alignment and ownership allow. */
import { sizeOf } from "@tilewright/core";
import { contiguousAxis, vectorAxis } from "../tile/accesses.ts";
import { elementBytes } from "../tile/elementBytes.ts";
import { isMultiple } from "../tile/expr.ts";
import { distribute, registerRun } from "../tile/ownership.ts";
import { bufferOf, directed, rewriteStmts, withBody } from "../tile/rewrite.ts";
import { extentMultiple, strideMultiple } from "../tile/sizes.ts";
import { storeOwners } from "../tile/staged.ts";
import type { Buffer, Copy, Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** The widest access of one thread: 16 bytes (PTX ISA, ld.v4.b32). */
const MAX_ACCESS_BYTES = 16;

/**
 * Directive `vector copy=W store=W`: most elements of one access, for copies and for the epilogue's stores; absent means 1.
 * A copy whose two sides are contiguous along different axes is wide on the global side only; cp.async needs both. Where its tile is laid out already, as few threads as fill a sector
 * stand side by side: the others store to further columns of the same rows, and so to other banks (tf32, 128x256x32: 4 of them at once instead of 16).
 */
export const vectorise: Pass = {
  name: "vectorise",
  summary: "Copies and stores move vectors where alignment allows",
  from: "specialised",
  to: "specialised",
  run: directed("vector", (program, { store, copy }) => {
    const limits = { copy: copy, store: store };
    return withBody(
      program,
      rewriteStmts(program.body, (stmt) => widen(program, stmt, limits)),
    );
  }),
};

function widen(program: TileProgram, stmt: Stmt, limits: { copy: number; store: number }): Stmt {
  switch (stmt.kind) {
    case "copy":
      return stmt.dist ? widenStaged(program, stmt, limits.copy) : widenFragment(program, stmt, limits.copy);
    case "epilogue":
      return stmt.stores === undefined
        ? { ...stmt, vector: epilogueWidth(program, stmt, limits.store) }
        : { ...stmt, vector: stagedWidth(program, stmt), stores: piecesWidth(program, stmt, limits.store) };
    default:
      return stmt;
  }
}

function widenStaged(program: TileProgram, copy: Copy, limit: number): Copy {
  if (!copy.dist) return copy;
  const { fastest } = copy.dist;
  const src = bufferOf(program, copy.src.buffer);
  const dst = bufferOf(program, copy.dst.buffer);
  // The second half of a split copy takes the width of the first, so that both see the same registers.
  const global = src.space === "global" ? copy.src : fillOf(program, src.name);
  if (!global) return copy;
  const width = widths(limit, elementBytes(src)).find(
    (w) =>
      copy.dst.extent[fastest] % w === 0 &&
      aligned(program, bufferOf(program, global.buffer), global, fastest, w),
  );
  if (width === undefined) return copy;
  const sharedWide = dst.space !== "shared" || contiguousAxis(program, dst.name) === fastest;
  if (copy.transport === "cp.async" && !sharedWide) return copy;
  const store = sharedWide ? Math.min(width, MAX_ACCESS_BYTES / elementBytes(dst)) : 1;
  return {
    ...copy,
    dist: distribute(
      copy.dist.threads,
      copy.dst.extent,
      fastest,
      width,
      elementBytes(dst),
      sharedWide || dst.layout === null ? 1 : Number.POSITIVE_INFINITY,
    ),
    vector: src.space === "global" ? [width, store] : [store, store],
  };
}

/** The global view that fills a staging register tile. */
function fillOf(program: TileProgram, registers: string): View | null {
  let found: View | null = null;
  rewriteStmts(program.body, (stmt) => {
    if (stmt.kind === "copy" && stmt.dst.buffer === registers) found ??= stmt.src;
    return stmt;
  });
  return found;
}

function widenFragment(program: TileProgram, copy: Copy, limit: number): Copy {
  const { own } = bufferOf(program, copy.dst.buffer);
  const src = bufferOf(program, copy.src.buffer);
  if (!own || ["ldmatrix", "factors", "tcgen05.ld", "tcgen05.st"].includes(copy.transport)) return copy;
  const axis = vectorAxis(own);
  const run = registerRun(axis === 0 ? own.rows : own.cols);
  const width = widths(limit, elementBytes(src)).find(
    (w) =>
      run % w === 0 &&
      (src.space === "shared"
        ? contiguousAxis(program, src.name) === axis
        : aligned(program, src, copy.src, axis, w)),
  );
  return width === undefined ? copy : { ...copy, vector: [width, width] };
}

function epilogueWidth(
  program: TileProgram,
  stmt: Extract<Stmt, { kind: "epilogue" }>,
  limit: number,
): number {
  const { own } = bufferOf(program, stmt.acc.buffer);
  const views = stmt.c ? [stmt.dst, stmt.c] : [stmt.dst];
  if (!own) return 1;
  const run = registerRun(own.cols);
  // A shared tile on the way may have fewer columns than the run that a thread has of all.
  const columns = stmt.via === null ? run : bufferOf(program, stmt.via.buffer).shape[1];
  const fits = (w: number): boolean =>
    run % w === 0 &&
    columns % w === 0 &&
    views.every((view) => aligned(program, bufferOf(program, view.buffer), view, 1, w));
  const widest = Math.max(...views.map((view) => sizeOf(bufferOf(program, view.buffer).dtype)));
  return widths(limit, widest).find(fits) ?? 1;
}

/** Into a shared tile whole words go where nothing of C or of the steps is read beside them that may be outside. */
function stagedWidth(program: TileProgram, stmt: Extract<Stmt, { kind: "epilogue" }>): number {
  const { own } = bufferOf(program, stmt.acc.buffer);
  const dst = bufferOf(program, stmt.dst.buffer);
  if (own === null || stmt.via === null || contiguousAxis(program, stmt.via.buffer) === 0) return 1;
  const run = registerRun(own.cols);
  const whole = (w: number): boolean =>
    (stmt.c === null && stmt.steps.length === 0) || extentMultiple(program.problem, dst, 1) % w === 0;
  const { c } = stmt;
  const fits = (w: number): boolean =>
    run % w === 0 &&
    whole(w) &&
    isMultiple(stmt.dst.origin[1], w) &&
    (c === null || aligned(program, bufferOf(program, c.buffer), c, 1, w));
  const widest = Math.max(sizeOf(dst.dtype), c === null ? 0 : sizeOf(bufferOf(program, c.buffer).dtype));
  return widths(run, widest).find(fits) ?? 1;
}

/** Out of it, along D's contiguous axis, pieces as wide as D's alignment and the lanes of a warp allow. */
function piecesWidth(program: TileProgram, stmt: Extract<Stmt, { kind: "epilogue" }>, limit: number): number {
  const { own } = bufferOf(program, stmt.acc.buffer);
  if (own === null || stmt.via === null) return 1;
  const dst = bufferOf(program, stmt.dst.buffer);
  const cols = bufferOf(program, stmt.via.buffer).shape[1];
  const axis = contiguousAxis(program, stmt.via.buffer);
  const fits = (w: number): boolean =>
    aligned(program, dst, stmt.dst, axis, w) && storeOwners(own, cols, axis, w) !== null;
  return widths(limit, sizeOf(dst.dtype)).find(fits) ?? 1;
}

/** Candidate widths in elements, widest first, from the limit and 16 bytes down to 1. */
function widths(limit: number, bytes: number): readonly number[] {
  const most = Math.min(limit, MAX_ACCESS_BYTES / bytes);
  return [32, 16, 8, 4, 2, 1].filter((w) => w <= most);
}

/** Whether vectors of `w` elements along `axis` of a global view are contiguous, aligned, and never straddle the matrix's edge, in any launch. */
function aligned({ problem }: TileProgram, buffer: Buffer, view: View, axis: 0 | 1, w: number): boolean {
  const { layout } = buffer;
  if (w === 1) return true;
  if (layout?.stride[axis] !== 1) return false;
  const other = strideMultiple(problem, buffer, axis === 0 ? 1 : 0);
  return (
    other % w === 0 &&
    extentMultiple(problem, buffer, axis) % w === 0 &&
    buffer.align % (w * elementBytes(buffer)) === 0 &&
    isMultiple(view.origin[axis], w)
  );
}
