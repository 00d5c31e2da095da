/** What a program over named axes multiplies and launches: the matrix products whose schedules it takes, and what its parameters are to the kernel. */
import {
  type Checked,
  type Diagnostic,
  defineProblem,
  err,
  leavesOf,
  type Operand,
  ok,
  type Problem,
  sizeOf,
} from "@tilewright/core";
import { type AxisProgram, type AxisStmt, axisOf, type Named, namedIn, type Parameter } from "./types.ts";

/** A product of a program. */
export type Product = Extract<AxisStmt, { kind: "mma" }>;

/** What is not expressed yet. */
export const PROGRAM_SHAPE = "TW3170";

/** The products of a program, each of which but the first multiplies what a tile holds, and what its parameters are to the kernel. */
export interface Anchor {
  /**
   * Whose schedules the program takes: the first product's rows and inner axis, and columns for every tile; of a program without one, of D with a k of 1, whose A and B no
   * kernel reads.
   */
  readonly problem: Problem;
  /** What a launch takes. Parameters that are neither operands of the first product nor stored are what steps of the epilogue read, factors of further products the last. */
  readonly launched: Problem;
  readonly products: readonly Product[];
  readonly stored: Extract<AxisStmt, { kind: "store" }>;
  /** The tile that is stored: the last product's sums, or the first matrix. */
  readonly acc: string;
  /** By parameter: the operand, as manifests call it. */
  readonly operands: ReadonlyMap<string, OperandName>;
}

type OperandName = "a" | "b" | "d" | `epilogue${number}`;

const refuse = (name: string, message: string, hint: string): readonly Diagnostic[] => [
  { code: PROGRAM_SHAPE, kind: "unsupported", at: `@${name}`, message, hint },
];

/** The products of statements, in order. */
export const products = (stmts: readonly AxisStmt[]): readonly Product[] =>
  stmts.flatMap((stmt) => (stmt.kind === "for" ? products(stmt.body) : stmt.kind === "mma" ? [stmt] : []));

/** What a statement writes. */
const writtenBy = (stmt: AxisStmt): string =>
  stmt.kind === "for" ? "" : stmt.kind === "store" ? stmt.param : stmt.kind === "mma" ? stmt.acc : stmt.tile;

/** Why products do not make a chain that is scheduled; null where they do. */
function chainFault(
  program: AxisProgram,
  chain: readonly Product[],
): readonly [message: string, hint: string] | null {
  const named = (name: string): Named => namedIn(program, name);
  for (const [i, { acc, a, b }] of chain.entries()) {
    const [, columns = ""] = named(acc).axes;
    if (!isParameter(named(b))) return [`multiplies by %${b}, a tile`, "let the right factor be a parameter"];
    if (chain.findIndex((other) => other.acc === acc) < i)
      return [`adds two products into %${acc}`, "give each product an accumulator"];
    if (i < chain.length - 1 && !axisOf(program, columns).whole)
      return [`has ${columns} in parts, along which a product follows`, `declare axis ${columns} whole`];
    if (i === 0 && !isParameter(named(a))) return ["multiplies tiles first", "multiply parameters"];
    if (i === 0) continue;
    const [{ dtype: first }, { dtype }] = [named(chain[0]?.a ?? ""), named(a)];
    if (dtype !== first)
      return [`multiplies ${dtype} behind ${first}`, `let all products have factors of ${first}`];
    if (isParameter(named(a)))
      return [`multiplies parameters twice`, `multiply what is made of %${chain[i - 1]?.acc}`];
    if (eachAxisStmt(program.body).some((stmt) => stmt.kind !== "map" && writtenBy(stmt) === a))
      return [`multiplies %${a}, which is no result of a map`, `map it into a tile, and multiply that`];
  }
  return null;
}

