/** The statements of a program over named axes, as statements of tiles: loops over parts, masks of columns behind an extent, views of parameters. */
import { exchangedBuffer } from "@tilewright/core";
import { cond } from "../tile/cond.ts";
import { add, div, lit, mul, sub, v } from "../tile/expr.ts";
import { eachStmt, wholeView } from "../tile/rewrite.ts";
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
import { iterationsSeen, knownValue, maskedIterations } from "./hidden.ts";
import { isColumnLoop, isParameter, type Product, products } from "./loops.ts";
import { type Iteration, Places, type Sizes } from "./places.ts";
import { type AxisProgram, type AxisStmt, axisOf, namedIn } from "./types.ts";

/** What a column behind the extent of an axis counts as. */
const NEUTRAL: Readonly<Record<RowReduction, number>> = { max: Number.NEGATIVE_INFINITY, sum: 0 };

/** Columns of a parameter that an iteration of a loop reads where nothing multiplies it. */
const CHUNK = 32;

/** The value in columns, counted from `from` on, before `end`, and another in those behind. A variable end is 0 of columns counted from there. */
function before(from: Expr, end: Expr, value: ElementExpr, other: number): ElementExpr {
  if (end.kind !== "const") return before(sub(from, end), lit(0), value, other);
  const number = (x: number) => ({ kind: "number", value: x }) as const;
  const leaf: ElementLeaf = from.kind === "const" ? { kind: "col" } : { kind: "col", from };
  const col = { kind: "leaf", leaf } as const;
  return { kind: "apply", fn: "select", args: [col, number(end.value), value, number(other)] };
}

/** The number of a CTA among those that have parts of an axis for one work tile. */
export const CUT = "cut";

