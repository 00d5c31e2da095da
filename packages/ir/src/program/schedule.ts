/** From a program over named axes to a tile program: its product is a matrix product's, with that one's nest and directives, and its other statements stand around it. */
import {
  type Checked,
  type Diagnostic,
  defineProblem,
  err,
  leavesOf,
  mapLeaves,
  ok,
  type Problem,
} from "@tilewright/core";
import { lit, mul, v } from "../tile/expr.ts";
import { registerBuffer, tierExtent, tileExtent } from "../tile/gemm.ts";
import { bufferOf, eachStmt, wholeView, withBody } from "../tile/rewrite.ts";
import type { Buffer, ElementExpr, Expr, Stmt, TileProgram, View } from "../tile/types.ts";
import { type AxisProgram, type AxisStmt, axisOf, type NamedExpr, namedIn } from "./types.ts";

type Product = Extract<AxisStmt, { kind: "mma" }>;

/** What is not expressed yet. */
export const PROGRAM_SHAPE = "TW3170";

/** Columns of a parameter that a turn of a loop reads where nothing multiplies it. */
const CHUNK = 32;

/** The product of a program and the parameters of its matrices. */
export interface Anchor {
  readonly problem: Problem;
  readonly product: Product;
  readonly stored: Extract<AxisStmt, { kind: "store" }>;
}

const refuse = (name: string, message: string, hint: string): readonly Diagnostic[] => [
  { code: PROGRAM_SHAPE, kind: "unsupported", at: `@${name}`, message, hint },
];

const products = (stmts: readonly AxisStmt[]): readonly Product[] =>
  stmts.flatMap((stmt) => (stmt.kind === "for" ? products(stmt.body) : stmt.kind === "mma" ? [stmt] : []));

/** The matrix product whose schedules the program takes. Errors: programs without one, or with more than this release schedules. */
export function anchorOf(program: AxisProgram): Checked<Anchor> {
  const [product, second] = products(program.body);
  const stores = program.body.filter((stmt) => stmt.kind === "store");
  const [stored] = stores;
  if (product === undefined || second !== undefined)
    return err(refuse(program.name, "has no product, or several", "write one mma"));
  if (stored === undefined || stores.length > 1 || program.body.at(-1) !== stored)
    return err(refuse(program.name, "stores nothing, or not at its end", "end with one store"));
  const [a, b, acc, d] = [product.a, product.b, product.acc, stored.param].map((n) => namedIn(program, n));
  if (!a || !b || !acc || !d || !("layout" in a && "layout" in b && "layout" in d))
    return err(refuse(program.name, "multiplies tiles", "multiply parameters"));
  const [m = "", n = ""] = acc.axes;
  const [, k = ""] = a.axes;
  if (program.grid[0] !== m || program.grid[1] !== n || d.axes[0] !== m || d.axes[1] !== n)
    return err(
      refuse(program.name, `tiles, sums and what is stored differ in axes`, `write tiles ${m}, ${n}`),
    );
  const roles = [product.a, product.b, stored.param];
  const other = program.params.find(({ name }) => !roles.includes(name));
  if (other !== undefined)
    return err(
      refuse(
        program.name,
        `has parameter %${other.name}, which is neither multiplied nor stored`,
        "compute with the product's parameters and with tiles",
      ),
    );
  if (eachAxisStmt(program.body).some((stmt) => readsOf(stmt).includes(stored.param)))
    return err(refuse(program.name, `reads %${stored.param}, which it stores`, "keep the value in a tile"));
  for (const stmt of program.body) {
    const fault = stmt.kind === "for" ? loopFault(program, stmt) : null;
    if (fault !== null) return err(refuse(program.name, ...fault));
  }
  const extent = (name: string): number => axisOf(program, name).extent;
  const problem = defineProblem({
    m: extent(m),
    n: extent(n),
    k: extent(k),
    a: { dtype: a.dtype, layout: a.layout },
    b: { dtype: b.dtype, layout: b.layout },
    d: { dtype: d.dtype, layout: d.layout },
  });
  return problem.ok ? ok({ problem: problem.value, product, stored }) : problem;
}