/** The matrix products whose loops the program has, and its parameters. Errors: programs of forms that this release does not schedule. */
export function anchorOf(program: AxisProgram): Checked<Anchor> {
  const fault = (message: string, hint: string) => err(refuse(program.name, message, hint));
  const chain = products(program.body);
  const [product] = chain;
  const stores = program.body.filter((stmt) => stmt.kind === "store");
  const [stored] = stores;
  if (stored === undefined || stores.length > 1 || program.body.at(-1) !== stored)
    return fault("stores nothing, or not at its end", "end with one store");
  const broken = chainFault(program, chain);
  if (broken !== null) return fault(...broken);
  const acc = chain.at(-1)?.acc ?? program.tiles.find(({ axes }) => axes.length === 2)?.name;
  if (acc === undefined) return fault("holds no matrix", "declare a tile of both axes");
  const parameter = (name: string): Parameter => {
    const found = namedIn(program, name);
    if (!isParameter(found)) throw new TypeError("factors and what is stored are parameters");
    return found;
  };
  const d = parameter(stored.param);
  const [m, n] = program.grid;
  for (const { axes } of [namedIn(program, acc), d, ...program.tiles]) {
    const [rows, columns = n] = axes;
    const inner = chain.slice(0, -1).some((each) => namedIn(program, each.acc).axes[1] === columns);
    if (rows !== m || (columns !== n && !inner))
      return fault("tiles, sums and what is stored differ in axes", `write tiles ${m}, ${n}`);
  }
  const factors = chain.slice(1).map((each) => parameter(each.b));
  const operands = new Map<string, OperandName>([[stored.param, "d"]]);
  if (product !== undefined) operands.set(product.a, "a").set(product.b, "b");
  const inputs = program.params.filter((each) => !operands.has(each.name) && !factors.includes(each));
  for (const { name, axes } of inputs) {
    const [first, second = n] = axes;
    if (axes.length === 1 ? first !== m && first !== n : first !== m || second !== n)
      return fault(
        `has parameter %${name}, which is not multiplied and has other axes than the tiles`,
        `its axes can be ${m}, ${n}, or one of them`,
      );
  }
  for (const [i, { name }] of [...inputs, ...factors].entries()) {
    if (operands.has(name)) return fault(`multiplies %${name} twice`, "declare it once for each product");
    operands.set(name, `epilogue${i}`);
  }
  if (eachAxisStmt(program.body).some((stmt) => readsOf(stmt).includes(stored.param)))
    return fault(`reads %${stored.param}, which it stores`, "keep the value in a tile");
  for (const stmt of program.body) {
    const found = stmt.kind === "for" ? loopFault(program, stmt) : null;
    if (found !== null) return fault(...found);
  }
  const extent = (name: string | undefined): number => axisOf(program, name ?? "").extent;
  const matrix = ({ dtype, layout }: Parameter) => ({ dtype, layout });
  const operand = (name: string | undefined) =>
    name === undefined ? { dtype: "f32" as const } : matrix(parameter(name));
  const request = {
    m: extent(m),
    k: product === undefined ? 1 : extent(namedIn(program, product.a).axes[1]),
    a: operand(product?.a),
    b: operand(product?.b),
    d: matrix(d),
  };
  const read = inputs.map(({ name, dtype, axes, layout }) =>
    axes.length === 1
      ? ({ kind: "load", by: axes[0] === m ? "m" : "n", dtype, name } as const)
      : ({ kind: "source", operand: { dtype, layout }, name } as const),
  );
  const multiplied = factors.map(({ name, axes, ...of }) => {
    const [rows, columns] = [extent(axes[0]), extent(axes[1])];
    const ld = of.layout === "row" ? columns : rows;
    return {
      kind: "factor",
      rows,
      columns,
      operand: { ...matrix({ name, axes, ...of }), ld },
      name,
    } as const;
  });
  const widest = Math.max(extent(n), ...chain.map((each) => extent(namedIn(program, each.acc).axes[1])));
  const launched = defineProblem({ ...request, n: extent(n), epilogue: [...read, ...multiplied] });
  if (!launched.ok) return launched;
  // Copies are chosen for rows of all matrices, which are others than those of the one product.
  const right = [launched.value.b, ...multiplied.map((step) => step.operand)].map(rowAlign);
  const problem = defineProblem({
    ...request,
    ...(chain.length < 2
      ? {}
      : {
          b: { ...request.b, align: Math.min(...right) },
          d: { ...request.d, align: rowAlign(launched.value.d) },
        }),
    n: widest,
    epilogue: read,
  });
  if (!problem.ok) return problem;
  return ok({
    ...{ problem: problem.value, launched: launched.value },
    ...{ products: chain, stored, acc, operands },
  });
}

/** Bytes, 16 at most, of which the rows (columns) of a matrix that begins at a multiple of 16 all begin at multiples. */
function rowAlign({ dtype, ld }: Pick<Operand, "dtype" | "ld">): number {
  let align = 16;
  while ((ld * sizeOf(dtype)) % align !== 0) align /= 2;
  return align;
}

const eachAxisStmt = (stmts: readonly AxisStmt[]): readonly AxisStmt[] =>
  stmts.flatMap((stmt) => (stmt.kind === "for" ? eachAxisStmt(stmt.body) : [stmt]));

/** Names in the expression of a statement. */
const readsOf = (stmt: AxisStmt): readonly string[] =>
  "value" in stmt && typeof stmt.value === "object"
    ? leavesOf(stmt.value).flatMap((leaf) => (leaf.kind === "element" ? [leaf.name] : []))
    : [];

/** Whether a name is a parameter's. */
export const isParameter = (named: Named): named is Parameter => "layout" in named;

/** Turns of a loop have parts of the axis: a product, or sums that nothing else of the loop reads. Anything else would see how far the turns have come. */
function loopFault(
  program: AxisProgram,
  { axis, body }: Extract<AxisStmt, { kind: "for" }>,
): readonly [message: string, hint: string] | null {
  const apart = `write it outside the loop over ${axis}`;
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
