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
  sizeOf,
  stepBuffer,
} from "@tilewright/core";
import { lit, mul, v } from "../tile/expr.ts";
import { gemmNest, registerBuffer, stepInput, tierExtent, tileExtent } from "../tile/gemm.ts";
import { bufferOf, eachStmt, wholeView, withBody } from "../tile/rewrite.ts";
import type {
  Buffer,
  ElementExpr,
  Expr,
  OwnershipMode,
  Stmt,
  Tier,
  TileProgram,
  View,
} from "../tile/types.ts";
import { type AxisProgram, type AxisStmt, axisOf, type Named, type NamedExpr, namedIn } from "./types.ts";

type Product = Extract<AxisStmt, { kind: "mma" }>;

/** What is not expressed yet. */
export const PROGRAM_SHAPE = "TW3170";

/** Columns of a parameter that a turn of a loop reads where nothing multiplies it. */
const CHUNK = 32;

/** A program's product, if it has one, and what its parameters are to the kernel. */
export interface Anchor {
  /** The product's; of a program without one, of D with a k of 1, whose A and B no kernel reads. */
  readonly problem: Problem;
  readonly product: Product | null;
  readonly stored: Extract<AxisStmt, { kind: "store" }>;
  /** The tile that is stored: the product's sums, or the first matrix. */
  readonly acc: string;
  /** By parameter: the operand, as manifests call it. What is neither multiplied nor stored is what steps of the problem's epilogue read. */
  readonly operands: ReadonlyMap<string, "a" | "b" | "d" | `epilogue${number}`>;
}

const refuse = (name: string, message: string, hint: string): readonly Diagnostic[] => [
  { code: PROGRAM_SHAPE, kind: "unsupported", at: `@${name}`, message, hint },
];

const products = (stmts: readonly AxisStmt[]): readonly Product[] =>
  stmts.flatMap((stmt) => (stmt.kind === "for" ? products(stmt.body) : stmt.kind === "mma" ? [stmt] : []));

/** The matrix product whose schedules the program takes, and its parameters. Errors: programs with more than this release schedules. */
export function anchorOf(program: AxisProgram): Checked<Anchor> {
  const [product = null, second] = products(program.body);
  const stores = program.body.filter((stmt) => stmt.kind === "store");
  const [stored] = stores;
  if (second !== undefined) return err(refuse(program.name, "has several products", "write one mma"));
  if (stored === undefined || stores.length > 1 || program.body.at(-1) !== stored)
    return err(refuse(program.name, "stores nothing, or not at its end", "end with one store"));
  const acc = product?.acc ?? program.tiles.find(({ axes }) => axes.length === 2)?.name;
  if (acc === undefined) return err(refuse(program.name, "holds no matrix", "declare a tile of both axes"));
  const d = namedIn(program, stored.param);
  const [m, n] = program.grid;
  for (const { axes } of [namedIn(program, acc), d, ...program.tiles])
    if (axes[0] !== m || (axes[1] ?? n) !== n)
      return err(
        refuse(program.name, `tiles, sums and what is stored differ in axes`, `write tiles ${m}, ${n}`),
      );
  const factors = product === null ? null : [namedIn(program, product.a), namedIn(program, product.b)];
  const [a, b] = factors ?? [];
  if (!("layout" in d) || (factors !== null && !(a && b && "layout" in a && "layout" in b)))
    return err(refuse(program.name, "multiplies tiles", "multiply parameters"));
  const operands = new Map<string, "a" | "b" | "d" | `epilogue${number}`>([[stored.param, "d"]]);
  if (a !== undefined && b !== undefined) operands.set(a.name, "a").set(b.name, "b");
  const inputs = program.params.filter(({ name }) => !operands.has(name));
  for (const [i, { name, axes }] of inputs.entries()) {
    const [first, second = n] = axes;
    if (axes.length === 1 ? first !== m && first !== n : first !== m || second !== n)
      return err(
        refuse(
          program.name,
          `has parameter %${name}, which is not multiplied and has other axes than the tiles`,
          `its axes can be ${m}, ${n}, or one of them`,
        ),
      );
    operands.set(name, `epilogue${i}`);
  }
  if (eachAxisStmt(program.body).some((stmt) => readsOf(stmt).includes(stored.param)))
    return err(refuse(program.name, `reads %${stored.param}, which it stores`, "keep the value in a tile"));
  for (const stmt of program.body) {
    const fault = stmt.kind === "for" ? loopFault(program, stmt) : null;
    if (fault !== null) return err(refuse(program.name, ...fault));
  }
  const extent = (name: string | undefined): number => axisOf(program, name ?? "").extent;
  const operand = (p: Named | undefined) =>
    p && "layout" in p ? { dtype: p.dtype, layout: p.layout } : { dtype: "f32" as const };
  const problem = defineProblem({
    m: extent(m),
    n: extent(n),
    k: a === undefined ? 1 : extent(a.axes[1]),
    a: operand(a),
    b: operand(b),
    d: operand(d),
    epilogue: inputs.map(({ name, dtype, axes, layout }) =>
      axes.length === 1
        ? { kind: "load", by: axes[0] === m ? "m" : "n", dtype, name }
        : { kind: "source", operand: { dtype, layout }, name },
    ),
  });
  return problem.ok ? ok({ problem: problem.value, product, stored, acc, operands }) : problem;
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
  const { problem } = anchor;
  return {
    ...withBody(base, [{ ...tiles, body }]),
    name: program.name,
    // What steps read is read by statements before the epilogue.
    directives: base.directives.map((d) =>
      d.name === "epilogueLoad" && problem.epilogue.length > 0 ? { ...d, args: { ...d.args, steps: 0 } } : d,
    ),
    buffers: [
      ...base.buffers.filter(({ name }) => anchor.product !== null || (name !== "A" && name !== "B")),
      ...problem.epilogue.map((step, i) => stepInput(problem, i, "dtype" in step ? sizeOf(step.dtype) : 1)),
      ...made.added,
    ],
  };
}

