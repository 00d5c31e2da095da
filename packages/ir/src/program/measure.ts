/** What a program over named axes computes, in f64, with how far a correct kernel may be from it. */
import {
  type Approximate,
  accumulatorUnit,
  applyApproximately,
  foldExpression,
  gemmBound,
  isApproximate,
  roundingBound,
} from "@tilewright/core";
import { isColumnLoop, LEAST_COLUMNS, products } from "./loops.ts";
import { type AxisProgram, type AxisStmt, axisOf, type NamedExpr, type NamedLeaf, namedIn } from "./types.ts";

/** A matrix of values with their errors, row by row; a vector has one column. */
export interface MeasuredMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float64Array;
  readonly bounds: Float64Array;
}

/** Values of the parameters that the program reads at one position of its batch, row by row whatever their layout. */
export type ParameterValues = ReadonlyMap<string, Float64Array>;

/** Half a unit in the last place of f32, relative. */
const ULP = 2 ** -24;

/** Relative error of functions that kernels approximate: that of applyApproximately's exponential. */
const APPROXIMATE = 2 ** -20;

/** What a loop over parts carries from one to the next, and its relative error by what other maps of rows make of it in all parts. */
interface Carried {
  readonly tiles: ReadonlySet<string>;
  readonly error: number;
}

function carriedBy(program: AxisProgram, { axis, body }: Extract<AxisStmt, { kind: "for" }>): Carried {
  // A row's maximum is taken anew of each part: nothing adds up in it.
  const begins = (stmt: AxisStmt): boolean => stmt.kind === "fill" || (stmt.kind === "reduce" && !stmt.adds);
  const begun = new Set(body.flatMap((stmt) => (begins(stmt) && "tile" in stmt ? [stmt.tile] : [])));
  const tiles = new Set(products(body).flatMap(({ acc }) => (begun.has(acc) ? [] : [acc])));
  let error = 0;
  for (const stmt of body) {
    if (stmt.kind !== "map" || namedIn(program, stmt.tile).axes.includes(axis)) continue;
    error += foldExpression<NamedLeaf, number>(stmt.value, {
      number: () => 0,
      leaf: (leaf) => {
        if (leaf.kind === "element" && leaf.name === stmt.tile && !begun.has(stmt.tile)) tiles.add(stmt.tile);
        return 0;
      },
      apply: (fn, args) => args.reduce((sum, each) => sum + each, isApproximate(fn) ? APPROXIMATE : ULP),
    });
  }
  // Each part may be merged with those before, too.
  const times = program.body.some((stmt) => stmt.kind === "merge") ? 2 : 1;
  return { tiles, error: error * times * Math.ceil(axisOf(program, axis).extent / LEAST_COLUMNS) };
}

/**
 * What the program stores at one position of its batch, by parameter. All of an axis counts at once: programs mean the same whatever the width of the parts that loops
 * have; only the bound counts their roundings. `rows`: those of the work tiles that there are values of, and that
 * are computed; all unless given.
 */
export function measureProgram(
  program: AxisProgram,
  inputs: ParameterValues,
  rows?: readonly number[],
): ReadonlyMap<string, MeasuredMatrix> {
  const [along] = program.grid;
  const extent = (axis: string | undefined): number =>
    axis === undefined ? 1 : axis === along && rows ? rows.length : axisOf(program, axis).extent;
  const held = new Map<string, MeasuredMatrix>();
  const fresh = (axes: readonly string[]): MeasuredMatrix => {
    const [rows, columns] = [extent(axes[0]), extent(axes[1])];
    const size = rows * columns;
    return { rows, columns, values: new Float64Array(size), bounds: new Float64Array(size) };
  };
  for (const { name, axes } of program.params) {
    const values = inputs.get(name);
    if (values !== undefined) held.set(name, { ...fresh(axes), values });
  }
  const matrix = (name: string): MeasuredMatrix => {
    const { axes } = namedIn(program, name);
    const found = held.get(name) ?? fresh(axes);
    held.set(name, found);
    return found;
  };
  let carried: Carried | null = null;
  const slipped = (tile: string): number => (carried?.tiles.has(tile) ? carried.error : 0);
  /** Stores elements of a tile or parameter. */
  const putting = (name: string): ((at: number, element: Approximate) => void) => {
    const { dtype } = namedIn(program, name);
    const to = matrix(name);
    return (at, [value, error]) => {
      to.values[at] = value;
      to.bounds[at] = dtype === "f32" ? error : error + roundingBound(dtype, Math.abs(value) + error);
    };
  };
  /** The value of a leaf, where coordinates are along these axes. */
  const element = (leaf: NamedLeaf, rowAxis: string, colAxis: string): ElementAt => {
    const coordinate = (axis: string | undefined): ((row: number, col: number) => number) =>
      axis === colAxis ? (_, col) => col : axis === rowAxis ? (row) => row : () => 0;
    if (leaf.kind === "position") {
      const of = coordinate(leaf.axis);
      return (row, col) => {
        const place = of(row, col);
        const at = leaf.axis === along ? (rows?.[place] ?? place) : place;
        return [leaf.end ? at - axisOf(program, leaf.axis).extent : at, 0];
      };
    }
    const { axes } = namedIn(program, leaf.name);
    const { columns, values, bounds } = matrix(leaf.name);
    const [rowOf, colOf] = [coordinate(axes[0]), coordinate(axes[1])];
    return (row, col) => {
      const place = rowOf(row, col) * columns + colOf(row, col);
      return [values[place] ?? 0, bounds[place] ?? 0];
    };
  };
  const run = (stmt: AxisStmt): void => {
    switch (stmt.kind) {
      case "for": {
        const around = carried;
        if (isColumnLoop(stmt)) carried = carriedBy(program, stmt);
        for (const inner of stmt.body) run(inner);
        carried = around;
        return;
      }
      case "merge":
        return;
      case "fill": {
        const to = matrix(stmt.tile);
        to.values.fill(stmt.value);
        to.bounds.fill(0);
        return;
      }
      case "mma":
        multiply(
          matrix(stmt.acc),
          matrix(stmt.a),
          stmt.exchanged ? exchange(matrix(stmt.b)) : matrix(stmt.b),
          accumulatorUnit("f32", namedIn(program, stmt.a).dtype, namedIn(program, stmt.b).dtype),
          slipped(stmt.acc),
        );
        return;
      case "map":
      case "store": {
        const name = stmt.kind === "map" ? stmt.tile : stmt.param;
        const [rows, cols] = namedIn(program, name).axes;
        const { columns, values } = matrix(name);
        const at = evaluate(stmt.value, (leaf) => element(leaf, rows ?? "", cols ?? ""));
        const made = Array.from(values, (_, i) => at(Math.floor(i / columns), i % columns));
        const more = slipped(name);
        const put = putting(name);
        for (const [i, [value, error]] of made.entries())
          put(i, [value, more === 0 ? error : error + more * (Math.abs(value) + error)]);
        return;
      }
      case "reduce": {
        const [rows = ""] = namedIn(program, stmt.tile).axes;
        const length = extent(stmt.along);
        const at = evaluate(stmt.value, (leaf) => element(leaf, rows, stmt.along));
        const before = element({ kind: "element", name: stmt.tile }, rows, stmt.along);
        const put = putting(stmt.tile);
        for (let row = 0; row < extent(rows); row++) {
          const parts = Array.from({ length }, (_, i) => at(row, i));
          if (stmt.adds) parts.push(before(row, 0));
          put(row, stmt.op === "max" ? largest(parts) : sumOf(parts));
        }
      }
    }
  };
  for (const stmt of program.body) run(stmt);
  return new Map(
    program.params.flatMap(({ name }) => {
      const found = held.get(name);
      return inputs.has(name) || found === undefined ? [] : [[name, found] as const];
    }),
  );
}

