/** Sums of all turns of a loop stay in tensor memory; threads of their own scale them there. */
import { leavesOf, WARP } from "@tilewright/core";
import {
  add,
  type Buffer,
  cond,
  directed,
  type Expr,
  eachStmt,
  elementSources,
  factorOf,
  firstIteration,
  isElementStmt,
  lit,
  type Pass,
  peelEnds,
  type Stmt,
  sub,
  type TileProgram,
  tensorPlace,
  type View,
  v,
  viewsOf,
  wholeView,
  withBody,
  withViews,
} from "@tilewright/ir";
import { inSteps } from "./accumulateInTensor.ts";
import { EPILOGUE_WARPS } from "./specialiseEngines.ts";
import { freshName, loadedTile, loadOf, storeOf } from "./tensorLoads.ts";

type For = Extract<Stmt, { kind: "for" }>;
type Tiles = Extract<Stmt, { kind: "tiles" }>;

/** Sums that each turn scales by a factor of their row and adds products to: in registers, and where the products are made. */
interface Carried {
  readonly held: Buffer;
  readonly tile: Buffer;
  readonly factor: View;
  /** Columns of the tile, and the registers that take them. */
  readonly parts: readonly { readonly there: View; readonly part: View }[];
  /** Statements of a turn that add products to what registers hold. */
  readonly adding: ReadonlySet<Stmt>;
}

/**
 * Directive `correctionWarps warps=4`: of a loop over parts, each of whose turns scales sums by a factor of their row and adds products to them, the sums stay in tensor memory until the loop
 * is done. Products of all turns accumulate there; a turn loads the sums, scales them and stores them again, but in warps all of whose factors are 1. Factors of rows, and what the sums are
 * multiplied by in the end, go through a column of tensor memory, so that no register links those who scale with those who make the factors: `specialiseEngines` gives each warps of their own. Throws where
 * products follow each other and no loop has such sums. Without the directive they stay in registers.
 */
