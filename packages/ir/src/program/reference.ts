/** What a program over named axes computes of a run's inputs, for the check of every element. */
import {
  type BatchedOperand,
  batchAxes,
  batchOffset,
  type OperandData,
  type Reference,
  type ReferenceInputs,
  readElement,
} from "@tilewright/core";
import { anchorOf } from "./anchor.ts";
import { type MeasuredMatrix, measureProgram } from "./measure.ts";
import type { AxisProgram, Parameter } from "./types.ts";

/** Multiply-adds in float64 that nobody minds waiting for. */
const MOST_CHECKED = 5e8;

/** Rows of each problem that are checked: all, or of many as many as `most` multiply-adds allow, the first and the last among them. */
export function checkedRows(source: AxisProgram, most = MOST_CHECKED): readonly number[] {
  const rows = source.axes.find(({ name }) => name === source.grid[0])?.extent ?? 1;
  const count = Math.min(rows, Math.max(2, Math.floor((most * rows) / Math.max(1, programWork(source)))));
  return Array.from({ length: count }, (_, i) =>
    count === rows ? i : Math.round((i * (rows - 1)) / (count - 1)),
  );
}

/** The reference of a program that has been compiled: its parameters are operands of its product. */
export function referenceProgram(
  source: AxisProgram,
  { a, b, steps }: ReferenceInputs,
  rows = checkedRows(source),
): Reference {
  const anchor = anchorOf(source);
  if (!anchor.ok) throw new TypeError("a program that was compiled has a product");
  const { operands, stored, results, launched } = anchor.value;
  const operand = (name: string): BatchedOperand => {
    const found = operands.get(name);
    if (found === undefined) throw new TypeError("parameters are operands");
    return found;
  };
  const dataOf = (name: string): OperandData | null => {
    const which = operand(name);
    const data = which === "a" ? a : which === "b" ? b : (steps?.[Number(which.slice(8))] ?? null);
    const written = which === "d" || results.some((result) => result.name === name);
    return written || typeof data === "number" ? null : data;
  };
  const count = launched.batch.kind === "strided" ? launched.batch.count : 1;
  const outputs = [stored.param, ...results.map(({ name }) => name)].map((name) => ({
    ...{ name, values: [] as number[], bounds: [] as number[] },
  }));
  for (let problem = 0; problem < count; problem++) {
    const inputs = new Map(
      source.params.flatMap((param) => {
        const data = dataOf(param.name);
        const start = batchOffset(batchAxes(launched, operand(param.name)), problem);
        return data === null
          ? []
          : [
              [
                param.name,
                valuesOf(source, param, (at) => readElement(param.dtype, data, start + at), rows),
              ] as const,
            ];
      }),
    );
    const measured = measureProgram(source, inputs, rows);
    for (const { name, values, bounds } of outputs) {
      const made = measured.get(name);
      if (made === undefined) throw new TypeError("a program stores its results");
      for (const value of made.values) values.push(value);
      for (const bound of made.bounds) bounds.push(bound);
    }
  }
  const [d, ...others] = outputs.map(({ name, values, bounds }) => ({
    ...{ name, values: Float64Array.from(values), bounds: Float64Array.from(bounds) },
  }));
  if (d === undefined) throw new TypeError("a program stores its result");
  const further = others.map(
    ({ name, ...each }) => [Number(operand(name).slice("epilogue".length)), each] as const,
  );
  return { rows, d, sumAbs: new Float64Array(0), steps: new Map(further) };
}

/** Rows of the result of one problem of a program's batch, of operands element by element. */
export function referenceRows(
  source: AxisProgram,
  read: (operand: Exclude<BatchedOperand, "c">, element: number) => number,
  problem: number,
  rows: readonly number[],
): Pick<MeasuredMatrix, "values" | "bounds"> {
  const anchor = anchorOf(source);
  if (!anchor.ok) throw new TypeError("a program that was compiled has a product");
  const { operands, stored, results, launched } = anchor.value;
  const written = new Set([stored.param, ...results.map(({ name }) => name)]);
  const inputs = new Map(
    source.params.flatMap((param) => {
      const operand = operands.get(param.name);
      if (operand === undefined || written.has(param.name)) return [];
      const start = batchOffset(batchAxes(launched, operand), problem);
      return [[param.name, valuesOf(source, param, (at) => read(operand, start + at), rows)] as const];
    }),
  );
  const made = measureProgram(source, inputs, rows).get(stored.param);
  if (made === undefined) throw new TypeError("a program stores its result");
  return made;
}

/** Multiply-adds of a program's products, over its batch. */
export function programWork(source: AxisProgram): number {
  const anchor = anchorOf(source);
  if (!anchor.ok) throw new TypeError("a program that was compiled has a product");
  const { launched, products } = anchor.value;
  const extent = (name: string): number => source.axes.find((axis) => axis.name === name)?.extent ?? 1;
  const axes = (name: string): readonly string[] =>
    [...source.params, ...source.tiles].find((each) => each.name === name)?.axes ?? [];
  const each = products.reduce(
    (sum, { acc, a }) =>
      sum + [...axes(acc), ...axes(a).slice(1)].reduce((size, axis) => size * extent(axis), 1),
    0,
  );
  return each * (launched.batch.kind === "strided" ? launched.batch.count : 1);
}

/** A matrix row by row, of rows of work tiles those that are checked. `read`: its elements by their place. */
function valuesOf(
  { axes, grid }: AxisProgram,
  { axes: [first, second], memory }: Parameter,
  read: (element: number) => number,
  checked: readonly number[],
): Float64Array {
  const extent = (name: string | undefined): number => axes.find((axis) => axis.name === name)?.extent ?? 1;
  const stride = (name: string | undefined): number => memory.find(({ axis }) => axis === name)?.stride ?? 0;
  const sampled = first === grid[0];
  const [rows, columns] = [sampled ? checked.length : extent(first), extent(second)];
  const [down, right] = [stride(first), stride(second)];
  return Float64Array.from({ length: rows * columns }, (_, i) => {
    const row = Math.floor(i / columns);
    return read((sampled ? (checked[row] ?? 0) : row) * down + (i % columns) * right);
  });
}
