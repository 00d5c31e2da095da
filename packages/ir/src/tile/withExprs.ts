/** Every expression of a statement in one place: what puts values for variables goes through it. */
import { withElementViews } from "./elements.ts";
import { withOperandViews, withSumViews } from "./scaleTiles.ts";
import { withInputs } from "./stepViews.ts";
import type { Cond, Expr, Stmt, View } from "./types.ts";

/** The statement itself, without its nested lists, with what `expr` makes of its expressions: bounds, conditions, chunks, slots and origins of views. */
export function withExprs(stmt: Stmt, expr: (e: Expr) => Expr): Stmt {
  const cond = (c: Cond): Cond => ({ ...c, lhs: expr(c.lhs), rhs: expr(c.rhs) });
  const view = (x: View): View => ({
    ...x,
    slot: expr(x.slot),
    origin: [expr(x.origin[0]), expr(x.origin[1])],
  });
  switch (stmt.kind) {
    case "tiles":
      return stmt.until === undefined ? stmt : { ...stmt, until: expr(stmt.until) };
    case "for":
      return {
        ...stmt,
        from: expr(stmt.from),
        to: expr(stmt.to),
        ...(stmt.within && {
          within: { ...stmt.within, bounds: [expr(stmt.within.bounds[0]), expr(stmt.within.bounds[1])] },
        }),
      };
    case "if":
      return { ...stmt, cond: cond(stmt.cond) };
    case "copy":
      return {
        ...stmt,
        dst: view(stmt.dst),
        src: view(stmt.src),
        when: stmt.when === null ? null : cond(stmt.when),
      };
    case "mma":
      return {
        ...withSumViews(withOperandViews(stmt, view), view),
        ...(stmt.keep ? { keep: cond(stmt.keep) } : {}),
      };
    case "accumulate":
      return {
        ...stmt,
        acc: view(stmt.acc),
        sum: view(stmt.sum),
        ...(stmt.scales && {
          scales: { a: view(stmt.scales.a), ...(stmt.scales.b && { b: view(stmt.scales.b) }) },
        }),
      };
    case "acquire":
    case "commit":
    case "wait":
    case "release":
    case "request":
    case "next":
      return { ...stmt, at: expr(stmt.at) };
    case "fill":
      return { ...stmt, dst: view(stmt.dst) };
    case "vote":
      return { ...stmt, factor: view(stmt.factor) };
    case "map":
    case "reduce.row":
      return withElementViews(stmt, view, expr);
    case "stage":
    case "bulk.store":
    case "warp.store":
      return { ...stmt, via: view(stmt.via) };
    case "partial.stage":
    case "bulk.reduce":
      return { ...stmt, acc: view(stmt.acc), from: expr(stmt.from), slot: expr(stmt.slot) };
    case "reduction":
      return { ...stmt, unless: stmt.unless && cond(stmt.unless) };
    case "counter.add":
      return { ...stmt, by: expr(stmt.by) };
    case "counter.leave":
      return { ...stmt, unless: expr(stmt.unless) };
    case "reduce":
      return { ...stmt, acc: view(stmt.acc), into: stmt.into === null ? null : view(stmt.into) };
    case "epilogue":
      return {
        ...stmt,
        dst: view(stmt.dst),
        acc: view(stmt.acc),
        c: stmt.c === null ? null : view(stmt.c),
        via: stmt.via === null ? null : view(stmt.via),
        ...withInputs(stmt, view),
      };
    default:
      return stmt;
  }
}
