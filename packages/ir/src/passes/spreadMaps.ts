/** Make what products read from registers step by step, between the instructions that multiply it. */
import { mapLeaves } from "@tilewright/core";
import { elementSources } from "../tile/elements.ts";
import { add, lit, substituteExpr } from "../tile/expr.ts";
import { bufferOf, directed, eachStmt, rewriteStmts, withBody } from "../tile/rewrite.ts";
import type { ElementLeaf, Expr, For, Mma, Stmt, TileProgram, View } from "../tile/types.ts";
import { readsOf, sameView, writesOf } from "../tile/views.ts";
import type { Pass } from "./pass.ts";

type MapStmt = Extract<Stmt, { kind: "map" }>;

/**
 * Directive `spreadMaps by=step`: where a `map` makes a register tile that an unrolled loop behind it multiplies in parts, each step of the loop makes its own part, and so it does with what that tile is made of,
 * column by column. Statements in between that read these tiles whole, as sums of rows do, stand behind the loop. Elements are then computed while matrix instructions run, and a tile and the one that it is made of
 * are not both held.
 */
export const spreadMaps: Pass = {
  name: "spreadMaps",
  summary: "Parts of a tile that products read from registers are computed between these",
  from: "specialised",
  to: "specialised",
  run: directed("spreadMaps", (program) =>
    withBody(
      program,
      rewriteStmts(program.body, (stmt) => {
        if (stmt.kind !== "for") return stmt;
        const body = spread(program, stmt.body);
        return body === stmt.body ? stmt : { ...stmt, body };
      }),
    ),
  ),
};

const spread = (program: TileProgram, stmts: readonly Stmt[]): readonly Stmt[] =>
  stmts.reduce(
    (list, stmt) => (stmt.kind === "for" ? (spreadInto(program, list, stmt) ?? list) : list),
    stmts,
  );

const namesOf = (of: (stmt: Stmt) => readonly View[], stmts: readonly Stmt[]): ReadonlySet<string> =>
  new Set(eachStmt(stmts).flatMap((stmt) => of(stmt).map(({ buffer }) => buffer)));

const meets = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean => [...a].some((name) => b.has(name));

/** The list with the maps of the tile that a loop multiplies in that loop; null where there are none, or something else wants them before it. */
function spreadInto(program: TileProgram, list: readonly Stmt[], loop: For): readonly Stmt[] | null {
  const steps = stepsOf(program, loop);
  if (steps === null) return null;
  const makers = makersOf(program, list.slice(0, list.indexOf(loop)), steps.part.buffer);
  for (let from = 0; from < makers.length; from++) {
    const made = withMakers(program, list, loop, steps, makers.slice(from));
    if (made !== null) return made;
  }
  return null;
}

/** The same with these of its maps. */
function withMakers(
  program: TileProgram,
  list: readonly Stmt[],
  loop: For,
  { product, part }: Steps,
  moved: readonly MapStmt[],
): readonly Stmt[] | null {
  const at = list.indexOf(loop);
  const [first] = moved;
  if (first === undefined) return null;
  const [own, reads] = [namesOf(writesOf, moved), namesOf(readsOf, moved)];
  // What reads the tiles, and what reads what such statements write, comes behind the loop.
  const [stay, behind, late]: [Stmt[], Stmt[], Set<string>] = [[], [], new Set(own)];
  for (const stmt of list.slice(list.indexOf(first), at)) {
    if (moved.some((map) => map === stmt)) continue;
    const writes = namesOf(writesOf, [stmt]);
    if (!meets(late, namesOf(readsOf, [stmt]))) {
      // Nothing that stays changes what others read later than before.
      if (meets(writes, reads) || meets(writes, late) || meets(writes, namesOf(readsOf, behind))) return null;
      stay.push(stmt);
      continue;
    }
    if (meets(writes, own) || !inRegisters(program, stmt)) return null;
    behind.push(stmt);
    for (const name of writes) late.add(name);
  }
  const made = namesOf(writesOf, behind);
  const used = new Set([...reads, ...namesOf(readsOf, [loop]), ...namesOf(writesOf, [loop])]);
  if (meets(made, used) || meets(namesOf(writesOf, [loop]), namesOf(readsOf, behind))) return null;
  const parts = moved.map((map) => partOf(map, part));
  const [inner] = rewriteStmts([loop], (stmt) =>
    stmt.kind === "for" && stmt.body.some((each) => each === product)
      ? { ...stmt, body: [...parts, ...stmt.body] }
      : stmt,
  );
  return inner === undefined
    ? null
    : [...list.slice(0, list.indexOf(first)), ...stay, inner, ...behind, ...list.slice(at + 1)];
}

