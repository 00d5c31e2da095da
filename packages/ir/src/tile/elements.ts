/** The views of statements that compute with elements. */
import { leavesOf } from "@tilewright/core";
import { freeVars, lit } from "./expr.ts";
import type { ElementExpr, Expr, Stmt, View } from "./types.ts";

/** `map` and `reduce.row`. */
export type ElementStmt = Extract<Stmt, { readonly kind: "map" | "reduce.row" }>;

/** Barrier of the warps of a role around such statements: none of those at which groups of them meet, some of which may still be behind. */
export const ELEMENT_BARRIER = 13;

export const isElementStmt = (stmt: Stmt): stmt is ElementStmt =>
  stmt.kind === "map" || stmt.kind === "reduce.row";

/** What the expression reads. */
export const elementSources = (value: ElementExpr): readonly View[] =>
  leavesOf(value).flatMap((leaf) => (leaf.kind === "view" ? [leaf.view] : []));

/** Where the expression counts rows and columns from, one for each time that it does. */
export const elementOrigins = (value: ElementExpr): readonly Expr[] =>
  leavesOf(value).flatMap((leaf) => (leaf.kind === "view" ? [] : [leaf.from ?? lit(0)]));

/** Of `map %t = %t * %z`, which multiplies a tile by the factor of each row, the factor; null of other statements. */
export function factorOf(stmt: Stmt): View | null {
  if (stmt.kind !== "map" || stmt.value.kind !== "apply" || stmt.value.fn !== "mul") return null;
  const [tile, factor] = elementSources(stmt.value);
  const plain = stmt.value.args.every(({ kind }) => kind === "leaf");
  return plain && factor && tile?.buffer === stmt.dst.buffer && factor.buffer !== tile.buffer ? factor : null;
}

/** Whether the statement reads by variables: of the work tile, for instance. */
export const readsBy = (stmt: Stmt, vars: readonly string[]): boolean =>
  isElementStmt(stmt) &&
  leavesOf(stmt.value)
    .flatMap((leaf) => (leaf.kind === "view" ? leaf.view.origin : leaf.from === undefined ? [] : [leaf.from]))
    .some((e) => [...freeVars(e)].some((name) => vars.includes(name)));

/** Rows and columns that the statement goes through: those of what it writes, or of the widest tile that it reduces. */
export function elementDomain(stmt: ElementStmt): readonly [rows: number, cols: number] {
  if (stmt.kind === "map") return stmt.dst.extent;
  const widest = Math.max(...elementSources(stmt.value).map(({ extent }) => extent[1]), 1);
  return [stmt.dst.extent[0], widest];
}
