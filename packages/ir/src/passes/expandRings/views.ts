/** Views of a statement, those that it writes and those that it reads. */
import { withElementViews } from "../../tile/elements.ts";
import { withOperandViews, withSumViews } from "../../tile/scaleTiles.ts";
import { withInputs } from "../../tile/stepViews.ts";
import type { Stmt, View } from "../../tile/types.ts";

type OfView = (view: View) => View;

export function withViews(stmt: Stmt, written: OfView, read: OfView): Stmt {
  switch (stmt.kind) {
    case "fill":
      return { ...stmt, dst: written(stmt.dst) };
    case "copy":
      return { ...stmt, dst: written(stmt.dst), src: read(stmt.src) };
    case "mma":
      return withSumViews(withOperandViews(stmt, read), written);
    case "map":
    case "reduce.row":
      return withElementViews(stmt, (view) => (view === stmt.dst ? written : read)(view));
    case "epilogue":
      return { ...stmt, c: stmt.c === null ? null : read(stmt.c), ...withInputs(stmt, read) };
    default:
      return stmt;
  }
}
