/** Keep the accumulators in tensor memory; the epilogue takes them out a few columns at a time. */

import type { Buffer, Expr, Pass, Stmt, TensorPlace, TileProgram, View } from "@tilewright/ir";
import {
  add,
  bufferOf,
  directed,
  eachStmt,
  isElementStmt,
  lit,
  mul,
  rewriteStmts,
  tensorPlace,
  upOrigin,
  v,
  viewsOf,
  wholeView,
  withBody,
  withViews,
} from "@tilewright/ir";
import { chainSums } from "./chainSums.ts";
import { loadedTile, loadOf, stepOf } from "./tensorLoads.ts";

type Epilogue = Extract<Stmt, { kind: "epilogue" }>;

/** The register tile that holds what is being stored, and the variable that counts them. */
const COLUMNS = "columns";
const STEP = "ct";

/**
 * Directive `accumulate columns=C`: the accumulator becomes a tensor tile, and every epilogue a loop over C columns of it (rows where columns lie in lanes; fewer
 * where C does not divide them; all at once where two warps share a row), of a gated product as many of either sum, each loaded into registers as the lanes hold them. The last step stands behind the
 * loop, so that the tile can be given back before its elements are stored. Blocks that share a tile meet with registers: those of a whole part, so that C has to be
 * all columns there. Of products that follow each other see `chainSums.ts`. Without the directive accumulators stay in registers.
 */
export const accumulateInTensor: Pass = {
  name: "accumulateInTensor",
  summary: "Accumulators move to tensor memory; epilogues load them a few columns at a time",
  from: "staged",
  to: "staged",
  run: directed("accumulate", (program, { columns: most }) => {
    const names = new Set<string>();
    for (const stmt of eachStmt(program.body)) if (stmt.kind === "mma") names.add(stmt.acc.buffer);
    const [name] = names;
    if (name === undefined) return program;
    if (names.size > 1) return chainSums(program, most) ?? program;
    const acc = bufferOf(program, name);
    const place = tensorPlace(acc);
    if (place === null) return program;
    // Expressions of whole rows have all columns of a tile at once.
    const elements = eachStmt(program.body).filter(isElementStmt).flatMap(viewsOf);
    const whole = elements.some(({ buffer }) => buffer === name);
    // A step of a gated product takes columns of both sums.
    const sums = eachStmt(program.body).some((s) => s.kind === "epilogue" && s.gated === true) ? 2 : 1;
    const columns = whole ? place.columns : stepOf({ ...place, columns: place.columns / sums }, most);
    const part = loadedTile(acc, place, sums * columns, COLUMNS);
    const body = rewriteStmts(whole ? held(program.body, acc, part) : program.body, (stmt) => {
      // Bottom up: of a combine the epilogue has become its one step.
      if (stmt.kind === "reduce") return atOnce(stmt, name);
      return stmt.kind === "epilogue" && stmt.acc.buffer === name
        ? inSteps(stmt, { ...place, columns: place.columns / sums }, columns)
        : stmt;
    });
    return {
      ...withBody(program, body),
      buffers: [...program.buffers.map((b): Buffer => (b === acc ? { ...b, space: "tensor" } : b)), part],
    };
  }),
};

/** All of an accumulator in registers, from the first statement on that reads it behind its products. */
function held(stmts: readonly Stmt[], acc: Buffer, part: Buffer): readonly Stmt[] {
  const moved = (view: View): View => (view.buffer === acc.name ? { ...view, buffer: part.name } : view);
  const reads = (stmt: Stmt): boolean =>
    isElementStmt(stmt) && viewsOf(stmt).some(({ buffer }) => buffer === acc.name);
  return rewriteStmts(stmts, (stmt) => {
    if (stmt.kind !== "tiles") return stmt;
    const first = stmt.body.findIndex(reads);
    return {
      ...stmt,
      body: stmt.body.flatMap((inner, at): readonly Stmt[] => {
        const own: Stmt = isElementStmt(inner)
          ? withViews(inner, moved)
          : inner.kind === "epilogue"
            ? { ...inner, acc: moved(inner.acc) }
            : inner;
        return at === first ? [loadOf(wholeView(part), wholeView(acc)), own] : [own];
      }),
    };
  });
}

/** The load of the one step goes in front of the combine, which is then of what it loads. Throws (a bug) where there are several steps. */
function atOnce(stmt: Extract<Stmt, { kind: "reduce" }>, name: string): readonly Stmt[] {
  if (stmt.acc.buffer !== name) return [stmt];
  const [load, ...body] = stmt.body;
  if (load?.kind !== "copy" || load.src.buffer !== name)
    throw new TypeError("blocks meet with all columns of an accumulator");
  return [load, { ...stmt, acc: load.dst, body }];
}

/** An epilogue as a loop over so many columns each of its accumulator; `between`: statements on the columns that are loaded, in the tile `name`, before they are stored. */
export function inSteps(
  stmt: Epilogue,
  { lanes, columns: all }: TensorPlace,
  columns: number,
  name = COLUMNS,
  between: readonly Stmt[] = [],
): readonly Stmt[] {
  const count = all / columns;
  const cut = (extent: View["extent"]): View["extent"] =>
    lanes === 0 ? [extent[0], columns] : [columns, extent[1]];
  const step = (at: Expr): readonly Stmt[] => {
    const shifted = (view: View): View => {
      const [row, col] = view.origin;
      const by = mul(at, columns);
      return {
        ...view,
        origin: lanes === 0 ? [row, add(col, by)] : [add(row, by), col],
        extent: cut(view.extent),
      };
    };
    const part: View = {
      buffer: name,
      slot: lit(0),
      origin: [lit(0), lit(0)],
      extent: cut(stmt.acc.extent),
    };
    const up: View = { ...part, origin: [lit(0), lit(columns)] };
    return [
      loadOf(part, shifted(stmt.acc)),
      ...(stmt.gated === true ? [loadOf(up, shifted({ ...stmt.acc, origin: upOrigin(stmt.acc) }))] : []),
      ...between,
      { ...stmt, dst: shifted(stmt.dst), acc: part, c: stmt.c && shifted(stmt.c) },
    ];
  };
  const loop: Stmt = {
    kind: "for",
    var: STEP,
    from: lit(0),
    to: lit(count - 1),
    unroll: true,
    body: step(v(STEP)),
  };
  return [...(count > 1 ? [loop] : []), ...step(lit(count - 1))];
}

/** Whether a program accumulates in tensor memory. */
export const accumulatesInTensor = (program: TileProgram): boolean =>
  program.buffers.some((b) => b.space === "tensor");
