/** Software pipelining of the multiplying role: first products of the next turn are issued before it waits for what threads make of those of this one. */
import {
  directed,
  eachStmt,
  lit,
  type Pass,
  peelEnds,
  placedAt,
  rewriteStmts,
  type Stmt,
  sub,
  type TileProgram,
  v,
  withBody,
} from "@tilewright/ir";

type For = Extract<Stmt, { kind: "for" }>;

/**
 * Directive `pipelineProducts ahead=1`: in a role that only multiplies, a loop whose turns multiply and then multiply by what other threads have made of these sums issues the first
 * products of turn t + 1 before the last ones of turn t; the first turn's first products and the last turn's last ones stand around it. Sums have been loaded long before factors made
 * of them are there, so that the next turn's are ready when the threads come to them. Loops whose two parts share a ring stay as they are, as do those that may take no turn.
 */
export const pipelineProducts: Pass = {
  name: "pipelineProducts",
  summary: "The first products of a turn are issued before the last ones of the turn before",
  from: "specialised",
  to: "specialised",
  run: directed("pipelineProducts", (program) =>
    withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "for" && isOfProducts(stmt) ? rotated(program, stmt) : stmt,
      ),
    ),
  ),
};

/** Whether all that a loop does is to multiply, and to wait for what it multiplies. */
const isOfProducts = (loop: For): boolean => {
  const all = eachStmt(loop.body);
  return (
    all.some(({ kind }) => kind === "mma") &&
    all.every(({ kind }) => kind === "mma" || kind === "fill" || kind === "for" || isEvent(kind))
  );
};

const isEvent = (kind: Stmt["kind"]): boolean =>
  kind === "acquire" || kind === "commit" || kind === "wait" || kind === "release";

function rotated(program: TileProgram, loop: For): readonly Stmt[] {
  const cut = cutOf(program, loop);
  const around = cut <= 0 || loop.unroll ? null : peelEnds(program, loop);
  if (around === null) return [loop];
  // Chunks begin at constants of their tiles, in a loop around them or in none.
  const whole = rewriteStmts(loop.body, (stmt) => (stmt.kind === "for" ? { ...stmt, unroll: true } : stmt));
  const [first, last] = [whole.slice(0, cut), whole.slice(cut)];
  const ringsOf = (stmts: readonly Stmt[]): ReadonlySet<string> =>
    new Set(eachStmt(stmts).flatMap((stmt) => ("ring" in stmt ? [stmt.ring] : [])));
  const shared = ringsOf(first);
  if ([...ringsOf(last)].some((ring) => shared.has(ring))) return [loop];
  return [
    ...around.first(first),
    { ...around.rest, body: [...first, ...placedAt(loop, last, sub(v(loop.var), lit(1)))] },
    ...around.last(last),
  ];
}

/** Where the products begin that multiply by factors which threads have made: the first statement that has to do with one of them, or their sums. */
function cutOf({ rings }: TileProgram, { body }: For): number {
  const made = new Set(
    rings.flatMap(({ transport, buffers }) =>
      transport === "direct" || transport === "tcgen05.st" ? [...buffers] : [],
    ),
  );
  const touched = new Set(
    eachStmt(body).flatMap((stmt) =>
      stmt.kind === "mma" && made.has(stmt.a.buffer) ? [stmt.a.buffer, stmt.b.buffer, stmt.acc.buffer] : [],
    ),
  );
  const touches = (stmt: Stmt): boolean =>
    eachStmt([stmt]).some((each) => {
      if (each.kind === "mma") return touched.has(each.acc.buffer);
      if (each.kind === "fill") return touched.has(each.dst.buffer);
      return (
        "ring" in each &&
        rings.some(({ name, buffers }) => name === each.ring && buffers.some((b) => touched.has(b)))
      );
    });
  return body.findIndex(touches);
}
