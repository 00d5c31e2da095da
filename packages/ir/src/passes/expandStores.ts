/** How D goes through its shared tile, as statements: waits for slots, threads that meet, fences, stores and their groups. */
import { takesColumn } from "../tile/columns.ts";
import { add, mod } from "../tile/expr.ts";
import { bulkStoreOf } from "../tile/launches/tensorMaps.ts";
import { bufferOf, childrenOf, withBody } from "../tile/rewrite.ts";
import { fillsOnce, STORE_BARRIER, warpColumns } from "../tile/staged.ts";
import type { Columns, Epilogue, Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

export const expandStores: Pass = {
  name: "expandStores",
  summary: "Epilogues through a shared tile wait, meet, fence, store and commit by statements",
  from: "machine",
  to: "machine",
  // Nothing has its place yet.
  unfinished: true,
  run: (program) =>
    withBody(program, expanded(program, program.body, { warps: program.launch.threads / 32, turn: 0 })),
};

/** Warps of the role around, and its place among those that take work tiles in turn. */
interface Within {
  readonly warps: number;
  readonly turn: number;
}

function expanded(program: TileProgram, stmts: readonly Stmt[], within: Within): readonly Stmt[] {
  return stmts.map((stmt): Stmt => {
    if (stmt.kind === "epilogue") {
      if (stmt.via === null) return stmt;
      const by = stmt.stores === undefined ? inBulk : byWarps;
      return { ...stmt, body: by(program, stmt, stmt.via, within) };
    }
    const inside: Within =
      stmt.kind === "role"
        ? { ...within, warps: stmt.warps }
        : stmt.kind === "tiles"
          ? { ...within, turn: stmt.loop?.turn ?? 0 }
          : within;
    const body = childrenOf(stmt);
    return body.length === 0 ? stmt : ({ ...stmt, body: expanded(program, body, inside) } as Stmt);
  });
}

/** Some columns at a time, by turns through the tile's slots: one is filled while others are stored. */
function inBulk(program: TileProgram, stmt: Epilogue, via: View, { warps, turn }: Within): readonly Stmt[] {
  const store = bulkStoreOf(program, stmt, warps);
  // What the layouts do not allow `bulkTiles` refuses.
  if (typeof store === "string") return [];
  const { groups } = store;
  const tile = bufferOf(program, via.buffer);
  const count = groups.m * groups.n;
  // Columns of a group in the tile, and in the accumulator.
  const [cols, width] = [tile.shape[1] / groups.n, stmt.acc.extent[1] / groups.n];
  // Roles that take work tiles in turn have barriers of their own.
  const meet: Stmt = {
    kind: "barrier",
    id: STORE_BARRIER + turn * count,
    threads: (warps * 32) / count,
    groups: count,
  };
  const fresh = fillsOnce(program, tile) ? tile.slots : 0;
  return passes(stmt, cols, width, (columns, pass) => {
    const slot: View = { ...via, slot: mod(add(via.slot, pass), tile.slots) };
    return [
      // The slot's last contents have been read.
      ...(pass < fresh ? [] : [{ kind: "bulk.wait", pending: tile.slots - 1 } as const, meet]),
      { kind: "stage", via: slot, columns },
      { kind: "fence", what: "async" },
      meet,
      { kind: "bulk.store", via: slot, columns },
      { kind: "bulk.commit" },
    ];
  });
}

/** Each warp puts some of its columns into the tile and stores them itself, from one slot; all meet where the tile lies on what others may still read. */
function byWarps(program: TileProgram, stmt: Epilogue, via: View, { warps }: Within): readonly Stmt[] {
  const tile = bufferOf(program, via.buffer);
  const beside = warpColumns(bufferOf(program, stmt.acc.buffer).own);
  const id = 32 * warps === program.launch.threads ? 0 : STORE_BARRIER;
  return passes(stmt, tile.shape[1] / beside, stmt.acc.extent[1] / beside, (columns, pass) => [
    pass === 0 && tile.aliased === true ? { kind: "barrier", id } : { kind: "warp.sync" },
    { kind: "stage", via, columns },
    { kind: "warp.sync" },
    { kind: "warp.store", via, columns },
  ]);
}

/** The statements for each `cols` of the `width` columns of a group of warps that the epilogue takes. */
function passes(
  stmt: Epilogue,
  cols: number,
  width: number,
  make: (columns: Columns, pass: number) => readonly Stmt[],
): readonly Stmt[] {
  return Array.from({ length: width / cols }, (_, pass) => {
    const columns = { from: pass * cols, to: (pass + 1) * cols, of: width };
    return takesColumn(stmt.columns, columns.from) ? make(columns, pass) : [];
  }).flat();
}
