/** In which order the products of an element of D are added: what two kernels must share to give a row the same bits. */

import { evaluateExpr, freeVars } from "./tile/expr.ts";
import { printExpr } from "./tile/printExpr.ts";
import { eachStmt } from "./tile/rewrite.ts";
import type { Expr, Of, Stmt, TileProgram } from "./tile/types.ts";

const isLoop = (stmt: Stmt): stmt is Of<"for"> => stmt.kind === "for";
const isProduct = (stmt: Stmt): stmt is Of<"mma"> => stmt.kind === "mma";

/** The instruction without what has nothing to do with K: `m64k16.f32.bf16.bf16` of any width n. */
const instruction = (atom: string): string => atom.replace(/^(m\d+)n\d+/, "$1");

/** `4096`, or an expression of what only the launch knows. */
const lengthOf = (turns: Expr, width: number): string =>
  freeVars(turns).size === 0
    ? String(evaluateExpr(turns, new Map()) * width)
    : `(${printExpr(turns)}) * ${width}`;

/**
 * The order as text, read off a program of stage `nest`: the instruction with its extent along K, how far along K (padding included) each sum goes from zero on, in ascending order, which sums
 * are added to which accumulator, and how parts of a split become one. Elements of all tiles have it, whatever m, n, the tile and its place. Null where the place decides (stream-K), parts are added as
 * they come, or the program is no single product.
 */
export function additionsOf({ body, directives }: Pick<TileProgram, "body" | "directives">): string | null {
  const all = eachStmt(body);
  const [tiles] = all.filter((stmt) => stmt.kind === "tiles");
  const products = all.filter(isProduct);
  const [loop, ...others] = all.filter(isLoop).filter(({ body }) => eachStmt(body).some(isProduct));
  const [mma] = products;
  if (tiles === undefined || mma === undefined || loop === undefined) return null;
  if (products.length > 1 || others.length > 0 || tiles.streamK !== undefined) return null;
  const ways = all.filter((stmt) => stmt.kind === "reduce").map(({ by }) => by);
  if (ways.some((by) => by === "atomics" || by === "bulk")) return null;
  const every = directives.flatMap((each) => (each.name === "twoLevel" ? [JSON.stringify(each.args)] : []));
  return [
    instruction(mma.atom),
    `k 0 to ${lengthOf(loop.to, mma.a.extent[1])} ascending`,
    every.length === 0 ? "one accumulator" : `accumulators of two levels ${every.join()}`,
    tiles.split === null ? "split none" : `split ${tiles.split.extent}, parts in order by ${ways.join()}`,
  ].join("; ");
}
