/** Loops and products of programs over named axes: what they are, and why some are none that is scheduled. */
import { foldExpression, leavesOf } from "@tilewright/core";
import {
  type AxisProgram,
  type AxisStmt,
  axisOf,
  type Named,
  type NamedLeaf,
  namedIn,
  type Parameter,
} from "./types.ts";

/** A product of a program. */
export type Product = Extract<AxisStmt, { kind: "mma" }>;

/** The products of statements, in order. */
export const products = (stmts: readonly AxisStmt[]): readonly Product[] =>
  stmts.flatMap((stmt) => (stmt.kind === "for" ? products(stmt.body) : stmt.kind === "mma" ? [stmt] : []));

/** The fewest elements of an axis that an iteration of a loop over tiles of it has, where the axis is not shorter. */
export const LEAST_COLUMNS = 32;

/** A loop whose iterations have the axis by tiles, as wide as the schedule's, with loops over other axes in it. */
export const isColumnLoop = (stmt: AxisStmt): boolean =>
  stmt.kind === "for" && stmt.body.some(({ kind }) => kind === "for");

/** What an expression has in it: positions, positions that are rounded, selections, selections by position, one of them in another, soft caps. */
type Found = "position" | "rounds" | "selects" | "masks" | "twice" | "caps";

/** Whether a map in a statement selects, selects by position, rounds positions, or applies the function of a soft cap. */
export const choosesElements = (stmt: AxisStmt, how: Exclude<Found, "position">): boolean =>
  "body" in stmt
    ? stmt.body.some((inner) => choosesElements(inner, how))
    : stmt.kind === "map" &&
      foldExpression<NamedLeaf, ReadonlySet<Found>>(stmt.value, {
        number: () => new Set(),
        leaf: ({ kind }) => new Set(kind === "position" ? [kind] : []),
        apply: (fn, args) => {
          const found = new Set(args.flatMap((arg) => [...arg]));
          if (fn === "select") found.add("selects");
          if (fn === "tanh") found.add("caps");
          if (fn === "floor" && found.has("position")) found.add("rounds");
          if (fn === "select" && args.slice(2).some((arg) => arg.has("masks"))) found.add("twice");
          // The first two are compared.
          if (fn === "select" && args.slice(0, 2).some((arg) => arg.has("position"))) found.add("masks");
          return found;
        },
      }).has(how);

/** What a statement writes. */
const writtenBy = (stmt: AxisStmt): string =>
  stmt.kind === "for" || stmt.kind === "merge"
    ? ""
    : stmt.kind === "store"
      ? stmt.param
      : stmt.kind === "mma"
        ? stmt.acc
        : stmt.tile;

/** Why products do not make a chain that is scheduled; null where they do. */
export function chainFault(
  program: AxisProgram,
  chain: readonly Product[],
): readonly [message: string, hint: string] | null {
  const named = (name: string): Named => namedIn(program, name);
  const cut = partedAxes(program);
  for (const [i, { acc, a, b }] of chain.entries()) {
    const [, columns = ""] = named(acc).axes;
    if (!isParameter(named(b))) return [`multiplies by %${b}, a tile`, "let the right factor be a parameter"];
    if (chain.findIndex((other) => other.acc === acc) < i)
      return [`adds two products into %${acc}`, "give each product an accumulator"];
    if (i < chain.length - 1 && !axisOf(program, columns).whole && !cut.has(columns))
      return [`has ${columns} in parts, along which a product follows`, `declare axis ${columns} whole`];
    if (i === 0 && !isParameter(named(a))) return ["multiplies tiles first", "multiply parameters"];
    if (i === 0) continue;
    const [{ dtype: first }, { dtype }] = [named(chain[0]?.a ?? ""), named(a)];
    if (dtype !== first)
      return [`multiplies ${dtype} behind ${first}`, `let all products have factors of ${first}`];
    if (isParameter(named(a))) continue;
    if (eachAxisStmt(program.body).some((stmt) => stmt.kind !== "map" && writtenBy(stmt) === a))
      return [`multiplies %${a}, which is no result of a map`, `map it into a tile, and multiply that`];
  }
  return null;
}

/** Axes that loops have parts of. */
export const partedAxes = ({ body }: AxisProgram): ReadonlySet<string> =>
  new Set(body.flatMap((stmt) => (stmt.kind === "for" && isColumnLoop(stmt) ? [stmt.axis] : [])));

/** Axes of tiles that products go on from, of which a work tile has all at once. */
export const wholeFactors = (program: AxisProgram, chain: readonly Product[]): readonly string[] =>
  chain.slice(1).flatMap(({ a }) => {
    const { axes } = namedIn(program, a);
    const [, axis = ""] = axes;
    return isParameter(namedIn(program, a)) || partedAxes(program).has(axis) ? [] : [axis];
  });

export const eachAxisStmt = (stmts: readonly AxisStmt[]): readonly AxisStmt[] =>
  stmts.flatMap((stmt) => ("body" in stmt ? eachAxisStmt(stmt.body) : [stmt]));

/** Names in the expression of a statement. */
export const readsOf = (stmt: AxisStmt): readonly string[] =>
  "value" in stmt && typeof stmt.value === "object"
    ? leavesOf(stmt.value).flatMap((leaf) => (leaf.kind === "element" ? [leaf.name] : []))
    : [];

/** Whether a name is a parameter's. */
export const isParameter = (named: Named): named is Parameter => "memory" in named;

/** Turns of a loop have parts of the axis: a product, or sums that nothing else of the loop reads. Anything else would see how far the turns have come. */
export function loopFault(
  program: AxisProgram,
  loop: Extract<AxisStmt, { kind: "for" }>,
): readonly [message: string, hint: string] | null {
  const { axis, body } = loop;
  const apart = `write it outside the loop over ${axis}`;
  if (isColumnLoop(loop)) {
    if (axisOf(program, axis).whole || program.grid.includes(axis))
      return [
        `has a loop over parts of ${axis}, of which work tiles have all or their own`,
        `let another axis be looped over`,
      ];
    const inner = body.flatMap((stmt) => (stmt.kind === "for" ? [stmt] : []));
    return inner.map((stmt) => loopFault(program, stmt)).find((found) => found !== null) ?? null;
  }
  if (body.length > 1 && products(body).length > 0)
    return [`does more than multiply in the loop over ${axis}`, `write another loop over ${axis}`];
  const written = body.flatMap((stmt) => (stmt.kind === "reduce" ? [stmt.tile] : []));
  for (const stmt of body) {
    if (stmt.kind === "mma") continue;
    if (stmt.kind !== "reduce") return [`has '${stmt.kind}' in the loop over ${axis}`, apart];
    for (const name of readsOf(stmt)) {
      const named = namedIn(program, name);
      if (written.includes(name) || (!isParameter(named) && named.axes.includes(axis)))
        return [`reads %${name} in the loop over ${axis}`, apart];
    }
  }
  return null;
}
