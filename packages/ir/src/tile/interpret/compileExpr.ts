/** Expressions and conditions as closures over the loop variables' cells: statements run thousands of times. */
import { compare } from "../cond.ts";
import { floorMod } from "../expr.ts";
import type { Cond, Expr } from "../types.ts";

/** Values of all loop variables of one thread of control, by cell. */
export type Cells = Int32Array;

export type Evaluate = (cells: Cells) => number;

/** Cells of loop variables; names in different scopes may share one, since only one is live at a time. */
export class CellTable {
  readonly #cells = new Map<string, number>();

  cell(name: string): number {
    const known = this.#cells.get(name);
    if (known !== undefined) return known;
    this.#cells.set(name, this.#cells.size);
    return this.#cells.size - 1;
  }

  get size(): number {
    return this.#cells.size;
  }
}

export function compileExpr(e: Expr, table: CellTable): Evaluate {
  switch (e.kind) {
    case "const": {
      const { value } = e;
      return () => value;
    }
    case "var": {
      const cell = table.cell(e.name);
      return (cells) => cells[cell] ?? 0;
    }
    case "add": {
      const [lhs, rhs] = [compileExpr(e.lhs, table), compileExpr(e.rhs, table)];
      return (cells) => lhs(cells) + rhs(cells);
    }
    case "sub": {
      const [lhs, rhs] = [compileExpr(e.lhs, table), compileExpr(e.rhs, table)];
      return (cells) => lhs(cells) - rhs(cells);
    }
    case "mul": {
      const lhs = compileExpr(e.lhs, table);
      const { factor } = e;
      return (cells) => lhs(cells) * factor;
    }
    case "div": {
      const lhs = compileExpr(e.lhs, table);
      const { divisor } = e;
      return (cells) => Math.floor(lhs(cells) / divisor);
    }
    case "mod": {
      const lhs = compileExpr(e.lhs, table);
      const { divisor } = e;
      return (cells) => floorMod(lhs(cells), divisor);
    }
  }
}

export function compileCond(c: Cond, table: CellTable): (cells: Cells) => boolean {
  const [lhs, rhs] = [compileExpr(c.lhs, table), compileExpr(c.rhs, table)];
  return (cells) => compare(c.op, lhs(cells), rhs(cells));
}
