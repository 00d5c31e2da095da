/** Sums of rows over the turns of a loop: lanes that hold parts of a row add up their own, and meet once, behind the loop. */
import {
  type Buffer,
  bufferOf,
  directed,
  type ElementExpr,
  type ElementStmt,
  eachStmt,
  elementDomain,
  isElementStmt,
  type Pass,
  registerBuffer,
  rewriteStmts,
  type Stmt,
  type TileProgram,
  viewsOf,
  wholeView,
  withBody,
  withReads,
  withViews,
} from "@tilewright/ir";

type Of<K extends Stmt["kind"]> = Extract<Stmt, { readonly kind: K }>;

/** Lanes that hold parts of a row of the sums, and neighbouring columns that each of them has. */
interface Lanes {
  readonly lanes: number;
  readonly runs: number;
}

/**
 * Directive `laneSums tiles=1`: where loops keep `map %l = %l * %z + %y` of `reduce.row %y = sum(…)`, %l and %y get a column for each lane of a row, and what reads %l behind the loops
 * reads the sum of its columns. Lanes exchange nothing in the loop. The order in which the elements of a row are added changes.
 */
export const laneSums: Pass = {
  name: "laneSums",
  summary: "Lanes add up their own parts of rows' sums, and meet behind the loop",
  from: "specialised",
  to: "specialised",
  run: directed("laneSums", (program) => {
    const running = eachStmt(program.body).flatMap((stmt) => runningSum(stmt) ?? []);
    const [first] = running;
    return first === undefined ? program : (apart(program, first.total, first.part) ?? program);
  }),
};

const named = (e: ElementExpr | undefined): string | null =>
  e?.kind === "leaf" && e.leaf.kind === "view" ? e.leaf.view.buffer : null;

/** Of `map %l = %l * %z + %y` the names of %l and %y. */
function runningSum(stmt: Stmt): { readonly total: string; readonly part: string } | null {
  if (stmt.kind !== "map" || stmt.value.kind !== "apply" || stmt.value.fn !== "add") return null;
  const [scaled, added] = stmt.value.args;
  const part = named(added);
  const total = stmt.dst.buffer;
  const scales = scaled?.kind === "apply" && scaled.fn === "mul" && named(scaled.args[0]) === total;
  return scales && part !== null && part !== total ? { total, part } : null;
}

/** The program with a column of both tiles for each lane; null where something else uses them. */
function apart(program: TileProgram, total: string, part: string): TileProgram | null {
  const stmts = eachStmt(program.body).filter((stmt) => !("body" in stmt) || stmt.kind === "vote");
  const uses = (stmt: Stmt, name: string): boolean => viewsOf(stmt).some(({ buffer }) => buffer === name);
  const using = stmts.filter((stmt) => uses(stmt, total) || uses(stmt, part));
  const parts = using.filter(
    (stmt): stmt is Of<"reduce.row"> => stmt.kind === "reduce.row" && stmt.dst.buffer === part,
  );
  const keeps = using.filter((stmt) => {
    const sums = runningSum(stmt);
    return sums !== null ? sums.total === total && sums.part === part : clears(stmt, total);
  });
  const readers = using.filter(
    (stmt): stmt is ElementStmt =>
      !parts.some((p) => p === stmt) && !keeps.includes(stmt) && isElementStmt(stmt),
  );
  const row = bufferOf(program, total);
  const lanes = lanesOf(program, row);
  const plain = parts.every(
    (stmt) => lanes !== null && stmt.op === "sum" && !stmt.adds && stmt.below === null && fits(stmt, lanes),
  );
  const rest = readers.every((stmt) => !uses(stmt, part) && stmt.dst.buffer !== total);
  if (lanes === null || !plain || !rest || using.length !== parts.length + keeps.length + readers.length)
    return null;
  const [reader] = readers;
  const behind = listsOf(program.body).find((list) => list.some((stmt) => stmt === reader));
  if (reader === undefined || behind === undefined) return null;
  const at = behind.indexOf(reader);
  const before = eachStmt(behind.slice(0, at));
  if (!readers.every((stmt) => behind.includes(stmt)) || !keeps.every((stmt) => before.includes(stmt)))
    return null;

  const spread = (name: string): Buffer => registerBuffer(name, "f32", [row.shape[0], lanes.lanes]);
  const summed = registerBuffer(`${total}_row`, "f32", [row.shape[0], 1]);
  const made = new Map([total, part].map((name) => [name, spread(name)]));
  const once: Stmt = {
    kind: "reduce.row",
    dst: wholeView(summed),
    op: "sum",
    value: { kind: "leaf", leaf: { kind: "view", view: wholeView(spread(total)) } },
    ...{ adds: false, below: null, via: null },
  };
  const body = rewriteStmts(program.body, (stmt) => {
    if (readers.some((each) => each === stmt)) {
      const read = withReads(stmt, (view) => (view.buffer === total ? wholeView(summed) : view));
      return stmt === reader ? [once, read] : read;
    }
    if (![...parts, ...keeps].some((each) => each === stmt)) return stmt;
    const wide = withViews(stmt, (view) => {
      const tile = made.get(view.buffer);
      return tile === undefined ? view : wholeView(tile);
    });
    return wide.kind === "reduce.row" ? { ...wide, runs: lanes.runs } : wide;
  });
  const buffers = program.buffers.map((buffer) => made.get(buffer.name) ?? buffer);
  return { ...withBody(program, body), buffers: [...buffers, summed] };
}

const clears = (stmt: Stmt, total: string): boolean =>
  stmt.kind === "fill" && stmt.dst.buffer === total && stmt.value === 0;

const fits = (stmt: Of<"reduce.row">, { lanes, runs }: Lanes): boolean =>
  elementDomain(stmt)[1] % (lanes * runs) === 0;

/** Who has the columns of a tile of sums with as many rows: lanes, each of them neighbours; null where warps have some, too. */
function lanesOf(program: TileProgram, { shape }: Buffer): Lanes | null {
  const sums = program.buffers.find(
    (b) => b.space === "register" && b.own !== null && b.shape[1] > 1 && b.shape[0] === shape[0],
  );
  const cols = sums?.own?.cols ?? [];
  const at = cols.findIndex(({ tier }) => tier === "thread");
  const others = cols.filter(({ tier }) => tier !== "register");
  if (at < 0 || others.length !== 1) return null;
  return {
    lanes: cols[at]?.extent ?? 1,
    runs: cols.slice(at + 1).reduce((n, { extent }) => n * extent, 1),
  };
}

/** All lists of statements, of loops and roles too. */
const listsOf = (stmts: readonly Stmt[]): readonly (readonly Stmt[])[] => [
  stmts,
  ...eachStmt(stmts).flatMap((stmt) => ("body" in stmt ? [stmt.body] : [])),
];