/** Statements that compute with what threads hold, and meet no other warp. */
const inRegisters = (program: TileProgram, stmt: Stmt): boolean =>
  eachStmt([stmt]).every(
    (each) => each.kind === "map" || each.kind === "reduce.row" || each.kind === "vote",
  ) &&
  [readsOf, writesOf].every((of) =>
    [...namesOf(of, [stmt])].every((name) => bufferOf(program, name).space === "register"),
  );

/** A product in the steps of a loop, and the part of a tile that a step multiplies. */
interface Steps {
  readonly product: Mma;
  readonly part: View;
}

/** The product of a loop whose unrolled steps multiply a register tile, each its own columns of it and together all, and what a step reads. */
function stepsOf(program: TileProgram, loop: For): Steps | null {
  const products = eachStmt([loop]).filter((stmt): stmt is Mma => stmt.kind === "mma");
  const [product] = products;
  if (product === undefined || !products.every(({ a }) => sameView(a, product.a))) return null;
  const part = product.a;
  const { space, shape } = bufferOf(program, part.buffer);
  const readers = eachStmt([loop]).filter((stmt) =>
    readsOf(stmt).some(({ buffer }) => buffer === part.buffer),
  );
  if (space !== "register" || part.extent[0] !== shape[0] || readers.length !== products.length) return null;
  const origins = originsOf([loop], product, part.origin[1]);
  const starts = new Set(origins?.filter((from) => from % part.extent[1] === 0));
  return starts.size * part.extent[1] === shape[1] && starts.size === origins?.length
    ? { product, part }
    : null;
}

const constantOf = (e: Expr): number | null => (e.kind === "const" ? e.value : null);

/** Values of an expression in the turns of the unrolled loops around a product; null where they are no constants. */
function originsOf(stmts: readonly Stmt[], product: Mma, origin: Expr): readonly number[] | null {
  if (stmts.some((stmt) => stmt === product)) {
    const value = constantOf(origin);
    return value === null ? null : [value];
  }
  const around = stmts.find((stmt) => eachStmt([stmt]).some((each) => each === product));
  if (around?.kind !== "for" || !around.unroll || around.within !== undefined) return null;
  const [from, to] = [constantOf(around.from), constantOf(around.to)];
  if (from === null || to === null) return null;
  const turns = Array.from({ length: to - from }, (_, turn) =>
    originsOf(around.body, product, substituteExpr(origin, new Map([[around.var, lit(from + turn)]]))),
  );
  return turns.every((turn) => turn !== null) ? turns.flat() : null;
}

/** The maps that make a tile, and one before it of the same elements, in their order. */
function makersOf(program: TileProgram, list: readonly Stmt[], name: string): readonly MapStmt[] {
  const found: MapStmt[] = [];
  const tiles = new Set([name]);
  for (const stmt of list.toReversed()) {
    if (!meets(tiles, namesOf(writesOf, [stmt]))) continue;
    if (stmt.kind !== "map" || !byElement(program, stmt)) break;
    found.unshift(stmt);
    for (const { buffer } of elementSources(stmt.value))
      if (!tiles.has(buffer) && isLike(program, buffer, name)) tiles.add(buffer);
  }
  return found[found.length - 1]?.dst.buffer === name ? found : [];
}

const isLike = (program: TileProgram, one: string, other: string): boolean => {
  const [a, b] = [bufferOf(program, one), bufferOf(program, other)];
  return a.space === "register" && a.shape[0] === b.shape[0] && a.shape[1] === b.shape[1];
};

/** Whether a map makes a whole tile, an element from those in its place in others, and from values of its row. */
function byElement(program: TileProgram, { dst, value }: MapStmt): boolean {
  const whole = (view: View): boolean =>
    isLike(program, view.buffer, dst.buffer) && view.extent[1] === bufferOf(program, view.buffer).shape[1];
  const leaves: ElementLeaf[] = [];
  mapLeaves(value, (leaf) => {
    leaves.push(leaf);
    return leaf;
  });
  return (
    whole(dst) &&
    leaves.every(
      (leaf) =>
        leaf.kind === "row" ||
        (leaf.kind === "view" &&
          (whole(leaf.view) ||
            (leaf.view.extent[1] === 1 && bufferOf(program, leaf.view.buffer).space === "register"))),
    )
  );
}

/** The map of the columns of a part. */
function partOf(map: MapStmt, part: View): MapStmt {
  const cut = (view: View): View =>
    view.extent[1] === 1
      ? view
      : {
          ...view,
          origin: [view.origin[0], add(view.origin[1], part.origin[1])],
          extent: [view.extent[0], part.extent[1]],
        };
  return {
    ...map,
    dst: cut(map.dst),
    value: mapLeaves(map.value, (leaf) => (leaf.kind === "view" ? { ...leaf, view: cut(leaf.view) } : leaf)),
  };
}