export const correctSums: Pass = {
  name: "correctSums",
  summary: "Sums of all parts stay in tensor memory, where warps of their own scale them",
  from: "staged",
  to: "staged",
  run: directed("correctionWarps", (program) => {
    const added: Buffer[] = [];
    const named = (name: string): string =>
      freshName({ ...program, buffers: [...program.buffers, ...added] }, name);
    /** What other threads make of a row goes through tensor memory: statements in front of its use, and the registers that take it. */
    const handed = (
      { buffer }: View,
      { held, tile }: Carried,
    ): readonly [stmts: readonly Stmt[], taken: View] => {
      const place = tensorPlace(tile);
      if (place === null) throw new TypeError("the accumulator has a place");
      const column: Buffer = { ...tile, name: named(`t${buffer}`), shape: [held.shape[0], 1] };
      added.push(column);
      const taken = loadedTile(held, place, 1, named(`r${buffer}`));
      added.push(taken);
      const [source, through] = [{ ...wholeView(taken), buffer }, wholeView(column)];
      return [[storeOf(through, source), loadOf(wholeView(taken), through)], wholeView(taken)];
    };
    const scaled = (sums: Carried): readonly Stmt[] => {
      const [stmts, factor] = handed(sums.factor, sums);
      const leaf = (view: View) => ({ kind: "leaf", leaf: { kind: "view", view } }) as const;
      const body = sums.parts.flatMap(({ there, part }): readonly Stmt[] => [
        loadOf(part, there),
        { kind: "map", dst: part, value: { kind: "apply", fn: "mul", args: [leaf(part), leaf(factor)] } },
        storeOf(there, part),
      ]);
      return [...stmts, { kind: "vote", factor, body }];
    };
    const behind = (stmts: readonly Stmt[], sums: Carried): readonly Stmt[] => {
      const { held, tile } = sums;
      const steps = inColumns(program, stmts, sums, named, (view) => handed(view, sums));
      if (steps !== null) {
        added.push(steps.columns);
        return steps.stmts;
      }
      const first = stmts.findIndex((stmt) => uses(stmt, held.name));
      return stmts.flatMap((stmt, at): readonly Stmt[] => {
        const load = at === first ? [loadOf(wholeView(held), wholeView(tile))] : [];
        if (!isElementStmt(stmt) || stmt.dst.buffer !== held.name) return [...load, stmt];
        const taken = rowsOf(program, stmt, held.name).map(
          (view) => [view.buffer, handed(view, sums)] as const,
        );
        const moved = new Map(taken.map(([name, [, view]]) => [name, view.buffer]));
        const own = withViews(stmt, (view) => ({ ...view, buffer: moved.get(view.buffer) ?? view.buffer }));
        return [...taken.flatMap(([, [events]]) => events), ...load, own];
      });
    };
    let corrected = 0;
    const inTiles = (tiles: Tiles): Tiles => {
      const at = tiles.body.findIndex(
        (stmt) => stmt.kind === "for" && carriedOf(program, tiles, stmt).length > 0,
      );
      const loop = tiles.body[at];
      if (loop?.kind !== "for") return tiles;
      const all = carriedOf(program, tiles, loop);
      corrected += all.length;
      const before = tiles.body
        .slice(0, at)
        .filter((stmt) => !all.some(({ held }) => stmt.kind === "fill" && stmt.dst.buffer === held.name));
      const turn = all.reduce<readonly Stmt[]>(
        (stmts, sums) =>
          stmts.flatMap((stmt): readonly Stmt[] => {
            if (sums.adding.has(stmt)) return [];
            return factorOf(stmt) !== null && stmt.kind === "map" && stmt.dst.buffer === sums.held.name
              ? scaled(sums)
              : [stmt];
          }),
        overwriting(loop.body, [loop], new Set(all.map(({ tile }) => tile.name))),
      );
      const rest = all.reduce(behind, tiles.body.slice(at + 1));
      return { ...tiles, body: [...before, { ...loop, body: turn }, ...rest] };
    };
    const body = program.body.map((stmt) => (stmt.kind === "tiles" ? inTiles(stmt) : stmt));
    const products = new Set(eachStmt(program.body).flatMap((s) => (s.kind === "mma" ? [s.acc.buffer] : [])));
    if (corrected === 0 && products.size > 1)
      throw new RangeError(
        "correctionWarps scale sums that a loop from its first turn on scales by a factor of their row and adds products to; sums of this program are others",
      );
    if (corrected === 0) return program;
    return {
      ...withBody(program, body),
      buffers: [...program.buffers, ...added],
      launch: { ...program.launch, threads: program.launch.threads + EPILOGUE_WARPS * WARP },
    };
  }),
};

/**
 * Behind the loop the sums' columns are loaded, worked on and stored a few at a time, as a turn scales them, where all that is done with the sums is to map them in place by factors of their rows and to store them; null elsewhere.
 */
function inColumns(
  program: TileProgram,
  stmts: readonly Stmt[],
  { held, tile, parts }: Carried,
  named: (name: string) => string,
  handed: (view: View) => readonly [stmts: readonly Stmt[], taken: View],
): { readonly stmts: readonly Stmt[]; readonly columns: Buffer } | null {
  const [first] = parts;
  const place = tensorPlace(tile);
  const own = stmts.filter((stmt) => uses(stmt, held.name));
  const [epilogue, ...others] = own.toReversed();
  const maps = others.flatMap((stmt) =>
    stmt.kind === "map" &&
    stmt.dst.buffer === held.name &&
    stmt.dst.extent[1] === held.shape[1] &&
    leavesOf(stmt.value).every(({ kind }) => kind === "view")
      ? [stmt]
      : [],
  );
  if (first === undefined || place === null || maps.length < others.length) return null;
  if (epilogue?.kind !== "epilogue" || epilogue.gated === true) return null;
  const columns = loadedTile(held, place, first.part.extent[1], named(first.part.buffer));
  const moves = new Map(
    maps.map((stmt) => [
      stmt,
      rowsOf(program, stmt, held.name).map((view) => [view.buffer, handed(view)] as const),
    ]),
  );
  const between = maps.toReversed().map((stmt): Stmt => {
    const names = new Map([
      [held.name, wholeView(columns)],
      ...(moves.get(stmt) ?? []).map(([name, [, view]]) => [name, view] as const),
    ]);
    return withViews(stmt, (view) => names.get(view.buffer) ?? view);
  });
  const stored = { ...epilogue, acc: wholeView(tile) };
  return {
    columns,
    stmts: stmts.flatMap((stmt): readonly Stmt[] => {
      if (stmt === epilogue) return inSteps(stored, place, columns.shape[1], columns.name, between);
      const taken = stmt.kind === "map" ? moves.get(stmt) : undefined;
      return taken === undefined ? [stmt] : taken.flatMap(([, [events]]) => events);
    }),
  };
}

