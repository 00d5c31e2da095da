/** What the multiplying role and the threads of the epilogue hand each other where products follow each other: sums one way, factors made of them the other. */

import type { Edge, Expr, Ring, Stmt, TileProgram } from "@tilewright/ir";
import {
  add,
  bufferOf,
  eachStmt,
  isElementStmt,
  lit,
  mul,
  peelEnds,
  placedAt,
  rewriteStmts,
  sub,
  v,
  viewsOf,
  withBody,
} from "@tilewright/ir";

type For = Extract<Stmt, { kind: "for" }>;
type Event = "acquire" | "commit" | "wait" | "release";

const once: Edge = { kind: "mbarrier", arrivals: 1 };

/** Names of the rings of sums, of factors, and of what threads hand other threads of each row. */
const [PRODUCTS, FACTORS, ROWS] = ["products", "factors", "rows"] as const;

const ringsNamed = (
  name: string,
  tiles: readonly string[],
  ringOf: (tile: string) => Omit<Ring, "name" | "buffers" | "slots">,
) =>
  tiles.map(
    (tile, i): Ring => ({ ...ringOf(tile), name: `${name}${i === 0 ? "" : i}`, slots: 1, buffers: [tile] }),
  );

/** Whether threads make what the statement writes. */
const isMade = (stmt: Stmt): stmt is Extract<Stmt, { kind: "map" | "copy" }> =>
  stmt.kind === "map" || (stmt.kind === "copy" && stmt.transport === "tcgen05.st");

/**
 * The program with a ring of one slot for each tensor tile, which products fill and the epilogue's `warps` empty behind their last load, and one for each tile that threads make, in shared or tensor memory,
 * and products read, which the warps fill and a commit empties. Chunks are numbered by the loops around.
 */
export function withHandOvers(program: TileProgram, sums: readonly string[], warps: number): TileProgram {
  const all = eachStmt(program.body);
  const made = new Set(all.flatMap((stmt) => (isMade(stmt) ? [stmt.dst.buffer] : [])));
  const factors = [...new Set(all.flatMap((stmt) => (stmt.kind === "mma" ? [stmt.a.buffer] : [])))].filter(
    (name) => made.has(name) && bufferOf(program, name).space !== "register",
  );
  const each: Edge = { kind: "mbarrier", arrivals: warps };
  const changed = new Set(sums.filter((name) => made.has(name)));
  const rows = handedTiles(program, sums);
  const rings = [
    ...ringsNamed(PRODUCTS, sums, (name) => ({
      ...(changed.has(name) ? { carried: true as const } : {}),
      ...{ transport: "tcgen05.mma", full: once, empty: each },
    })),
    ...ringsNamed(FACTORS, factors, (name) => ({
      transport: bufferOf(program, name).space === "tensor" ? "tcgen05.st" : "direct",
      full: each,
      empty: once,
    })),
    ...ringsNamed(ROWS, rows, () => ({ transport: "tcgen05.st", full: each, empty: each })),
  ];
  const between = (stmts: readonly Stmt[], at: Expr): readonly Stmt[] =>
    rings.reduce<readonly Stmt[]>(
      (list, ring) =>
        ring.carried === true ? withTurns(program, list, ring, at) : withEvents(list, ring, at),
      lateZeros(stmts, made).flatMap((stmt): readonly Stmt[] => {
        if (stmt.kind !== "for" || multiplies(stmt)) return [stmt];
        return [{ ...stmt, body: between(stmt.body, numbered(at, stmt)) }];
      }),
    );
  return {
    ...withBody(
      program,
      rewriteStmts(program.body, (stmt) =>
        stmt.kind === "tiles" ? { ...stmt, body: between(stmt.body, lit(0)) } : stmt,
      ),
    ),
    rings: [...program.rings, ...rings],
  };
}

/** Tensor tiles that threads store and other threads load: no product has to do with them. */
export const handedTiles = (program: TileProgram, sums: readonly string[]): readonly string[] => {
  const copies = eachStmt(program.body).filter((stmt) => stmt.kind === "copy");
  const loaded = new Set(copies.map(({ src }) => src.buffer));
  const stored = new Set(copies.filter(isMade).map(({ dst }) => dst.buffer));
  return [...stored].filter((name) => loaded.has(name) && !sums.includes(name));
};

/**
 * As `withEvents`, of sums that products of all turns of a loop are added to: a turn's threads change what the products of the turn before have left, and those of this one are added to that. The last
 * turn's are read behind the loop. The first turn's threads find what nobody has made: `withoutFirst` leaves them out.
 */
function withTurns(
  program: TileProgram,
  stmts: readonly Stmt[],
  { name: ring, buffers: [tile = ""] }: Ring,
  at: Expr,
): readonly Stmt[] {
  const taken = (chunk: Expr, stmt: Stmt): readonly Stmt[] => [
    { kind: "wait", ring, at: chunk, pending: 0 },
    stmt,
    { kind: "release", ring, at: chunk },
  ];
  const of = stmts.findIndex((stmt) => stmt.kind === "for" && !multiplies(stmt) && touches(stmt, tile));
  const loop = stmts[of];
  // Behind the loop, from the first load to the last.
  const loads = (stmt: Stmt, i: number): boolean =>
    i > of && eachStmt([stmt]).some((each) => each.kind === "copy" && reads(each, tile));
  const [first, end] = [stmts.findIndex(loads), stmts.findLastIndex(loads)];
  const atLast = (event: Stmt): readonly Stmt[] =>
    (loop?.kind === "for" ? peelEnds(program, loop)?.last([event]) : undefined) ?? [event];
  return stmts.flatMap((stmt, i): readonly Stmt[] => {
    if (stmt.kind === "vote" && touches(stmt, tile)) return taken(sub(at, lit(1)), stmt);
    if ((stmt.kind === "mma" || (stmt.kind === "for" && multiplies(stmt))) && touches(stmt, tile))
      return [{ kind: "acquire", ring, at }, stmt, { kind: "commit", ring, at }];
    if (loop?.kind !== "for") return [stmt];
    return [
      ...(i === first ? atLast({ kind: "wait", ring, at: v(loop.var), pending: 0 }) : []),
      stmt,
      ...(i === end ? atLast({ kind: "release", ring, at: v(loop.var) }) : []),
    ];
  });
}