/** One rounding of an f32 result. */
const slip = (result: number): number => (Number.isFinite(result) ? Math.abs(result) * ULP : 0);

/** The value at a row and a column. */
type ElementAt = (row: number, col: number) => Approximate;

/** One walk of an expression for all elements. */
const evaluate = (e: NamedExpr, leaf: (leaf: NamedLeaf) => ElementAt): ElementAt =>
  foldExpression<NamedLeaf, ElementAt>(e, {
    number: (value) => () => [value, 0],
    leaf,
    apply: (fn, args) => (row, col) =>
      applyApproximately(
        fn,
        args.map((argument) => argument(row, col)),
        slip,
      ),
  });

const largest = (parts: readonly Approximate[]): Approximate => [
  parts.reduce((most, [value]) => Math.max(most, value), Number.NEGATIVE_INFINITY),
  parts.reduce((most, [, error]) => Math.max(most, error), 0),
];

/** In whatever order: as the bound of a dot product has it. */
function sumOf(parts: readonly Approximate[]): Approximate {
  const value = parts.reduce((sum, [x]) => sum + x, 0);
  const size = parts.reduce((sum, [x, error]) => sum + Math.abs(x) + error, 0);
  return [value, parts.reduce((sum, [, error]) => sum + error, 0) + gemmBound(parts.length, size)];
}

/** Columns in the place of rows. */
function exchange({ rows, columns, values, bounds }: MeasuredMatrix): MeasuredMatrix {
  const turned = (from: Float64Array): Float64Array =>
    from.map((_, i) => from[(i % rows) * columns + Math.floor(i / rows)] ?? 0);
  return { rows: columns, columns: rows, values: turned(values), bounds: turned(bounds) };
}

/** acc += a * b, with the bound of one product, what the errors of its factors make of it, and `more`, relative to the sum of magnitudes. */
function multiply(
  acc: MeasuredMatrix,
  a: MeasuredMatrix,
  b: MeasuredMatrix,
  unit: number,
  more: number,
): void {
  const { columns } = b;
  const zeros = (): Float64Array => new Float64Array(columns);
  const [sums, sizes, spreads] = [zeros(), zeros(), zeros()];
  for (let row = 0; row < a.rows; row++) {
    for (const each of [sums, sizes, spreads]) each.fill(0);
    for (let k = 0; k < a.columns; k++) {
      const i = row * a.columns + k;
      const [x, e] = [a.values[i] ?? 0, a.bounds[i] ?? 0];
      const from = k * columns;
      for (let col = 0; col < columns; col++) {
        const [y, f] = [b.values[from + col] ?? 0, b.bounds[from + col] ?? 0];
        const product = x * y;
        sums[col] = (sums[col] ?? 0) + product;
        sizes[col] = (sizes[col] ?? 0) + Math.abs(product);
        spreads[col] = (spreads[col] ?? 0) + (Math.abs(x) * f + Math.abs(y) * e + e * f);
      }
    }
    for (let col = 0; col < columns; col++) {
      const [sum, size, spread] = [sums[col] ?? 0, sizes[col] ?? 0, spreads[col] ?? 0];
      const at = row * acc.columns + col;
      const before = acc.values[at] ?? 0;
      acc.values[at] = before + sum;
      acc.bounds[at] =
        (acc.bounds[at] ?? 0) +
        spread +
        more * (size + spread) +
        gemmBound(a.columns, size + spread + Math.abs(before), unit);
    }
  }
}