/** Products of tiles that are carried through loops: the first overwrite, and wherever they are put, those of the first turns do. */
const overwriting = (
  stmts: readonly Stmt[],
  open: readonly For[],
  tiles: ReadonlySet<string>,
): readonly Stmt[] =>
  stmts.map((stmt): Stmt => {
    if (stmt.kind === "for") return { ...stmt, body: overwriting(stmt.body, [...open, stmt], tiles) };
    if (stmt.kind !== "mma" || !tiles.has(stmt.acc.buffer)) return stmt;
    const turns = open.reduce<Expr>((sum, { var: name, from }) => add(sum, sub(v(name), from)), lit(0));
    return { ...stmt, keep: cond(turns, "!=", 0) };
  });

const uses = (stmt: Stmt, name: string): boolean =>
  eachStmt([stmt]).some((each) => viewsOf(each).some(({ buffer }) => buffer === name));

/** One column of registers each that a statement reads beside the sums. */
const rowsOf = ({ buffers }: TileProgram, stmt: Stmt, held: string): readonly View[] =>
  isElementStmt(stmt)
    ? elementSources(stmt.value).filter(
        ({ buffer }) =>
          buffer !== held && buffers.some(({ name, space }) => name === buffer && space === "register"),
      )
    : [];

/** Sums of a loop that only its turns' factors and products change, and that begin with zeros in front of it. */
function carriedOf(program: TileProgram, { body: around }: Tiles, loop: For): readonly Carried[] {
  const { body } = loop;
  // Products of the first turn overwrite: which one that is has to be known.
  if (firstIteration(loop)?.kind !== "const" || peelEnds(program, loop) === null) return [];
  return program.buffers.flatMap((held): readonly Carried[] => {
    const scaling = body.find(
      (stmt) => stmt.kind === "map" && stmt.dst.buffer === held.name && factorOf(stmt)?.extent[1] === 1,
    );
    const factor = scaling === undefined ? null : factorOf(scaling);
    const zeros = around.some(
      (stmt) => stmt.kind === "fill" && stmt.dst.buffer === held.name && stmt.value === 0,
    );
    if (factor === null || !zeros || held.space !== "register") return [];
    const parts = body.flatMap((stmt, at) => {
      const addition = body[at + 1];
      const of =
        stmt.kind === "copy" && stmt.transport === "tcgen05.ld" && addition?.kind === "map" ? addition : null;
      return stmt.kind === "copy" && of?.dst.buffer === held.name
        ? [{ there: stmt.src, part: stmt.dst, stmts: [stmt, of] }]
        : [];
    });
    const tile = program.buffers.find(({ name }) => name === parts[0]?.there.buffer);
    if (tile === undefined) return [];
    const adding = new Set([
      ...parts.flatMap(({ stmts }) => stmts),
      ...body.filter((stmt) => stmt.kind === "fill" && stmt.dst.buffer === tile.name),
    ]);
    const alone = body.every((stmt) => stmt === scaling || adding.has(stmt) || !uses(stmt, held.name));
    return alone ? [{ held, tile, factor, parts, adding }] : [];
  });
}
