/** Drop the guards of accesses that cannot leave their matrix, and complete the stage `bound`. */
import { add, asLinear, freeVars, mul, simplify, sub, substituteExpr, v } from "../tile/expr.ts";
import { narrow, type Ranges, rangeOf, rangesInside } from "../tile/ranges.ts";
import { bufferOf, takeDirective } from "../tile/rewrite.ts";
import { namesRows } from "../tile/runs.ts";
import { asMultiples, rowsInBlocks, sizeRanges, symbolicExtent } from "../tile/sizes.ts";
import type { Cond, Expr, Stmt, StreamK, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";

/** Directive `guards elide=1`; without it every access to global memory keeps its guard, which is right for any size. */
export const elideGuards: Pass = {
  name: "elideGuards",
  summary: "Accesses that provably stay inside their matrix lose their predicates",
  from: "specialised",
  to: "bound",
  run(program) {
    const bound: TileProgram = { ...program, stage: "bound" };
    const taken = takeDirective(bound, "guards");
    if (!taken || taken.args.elide === 0) return taken?.program ?? bound;
    const around: Scope = { ranges: sizeRanges(program.problem), most: new Map() };
    return { ...taken.program, body: elide(taken.program, taken.program.body, around) };
  },
};

/** What is known of the variables at a place. */
interface Scope {
  readonly ranges: Ranges;
  /** Expressions in sizes of the launch, and in the chunks of a part, that a variable never exceeds. */
  readonly most: ReadonlyMap<string, readonly Expr[]>;
}

function elide(program: TileProgram, stmts: readonly Stmt[], scope: Scope): readonly Stmt[] {
  return stmts.map((stmt): Stmt => {
    switch (stmt.kind) {
      case "tiles":
      case "reduce":
      case "for":
      case "if":
      case "role":
        return { ...stmt, body: elide(program, stmt.body, inside(stmt, scope)) };
      case "copy": {
        const here = stmt.when ? where(stmt.when, scope) : scope;
        const view = bufferOf(program, stmt.src.buffer).space === "global" ? stmt.src : stmt.dst;
        return { ...stmt, guard: needed(program, view, stmt.guard, here) };
      }
      case "epilogue":
        return { ...stmt, guard: needed(program, stmt.dst, stmt.guard, scope) };
      default:
        return stmt;
    }
  });
}

const bounded = (most: Scope["most"], name: string, by: Expr): Scope["most"] =>
  new Map(most).set(name, [...(most.get(name) ?? []), by]);

/** A part of a tile ends with the tile: its first chunk is so many before the end. */
const partEnds = (share: StreamK | undefined, most: Scope["most"]): Scope["most"] =>
  share?.counted === undefined ? most : bounded(most, share.first, sub(share.counted.chunks, v(share.count)));

function inside(stmt: Stmt, scope: Scope): Scope {
  const ranges = rangesInside(stmt, scope.ranges);
  switch (stmt.kind) {
    case "tiles":
      return {
        ranges,
        most: stmt.vars.reduce(
          (most, name, axis) => {
            const count = stmt.symbolic?.[axis === 0 ? 0 : 1] ?? null;
            return count === null ? most : bounded(most, name, sub(count, 1));
          },
          partEnds(stmt.streamK, scope.most),
        ),
      };
    case "for":
      return { ranges, most: bounded(scope.most, stmt.var, sub(stmt.to, 1)) };
    case "if":
      return where(stmt.cond, scope);
    default:
      return { ...scope, ranges };
  }
}

/** Where `x + c < e` holds, x is at most e - c - 1. */
function where(cond: Cond, { ranges, most }: Scope): Scope {
  const narrowed = narrow(cond, ranges);
  const lhs = asLinear(cond.lhs);
  const [term, more] = lhs?.terms ?? [];
  if (cond.op !== "<" || !lhs || !term || more || term[1] !== 1) return { ranges: narrowed, most };
  return { ranges: narrowed, most: bounded(most, term[0], sub(cond.rhs, lhs.constant + 1)) };
}

/**
 * Whether `origin + extent` never exceeds a size of the launch: with each variable at one of its bounds, and sizes written as multiples of what divides
 * them, the difference is a number: chunks of a part, where bounds have them, go out.
 */
function staysBelow(program: TileProgram, origin: Expr, extent: number, size: string, scope: Scope): boolean {
  const linear = asLinear(origin);
  if (linear === null || [...linear.terms.values()].some((factor) => factor < 0)) return false;
  const multiples = asMultiples(program.problem);
  const tries = [...linear.terms.keys()].reduce<readonly ReadonlyMap<string, Expr>[]>(
    (all, name) => {
      const range = scope.ranges.get(name);
      const bounds = [
        ...(scope.most.get(name) ?? []),
        ...(range === undefined || !Number.isSafeInteger(range[1]) ? [] : [add(range[1], 0)]),
      ].filter((bound) =>
        [...freeVars(bound)].every((each) => multiples.has(each) || scope.ranges.has(each)),
      );
      return all.flatMap((values) => bounds.map((bound) => new Map(values).set(name, bound)));
    },
    [new Map()],
  );
  return tries.some((values) => {
    const excess = sub(add(substituteExpr(origin, values), extent), v(size));
    const folded = simplify(substituteExpr(excess, multiples));
    return folded.kind === "const" && folded.value <= 0;
  });
}

function needed(
  program: TileProgram,
  view: View,
  guard: readonly [boolean, boolean],
  scope: Scope,
): readonly [boolean, boolean] {
  const { shape, paged } = bufferOf(program, view.buffer);
  const keep = (axis: 0 | 1): boolean => {
    if (!guard[axis]) return false;
    // A problem's own rows end anywhere.
    if (paged?.axis === axis && !namesRows(program, paged)) return true;
    const [low, high] = rangeOf(view.origin[axis], scope.ranges);
    const size = symbolicExtent(program.problem, view.buffer, axis);
    const rows = rowsInBlocks(program.problem, view.buffer);
    if (size !== null)
      return (
        low < 0 || !staysBelow(program, mul(view.origin[axis], rows), view.extent[axis] * rows, size, scope)
      );
    return low < 0 || high + view.extent[axis] > shape[axis];
  };
  return [keep(0), keep(1)];
}
