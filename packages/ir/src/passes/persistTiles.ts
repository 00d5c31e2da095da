/** Let blocks stay and loop over tiles, so that the copies of the next tile run during the epilogue of this one. */
import { add, freeVars, mod, mul, v } from "../tile/expr.ts";
import { childrenOf, eachStmt, rewriteStmts, takeDirective, withBody } from "../tile/rewrite.ts";
import type { Expr, Ring, Role, Stmt, TileLoop, Tiles, View } from "../tile/types.ts";
import { withViews } from "../tile/views.ts";
import type { Pass } from "./pass.ts";

/** Name of the variable that counts a block's tiles. */
const VISIT = "vt";
/** Name of the variable that counts the parts of a block's share, and the whole tiles behind them. */
const PARTS = "pt";

/**
 * Directive `persistent by=stride|zigzag batch=N`: `tiles { roles }` becomes a loop over tiles in each role. Rings are not emptied between tiles, so that chunk t of the
 * tile visited as number v is chunk v * chunks + t of the ring; where blocks have shares, or the launch says how many chunks there are, chunk t of a part comes behind
 * those of the parts before, and rings with one chunk a tile have one a part. `batch`: of a strided batch the tiles of all problems are one list, N problems at a time. Without the directive, or without roles, every tile has a block of its own.
 */
export const persistTiles: Pass = {
  name: "persistTiles",
  summary: "Blocks stay and loop over tiles in each role; ring chunks are numbered through",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "persistent");
    const { by = "none", batch = 0 } = taken?.args ?? {};
    if (taken === null || by === "none") return taken?.program ?? program;
    return withBody(
      taken.program,
      taken.program.body.flatMap((stmt) =>
        stmt.kind === "tiles"
          ? inRoles(stmt, { by, ...(batch > 0 ? { batch } : {}) }, taken.program.rings)
          : [stmt],
      ),
    );
  },
};

function inRoles(
  tiles: Tiles,
  order: Pick<TileLoop, "batch"> & { readonly by: "stride" | "zigzag" },
  rings: readonly Ring[],
): readonly Stmt[] {
  const roles = tiles.body.filter((s): s is Role => s.kind === "role");
  if (roles.length === 0 || roles.length !== tiles.body.length) return [tiles];
  const chunks = chunksAtLaunch(tiles.body);
  const uneven = tiles.streamK !== undefined || chunks !== null;
  // All roles bind the same variables, whichever of them ask for the number of the part.
  const looped = loopedRings(tiles.body);
  const counted = uneven && rings.some(({ name }) => !looped.has(name));
  return roles.map((role): Role => {
    const loop: TileLoop = {
      var: VISIT,
      ...order,
      ...(tiles.streamK === undefined ? {} : { by: "streamk" }),
      ...(counted ? { tiles: PARTS } : {}),
      ...(chunks === null ? {} : { chunks }),
      turn: 0,
      of: 1,
    };
    const body = numberThrough(role.body, rings, uneven ? looped : null);
    return { ...role, body: [{ ...tiles, loop, body }] };
  });
}

/** The end of the loops over chunks, where the launch supplies what is in it; null where it is known. */
function chunksAtLaunch(stmts: readonly Stmt[]): Expr | null {
  for (const stmt of eachStmt(stmts)) {
    if (stmt.kind !== "for" || stmt.to.kind === "const" || stmt.to.kind === "var") continue;
    for (const inner of eachStmt(stmt.body))
      if ("at" in inner && freeVars(inner.at).has(stmt.var)) return stmt.to;
  }
  return null;
}

/**
 * Chunks of each ring at a visit: where the loops that name them end (passes make these bounds constants), of loops in loops the product; one where no loop does.
 */
function chunksOf(stmts: readonly Stmt[]): ReadonlyMap<string, number> {
  const chunks = new Map<string, number>();
  const walk = (list: readonly Stmt[], loops: readonly (readonly [name: string, end: number])[]): void => {
    for (const stmt of list) {
      if ("at" in stmt) {
        const names = freeVars(stmt.at);
        const count = loops.reduce((all, [name, end]) => (names.has(name) ? all * end : all), 1);
        chunks.set(stmt.ring, Math.max(count, chunks.get(stmt.ring) ?? 1));
      }
      const counts = stmt.kind === "for" && stmt.to.kind === "const";
      walk(childrenOf(stmt), counts ? [...loops, [stmt.var, stmt.to.value]] : loops);
    }
  };
  walk(stmts, []);
  return chunks;
}

/** Rings whose chunks a loop counts; of others a visit has one. */
function loopedRings(stmts: readonly Stmt[]): ReadonlySet<string> {
  const looped = new Set<string>();
  for (const stmt of eachStmt(stmts))
    if (stmt.kind === "for")
      for (const inner of eachStmt(stmt.body))
        if ("at" in inner && freeVars(inner.at).has(stmt.var)) looped.add(inner.ring);
  return looped;
}

/** `looped`: of shares and of sizes at launch, whose visits have different numbers of chunks in these rings: their variable counts the chunks before, another the visits. */
function numberThrough(
  body: readonly Stmt[],
  rings: readonly Ring[],
  looped: ReadonlySet<string> | null,
): readonly Stmt[] {
  const chunks = chunksOf(body);
  const offset = (ring: string): Expr =>
    looped === null ? mul(v(VISIT), chunks.get(ring) ?? 1) : v(looped.has(ring) ? VISIT : PARTS);
  const ringOf = new Map(rings.flatMap((ring) => ring.buffers.map((b) => [b, ring] as const)));
  const inView = (view: View): View => {
    const ring = ringOf.get(view.buffer);
    if (ring === undefined) return view;
    // A slot that is a constant is that of the chunk of its number, or of one that many slots on.
    const at = view.slot.kind === "mod" ? view.slot.lhs : view.slot;
    return { ...view, slot: mod(add(offset(ring.name), at), ring.slots) };
  };
  return rewriteStmts(body, (stmt): Stmt => {
    switch (stmt.kind) {
      case "acquire":
      case "commit":
      case "wait":
      case "release":
        return { ...stmt, at: add(offset(stmt.ring), stmt.at) };
      case "copy":
      case "mma":
      case "map":
      case "reduce.row":
        return withViews(stmt, inView);
      default:
        return stmt;
    }
  });
}
