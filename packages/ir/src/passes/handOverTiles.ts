/** Shared tiles outside rings that element statements compute and products read: threads meet in between, and loops know which part a turn reads. */
import { ELEMENT_BARRIER } from "../tile/elements.ts";
import { freeVars } from "../tile/expr.ts";
import { bufferOf, eachStmt, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** Barrier of all threads of a block. */
const BLOCK_BARRIER = 0;

const isHandedOver = (program: TileProgram, stmt: Stmt): stmt is Extract<Stmt, { kind: "map" }> =>
  stmt.kind === "map" && bufferOf(program, stmt.dst.buffer).space === "shared";

/** Barriers behind every `map` into a shared tile, and, in roles, which may take more than one work tile, in front of it, behind the reads of the last one. */
export function syncAtTiles(program: TileProgram): TileProgram {
  if (!eachStmt(program.body).some((stmt) => isHandedOver(program, stmt))) return program;
  const meet = (stmts: readonly Stmt[], around: readonly Stmt[], behind: readonly Stmt[]): readonly Stmt[] =>
    stmts.flatMap((stmt): readonly Stmt[] => {
      if (isHandedOver(program, stmt)) return [...around, stmt, ...behind];
      if (!("body" in stmt)) return [stmt];
      if (stmt.kind !== "role") return [{ ...stmt, body: meet(stmt.body, around, behind) }];
      const barrier: Stmt = { kind: "barrier", id: ELEMENT_BARRIER };
      return [{ ...stmt, body: meet(stmt.body, [barrier], [barrier]) }];
    });
  return withBody(program, meet(program.body, [], [{ kind: "barrier", id: BLOCK_BARRIER }]));
}

/** Loops that read parts of such a tile are unrolled: where a part lies is a constant. */
export const handOverTiles: Pass = {
  name: "handOverTiles",
  summary: "Loops over parts of a tile that statements compute are unrolled",
  from: "specialised",
  to: "specialised",
  run(program) {
    const all = eachStmt(program.body);
    const mapped = new Set(all.flatMap((stmt) => (stmt.kind === "map" ? [stmt.dst.buffer] : [])));
    const factors = all.flatMap((stmt) => (stmt.kind === "mma" ? [stmt.a.buffer] : []));
    const copied = all.flatMap((stmt) => (stmt.kind === "copy" ? [stmt.src.buffer] : []));
    const tiles = new Set([...factors, ...copied].filter((name) => mapped.has(name)));
    if (tiles.size === 0) return program;
    const loops = new Set(all.flatMap((s) => (s.kind === "for" ? [s.var] : [])));
    return withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "for" && (readsParts(stmt, tiles) || countsOn(stmt, loops))
          ? { ...stmt, unroll: true }
          : stmt,
      ),
    );
  },
};

/** Whether a loop counts chunks on from those of a loop around it. */
const countsOn = (loop: Extract<Stmt, { kind: "for" }>, loops: ReadonlySet<string>): boolean =>
  loop.body.some((stmt) => {
    const names = "at" in stmt ? [...freeVars(stmt.at)] : [];
    return names.includes(loop.var) && names.some((name) => name !== loop.var && loops.has(name));
  });

/** Whether the turns of a loop read parts of a tile. */
const readsParts = (loop: Extract<Stmt, { kind: "for" }>, tiles: ReadonlySet<string>): boolean =>
  eachStmt(loop.body)
    .flatMap((stmt): readonly View[] =>
      stmt.kind === "copy" ? [stmt.src] : stmt.kind === "mma" ? [stmt.a] : [],
    )
    .some(({ buffer, origin }) => tiles.has(buffer) && origin.some((e) => freeVars(e).has(loop.var)));
