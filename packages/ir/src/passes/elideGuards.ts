/** Drop the guards of accesses that cannot leave their matrix, and complete the stage `bound`. */
import { narrow, type Ranges, rangeOf, rangesInside } from "../tile/ranges.ts";
import { bufferOf, takeDirective } from "../tile/rewrite.ts";
import type { Stmt, TileProgram, View } from "../tile/types.ts";
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
    return taken ? { ...taken.program, body: elide(taken.program, taken.program.body, new Map()) } : bound;
  },
};

function elide(program: TileProgram, stmts: readonly Stmt[], ranges: Ranges): readonly Stmt[] {
  return stmts.map((stmt): Stmt => {
    switch (stmt.kind) {
      case "tiles":
      case "combine":
      case "for":
      case "if":
      case "role":
        return { ...stmt, body: elide(program, stmt.body, rangesInside(stmt, ranges)) };
      case "copy": {
        const inside = stmt.when ? narrow(stmt.when, ranges) : ranges;
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
    const [low, high] = rangeOf(view.origin[axis], ranges);
    return low < 0 || high + view.extent[axis] > shape[axis];
  };
  return [keep(0), keep(1)];
}
