/** Where the names of a program over axes lie in the nest of its product: views of parameters, register tiles, positions of elements. */
import { bufferOfOperand, type DType, mapLeaves, runsOf } from "@tilewright/core";
import { add, lit, mul, sub, v } from "../tile/expr.ts";
import { registerBuffer } from "../tile/gemm.ts";
import { bufferOf, eachStmt, wholeView } from "../tile/rewrite.ts";
import type { Buffer, ElementExpr, ElementLeaf, Expr, TileProgram, View } from "../tile/types.ts";
import type { Anchor } from "./anchor.ts";
import { launchedBuffers } from "./launchedBuffers.ts";
import { isColumnLoop, isParameter } from "./loops.ts";
import { type AxisProgram, axisOf, type NamedExpr, namedIn } from "./types.ts";

/**
 * A iteration of a loop: the part of the axis that begins at `at` and has `width`. Of parts that `tiles` hold, elements behind the extent are neutral; else `below` says how
 * many columns of the iteration count, null where it is all.
 */
export interface Iteration {
  readonly axis: string;
  readonly at: Expr;
  readonly width: number;
  readonly tiles: boolean;
  readonly below: number | null;
}

/** Rows and columns of a work tile; columns of a part of an axis, the chunk of its product and the atom that multiplies into them, where it is another than that of the sums; the chunk along other axes, where it is another than the nest's; and CTAs that have parts of an axis. */
export interface Sizes {
  readonly tile: readonly [number, number];
  readonly width: number;
  readonly chunk: number;
  readonly atom: string | null;
  readonly inner: number | null;
  readonly split: number;
}

export class Places {
  /** Register tiles beside the product's sums. */
  readonly added: Buffer[] = [];
  /** Row and column at which the work tile begins. */
  readonly origin: readonly [Expr, Expr];
  /** The product's sums. */
  readonly acc: Buffer;
  readonly #program: AxisProgram;
  readonly #anchor: Anchor;
  readonly #base: TileProgram;
  readonly #tile: readonly [number, number];
  readonly #sizes: Sizes;

  constructor(program: AxisProgram, anchor: Anchor, base: TileProgram, sizes: Sizes) {
    const { tile } = sizes;
    this.#program = program;
    this.#anchor = anchor;
    this.#base = base;
    this.#tile = tile;
    this.#sizes = sizes;
    const [tiles] = base.body;
    const [row, col] = tiles?.kind === "tiles" ? tiles.vars : ["", ""];
    this.origin = [mul(v(row), tile[0]), mul(v(col), tile[1])];
    const product = eachStmt(base.body).find((stmt) => stmt.kind === "mma");
    if (product?.kind !== "mma") throw new TypeError("the nest of a product multiplies");
    this.acc = bufferOf(base, product.acc.buffer);
  }

  /** Where the run of an axis begins that the problem at hand has, and its elements; those of all where it has none. */
  run(axis: string): { readonly first: Expr; readonly count: Expr } {
    const { extent, runs } = axisOf(this.#program, axis);
    const operand = runs && this.#anchor.operands.get(runs.offsets);
    const told = runsOf(this.#anchor.launched).find(({ step }) => operand === `epilogue${step}`);
    if (told === undefined) return { first: lit(0), count: lit(extent) };
    return { first: told.pages === undefined ? v(told.first) : lit(0), count: v(told.count) };
  }

  value(e: NamedExpr, iteration: Iteration | null): ElementExpr {
    return mapLeaves(e, (leaf) =>
      leaf.kind === "position"
        ? this.#position(leaf, iteration)
        : { kind: "view", view: this.view(leaf.name, iteration) },
    );
  }

  /** The element's position along an axis, of the work tiles' and of loops' counted from where the tile, or the part, begins. */
  #position(
    { axis, end }: { readonly axis: string; readonly end?: true },
    iteration: Iteration | null,
  ): ElementLeaf {
    const counted = (kind: "row" | "col", at: Expr | null): ElementLeaf => {
      const from = end ? sub(at ?? lit(0), this.run(axis).count) : at;
      return from === null ? { kind } : { kind, from };
    };
    if (iteration?.axis === axis) return counted("col", iteration.at);
    const [rows, columns] = this.#program.grid;
    if (axis === rows) return counted("row", this.origin[0]);
    return counted("col", axis === columns && !axisOf(this.#program, axis).whole ? this.origin[1] : null);
  }

  /** The part of a parameter that the work tile, or the iteration, has; or all of a tile. */
  view(name: string, iteration: Iteration | null): View {
    const named = namedIn(this.#program, name);
    if (!isParameter(named)) return wholeView(this.held(name));
    const [first = "", second] = named.axes;
    const alone = [lit(0), 1] as const;
    const [[row, rows], [col, cols]] =
      named.axes.length === 0
        ? [alone, alone]
        : second !== undefined
          ? [this.span(first, iteration), this.span(second, iteration)]
          : first === this.#program.grid[0]
            ? [this.span(first, iteration), alone]
            : [alone, this.span(first, iteration)];
    return { buffer: this.global(name), slot: lit(0), origin: [row, col], extent: [rows, cols] };
  }

  /** Columns of a tile: of a part of an axis that a loop goes over, or of the work tile. */
  #columns(axis: string): number {
    const parted = this.#program.body.some(
      (stmt) => isColumnLoop(stmt) && stmt.kind === "for" && stmt.axis === axis,
    );
    return parted ? this.#sizes.width : this.#tile[1];
  }

  /** Where in memory the part of an axis begins, and its length. */
  span(axis: string, iteration: Iteration | null): readonly [Expr, number] {
    const { first } = this.run(axis);
    if (iteration?.axis === axis) return [add(first, iteration.at), iteration.width];
    if (axis === this.#program.grid[0]) return [add(first, this.origin[0]), this.#tile[0]];
    return [axis === this.#program.grid[1] ? this.origin[1] : lit(0), this.#tile[1]];
  }

  global(name: string): string {
    return bufferOfOperand(this.#anchor.operands.get(name) ?? name);
  }

  isFactor(name: string): boolean {
    return this.#anchor.products.some(({ a }) => a === name);
  }

  /** The register tile of a program's tile. */
  held(name: string): Buffer {
    if (name === this.#anchor.acc) return this.acc;
    const { axes, dtype } = namedIn(this.#program, name);
    const factor = this.isFactor(name) ? dtype : "f32";
    return this.buffer(name, factor, [this.#tile[0], axes[1] === undefined ? 1 : this.#columns(axes[1])]);
  }

  buffer(name: string, dtype: DType, shape: readonly [number, number]): Buffer {
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
