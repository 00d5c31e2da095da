/** Epilogues read C exactly where beta asks for it, and the tiles cover D once. */

import { outerRuns, quantizeOf } from "@tilewright/core";
import { type DsmemReduction, dsmemReduction } from "../dsmemReduction.ts";
import { evaluateExpr, freeVars } from "../expr.ts";
import { groupedColumns } from "../ownership.ts";
import { storeOwners } from "../staged.ts";
import type { Stmt, StmtKind, View } from "../types.ts";
import { bufferAt, type Fault, type Site, type Subject, type Verifier } from "./verifier.ts";

export const epilogues: Verifier = {
  name: "epilogues",
  code: "TW3120",
  property:
    "an epilogue has C iff beta is not 0, asks the launch only for scalars that the problem leaves to it, passes D through a shared tile of D's dtype that divides it, and has columns that share a scale in one warp",
  from: "nest",
  *check(subject) {
    const { program, sites } = subject;
    for (const site of sites) {
      const { stmt } = site;
      if (stmt.kind !== "epilogue") continue;
      if ((stmt.c === null) !== (stmt.beta === 0))
        yield {
          at: site,
          message: stmt.c === null ? `beta is ${stmt.beta} and there is no C` : "reads C although beta is 0",
          hint: stmt.c === null ? "write c VIEW, or beta 0" : "remove c, or give beta a value",
        };
      if (stmt.via !== null) yield* through(subject, site, stmt.via, stmt.acc.extent);
      yield* groups(subject, site, stmt);
      yield* byThreads(subject, site, stmt);
      for (const name of ["alpha", "beta"] as const)
        if (stmt[name] === "runtime" && program.problem[name] !== "runtime")
          yield {
            at: site,
            message: `${name} is left to the launch, and the problem says ${program.problem[name]}`,
            hint: `write ${name} ${program.problem[name]}`,
          };
    }
  },
};

/** Columns that share a scale: whole groups of what is stored, each in one warp. */
function* groups(subject: Subject, site: Site, stmt: Extract<Stmt, { kind: "epilogue" }>): Iterable<Fault> {
  const group = quantizeOf({ epilogue: stmt.steps })?.step.group;
  if (group === undefined) return;
  const { own } = bufferAt(subject, stmt.acc.buffer);
  if (site.parents.some((s) => s.kind === "slices" || (s.kind === "reduce" && s.by === "slices")))
    yield {
      at: site,
      message: "CTAs store slices, which cut the columns that share a scale",
      hint: "by last",
    };
  const whole = stmt.dst.extent[1] % group === 0 && stmt.acc.extent[1] % group === 0;
  if (!whole || (own !== null && groupedColumns(own, group) === null))
    yield {
      at: site,
      message: `stores ${stmt.dst.extent[1]} columns, and ${whole ? "several warps have" : "they are no whole groups of"} the ${group} that share a scale`,
      hint: "a tile of whole groups, each in one warp",
    };
}

function* through(
  subject: Subject,
  site: Site,
  { buffer: name, extent: taken }: View,
  extent: readonly [number, number],
): Iterable<Fault> {
  const tile = bufferAt(subject, name);
  const { dtype } = subject.program.problem.d;
  if (tile.space !== "shared" || tile.dtype !== dtype)
    yield {
      at: site,
      message: `goes through %${name}, ${tile.dtype} in ${tile.space} memory`,
      hint: `declare it as shared %${name} ${dtype}[…]`,
    };
  else if (taken.some((size, axis) => size !== tile.shape[axis]))
    yield {
      at: site,
      message: `goes through ${taken.join(" x ")} of %${name}, which has ${tile.shape.join(" x ")}`,
      hint: `write via %${name}, with a slot where it has several`,
    };
  else if (tile.shape[0] !== extent[0] || extent[1] % tile.shape[1] !== 0)
    yield {
      at: site,
      message: `passes ${extent.join(" x ")} through ${tile.shape.join(" x ")}`,
      hint: `all ${extent[0]} rows, and a number of columns that divides ${extent[1]}`,
    };
  if (subject.program.rings.some((ring) => ring.buffers.includes(name)))
    yield { at: site, message: `goes through %${name}, which a ring manages`, hint: "a tile of its own" };
}

/** Tiles from which threads store: pieces for all lanes of a warp; and ones that lie where the rings do, when those have been read. */
function* byThreads(
  subject: Subject,
  site: Site,
  stmt: Extract<Stmt, { kind: "epilogue" }>,
): Iterable<Fault> {
  if (stmt.stores !== undefined && stmt.via === null)
    yield { at: site, message: "stores from no tile", hint: "write via %TILE, or leave stores out" };
  if (stmt.via === null) return;
  const tile = bufferAt(subject, stmt.via.buffer);
  const { own } = bufferAt(subject, stmt.acc.buffer);
  const axis = bufferAt(subject, stmt.dst.buffer).layout?.stride[1] === 1 ? 1 : 0;
  if (
    stmt.stores !== undefined &&
    own !== null &&
    storeOwners(own, tile.shape[1], axis, stmt.stores) === null
  )
    yield {
      at: site,
      message: `pieces of ${stmt.stores} elements do not divide among the lanes what a warp has of %${tile.name}`,
      hint: "write stores 1, or a tile of whole parts of the warps",
    };
  if (tile.aliased !== true) return;
  const loops = site.parents.some((s) => s.kind === "tiles" && (s.loop !== null || s.streamK !== undefined));
  if (stmt.stores === undefined || loops)
    yield {
      at: site,
      message: `%${tile.name} lies where the rings do, and ${loops ? "blocks go on to other tiles" : "bulk stores read it when roles have ended"}`,
      hint: "declare the tile without late",
    };
}