const eachAxisStmt = (stmts: readonly AxisStmt[]): readonly AxisStmt[] =>
  stmts.flatMap((stmt) => (stmt.kind === "for" ? eachAxisStmt(stmt.body) : [stmt]));

/** Names in the expression of a statement. */
const readsOf = (stmt: AxisStmt): readonly string[] =>
  "value" in stmt && typeof stmt.value === "object"
    ? leavesOf(stmt.value).flatMap((leaf) => (leaf.kind === "element" ? [leaf.name] : []))
    : [];

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
      if (written.includes(name) || (!("layout" in named) && named.axes.includes(axis)))
        return [`reads %${name} in the loop over ${axis}`, apart];
    }
  }
  return null;
}

/** Directives after which an accumulator's rows are in no one's hands for a `reduce.row`, or its columns come apart. */
const incompatible: ReadonlySet<string> = new Set([
  "swapAB",
  "tail",
  "twoLevel",
  "dsmemReduction",
  "overlapAccumulators",
]);

/**
 * The program on the nest of `base`, the tile program of its product. Null where that does not fit: axes that are whole are cut, blocks share tiles,
 * accumulators do not lie by rows.
 */
export function scheduleProgram(program: AxisProgram, anchor: Anchor, base: TileProgram): TileProgram | null {
  const { nest } = base;
  const [tiles] = base.body;
  if (nest === null || tiles?.kind !== "tiles" || tiles.split !== null || tiles.streamK !== undefined)
    return null;
  if (base.directives.some(({ name }) => incompatible.has(name))) return null;
  const [rows, columns] = program.grid;
  const cut = (axis: string, factors: typeof nest.m): boolean =>
    axisOf(program, axis).whole && tierExtent(factors, "grid") > 1;
  if (cut(rows, nest.m) || cut(columns, nest.n)) return null;
  const made = new Body(program, anchor, base, [tileExtent(nest.m), tileExtent(nest.n)]);
  const body = made.list(program.body, null);
  return {
    ...withBody(base, [{ ...tiles, body }]),
    name: program.name,
    buffers: [...base.buffers, ...made.added],
  };
}

/** A turn of a loop over an axis that nothing is multiplied in; `below`: columns of the last one, null where it is whole. */
interface Turn {
  readonly axis: string;
  readonly at: Expr;
  readonly below: number | null;
}

class Body {
  readonly added: Buffer[] = [];
  readonly #program: AxisProgram;
  readonly #anchor: Anchor;
  readonly #base: TileProgram;
  readonly #tile: readonly [number, number];
  readonly #origin: readonly [Expr, Expr];
  readonly #acc: Buffer;

  constructor(program: AxisProgram, anchor: Anchor, base: TileProgram, tile: readonly [number, number]) {
    this.#program = program;
    this.#anchor = anchor;
    this.#base = base;
    this.#tile = tile;
    const [tiles] = base.body;
    const [row, col] = tiles?.kind === "tiles" ? tiles.vars : ["", ""];
    this.#origin = [mul(v(row), tile[0]), mul(v(col), tile[1])];
    const product = eachStmt(base.body).find((stmt) => stmt.kind === "mma");
    this.#acc = bufferOf(base, product?.acc.buffer ?? "");
  }

