/** Let two accumulators share columns of tensor memory, where two that share none do not fit. */

import type { Expr, Pass, Ring, Stmt, TileProgram, View } from "@tilewright/ir";
import {
  add,
  bufferOf,
  eachStmt,
  lit,
  mod,
  mul,
  rewriteStmts,
  sub,
  substituteExpr,
  takeDirective,
  tensorPlace,
  v,
  withBody,
} from "@tilewright/ir";
import { inPlaces, isPersistent } from "./slotSums.ts";
import { SUMS } from "./specialiseEngines.ts";

type For = Extract<Stmt, { kind: "for" }>;
type Tiles = Extract<Stmt, { kind: "tiles" }>;

/** Places that the tiles of a ring of one slot take in turn. */
const PLACES = 2;

/**
 * Directive `overlapAccumulators columns=C`, instead of `sums`: persistent CTAs have two accumulators, of which the second begins C columns before the first ends. The ring has one slot, whose tiles lie by turns in
 * the two places: a tile may be multiplied when the shared columns of the one before have been loaded, and those of the one before that, which every thread has loaded
 * earlier. So epilogues begin with the shared columns, which are the last of the first place and the first of the second, give the slot back behind those (behind
 * their stores, where the accumulator was given back late), and go on with the others. C is a number of whole steps of the epilogue. Off: one
 * accumulator, or as many as `sums` says, which share nothing.
 */
export const overlapAccumulators: Pass = {
  name: "overlapAccumulators",
  summary: "Two accumulators share columns; epilogues give those back first",
  from: "specialised",
  to: "specialised",
  run(program) {
    const taken = takeDirective(program, "overlapAccumulators");
    const shared = taken ? taken.args.columns : 0;
    const input = taken?.program ?? program;
    const ring = input.rings.find(({ name }) => name === SUMS);
    const acc = input.buffers.find(({ name }) => name === ring?.buffers[0]);
    const place = acc && tensorPlace(acc);
    if (shared === 0 || ring === undefined || !place || place.stacks > 1 || !isPersistent(input))
      return input;
    const placed = inPlaces(input, ring, PLACES);
    const body = rewriteStmts(placed.body, (stmt): Stmt => {
      if (stmt.kind !== "tiles") return stmt;
      const steps = stepsOf(stmt, ring);
      return steps === null ? stmt : { ...stmt, body: sharedFirst(placed, stmt, steps, shared) };
    });
    return {
      ...withBody(placed, body),
      rings: placed.rings.map((each): Ring => (each === ring ? { ...ring, overlapped: shared } : each)),
    };
  },
};

/** The loop over an epilogue's steps, where there are several, and how many statements of the last step stand before the release. */
interface Steps {
  readonly loop: For;
  readonly early: boolean;
}

function stepsOf({ body }: Tiles, ring: Ring): Steps | null {
  const at = body.findIndex((stmt) => stmt.kind === "for" && loads(stmt, ring));
  const loop = body[at];
  const release = body.findIndex((stmt) => stmt.kind === "release" && stmt.ring === ring.name);
  if (loop?.kind !== "for") return null;
  return { loop, early: release === at + 1 + 1 };
}

const loads = (loop: For, { buffers }: Ring): boolean =>
  eachStmt(loop.body).some((s) => s.kind === "copy" && buffers.includes(s.src.buffer));

/** Steps of the shared columns, the release among the last of them, the other steps; what else stands in the tiles stays where it is. */
function sharedFirst(
  program: TileProgram,
  { body, loop: visit }: Tiles,
  { loop, early }: Steps,
  shared: number,
): readonly Stmt[] {
  const [load] = loop.body;
  const at = body.indexOf(loop);
  const release = body.find((stmt) => stmt.kind === "release" && stmt.ring === SUMS);
  if (load?.kind !== "copy" || loop.to.kind !== "const" || release === undefined || visit === null)
    return body;
  const place = tensorPlace(bufferOf(program, load.src.buffer));
  const columns = load.src.extent[1 - (place?.lanes ?? 0)] ?? 1;
  const count = loop.to.value + 1;
  const first = shared / columns;
  // 1 in visits whose accumulator is the second, or the first, of the two places.
  const [second, other] = [mod(v(visit.var), PLACES), mod(add(v(visit.var), 1), PLACES)];
  const head = (i: Expr): Expr => add(i, mul(other, count - first));
  const tail = (i: Expr): Expr => add(sub(i, first), mul(second, first));
  const step = (index: Expr): readonly Stmt[] => atStep(loop, index);
  const last = step(head(lit(first - 1)));
  const over = (from: number, to: number, index: (i: Expr) => Expr): readonly Stmt[] =>
    to > from ? [{ ...loop, from: lit(from), to: lit(to), body: step(index(v(loop.var))) }] : [];
  const behind = body
    .slice(at + 1)
    .filter((stmt) => stmt !== release)
    .slice(loop.body.length);
  return [
    ...body.slice(0, at),
    ...over(0, first - 1, head),
    ...(early ? [...last.slice(0, 1), release, ...last.slice(1)] : [...last, release]),
    ...over(first, count, tail),
    ...behind,
  ];
}

/** The statements of a step, with its number put in. */
function atStep({ var: name, body }: For, index: Expr): readonly Stmt[] {
  const values = new Map([[name, index]]);
  const moved = (view: View): View => ({
    ...view,
    origin: [substituteExpr(view.origin[0], values), substituteExpr(view.origin[1], values)],
  });
  return body.map((stmt): Stmt => {
    if (stmt.kind === "copy") return { ...stmt, src: moved(stmt.src), dst: moved(stmt.dst) };
    if (stmt.kind === "epilogue")
      return { ...stmt, dst: moved(stmt.dst), c: stmt.c === null ? null : moved(stmt.c) };
    return stmt;
  });
}
