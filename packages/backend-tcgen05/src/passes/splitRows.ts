/** Groups of a tile's rows that take turns: each has sums, factors and threads of its own, and multiplies the same columns. */
import { mapLeaves, WARP } from "@tilewright/core";
import {
  add,
  type Buffer,
  bufferOf,
  directed,
  eachStmt,
  isElementStmt,
  lit,
  type Pass,
  type Stmt,
  type TileProgram,
  type View,
  viewsOf,
  withBody,
  withViews,
} from "@tilewright/ir";
import { EPILOGUE_WARPS } from "./specialiseEngines.ts";

/**
 * Directive `splitRows groups=G`: of products that follow each other every tile that threads compute with, or products add to, becomes G tiles, one for each group of as many rows, and
 * every statement on them is there once for each group. Operands that are copied come once: in a loop over chunks the products of all groups multiply a chunk. Off: one group, as of a program with one product.
 */
export const splitRows: Pass = {
  name: "splitRows",
  summary: "Groups of rows get tiles and statements of their own",
  from: "staged",
  to: "staged",
  run: directed("splitRows", (program, { groups }) => {
    const rows = rowsOf(program);
    if (groups === 1 || rows === null || rows % groups !== 0) return program;
    const threads = program.launch.threads + (groups - 1) * EPILOGUE_WARPS * WARP;
    const each = rows / groups;
    const own = ownTiles(program, rows);
    const namesOf = (group: number): ReadonlyMap<string, string> =>
      new Map([...own].map((name) => [name, group === 0 ? name : `${name}_${group}`]));
    const all = Array.from({ length: groups }, (_, group) => moverOf(namesOf(group), rows, each, group));
    const split = (stmts: readonly Stmt[]): readonly Stmt[] =>
      stmts.flatMap((stmt): readonly Stmt[] => {
        if ("body" in stmt && stmt.kind !== "epilogue" && stmt.kind !== "vote")
          return [{ ...stmt, body: split(stmt.body) }];
        const owned =
          stmt.kind === "mma" ? own.has(stmt.acc.buffer) : eachStmt([stmt]).some((s) => uses(s, own));
        return owned ? all.map((moved) => moved(stmt)) : [stmt];
      });
    return {
      ...withBody(program, split(program.body)),
      launch: { ...program.launch, threads },
      buffers: program.buffers.flatMap((buffer): readonly Buffer[] =>
        own.has(buffer.name)
          ? Array.from({ length: groups }, (_, group) => ({
              ...buffer,
              name: namesOf(group).get(buffer.name) ?? buffer.name,
              shape: [each, buffer.shape[1]],
            }))
          : [buffer],
      ),
    };
  }),
};

/** Rows of the tiles that products add to; null where they differ, or there is one tile only. */
function rowsOf(program: TileProgram): number | null {
  const sums = new Set(eachStmt(program.body).flatMap((s) => (s.kind === "mma" ? [s.acc.buffer] : [])));
  const rows = new Set([...sums].map((name) => bufferOf(program, name).shape[0]));
  const [only = null] = rows;
  return sums.size > 1 && rows.size === 1 ? only : null;
}

/** Tiles that threads hold, or that they or products write. */
function ownTiles(program: TileProgram, rows: number): ReadonlySet<string> {
  const written = new Set(
    eachStmt(program.body).flatMap((s) =>
      s.kind === "map" ? [s.dst.buffer] : s.kind === "mma" ? [s.acc.buffer] : [],
    ),
  );
  return new Set(
    program.buffers.flatMap(({ name, space, shape }) =>
      shape[0] === rows &&
      (space === "register" || space === "tensor" || (space === "shared" && written.has(name)))
        ? [name]
        : [],
    ),
  );
}

const uses = (stmt: Stmt, own: ReadonlySet<string>): boolean =>
  (stmt.kind === "epilogue" && own.has(stmt.acc.buffer)) ||
  (isElementStmt(stmt) && viewsOf(stmt).some(({ buffer }) => own.has(buffer))) ||
  ((stmt.kind === "fill" || (stmt.kind === "copy" && stmt.transport === "tcgen05.st")) &&
    own.has(stmt.dst.buffer));

/** An element statement that counts rows from so many on. */
function counted(stmt: Stmt, from: number): Stmt {
  if (!isElementStmt(stmt) || from === 0) return stmt;
  const value = mapLeaves(stmt.value, (leaf) =>
    leaf.kind === "row" ? { ...leaf, from: add(leaf.from ?? lit(0), lit(from)) } : leaf,
  );
  return { ...stmt, value };
}

/** A statement as a group has it: its own tiles, and its rows of what all have. */
function moverOf(names: ReadonlyMap<string, string>, rows: number, each: number, group: number) {
  const view = (of: View): View => {
    const name = names.get(of.buffer);
    if (of.extent[0] !== rows) return name === undefined ? of : { ...of, buffer: name };
    const extent = [each, of.extent[1]] as const;
    if (name !== undefined) return { ...of, buffer: name, extent };
    return { ...of, extent, origin: [add(of.origin[0], lit(group * each)), of.origin[1]] };
  };
  const moved = (stmt: Stmt): Stmt => {
    const own = withViews(counted(stmt, group * each), view);
    return "body" in own ? { ...own, body: own.body.map(moved) } : own;
  };
  return moved;
}