  list(stmts: readonly AxisStmt[], turn: Turn | null): readonly Stmt[] {
    return stmts.flatMap((stmt) => this.#stmt(stmt, turn));
  }

  #stmt(stmt: AxisStmt, turn: Turn | null): readonly Stmt[] {
    switch (stmt.kind) {
      case "fill":
        return [{ kind: "fill", dst: wholeView(this.#held(stmt.tile)), value: stmt.value }];
      case "for":
        return products(stmt.body).length > 0 ? this.#chunks() : this.#turns(stmt);
      case "mma":
        return [];
      case "map":
        return [{ kind: "map", dst: wholeView(this.#held(stmt.tile)), value: this.#value(stmt.value, turn) }];
      case "reduce":
        return this.#reduce(stmt, turn);
      case "store": {
        const epilogue = eachStmt(this.#base.body).find((each) => each.kind === "epilogue");
        if (epilogue === undefined) throw new TypeError("a matrix product stores its sums");
        const { value } = stmt;
        const plain =
          value.kind === "leaf" &&
          value.leaf.kind === "element" &&
          value.leaf.name === this.#anchor.product.acc;
        const dst = wholeView(this.#acc);
        return [...(plain ? [] : [{ kind: "map", dst, value: this.#value(value, turn) } as const]), epilogue];
      }
    }
  }

  /** The product's loop as the matrix product has it. */
  #chunks(): readonly Stmt[] {
    return this.#base.body.flatMap((tiles) =>
      tiles.kind === "tiles" ? tiles.body.filter((stmt) => stmt.kind === "for") : [],
    );
  }

  /** What is left of the axis behind the loop has a turn of its own: outside a parameter reads give 0, of which an expression may make anything. */
  #turns({ axis, body }: Extract<AxisStmt, { kind: "for" }>): readonly Stmt[] {
    const name = `${axis}t`;
    const { extent } = axisOf(this.#program, axis);
    const [turns, rest] = [Math.floor(extent / CHUNK), extent % CHUNK];
    const inside = this.list(body, { axis, at: mul(v(name), CHUNK), below: null });
    const behind = { axis, at: lit(turns * CHUNK), below: rest };
    return [
      ...(turns === 0
        ? []
        : [{ kind: "for", var: name, from: lit(0), to: lit(turns), unroll: false, body: inside } as const]),
      ...(rest === 0 ? [] : this.list(body, behind)),
    ];
  }

  /** Of parameters, whose elements nobody holds, a register tile first: its owner says who reads what. */
  #reduce(stmt: Extract<AxisStmt, { kind: "reduce" }>, turn: Turn | null): readonly Stmt[] {
    const dst = wholeView(this.#held(stmt.tile));
    const { op, adds } = stmt;
    const value = this.#value(stmt.value, turn);
    const reduced = { kind: "reduce.row", dst, op, adds, via: null } as const;
    if (turn === null) {
      const { extent } = axisOf(this.#program, stmt.along);
      return [{ ...reduced, value, below: extent < this.#tile[1] ? extent : null }];
    }
    const part = this.#buffer(`${stmt.tile}_part`, [this.#tile[0], CHUNK]);
    const leaf = { kind: "leaf", leaf: { kind: "view", view: wholeView(part) } } as const;
    return [
      { kind: "map", dst: wholeView(part), value },
      { ...reduced, value: leaf, below: turn.below },
    ];
  }

  #value(e: NamedExpr, turn: Turn | null): ElementExpr {
    return mapLeaves(e, (leaf) =>
      leaf.kind === "position" ? { kind: "col" } : { kind: "view", view: this.#view(leaf.name, turn) },
    );
  }

  /** The part of a parameter that the work tile, or the turn, has; or all of a tile. */
  #view(name: string, turn: Turn | null): View {
    const named = namedIn(this.#program, name);
    if (!("layout" in named)) return wholeView(this.#held(name));
    const { product, stored } = this.#anchor;
    const roles = new Map([
      [product.a, "A"],
      [product.b, "B"],
      [stored.param, "D"],
    ]);
    const span = (axis: string): readonly [Expr, number] => {
      if (turn?.axis === axis) return [turn.at, CHUNK];
      const at = axis === this.#program.grid[0] ? 0 : 1;
      return [this.#origin[at], this.#tile[at]];
    };
    const [[row, rows], [col, cols]] = [span(named.axes[0]), span(named.axes[1])];
    const buffer = roles.get(name) ?? name;
    return { buffer, slot: lit(0), origin: [row, col], extent: [rows, cols] };
  }

  /** The register tile of a program's tile. */
  #held(name: string): Buffer {
    if (name === this.#anchor.product.acc) return this.#acc;
    const { axes } = namedIn(this.#program, name);
    return this.#buffer(name, [this.#tile[0], axes.length === 1 ? 1 : this.#tile[1]]);
  }

  #buffer(name: string, shape: readonly [number, number]): Buffer {
    const known = this.added.find((b) => b.name === name);
    if (known !== undefined) return known;
    const taken = this.#base.buffers.some((b) => b.name === name);
    const made = registerBuffer(taken ? `${name}_` : name, "f32", shape);
    const same = this.added.find((b) => b.name === made.name);
    if (same !== undefined) return same;
    this.added.push(made);
    return made;
  }
}
