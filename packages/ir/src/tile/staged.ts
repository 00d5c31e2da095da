/** Epilogues that pass D through a shared tile: where the tile has what a thread holds, and which thread stores what from there. */
import { modeCoordinate } from "./ownership.ts";
import { eachStmt } from "./rewrite.ts";
import type { Buffer, Epilogue, Ownership, OwnershipMode, TileProgram } from "./types.ts";

/** Whether bulk tensor stores take D from its shared tile. */
export const storesInBulk = (stmt: Epilogue): boolean => stmt.via !== null && stmt.stores === undefined;

/**
 * Where a staged tile has the elements of an owner: of warps side by side each has its columns next to the others', `cols` in all. The same as the owner
 * where it has the accumulator's width or nobody stands beside another; and where warps stand in pieces of columns, whole pieces.
 */
export function stagedOwner(own: Ownership, cols: number): Ownership {
  const at = own.cols.findIndex((f) => f.tier === "warp" && f.extent > 1);
  const beside = own.cols[at];
  const width = extentOf(own.cols);
  if (beside === undefined || width === cols) return own;
  const piece = extentOf(own.cols.slice(at));
  const cut =
    at > 0 && cols % piece === 0
      ? [...innermost(own.cols.slice(0, at), cols / piece), ...own.cols.slice(at)]
      : [beside, ...innermost(own.cols.slice(at + 1), cols / beside.extent)];
  return { rows: own.rows, cols: cut };
}

/** The innermost of factors, as many as make an extent. */
function innermost(factors: readonly OwnershipMode[], extent: number): readonly OwnershipMode[] {
  let left = extent;
  const inner: OwnershipMode[] = [];
  for (const f of [...factors].reverse()) {
    if (left === 1) break;
    const taken = Math.min(f.extent, left);
    inner.unshift({ ...f, extent: taken });
    left /= taken;
  }
  return inner;
}

/** What a warp stores from a staged tile is what it has put there; `thread` and `register` say which lane takes which piece. */
export interface StoreOwners {
  /** Coordinates in the tile, and in the accumulator's part of D (beside those of the pass). */
  readonly tile: Ownership;
  readonly matrix: Ownership;
}

const WARP_LANES = 32;

/**
 * Lanes along the contiguous axis first, as many as a warp's rows (or columns) have pieces of `width` elements, the others below each other. Null where they
 * do not divide the warp's part of a tile of `cols` columns, or where warps have no rectangles.
 */
export function storeOwners(own: Ownership, cols: number, axis: 0 | 1, width: number): StoreOwners | null {
  const [rowWarps, colWarps] = [warpsOf(own.rows), warpsOf(own.cols)];
  if (rowWarps === null || colWarps === null) return null;
  const part = [extentOf(own.rows) / extentOf(rowWarps), cols / extentOf(colWarps)] as const;
  const whole = extentOf(own.cols) / extentOf(colWarps);
  const pieces = part[axis] / width;
  if (!Number.isInteger(pieces) || !Number.isInteger(whole / part[1])) return null;
  let along = 1;
  while (along < WARP_LANES && pieces % (2 * along) === 0) along *= 2;
  const across = WARP_LANES / along;
  const below = part[axis === 0 ? 1 : 0] / across;
  if (!Number.isInteger(below)) return null;
  const inner: readonly OwnershipMode[] = [
    { tier: "register", extent: pieces / along, stride: below },
    { tier: "thread", extent: along, stride: 1 },
    { tier: "atom", extent: width, stride: 1 },
  ];
  const outer: readonly OwnershipMode[] = [
    { tier: "register", extent: below, stride: 1 },
    { tier: "thread", extent: across, stride: along },
  ];
  const [rows, columns] = axis === 0 ? [inner, outer] : [outer, inner];
  return {
    tile: { rows: [...rowWarps, ...rows], cols: [...colWarps, ...columns] },
    matrix: {
      rows: [...rowWarps, ...rows],
      cols: [...colWarps, { tier: "atom", extent: whole / part[1], stride: 1 }, ...columns],
    },
  };
}

/** Warps that stand side by side. */
export const warpColumns = (own: Ownership | null): number =>
  extentOf(own?.cols.filter((f) => f.tier === "warp") ?? []);

/** The factors of warps, which have to be the outermost. */
function warpsOf(factors: readonly OwnershipMode[]): readonly OwnershipMode[] | null {
  const used = factors.filter((f) => f.extent > 1);
  const warps = used.filter((f) => f.tier === "warp");
  return warps.every((f, i) => used[i] === f) ? warps : null;
}

const extentOf = (factors: readonly OwnershipMode[]): number => factors.reduce((n, f) => n * f.extent, 1);

/** First elements of a warp's lanes, as an owner has them. */
export const lanesOf = (own: Ownership): readonly (readonly [row: number, col: number])[] =>
  Array.from({ length: WARP_LANES }, (_, thread) => [
    modeCoordinate(own.rows, { thread }),
    modeCoordinate(own.cols, { thread }),
  ]);

/** Whether the first store of D through each slot of a tile waits for none before: of blocks that begin early and have one tile, where D's has memory of its own. */
export const fillsOnce = (program: TileProgram, via: Pick<Buffer, "aliased">): boolean =>
  program.launch.earlyProducerStart === true &&
  via.aliased !== true &&
  eachStmt(program.body).every((s) => s.kind !== "tiles" || (s.loop === null && s.streamK === undefined));

/** Named barriers of the groups of warps that store: those beside 0, the barrier of all. */
export const STORE_BARRIER = 1;