/** Warps of a block, and lanes of a warp. */
const [WARPS, LANES] = [4, 32];
/** Elements of a row that a thread holds at most. */
const MOST_HELD = 64;

/**
 * The nest of a program without a product: each warp has a row, or, of a longer one, all of the block's. Null where a row is longer than a block holds.
 */
export function rowNest({ problem }: Anchor, arch: string): TileProgram | null {
  const { m, n } = problem;
  const wide = Math.ceil(n / LANES) > MOST_HELD / 2;
  const [rows, across] = wide ? [1, WARPS] : [WARPS, 1];
  const held = Math.ceil(n / (LANES * across));
  if (held > MOST_HELD) return null;
  const mode = (tier: Tier, extent: number, stride = 1): OwnershipMode => ({ tier, extent, stride });
  const own = {
    rows: [mode("warp", rows)],
    cols: [mode("register", held), mode("warp", across), mode("thread", LANES)],
  };
  const present = (all: readonly OwnershipMode[]) => all.filter((f) => f.extent > 1);
  const base = gemmNest({
    name: "rows",
    arch,
    problem,
    nest: {
      m: [mode("grid", Math.ceil(m / rows)), ...present(own.rows)],
      n: [mode("grid", 1), ...present(own.cols)],
      k: [mode("block", 1)],
    },
    threads: WARPS * LANES,
    cluster: [1, 1],
    atom: "fma",
    directives: [{ name: "guards", args: { elide: 1 } }],
  });
  const owned = { rows: present(own.rows), cols: present(own.cols) };
  return { ...base, buffers: base.buffers.map((b) => (b.space === "register" ? { ...b, own: owned } : b)) };
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
          value.kind === "leaf" && value.leaf.kind === "element" && value.leaf.name === this.#anchor.acc;
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
    const operand = this.#anchor.operands.get(name) ?? name;
    const buffer = operand.startsWith("epilogue")
      ? stepBuffer(Number(operand.slice(8)))
      : operand.toUpperCase();
    const span = (axis: string): readonly [Expr, number] => {
      if (turn?.axis === axis) return [turn.at, CHUNK];
      const at = axis === this.#program.grid[0] ? 0 : 1;
      return [this.#origin[at], this.#tile[at]];
    };
    const [first = "", second] = named.axes;
    const alone = [lit(0), 1] as const;
    const [[row, rows], [col, cols]] =
      second !== undefined
        ? [span(first), span(second)]
        : first === this.#program.grid[0]
          ? [span(first), alone]
          : [alone, span(first)];
    return { buffer, slot: lit(0), origin: [row, col], extent: [rows, cols] };
  }

  /** The register tile of a program's tile. */
  #held(name: string): Buffer {
    if (name === this.#anchor.acc) return this.#acc;
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
