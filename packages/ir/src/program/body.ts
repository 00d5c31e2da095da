/** The statements of a program over named axes, as statements of tiles: loops over parts, masks of columns behind an extent, views of parameters. */
import { type DType, exchangedBuffer, mapLeaves, runsOf, stepBuffer } from "@tilewright/core";
import { cond } from "../tile/cond.ts";
import { add, div, lit, mul, sub, v } from "../tile/expr.ts";
import { registerBuffer } from "../tile/gemm.ts";
import { bufferOf, eachStmt, wholeView } from "../tile/rewrite.ts";
import type {
  Buffer,
  ElementExpr,
  ElementLeaf,
  Expr,
  RowReduction,
  Stmt,
  TileProgram,
  View,
} from "../tile/types.ts";
import type { Anchor } from "./anchor.ts";
import { isZero, iterationsSeen, maskedIterations } from "./hidden.ts";
import { launchedBuffers } from "./launchedBuffers.ts";
import { isColumnLoop, isParameter, type Product, products } from "./loops.ts";
import { type AxisProgram, type AxisStmt, axisOf, type NamedExpr, namedIn } from "./types.ts";

/** What a column behind the extent of an axis counts as. */
const NEUTRAL: Readonly<Record<RowReduction, number>> = { max: Number.NEGATIVE_INFINITY, sum: 0 };

/** Columns of a parameter that a turn of a loop reads where nothing multiplies it. */
const CHUNK = 32;

/** The value in columns, counted from `from` on, before `end`, and another in those behind. A variable end is 0 of columns counted from there. */
function before(from: Expr, end: Expr, value: ElementExpr, other: number): ElementExpr {
  if (end.kind !== "const") return before(sub(from, end), lit(0), value, other);
  const number = (x: number) => ({ kind: "number", value: x }) as const;
  const leaf: ElementLeaf = from.kind === "const" ? { kind: "col" } : { kind: "col", from };
  const col = { kind: "leaf", leaf } as const;
  return { kind: "apply", fn: "select", args: [col, number(end.value), value, number(other)] };
}

/**
 * A turn of a loop: the part of the axis that begins at `at` and has `width`. Of parts that `tiles` hold, elements behind the extent are neutral; else `below` says how
 * many columns of the turn count, null where it is all.
 */
interface Turn {
  readonly axis: string;
  readonly at: Expr;
  readonly width: number;
  readonly tiles: boolean;
  readonly below: number | null;
}

/** The number of a CTA among those that have parts of an axis for one work tile. */
export const CUT = "cut";

/** Rows and columns of a work tile; columns of a part of an axis, the chunk of its product and the atom that multiplies into them, where it is another than that of the sums; the chunk along other axes, where it is another than the nest's; and CTAs that have parts of an axis. */
interface Sizes {
  readonly tile: readonly [number, number];
  readonly width: number;
  readonly chunk: number;
  readonly atom: string | null;
  readonly inner: number | null;
  readonly split: number;
}

export class Body {
  readonly split: number;
  readonly added: Buffer[] = [];
  /** What tiles have in columns behind the extent of an axis. */
  readonly #behind = new Map<string, number>();
  readonly #program: AxisProgram;
  readonly #anchor: Anchor;
  readonly #base: TileProgram;
  readonly #tile: readonly [number, number];
  readonly #sizes: Sizes;
  readonly #origin: readonly [Expr, Expr];
  readonly #product: Extract<Stmt, { kind: "mma" }>;
  readonly #acc: Buffer;

  constructor(program: AxisProgram, anchor: Anchor, base: TileProgram, sizes: Sizes) {
    const { tile, split } = sizes;
    this.split = split;
    this.#sizes = sizes;
    this.#program = program;
    this.#anchor = anchor;
    this.#base = base;
    this.#tile = tile;
    const [tiles] = base.body;
    const [row, col] = tiles?.kind === "tiles" ? tiles.vars : ["", ""];
    this.#origin = [mul(v(row), tile[0]), mul(v(col), tile[1])];
    const product = eachStmt(base.body).find((stmt) => stmt.kind === "mma");
    if (product?.kind !== "mma") throw new TypeError("the nest of a product multiplies");
    this.#product = product;
    this.#acc = bufferOf(base, product.acc.buffer);
  }

