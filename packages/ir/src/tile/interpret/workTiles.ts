/** Which tiles, or parts of tiles, a loop over tiles visits. */
import { freeVars } from "../expr.ts";
import { blocksOfTile } from "../launches/counts.ts";
import { tileCount } from "../ranges.ts";
import { clusterUnits, eachStmt } from "../rewrite.ts";
import { type PartialTile, partialTilesOf, streamKBlocks } from "../streamK.ts";
import type { Cond, Expr, Stmt, TileProgram, Tiles } from "../types.ts";

/** All tiles; or those that may differ in control flow: the first and, where conditions ask for the tile, the last; or all parts of one. */
export type TileChoice = "all" | "ends" | "one";

/** Parts of tiles that blocks share, in the order of the blocks, and behind them the tiles that are not shared, of which there may be millions: made as they are asked for. */
interface PartialTiles {
  readonly count: number;
  at(index: number): PartialTile | undefined;
}

/** The parts of a loop; null where blocks have tiles, or split them. */
export function partialTilesOfBlocks({ streamK: share, extents }: Tiles): PartialTiles | null {
  if (share === undefined) return null;
  const shared = partialTilesOf(share, share.tiles);
  const count = shared.length + Math.max(0, extents[0] * extents[1] - share.tiles);
  const whole = (index: number): PartialTile => {
    const behind = index - shared.length;
    const cta = streamKBlocks(share) + behind;
    return { tile: share.tiles + behind, first: 0, count: share.chunks, cta };
  };
  return { count, at: (index) => shared[index] ?? (index < count ? whole(index) : undefined) };
}

/** Numbers of the parts of the first tile, or of the first that blocks have in parts. */
function partsOfOne(stmt: Tiles): readonly number[] {
  const parts = partialTilesOfBlocks(stmt);
  if (parts === null) return Array.from({ length: stmt.split?.extent ?? 1 }, (_, i) => i);
  const found: number[] = [];
  while (parts.at(found.length)?.tile === 0) found.push(found.length);
  return found;
}

/** Those of the work tiles that CTAs of a grid have: outside of roles each has its own, whatever their order; of a kernel behind the main one each warp of a tile has a CTA. */
export function launchedOf(
  stmt: Tiles,
  workTiles: readonly number[],
  { program, grid }: { readonly program: TileProgram; readonly grid: readonly number[] | null },
): readonly number[] {
  const [x = Number.NaN, , z = Number.NaN] = grid ?? [];
  const parts = partialTilesOfBlocks(stmt);
  const splits = stmt.split?.extent ?? 1;
  const each = blocksOfTile(program);
  if (stmt.loop !== null) return workTiles;
  return workTiles.filter((index) => {
    const cta = parts?.at(index)?.cta ?? Math.floor(index / splits);
    return !((cta + 1) * each > x || (index % splits) + 1 > z);
  });
}

/** Numbers of the tiles (or parts) that a loop visits, in order. */
export function workTilesOf(stmt: Tiles, program: TileProgram, choice: TileChoice): readonly number[] {
  if (choice === "one") return partsOfOne(stmt);
  const [m, n] = clusterUnits(program.launch);
  const below = (stmt.scheduler?.below ?? Number.POSITIVE_INFINITY) * m * n * (stmt.split?.extent ?? 1);
  const count = partialTilesOfBlocks(stmt)?.count ?? Math.min(tileCount(stmt), below);
  const first = (n: number): number[] => Array.from({ length: Math.min(n, count) }, (_, i) => i);
  if (choice === "all") return first(count);
  const withLast = (list: number[]): number[] => (list.length < count ? [...list, count - 1] : list);
  if (stmt.streamK !== undefined) return first(count);
  if (stmt.loop !== null) return withLast(first(repeatingVisits(program)));
  const vars = stmt.split === null ? stmt.vars : [...stmt.vars, stmt.split.var];
  return controlUses(stmt.body, vars) ? withLast(first(1)) : first(1);
}

/**
 * Visits after which the rings' states repeat: what a ring is in depends on its last `slots` chunks. Tiles of few chunks go through fewer
 * slots of a ring at a visit, and need no more visits than it has slots.
 */
const repeatingVisits = (program: TileProgram): number =>
  Math.max(1, ...program.rings.map((ring) => ring.slots)) + 2;

/** Whether conditions, loop bounds, slots or chunk numbers depend on one of the variables. */
function controlUses(stmts: readonly Stmt[], vars: readonly string[]): boolean {
  const uses = (e: Expr): boolean => vars.some((name) => freeVars(e).has(name));
  const condUses = (c: Cond | null): boolean => c !== null && (uses(c.lhs) || uses(c.rhs));
  for (const stmt of eachStmt(stmts))
    switch (stmt.kind) {
      case "for":
        if ([stmt.from, stmt.to, ...(stmt.within?.bounds ?? [])].some(uses)) return true;
        break;
      case "if":
        if (condUses(stmt.cond)) return true;
        break;
      case "copy":
        if (condUses(stmt.when) || uses(stmt.dst.slot) || uses(stmt.src.slot)) return true;
        break;
      case "acquire":
      case "commit":
      case "wait":
      case "release":
        if (uses(stmt.at)) return true;
        break;
      default:
        break;
    }
  return false;
}