/** Most output tiles that coverage is counted for. */
const TILE_LIMIT = 1_000_000;

export const output: Verifier = {
  name: "output",
  code: "TW3119",
  property:
    "the epilogues of all tiles write every element of D exactly once (checked where there is one epilogue, per axis, or one for each of some columns)",
  from: "nest",
  *check({ program, sites }) {
    const stores = sites.filter((s) => s.stmt.kind === "epilogue" && s.stmt.dst.buffer === "D");
    if (stores.length === 0) {
      yield { at: "%D", message: "no epilogue writes %D", hint: "end the tile with an epilogue" };
      return;
    }
    const [site] = stores;
    yield* columnFaults(stores);
    yield* stores.flatMap(againFaults);
    if (stores.length > 1 || site === undefined || site.stmt.kind !== "epilogue") return;
    const around = site.parents.filter(({ kind }) => !onceATile.has(kind));
    const tiles = around[0];
    // Loops and conditions between the tiles and the epilogue: left to the interpreter.
    if (around.length !== 1 || tiles?.kind !== "tiles") return;
    const { problem } = program;
    const meeting = dsmemReduction(program);
    const most = outerRuns(problem)?.most ?? null;
    yield* axisFaults(site, site.stmt, tiles, 0, problem.m, most, meeting);
    yield* axisFaults(site, site.stmt, tiles, 1, problem.n, null, meeting);
  },
};

/** Statements around an epilogue that are no loops or conditions of its own. */
const onceATile: ReadonlySet<StmtKind> = new Set(["role", "reduce", "slices"]);

/** An epilogue in a loop stores another part in each turn. */
function againFaults(site: Site): readonly Fault[] {
  if (site.stmt.kind !== "epilogue") return [];
  const vars = new Set(site.stmt.dst.origin.flatMap((origin) => [...freeVars(origin)]));
  const again = site.parents.find(
    (s) =>
      s.kind === "for" &&
      !vars.has(s.var) &&
      !(s.to.kind === "const" && s.from.kind === "const" && s.to.value <= s.from.value + 1),
  );
  return again?.kind !== "for"
    ? []
    : [
        {
          at: site,
          message: `stores the same part of %D in every turn of the loop over %${again.var}`,
          hint: `put it behind the loop, or let the part depend on %${again.var}`,
        },
      ];
}

/** Epilogues of some columns each store all of them between them. */
function* columnFaults(stores: readonly Site[]): Iterable<Fault> {
  const parts = stores
    .flatMap((site) =>
      site.stmt.kind === "epilogue" && site.stmt.columns !== undefined
        ? [{ site, ...site.stmt.columns }]
        : [],
    )
    .sort((x, y) => x.from - y.from);
  const [first] = parts;
  // Of ping-pong roles each has all.
  if (first === undefined || parts.some(({ from }, i) => i > 0 && from === parts[i - 1]?.from)) return;
  let next = 0;
  for (const { site, from, to } of [...parts, { site: first.site, from: first.of, to: first.of }]) {
    if (from !== next) {
      yield {
        at: site,
        message:
          from > next
            ? `columns ${next} to ${from - 1} of every ${first.of} are never written`
            : `columns ${from} to ${next - 1} of every ${first.of} are written twice`,
        hint: `an epilogue of columns ${Math.min(from, next)} .. ${Math.max(from, next)}, once`,
      };
      return;
    }
    next = to;
  }
}

/** Along one axis the tiles' spans, in the order of the tile's number, must follow each other from 0 to the extent; of runs from the first row of one, as many as the longest has. */
function* axisFaults(
  site: Site,
  stmt: Extract<Stmt, { kind: "epilogue" }>,
  tiles: Extract<Stmt, { kind: "tiles" }>,
  axis: 0 | 1,
  whole: number,
  run: number | null,
  meeting: DsmemReduction | null,
): Iterable<Fault> {
  const count = tiles.extents[axis];
  if (count > TILE_LIMIT) return;
  const what = axis === 0 ? "rows" : "columns";
  const env = new Map(tiles.vars.map((name) => [name, 0]));
  // Blocks that meet in a cluster store a slice each.
  const slices = meeting !== null && axis === meeting.axis ? meeting.slices : 1;
  const rank = meeting?.split.var ?? null;
  if (rank !== null) env.set(rank, 0);
  const foreign = [...freeVars(stmt.dst.origin[axis])].find((name) => !env.has(name));
  if (foreign !== undefined) {
    yield {
      at: site,
      message: `${what} of %D begin where %${foreign} says, of which the tile has several values`,
      hint: `write %${tiles.vars[axis]}, the tile's own number`,
    };
    return;
  }
  let next = run === null ? 0 : evaluateExpr(stmt.dst.origin[axis], env);
  const extent = run === null ? whole : Math.min(whole, next + run);
  for (let i = 0; i < count * slices; i++) {
    env.set(tiles.vars[axis], Math.floor(i / slices));
    if (rank !== null) env.set(rank, i % slices);
    const from = evaluateExpr(stmt.dst.origin[axis], env);
    if (from !== next) {
      yield {
        at: site,
        message:
          from > next
            ? `${what} ${next} to ${from - 1} of %D are never written`
            : `${what} ${from} to ${next - 1} of %D are written twice`,
        hint: `${slices > 1 ? "slice" : "tile"} ${i} should begin at ${next}`,
      };
      return;
    }
    next = from + stmt.dst.extent[axis];
  }
  if (next < extent)
    yield {
      at: site,
      message: `${what} ${next} to ${extent - 1} of %D are never written`,
      hint: `${Math.ceil(extent / stmt.dst.extent[axis])} tiles of ${stmt.dst.extent[axis]} cover ${extent}`,
    };
}
