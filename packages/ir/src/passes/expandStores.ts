/** How D goes through its shared tile by bulk stores, as statements: waits for slots, threads that meet, fences, stores and their groups. */
import { takesColumn } from "../tile/columns.ts";
import { add, mod } from "../tile/expr.ts";
import { bulkStoreOf } from "../tile/launches/tensorMaps.ts";
import { bufferOf, childrenOf, withBody } from "../tile/rewrite.ts";
import { fillsOnce, STORE_BARRIER, storesInBulk } from "../tile/staged.ts";
import type { Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

type Epilogue = Extract<Stmt, { readonly kind: "epilogue" }>;

export const expandStores: Pass = {
  name: "expandStores",
  summary: "Epilogues by bulk stores wait, meet, fence, store and commit by statements",
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
    if (stmt.kind === "epilogue") return storesInBulk(stmt) ? staged(program, stmt, stmt.via, within) : stmt;
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
function staged(program: TileProgram, stmt: Epilogue, via: View | null, { warps, turn }: Within): Epilogue {
  const store = bulkStoreOf(program, stmt, warps);
  // What the layouts do not allow `bulkTiles` refuses.
  if (via === null || typeof store === "string") return stmt;
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
  const body = Array.from({ length: width / cols }, (_, pass): readonly Stmt[] => {
    const columns = { from: pass * cols, to: (pass + 1) * cols, of: width };
    if (!takesColumn(stmt.columns, columns.from)) return [];
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
  }).flat();
  return { ...stmt, body };
}
