/** Drop the guards of accesses that cannot leave their matrix, and complete the stage `bound`. */
import { asLinear } from "../tile/expr.ts";
import { bufferOf, takeDirective } from "../tile/rewrite.ts";
import type { Expr, Stmt, TileProgram, View } from "../tile/types.ts";
import type { Pass } from "./pass.ts";
import { condLimits, type Ranges } from "./ranges.ts";

/** Directive `guards elide=1`; without it every access to global memory keeps its guard, which is right for any size. */
export const elideGuards: Pass = {
  name: "elideGuards",
  summary: "Accesses that provably stay inside their matrix lose their predicates",
  from: "specialised",
  to: "bound",
  run(program) {
    const bound: TileProgram = { ...program, stage: "bound" };
    const taken = takeDirective(bound, "guards");
    return taken ? { ...taken.program, body: elide(taken.program, taken.program.body, new Map()) } : bound;
  },
};

function elide(program: TileProgram, stmts: readonly Stmt[], ranges: Ranges): readonly Stmt[] {
  return stmts.map((stmt): Stmt => {
    switch (stmt.kind) {
      case "tiles": {
        const inner = new Map(ranges);
        stmt.vars.forEach((name, axis) => {
          inner.set(name, [0, (stmt.extents[axis] ?? 1) - 1]);
        });
        return { ...stmt, body: elide(program, stmt.body, inner) };
      }
      case "for": {
        const from = rangeOf(stmt.from, ranges);
        const to = rangeOf(stmt.to, ranges);
        const inner = new Map(ranges);
        if (from && to) inner.set(stmt.var, [from[0], to[1] - 1]);
        return { ...stmt, body: elide(program, stmt.body, inner) };
      }
      case "if":
        return { ...stmt, body: elide(program, stmt.body, condLimits(stmt.cond, ranges)) };
      case "role":
        return { ...stmt, body: elide(program, stmt.body, ranges) };
      case "copy": {
        const inside = stmt.when ? condLimits(stmt.when, ranges) : ranges;
        const view = bufferOf(program, stmt.src.buffer).space === "global" ? stmt.src : stmt.dst;
        return { ...stmt, guard: needed(program, view, stmt.guard, inside) };
      }
      case "epilogue":
        return { ...stmt, guard: needed(program, stmt.dst, stmt.guard, ranges) };
      default:
        return stmt;
    }
  });
}

function needed(
  program: TileProgram,
  view: View,
  guard: readonly [boolean, boolean],
  ranges: Ranges,
): readonly [boolean, boolean] {
  const { shape } = bufferOf(program, view.buffer);
  const keep = (axis: 0 | 1): boolean => {
    if (!guard[axis]) return false;
    const range = rangeOf(view.origin[axis], ranges);
    return range === null || range[0] < 0 || range[1] + view.extent[axis] > shape[axis];
  };
  return [keep(0), keep(1)];
}

/** Least and greatest value of an affine expression over the ranges of its variables; null when not affine or unbounded. */
function rangeOf(e: Expr, ranges: Ranges): readonly [number, number] | null {
  const linear = asLinear(e);
  if (!linear) return null;
  let [low, high] = [linear.constant, linear.constant];
  for (const [name, coefficient] of linear.terms) {
    const range = ranges.get(name);
    if (!range) return null;
    const ends = [range[0] * coefficient, range[1] * coefficient];
    low += Math.min(...ends);
    high += Math.max(...ends);
  }
  return [low, high];
}