  list(stmts: readonly AxisStmt[], turn: Turn | null): readonly Stmt[] {
    const at = this.split > 1 ? stmts.findIndex(({ kind }) => kind === "merge") : -1;
    const merge = stmts[at];
    if (merge?.kind === "merge")
      return [...this.list(stmts.slice(0, at), turn), this.#together(merge, stmts.slice(at + 1))];
    return stmts.flatMap((stmt) => this.#stmt(stmt, turn));
  }

  #stmt(stmt: AxisStmt, turn: Turn | null): readonly Stmt[] {
    switch (stmt.kind) {
      case "fill":
        return [{ kind: "fill", dst: wholeView(this.#held(stmt.tile)), value: Math.fround(stmt.value) }];
      case "for": {
        if (isColumnLoop(stmt)) return [this.#parts(stmt)];
        const [product] = products(stmt.body);
        return product === undefined ? this.#turns(stmt) : [this.#chunks(stmt.axis, product, turn)];
      }
      case "merge":
        return [];
      case "mma":
        return turn === null ? [] : [this.#chunks(turn.axis, stmt, turn)];
      case "map":
        return this.#map(stmt, turn);
      case "reduce":
        return this.#reduce(stmt, turn);
      case "store": {
        if (stmt.param !== this.#anchor.stored.param)
          return [{ kind: "map", dst: this.#view(stmt.param, null), value: this.#value(stmt.value, turn) }];
        const epilogue = eachStmt(this.#base.body).find((each) => each.kind === "epilogue");
        if (epilogue?.kind !== "epilogue") throw new TypeError("a matrix product stores its sums");
        const { value } = stmt;
        const plain =
          value.kind === "leaf" && value.leaf.kind === "element" && this.#held(value.leaf.name) === this.#acc;
        const dst = wholeView(this.#acc);
        const { first } = this.#run(this.#program.grid[0]);
        const [row, col] = epilogue.dst.origin;
        const steps = this.#anchor.launched.epilogue;
        return [
          ...(plain ? [] : [{ kind: "map", dst, value: this.#value(value, turn) } as const]),
          { ...epilogue, dst: { ...epilogue.dst, origin: [add(row, first), col] }, steps },
        ];
      }
    }
  }

  /** Where the run of an axis begins that the problem at hand has, and its elements; those of all where it has none. */
  #run(axis: string): { readonly first: Expr; readonly count: Expr } {
    const { extent, runs } = axisOf(this.#program, axis);
    const operand = runs && this.#anchor.operands.get(runs.offsets);
    const told = runsOf(this.#anchor.launched).find(({ step }) => operand === `epilogue${step}`);
    if (told === undefined) return { first: lit(0), count: lit(extent) };
    return { first: told.pages === undefined ? v(told.first) : lit(0), count: v(told.count) };
  }

  /** Work tiles of rows behind the run have nothing to do: the first of them. */
  get until(): Expr | null {
    const { count } = this.#run(this.#program.grid[0]);
    const [rows] = this.#tile;
    return count.kind === "const" ? null : div(add(count, rows - 1), rows);
  }

  readonly #countOf = (axis: string): Expr => this.#run(axis).count;

  /** A mask is applied in parts that have masked elements. */
  #map(stmt: Extract<AxisStmt, { kind: "map" }>, turn: Turn | null): readonly Stmt[] {
    const dst = wholeView(this.#held(stmt.tile));
    const map: Stmt = { kind: "map", dst, value: this.#mapped(stmt, turn) };
    const [rows] = this.#tile;
    const tile = { at: this.#origin[0], rows, width: this.#sizes.width };
    const masked =
      turn?.tiles === true
        ? maskedIterations(this.#program, turn.axis, stmt, tile, turn.at, this.#countOf)
        : null;
    const maps =
      masked === null ? [map] : masked.map((when): Stmt => ({ kind: "if", cond: when, body: [map] }));
    const [, axis] = namedIn(this.#program, stmt.tile).axes;
    const factor = turn?.tiles === true && turn.axis === axis && this.#isFactor(stmt.tile);
    if (!factor) {
      this.#behind.delete(dst.buffer);
      return maps;
    }
    const { value } = stmt;
    const copied =
      value.kind === "leaf" && value.leaf.kind === "element" ? this.#held(value.leaf.name) : null;
    // What it is made of may have zeros there already.
    const cleared = (name: string): boolean =>
      !isParameter(namedIn(this.#program, name)) && this.#behind.get(this.#held(name).name) === 0;
    if (isZero(value, cleared)) return maps;
    // What is multiplied may go to memory that other threads read: then the registers that it comes from are cleared.
    return copied === null
      ? [...maps, ...this.#cleared(dst, turn, 0)]
      : [...this.#cleared(wholeView(copied), turn, 0), ...maps];
  }

  /** In iterations that have columns behind the axis's extent, those of a tile become the value: what they hold otherwise means nothing. */
  #cleared(dst: View, { axis, at, width }: Turn, value: number): readonly Stmt[] {
    const { count } = this.#run(axis);
    if (this.#parted(count, width)) return [];
    this.#behind.set(dst.buffer, value);
    const held = { kind: "leaf", leaf: { kind: "view", view: dst } } as const;
    const map: Stmt = { kind: "map", dst, value: before(at, count, held, value) };
    return [{ kind: "if", cond: cond(add(at, width), ">", count), body: [map] }];
  }

  /** Whether parts of a width end where the axis does. */
  readonly #parted = (count: Expr, width: number): boolean =>
    count.kind === "const" && count.value % (width * this.split) === 0;

  /** CTAs of a work tile hand in what their parts have come to; the last one merges it in their order and goes on. */
  #together(merge: Extract<AxisStmt, { kind: "merge" }>, rest: readonly AxisStmt[]): Stmt {
    const first = this.#anchor.acc;
    const order = [first, ...merge.of.filter((name) => name !== first)];
    const other = (name: string): string => merge.from[merge.of.indexOf(name)] ?? name;
    return {
      kind: "reduce",
      acc: wholeView(this.#acc),
      by: "last",
      into: null,
      body: [
        {
          kind: "merge",
          of: order.map((name) => this.#held(name).name),
          from: order.map((name) => this.#held(other(name)).name),
          partials: this.split - 1,
          body: this.list(merge.body, null),
        },
        ...this.list(rest, null),
      ],
    };
  }

  /** The axis in parts. */
  #parts(loop: Extract<AxisStmt, { kind: "for" }>): Stmt {
    const { axis, body } = loop;
    const [rows] = this.#tile;
    const { width } = this.#sizes;
    const name = this.#turn(axis);
    const each = Math.ceil(axisOf(this.#program, axis).extent / width / this.split);
    const to = lit(each);
    const at = this.split === 1 ? v(name) : add(mul(v(CUT), each), v(name));
    const turn = { axis, at: mul(at, width), width, tiles: true, below: null };
    const tile = { at: this.#origin[0], rows, width };
    const bounds = this.split === 1 ? iterationsSeen(this.#program, loop, tile, this.#countOf) : null;
    const within = bounds && ({ bounds, take: "all" } as const);
    const stated = { kind: "for", var: name, from: lit(0), to, ...(within && { within }) } as const;
    return { ...stated, unroll: false, body: this.list(body, turn) };
  }

  /** The loop of a product in chunks, as that of the matrix product has them; over an axis of which a turn has a part, over that. */
  #chunks(axis: string, { acc, a, b, exchanged }: Product, turn: Turn | null): Stmt {
    const part = turn?.axis === axis ? turn : null;
    const extent = part?.width ?? axisOf(this.#program, axis).extent;
    const [rows, inner] = this.#product.a.extent;
    const each = part === null ? (this.#sizes.inner ?? inner) : this.#sizes.chunk;
    const name = `${this.#turn(axis)}${part === null ? "" : "t"}`;
    const at = mul(v(name), each);
    const held = namedIn(this.#program, a);
    const left = isParameter(held)
      ? {
          buffer: this.#global(a),
          slot: lit(0),
          origin: [this.#span(held.axes[0] ?? "", null)[0], at] as const,
        }
      : { ...wholeView(this.#held(a)), origin: [lit(0), at] as const };
    const [column, columns] = this.#span(namedIn(this.#program, b).axes[exchanged ? 0 : 1] ?? "", turn);
    const row = add(this.#run(axis).first, part === null ? at : add(part.at, at));
    const buffer = exchanged ? exchangedBuffer(this.#global(b)) : this.#global(b);
    const right = { buffer, slot: lit(0), origin: [row, column] as const };
    const product: Stmt = {
      ...this.#product,
      acc: wholeView(this.#held(acc)),
      a: { ...left, extent: [rows, each] },
      b: { ...right, extent: [each, columns] },
      atom: (columns === this.#tile[1] ? null : this.#sizes.atom) ?? this.#product.atom,
    };
    const to = lit(Math.ceil(extent / each));
    return { kind: "for", var: name, from: lit(0), to, unroll: false, body: [product] };
  }

  /** The variable of a loop over an axis. */
  #turn(axis: string): string {
    const [tiles] = this.#base.body;
    const name = `${axis}t`;
    return tiles?.kind === "tiles" && tiles.vars.includes(name) ? `${name}_` : name;
  }

  /** Columns of a factor behind the axis's extent are 0: whatever an expression makes there meets zeros of the other factor, of which infinities would make more. */
  #mapped({ tile, value }: Extract<AxisStmt, { kind: "map" }>, turn: Turn | null): ElementExpr {
    const made = this.#value(value, turn);
    const [, axis = ""] = namedIn(this.#program, tile).axes;
    if (turn?.tiles === true && turn.axis === axis) return made;
    const extent = this.#isFactor(tile) ? axisOf(this.#program, axis).extent : this.#tile[1];
    if (extent >= this.#tile[1]) return made;
    return before(lit(0), lit(extent), made, 0);
  }

  /** What columns of the turn's part have behind the axis's extent. */
  #inside(value: ElementExpr, { axis, at, width }: Turn, neutral: number): ElementExpr {
    const { count } = this.#run(axis);
    return this.#parted(count, width) ? value : before(at, count, value, neutral);
  }

  /** What is left of the axis behind the loop has a turn of its own: outside a parameter reads give 0, of which an expression may make anything. */
  #turns({ axis, body }: Extract<AxisStmt, { kind: "for" }>): readonly Stmt[] {
    const name = this.#turn(axis);
    const { extent } = axisOf(this.#program, axis);
    const [turns, rest] = [Math.floor(extent / CHUNK), extent % CHUNK];
    const inside = this.list(body, {
      axis,
      at: mul(v(name), CHUNK),
      width: CHUNK,
      tiles: false,
      below: null,
    });
    const behind = { axis, at: lit(turns * CHUNK), width: CHUNK, tiles: false, below: rest };
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
    if (turn?.tiles === true) {
      const held =
        stmt.value.kind === "leaf" &&
        stmt.value.leaf.kind === "element" &&
        !isParameter(namedIn(this.#program, stmt.value.leaf.name))
          ? wholeView(this.#held(stmt.value.leaf.name))
          : null;
      return held === null
        ? [{ ...reduced, value: this.#inside(value, turn, NEUTRAL[op]), below: null }]
        : [...this.#cleared(held, turn, NEUTRAL[op]), { ...reduced, value, below: null }];
    }
    if (turn === null) {
      const { extent } = axisOf(this.#program, stmt.along);
      return [{ ...reduced, value, below: extent < this.#tile[1] ? extent : null }];
    }
    const part = this.#buffer(`${stmt.tile}_part`, "f32", [this.#tile[0], turn.width]);
    const leaf = { kind: "leaf", leaf: { kind: "view", view: wholeView(part) } } as const;
    return [
      { kind: "map", dst: wholeView(part), value },
      { ...reduced, value: leaf, below: turn.below },
    ];
  }

  #value(e: NamedExpr, turn: Turn | null): ElementExpr {
    return mapLeaves(e, (leaf) =>
      leaf.kind === "position"
        ? this.#position(leaf, turn)
        : { kind: "view", view: this.#view(leaf.name, turn) },
    );
  }

  /** The element's position along an axis, of the work tiles' and of loops' counted from where the tile, or the part, begins. */
  #position({ axis, end }: { readonly axis: string; readonly end?: true }, turn: Turn | null): ElementLeaf {
    const counted = (kind: "row" | "col", at: Expr | null): ElementLeaf => {
      const from = end ? sub(at ?? lit(0), this.#run(axis).count) : at;
      return from === null ? { kind } : { kind, from };
    };
    if (turn?.axis === axis) return counted("col", turn.at);
    const [rows, columns] = this.#program.grid;
    if (axis === rows) return counted("row", this.#origin[0]);
    return counted("col", axis === columns && !axisOf(this.#program, axis).whole ? this.#origin[1] : null);
  }

  /** The part of a parameter that the work tile, or the turn, has; or all of a tile. */
  #view(name: string, turn: Turn | null): View {
    const named = namedIn(this.#program, name);
    if (!isParameter(named)) return wholeView(this.#held(name));
    const [first = "", second] = named.axes;
    const alone = [lit(0), 1] as const;
    const [[row, rows], [col, cols]] =
      named.axes.length === 0
        ? [alone, alone]
        : second !== undefined
          ? [this.#span(first, turn), this.#span(second, turn)]
          : first === this.#program.grid[0]
            ? [this.#span(first, turn), alone]
            : [alone, this.#span(first, turn)];
    return { buffer: this.#global(name), slot: lit(0), origin: [row, col], extent: [rows, cols] };
  }

  /** Columns of a tile: of a part of an axis that a loop goes over, or of the work tile. */
  #columns(axis: string): number {
    const parted = this.#program.body.some(
      (stmt) => isColumnLoop(stmt) && stmt.kind === "for" && stmt.axis === axis,
    );
    return parted ? this.#sizes.width : this.#tile[1];
  }

  /** Where in memory the part of an axis begins, and its length. */
  #span(axis: string, turn: Turn | null): readonly [Expr, number] {
    const { first } = this.#run(axis);
    if (turn?.axis === axis) return [add(first, turn.at), turn.width];
    if (axis === this.#program.grid[0]) return [add(first, this.#origin[0]), this.#tile[0]];
    return [axis === this.#program.grid[1] ? this.#origin[1] : lit(0), this.#tile[1]];
  }

  #global(name: string): string {
    const operand = this.#anchor.operands.get(name) ?? name;
    return operand.startsWith("epilogue") ? stepBuffer(Number(operand.slice(8))) : operand.toUpperCase();
  }

  #isFactor(name: string): boolean {
    return this.#anchor.products.some(({ a }) => a === name);
  }

  /** The register tile of a program's tile. */
  #held(name: string): Buffer {
    if (name === this.#anchor.acc) return this.#acc;
    const { axes, dtype } = namedIn(this.#program, name);
    const factor = this.#isFactor(name) ? dtype : "f32";
    return this.#buffer(name, factor, [this.#tile[0], axes[1] === undefined ? 1 : this.#columns(axes[1])]);
  }

  #buffer(name: string, dtype: DType, shape: readonly [number, number]): Buffer {
    const known = this.added.find((b) => b.name === name);
    if (known !== undefined) return known;
    const taken = launchedBuffers(this.#anchor, this.#base).some((b) => b.name === name);
    const made = registerBuffer(taken ? `${name}_` : name, dtype, shape);
    const same = this.added.find((b) => b.name === made.name);
    if (same !== undefined) return same;
    this.added.push(made);
    return made;
  }
}