export class Body {
  readonly split: number;
  /** What tiles have in columns behind the extent of an axis. */
  readonly #behind = new Map<string, number>();
  readonly #program: AxisProgram;
  readonly #anchor: Anchor;
  readonly #base: TileProgram;
  readonly #places: Places;
  readonly #tile: readonly [number, number];
  readonly #sizes: Sizes;
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
    this.#places = new Places(program, anchor, base, sizes);
    const product = eachStmt(base.body).find((stmt) => stmt.kind === "mma");
    if (product?.kind !== "mma") throw new TypeError("the nest of a product multiplies");
    this.#product = product;
    this.#acc = this.#places.acc;
  }

  /** Register tiles beside the product's sums. */
  get added(): readonly Buffer[] {
    return this.#places.added;
  }

  list(stmts: readonly AxisStmt[], iteration: Iteration | null): readonly Stmt[] {
    const at = this.split > 1 ? stmts.findIndex(({ kind }) => kind === "merge") : -1;
    const merge = stmts[at];
    if (merge?.kind === "merge")
      return [...this.list(stmts.slice(0, at), iteration), this.#together(merge, stmts.slice(at + 1))];
    return stmts.flatMap((stmt) => this.#stmt(stmt, iteration));
  }

  #stmt(stmt: AxisStmt, iteration: Iteration | null): readonly Stmt[] {
    switch (stmt.kind) {
      case "fill":
        this.#behind.delete(this.#places.held(stmt.tile).name);
        return [
          { kind: "fill", dst: wholeView(this.#places.held(stmt.tile)), value: Math.fround(stmt.value) },
        ];
      case "for": {
        if (isColumnLoop(stmt)) return [this.#parts(stmt)];
        const [product] = products(stmt.body);
        return product === undefined ? this.#turns(stmt) : [this.#chunks(stmt.axis, product, iteration)];
      }
      case "merge":
        return [];
      case "mma":
        return iteration === null ? [] : [this.#chunks(iteration.axis, stmt, iteration)];
      case "map":
        return this.#map(stmt, iteration);
      case "reduce":
        return this.#reduce(stmt, iteration);
      case "store": {
        if (stmt.param !== this.#anchor.stored.param)
          return [
            {
              kind: "map",
              dst: this.#places.view(stmt.param, null),
              value: this.#places.value(stmt.value, iteration),
            },
          ];
        const epilogue = eachStmt(this.#base.body).find((each) => each.kind === "epilogue");
        if (epilogue?.kind !== "epilogue") throw new TypeError("a matrix product stores its sums");
        const { value } = stmt;
        const plain =
          value.kind === "leaf" &&
          value.leaf.kind === "element" &&
          this.#places.held(value.leaf.name) === this.#acc;
        const dst = wholeView(this.#acc);
        const { first } = this.#places.run(this.#program.grid[0]);
        const [row, col] = epilogue.dst.origin;
        const steps = this.#anchor.launched.epilogue;
        return [
          ...(plain ? [] : [{ kind: "map", dst, value: this.#places.value(value, iteration) } as const]),
          { ...epilogue, dst: { ...epilogue.dst, origin: [add(row, first), col] }, steps },
        ];
      }
    }
  }

  /** Work tiles of rows behind the run have nothing to do: the first of them. */
  get until(): Expr | null {
    const { count } = this.#places.run(this.#program.grid[0]);
    const [rows] = this.#tile;
    return count.kind === "const" ? null : div(add(count, rows - 1), rows);
  }

  readonly #countOf = (axis: string): Expr => this.#places.run(axis).count;

  /** A mask is applied in parts that have masked elements. */
  #map(stmt: Extract<AxisStmt, { kind: "map" }>, iteration: Iteration | null): readonly Stmt[] {
    const dst = wholeView(this.#places.held(stmt.tile));
    const map: Stmt = { kind: "map", dst, value: this.#mapped(stmt, iteration) };
    const [rows] = this.#tile;
    const tile = { at: this.#places.origin[0], rows, width: this.#sizes.width };
    const masked =
      iteration?.tiles === true
        ? maskedIterations(this.#program, iteration.axis, stmt, tile, iteration.at, this.#countOf)
        : null;
    const maps =
      masked === null ? [map] : masked.map((when): Stmt => ({ kind: "if", cond: when, body: [map] }));
    const [, axis] = namedIn(this.#program, stmt.tile).axes;
    const factor = iteration?.tiles === true && iteration.axis === axis && this.#places.isFactor(stmt.tile);
    const behind = knownValue(stmt.value, (name) =>
      isParameter(namedIn(this.#program, name)) ? undefined : this.#behind.get(this.#places.held(name).name),
    );
    if (!factor) {
      if (behind === null || masked !== null || iteration?.axis !== axis) this.#behind.delete(dst.buffer);
      else this.#behind.set(dst.buffer, behind);
      return maps;
    }
    const { value } = stmt;
    const copied =
      value.kind === "leaf" && value.leaf.kind === "element" ? this.#places.held(value.leaf.name) : null;
    // What it is made of may have zeros there already.
    if (behind === 0) return maps;
    // What is multiplied may go to memory that other threads read: then the registers that it comes from are cleared.
    return copied === null
      ? [...maps, ...this.#cleared(dst, iteration, 0)]
      : [...this.#cleared(wholeView(copied), iteration, 0), ...maps];
  }

  /** In iterations that have columns behind the axis's extent, those of a tile become the value: what they hold otherwise means nothing. */
  #cleared(dst: View, { axis, at, width }: Iteration, value: number): readonly Stmt[] {
    const { count } = this.#places.run(axis);
    if (this.#parted(count, width) || this.#behind.get(dst.buffer) === value) return [];
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
          of: order.map((name) => this.#places.held(name).name),
          from: order.map((name) => this.#places.held(other(name)).name),
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
    const name = this.#loopVariable(axis);
    const each = Math.ceil(axisOf(this.#program, axis).extent / width / this.split);
    const to = lit(each);
    const at = this.split === 1 ? v(name) : add(mul(v(CUT), each), v(name));
    const iteration = { axis, at: mul(at, width), width, tiles: true, below: null };
    const tile = { at: this.#places.origin[0], rows, width };
    const bounds = this.split === 1 ? iterationsSeen(this.#program, loop, tile, this.#countOf) : null;
    const within = bounds && ({ bounds, take: "all" } as const);
    const stated = { kind: "for", var: name, from: lit(0), to, ...(within && { within }) } as const;
    return { ...stated, unroll: false, body: this.#turn(body, iteration) };
  }

  /** A body of a loop: what tiles have behind an axis is that of the turn alone. */
  #turn(body: readonly AxisStmt[], iteration: Iteration): readonly Stmt[] {
    this.#behind.clear();
    const made = this.list(body, iteration);
    this.#behind.clear();
    return made;
  }

  /** The loop of a product in chunks, as that of the matrix product has them; over an axis of which an iteration has a part, over that. */
  #chunks(axis: string, { acc, a, b, exchanged }: Product, iteration: Iteration | null): Stmt {
    this.#behind.delete(this.#places.held(acc).name);
    const part = iteration?.axis === axis ? iteration : null;
    const extent = part?.width ?? axisOf(this.#program, axis).extent;
    const [rows, inner] = this.#product.a.extent;
    const each = part === null ? (this.#sizes.inner ?? inner) : this.#sizes.chunk;
    const name = `${this.#loopVariable(axis)}${part === null ? "" : "t"}`;
    const at = mul(v(name), each);
    const held = namedIn(this.#program, a);
    const left = isParameter(held)
      ? {
          buffer: this.#places.global(a),
          slot: lit(0),
          origin: [this.#places.span(held.axes[0] ?? "", null)[0], at] as const,
        }
      : { ...wholeView(this.#places.held(a)), origin: [lit(0), at] as const };
    const [column, columns] = this.#places.span(
      namedIn(this.#program, b).axes[exchanged ? 0 : 1] ?? "",
      iteration,
    );
    const row = add(this.#places.run(axis).first, part === null ? at : add(part.at, at));
    const buffer = exchanged ? exchangedBuffer(this.#places.global(b)) : this.#places.global(b);
    const right = { buffer, slot: lit(0), origin: [row, column] as const };
    const product: Stmt = {
      ...this.#product,
      acc: wholeView(this.#places.held(acc)),
      a: { ...left, extent: [rows, each] },
      b: { ...right, extent: [each, columns] },
      atom: (columns === this.#tile[1] ? null : this.#sizes.atom) ?? this.#product.atom,
    };
    const to = lit(Math.ceil(extent / each));
    return { kind: "for", var: name, from: lit(0), to, unroll: false, body: [product] };
  }

  /** The variable of a loop over an axis. */
  #loopVariable(axis: string): string {
    const [tiles] = this.#base.body;
    const name = `${axis}t`;
    return tiles?.kind === "tiles" && tiles.vars.includes(name) ? `${name}_` : name;
  }

  /** Columns of a factor behind the axis's extent are 0: whatever an expression makes there meets zeros of the other factor, of which infinities would make more. */
  #mapped({ tile, value }: Extract<AxisStmt, { kind: "map" }>, iteration: Iteration | null): ElementExpr {
    const made = this.#places.value(value, iteration);
    const [, axis = ""] = namedIn(this.#program, tile).axes;
    if (iteration?.tiles === true && iteration.axis === axis) return made;
    const extent = this.#places.isFactor(tile) ? axisOf(this.#program, axis).extent : this.#tile[1];
    if (extent >= this.#tile[1]) return made;
    return before(lit(0), lit(extent), made, 0);
  }

  /** What columns of the iteration's part have behind the axis's extent. */
  #inside(value: ElementExpr, { axis, at, width }: Iteration, neutral: number): ElementExpr {
    const { count } = this.#places.run(axis);
    return this.#parted(count, width) ? value : before(at, count, value, neutral);
  }

  /** What is left of the axis behind the loop has an iteration of its own: outside a parameter reads give 0, of which an expression may make anything. */
  #turns({ axis, body }: Extract<AxisStmt, { kind: "for" }>): readonly Stmt[] {
    const name = this.#loopVariable(axis);
    const { extent } = axisOf(this.#program, axis);
    const [turns, rest] = [Math.floor(extent / CHUNK), extent % CHUNK];
    const inside = this.#turn(body, {
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
  #reduce(stmt: Extract<AxisStmt, { kind: "reduce" }>, iteration: Iteration | null): readonly Stmt[] {
    const dst = wholeView(this.#places.held(stmt.tile));
    this.#behind.delete(dst.buffer);
    const { op, adds } = stmt;
    const value = this.#places.value(stmt.value, iteration);
    const reduced = { kind: "reduce.row", dst, op, adds, via: null } as const;
    if (iteration?.tiles === true) {
      const held =
        stmt.value.kind === "leaf" &&
        stmt.value.leaf.kind === "element" &&
        !isParameter(namedIn(this.#program, stmt.value.leaf.name))
          ? wholeView(this.#places.held(stmt.value.leaf.name))
          : null;
      return held === null
        ? [{ ...reduced, value: this.#inside(value, iteration, NEUTRAL[op]), below: null }]
        : [...this.#cleared(held, iteration, NEUTRAL[op]), { ...reduced, value, below: null }];
    }
    if (iteration === null) {
      const { extent } = axisOf(this.#program, stmt.along);
      return [{ ...reduced, value, below: extent < this.#tile[1] ? extent : null }];
    }
    const part = this.#places.buffer(`${stmt.tile}_part`, "f32", [this.#tile[0], iteration.width]);
    const leaf = { kind: "leaf", leaf: { kind: "view", view: wholeView(part) } } as const;
    return [
      { kind: "map", dst: wholeView(part), value },
      { ...reduced, value: leaf, below: iteration.below },
    ];
  }
}
