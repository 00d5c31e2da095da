/** Software pipelining of products that follow each other in a loop: those of the next turn are under way while threads work on the sums of this one. */
import {
  directed,
  eachStmt,
  lit,
  type Pass,
  peelEnds,
  placedAt,
  readsOf,
  rewriteStmts,
  type Stmt,
  sub,
  type TileProgram,
  v,
  viewsOf,
  withBody,
} from "@tilewright/ir";

type For = Extract<Stmt, { kind: "for" }>;

/**
 * Directive `pipelineProducts ahead=1`: of a loop whose turns multiply, work on the sums, and multiply what they have made of them, turn t + 1 issues its first product
 * before the last one of turn t; of several first products all. Products are of one chunk. The first turn's first product and the last turn's last one stand around the loop. Each product's slots
 * are given back behind the wait for it, and what only first products read before the last turn's last product. Several last products stay in their turn, issued together, as its first ones are.
 */
export const pipelineProducts: Pass = {
  name: "pipelineProducts",
  summary: "The first product of a turn is issued before the last one of the turn before",
  from: "specialised",
  to: "specialised",
  run: directed("pipelineProducts", (program) => {
    const turned = rewriteStmts(program.body, (stmt) => rotated(program, stmt));
    if (turned === program.body) return program;
    return withBody(
      program,
      rewriteStmts(turned, (stmt) =>
        "body" in stmt ? { ...stmt, body: releasedEarly(program, stmt.body) } : stmt,
      ),
    );
  }),
};

/** A turn's statements: up to the first product, on its sums, and the last product. */
interface Turn {
  readonly first: readonly Stmt[];
  readonly between: readonly Stmt[];
  readonly last: readonly Stmt[];
}

const multiplies = (stmt: Stmt): boolean => eachStmt([stmt]).some(({ kind }) => kind === "mma");

/** A product of one chunk: what else stands there waits for its slots and gives them back. */
const isProduct = (stmt: Stmt): boolean =>
  stmt.kind === "for" &&
  stmt.from.kind === "const" &&
  stmt.to.kind === "const" &&
  stmt.to.value - stmt.from.value === 1 &&
  multiplies(stmt) &&
  eachStmt(stmt.body).every(({ kind }) => kind === "mma" || kind === "wait" || kind === "release");

/** The turn of a loop that begins and ends with products into different sums, the last of them of what registers hold; null of others. */
function turnOf(program: TileProgram, { body }: For): Turn | null {
  const begin = body.findIndex(multiplies);
  const behind = body.findIndex((stmt, at) => at > begin && !multiplies(stmt) && stmt.kind !== "fill");
  const end = body.findLastIndex((stmt) => !multiplies(stmt)) + 1;
  if (begin < 0 || behind < 0 || end <= behind || end >= body.length) return null;
  const turn = { first: body.slice(0, behind), between: body.slice(behind, end), last: body.slice(end) };
  const [one, other] = [turn.first, turn.last].map((stmts) => productsOf(stmts));
  const sums = new Set(one?.map(({ acc }) => acc.buffer));
  const held = (name: string): boolean =>
    program.buffers.some((b) => b.name === name && b.space === "register");
  const plain =
    turn.first.every((stmt) => isProduct(stmt) || stmt.kind === "fill") &&
    turn.last.every(isProduct) &&
    !turn.between.some(multiplies);
  const apart = other?.every(({ acc, a }) => !sums.has(acc.buffer) && held(a.buffer)) === true;
  return plain && apart ? turn : null;
}

const productsOf = (stmts: readonly Stmt[]) =>
  eachStmt(stmts).flatMap((stmt) => (stmt.kind === "mma" ? [stmt] : []));

function rotated(program: TileProgram, stmt: Stmt): Stmt | readonly Stmt[] {
  if (stmt.kind !== "for" || stmt.unroll) return stmt;
  const turn = turnOf(program, stmt);
  if (turn === null) return stmt;
  // Of several last products ptxas would serialise those that run beside the work on what they multiply (C7514).
  if (productsOf(turn.last).length > 1) return { ...stmt, body: together(turn) };
  const around = peelEnds(program, stmt);
  if (around === null || keepsOnlySlot(program, turn)) return stmt;
  const before = (stmts: readonly Stmt[]): readonly Stmt[] => placedAt(stmt, stmts, sub(v(stmt.var), lit(1)));
  const first = issued(turn.first);
  const last = issued(turn.last);
  const work = withReleases(turn, last);
  return [
    ...around.first([...first.products, ...first.releases, ...turn.between]),
    {
      ...around.rest,
      body: [...first.products, ...before(last.products), ...first.releases, ...work(before(last.releases))],
    },
    ...around.last([...last.products, ...last.releases]),
  ];
}

