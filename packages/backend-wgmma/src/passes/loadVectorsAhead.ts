/** Register prefetch of vectors: what maps of an iteration read of each column is loaded before its products are issued, and arrives while they run. */
import {
  type Buffer,
  bufferOf,
  directed,
  eachStmt,
  elementSources,
  freeVars,
  type Pass,
  registerBuffer,
  rewriteStmts,
  type Stmt,
  type TileProgram,
  type View,
  wholeView,
  withBody,
  withViews,
} from "@tilewright/ir";

type MapStmt = Extract<Stmt, { kind: "map" }>;

/**
 * Directive `loadVectorsAhead tiles=1`: in a loop whose body multiplies, each row vector in global memory that a `map` of the body reads, and that moves with the loop, is copied to a register tile of that
 * map's shape at the start of the body.
 */
export const loadVectorsAhead: Pass = {
  name: "loadVectorsAhead",
  summary: "Vectors that a loop's maps read are loaded before its products are issued",
  from: "specialised",
  to: "specialised",
  run: directed("loadVectorsAhead", (program) => {
    const made: Buffer[] = [];
    const body = rewriteStmts(program.body, (stmt) =>
      stmt.kind === "for" && !stmt.unroll && eachStmt(stmt.body).some(({ kind }) => kind === "mma")
        ? { ...stmt, body: ahead(program, stmt.var, stmt.body, made) }
        : stmt,
    );
    return { ...withBody(program, body), buffers: [...program.buffers, ...made] };
  }),
};

function ahead(program: TileProgram, turn: string, body: readonly Stmt[], made: Buffer[]): readonly Stmt[] {
  const loads: MapStmt[] = [];
  const moves = ({ buffer, origin: [row, col], extent }: View, to: MapStmt): boolean =>
    bufferOf(program, buffer).space === "global" &&
    extent[0] === 1 &&
    extent[1] === to.dst.extent[1] &&
    freeVars(row).size === 0 &&
    freeVars(col).has(turn);
  const rest = body.map((stmt): Stmt => {
    if (stmt.kind !== "map" || !elementSources(stmt.value).some((view) => moves(view, stmt))) return stmt;
    return withViews(stmt, (view) => {
      if (view === stmt.dst || !moves(view, stmt)) return view;
      // Of the same registers in the copies of a body that stand around its loop.
      const tile = registerBuffer(`${view.buffer}_ahead`, "f32", stmt.dst.extent);
      if (!made.some(({ name }) => name === tile.name)) made.push(tile);
      loads.push({
        kind: "map",
        dst: wholeView(tile),
        value: { kind: "leaf", leaf: { kind: "view", view } },
      });
      return wholeView(tile);
    });
  });
  return [...loads, ...rest];
}
