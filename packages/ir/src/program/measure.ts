/** What a program over named axes computes, in f64, with how far a correct kernel may be from it. */
import { gemmBound, type Measured, measureElement, roundingBound } from "@tilewright/core";
import { type AxisProgram, type AxisStmt, axisOf, namedIn } from "./types.ts";

/** A matrix of values with their errors, row by row; a vector has one column. */
export interface MeasuredMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float64Array;
  readonly bounds: Float64Array;
}

/** Values of the parameters that the program reads, row by row whatever their layout. */
export type ParameterValues = ReadonlyMap<string, Float64Array>;

/** Half a unit in the last place of f32, relative. */
const ULP = 2 ** -24;

/** What the program stores, by parameter. All of an axis counts at once: `for` is a matter of turns only. */
export function measureProgram(
  program: AxisProgram,
  inputs: ParameterValues,
): ReadonlyMap<string, MeasuredMatrix> {
  const extent = (axis: string | undefined): number =>
    axis === undefined ? 1 : axisOf(program, axis).extent;
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
  const put = (name: string, at: number, { value, error }: Measured): void => {
    const { dtype } = namedIn(program, name);
    const to = matrix(name);
    to.values[at] = value;
    to.bounds[at] = dtype === "f32" ? error : error + roundingBound(dtype, Math.abs(value) + error);
  };
  /** The element of `name` at these coordinates. */
  const element = (name: string, at: ReadonlyMap<string, number>): Measured => {
    const { axes } = namedIn(program, name);
    const from = matrix(name);
    const [row, col] = [at.get(axes[0] ?? "") ?? 0, at.get(axes[1] ?? "") ?? 0];
    const place = row * from.columns + col;
    return { value: from.values[place] ?? 0, error: from.bounds[place] ?? 0 };
  };
  const run = (stmt: AxisStmt): void => {
    switch (stmt.kind) {
      case "for":
        for (const inner of stmt.body) run(inner);
        return;
      case "fill": {
        const to = matrix(stmt.tile);
        to.values.fill(stmt.value);
        to.bounds.fill(0);
        return;
      }
      case "mma":
        multiply(matrix(stmt.acc), matrix(stmt.a), matrix(stmt.b));
        return;
      case "map":
      case "store": {
        const name = stmt.kind === "map" ? stmt.tile : stmt.param;
        const [rows, cols] = namedIn(program, name).axes;
        const { columns, values } = fresh(namedIn(program, name).axes);
        const made = Array.from(values, (_, i): Measured => {
          const at = new Map([
            [rows ?? "", Math.floor(i / columns)],
            [cols ?? "", i % columns],
          ]);
          return measureElement(stmt.value, (leaf) => element(leaf.name, at));
        });
        for (const [i, value] of made.entries()) put(name, i, value);
        return;
      }
      case "reduce": {
        const [rows = ""] = namedIn(program, stmt.tile).axes;
        const length = extent(stmt.along);
        for (let row = 0; row < extent(rows); row++) {
          const parts = Array.from({ length }, (_, i) =>
            measureElement(stmt.value, (leaf) =>
              element(
                leaf.name,
                new Map([
                  [rows, row],
                  [stmt.along, i],
                ]),
              ),
            ),
          );
          if (stmt.adds) parts.push(element(stmt.tile, new Map([[rows, row]])));
          put(stmt.tile, row, stmt.op === "max" ? largest(parts) : sumOf(parts));
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

const largest = (parts: readonly Measured[]): Measured => ({
  value: Math.max(...parts.map(({ value }) => value)),
  error: Math.max(...parts.map(({ error }) => error)),
});

/** In whatever order: as the bound of a dot product has it. */
function sumOf(parts: readonly Measured[]): Measured {
  const value = parts.reduce((sum, part) => sum + part.value, 0);
  const size = parts.reduce((sum, part) => sum + Math.abs(part.value) + part.error, 0);
  return {
    value,
    error: parts.reduce((sum, { error }) => sum + error, 0) + (parts.length / 8 + 8) * ULP * 2 * size,
  };
}

/** acc += a * b, with the bound of one product, and what the errors of its factors make of it. */
function multiply(acc: MeasuredMatrix, a: MeasuredMatrix, b: MeasuredMatrix): void {
  for (let row = 0; row < a.rows; row++)
    for (let col = 0; col < b.columns; col++) {
      let [sum, size, spread] = [0, 0, 0];
      for (let k = 0; k < a.columns; k++) {
        const [i, j] = [row * a.columns + k, k * b.columns + col];
        const [x, y] = [a.values[i] ?? 0, b.values[j] ?? 0];
        const [e, f] = [a.bounds[i] ?? 0, b.bounds[j] ?? 0];
        sum += x * y;
        size += Math.abs(x * y);
        spread += Math.abs(x) * f + Math.abs(y) * e + e * f;
      }
      const at = row * acc.columns + col;
      const before = acc.values[at] ?? 0;
      acc.values[at] = before + sum;
      acc.bounds[at] =
        (acc.bounds[at] ?? 0) + spread + gemmBound(a.columns, size + spread + Math.abs(before));
    }
}