/** Whether the last product reads what the first one of the next turn would wait for, in the only slot that there is. */
const keepsOnlySlot = ({ rings }: TileProgram, { first, last }: Turn): boolean => {
  const kept = new Set(eachStmt(last).flatMap((stmt) => (stmt.kind === "release" ? [stmt.ring] : [])));
  return eachStmt(first).some(
    (stmt) =>
      stmt.kind === "wait" &&
      kept.has(stmt.ring) &&
      rings.some(({ name, slots }) => name === stmt.ring && slots < 2),
  );
};

/** Products without waits for them, and what gives their slots back. */
function issued(stmts: readonly Stmt[]): {
  readonly products: readonly Stmt[];
  readonly releases: readonly Stmt[];
} {
  const only = (keep: (stmt: Stmt) => boolean): readonly Stmt[] =>
    stmts.flatMap((stmt): readonly Stmt[] => {
      if (stmt.kind !== "for") return keep(stmt) ? [stmt] : [];
      const body = stmt.body.filter(keep);
      return body.length === 0 ? [] : [{ ...stmt, body }];
    });
  const isRelease = ({ kind }: Stmt): boolean => kind === "release";
  return { products: only((stmt) => !isRelease(stmt)), releases: only(isRelease) };
}

/** What stands between the products, with the last one's releases in front of what first touches its sums or what it multiplies. */
function withReleases(turn: Turn, { products }: ReturnType<typeof issued>) {
  const touches = readerOf(products);
  // Warps that have something to do in a vote wait for themselves.
  const at = turn.between.findIndex((stmt) => stmt.kind !== "vote" && touches(stmt));
  const before = at < 0 ? turn.between.length : at;
  return (releases: readonly Stmt[]): readonly Stmt[] => [
    ...turn.between.slice(0, before),
    ...releases,
    ...turn.between.slice(before),
  ];
}

/** A turn whose first products, and whose last ones, are issued together: slots of the first ones are given back where their sums are read, those of the last at the end. */
function together({ first, between, last }: Turn): readonly Stmt[] {
  const { products, releases } = issued(last);
  const out: Stmt[] = [...issued(first).products];
  let waiting = first.map((stmt) => ({ reads: readerOf([stmt]), releases: issued([stmt]).releases }));
  for (const stmt of between) {
    out.push(...waiting.flatMap(({ reads, releases }) => (reads(stmt) ? releases : [])), stmt);
    waiting = waiting.filter(({ reads }) => !reads(stmt));
  }
  return [...out, ...waiting.flatMap(({ releases }) => releases), ...products, ...releases];
}

/** Whether a statement touches sums of products, or what they multiply. */
function readerOf(products: readonly Stmt[]): (stmt: Stmt) => boolean {
  const touched = new Set(productsOf(products).flatMap(({ acc, a }) => [acc.buffer, a.buffer]));
  return (stmt) =>
    eachStmt([stmt]).some(
      (each) =>
        (each.kind === "map" || each.kind === "reduce.row") &&
        viewsOf(each).some(({ buffer }) => touched.has(buffer)),
    );
}

/** Slots that loops do not read are given back before them: those of what only first products read, before the last turn's last product. */
function releasedEarly({ rings }: TileProgram, stmts: readonly Stmt[]): readonly Stmt[] {
  const out: Stmt[] = [];
  for (const stmt of stmts) {
    const ring = stmt.kind === "release" ? rings.find(({ name }) => name === stmt.ring) : undefined;
    const uses = (each: Stmt): boolean =>
      ("ring" in each && each.ring === ring?.name) ||
      (each.kind === "mma" && readsOf(each).some(({ buffer }) => ring?.buffers.includes(buffer)));
    const skipped =
      ring === undefined ? -1 : out.findLastIndex((s) => s.kind !== "for" || eachStmt([s]).some(uses));
    out.splice(ring === undefined ? out.length : skipped + 1, 0, stmt);
  }
  return out;
}