const touches = (stmt: Stmt, tile: string): boolean =>
  eachStmt([stmt]).some((each) => viewsOf(each).some(({ buffer }) => buffer === tile));

/** Loops that change sums of the turn before: their first turns do nothing with these, and stand in front. */
export function withoutFirst(program: TileProgram, stmts: readonly Stmt[]): readonly Stmt[] {
  return rewriteStmts(stmts, (stmt) => {
    if (stmt.kind !== "for") return stmt;
    const rings = program.rings.filter(
      ({ name, carried }) =>
        carried === true && stmt.body.some((each) => each.kind === "wait" && each.ring === name),
    );
    const ends = rings.length === 0 ? null : peelEnds(program, stmt);
    if (ends === null) return stmt;
    const others = stmt.body.filter(
      (each) =>
        !rings.some(({ name, buffers }) =>
          "ring" in each ? each.ring === name : buffers.some((tile) => touches(each, tile)),
        ),
    );
    return [...ends.first(others), ends.rest];
  });
}

/** The number of a loop's turn among those of the loops around it. */
const numbered = (at: Expr, { var: name, to }: For): Expr =>
  at.kind === "const" ? v(name) : add(mul(at, to.kind === "const" ? to.value : 1), v(name));

/** Whether a loop goes over the chunks of a product, and does nothing else. */
const multiplies = ({ body }: For): boolean =>
  body.some(({ kind }) => kind === "mma") && !body.some((stmt) => isElementStmt(stmt) || stmt.kind === "for");

/** Whether a loop has one turn of several products: each is then waited for and told of by itself. */
const isOneOfSeveral = ({ body, from, to }: For): boolean =>
  from.kind === "const" &&
  to.kind === "const" &&
  to.value - from.value === 1 &&
  body.filter(({ kind }) => kind === "mma").length > 1;

/** Statements with loops of one turn of several products taken apart, those of factors behind the zeros that they begin with: nobody waits for the sums of another. */
function lateZeros(stmts: readonly Stmt[], made: ReadonlySet<string>): readonly Stmt[] {
  const apart = stmts.flatMap((stmt): readonly Stmt[] =>
    stmt.kind === "for" && multiplies(stmt) && isOneOfSeveral(stmt)
      ? placedAt(stmt, stmt.body, stmt.from)
      : [stmt],
  );
  if (apart.length === stmts.length) return stmts;
  // The wait for a factor stands between, and the fence behind it; other products have one in front.
  const own = new Set(
    apart.flatMap((stmt) => (stmt.kind === "mma" && made.has(stmt.a.buffer) ? [stmt.acc.buffer] : [])),
  );
  const zeros = apart.filter((stmt) => stmt.kind === "fill" && own.has(stmt.dst.buffer));
  return apart.flatMap((stmt): readonly Stmt[] => {
    if (zeros.includes(stmt)) return [];
    if (stmt.kind !== "mma") return [stmt];
    return [...zeros.filter((fill) => fill.kind === "fill" && fill.dst.buffer === stmt.acc.buffer), stmt];
  });
}

/** Events of a ring around the statements of a list that write its tile, and around those that read it. */
function withEvents(
  stmts: readonly Stmt[],
  { name: ring, buffers: [tile = ""] }: Ring,
  at: Expr,
): readonly Stmt[] {
  const within = (of: (stmt: Stmt) => boolean): readonly [first: number, last: number] => {
    const own = (stmt: Stmt): boolean =>
      stmt.kind === "if" || (stmt.kind === "for" && multiplies(stmt))
        ? eachStmt(stmt.body).some(of)
        : of(stmt);
    return [stmts.findIndex(own), stmts.findLastIndex(own)];
  };
  const [[begins, written], [first, last]] = [within((s) => writes(s, tile)), within((s) => reads(s, tile))];
  if (begins < 0 || first < 0) return stmts;
  const event = (kind: Event): Stmt =>
    kind === "wait" ? { kind, ring, at, pending: 0 } : { kind, ring, at };
  return stmts.flatMap((stmt, i): readonly Stmt[] => [
    ...(i === begins ? [event("acquire")] : []),
    ...(i === first ? [event("wait")] : []),
    stmt,
    ...(i === written ? [event("commit")] : []),
    ...(i === last ? [event("release")] : []),
  ]);
}

function writes(stmt: Stmt, tile: string): boolean {
  if (stmt.kind === "mma") return stmt.acc.buffer === tile;
  return (stmt.kind === "fill" || isMade(stmt)) && stmt.dst.buffer === tile;
}

const reads = (stmt: Stmt, tile: string): boolean =>
  stmt.kind === "mma" ? stmt.a.buffer === tile : stmt.kind === "copy" && stmt.src.buffer === tile;
