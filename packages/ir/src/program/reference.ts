/** What a program over named axes computes of a run's inputs, for the check of every element. */
import {
  type BatchedOperand,
  batchAxes,
  batchOffset,
  type Problem,
  pagesOf,
  type Reference,
  type ReferenceInputs,
  readElement,
  rowInPage,
  runAt,
  runEnds,
  runsOf,
  type ToldRuns,
} from "@tilewright/core";
import { type Anchor, anchorOf } from "./anchor.ts";
import { type MeasuredMatrix, measureProgram } from "./measure.ts";
import { type AxisProgram, axisOf, batchOf, memoryExtent, type Parameter, strideAlong } from "./types.ts";

/** Multiply-adds in float64 that nobody minds waiting for. */
const MOST_CHECKED = 5e8;

/** Rows of each problem that are checked: all, or of many as many as `most` multiply-adds allow, the first and the last among them. */
export function checkedRows(source: AxisProgram, most = MOST_CHECKED): readonly number[] {
  const rows = memoryExtent(axisOf(source, source.grid[0]));
  const count = Math.min(rows, Math.max(2, Math.floor((most * rows) / Math.max(1, programWork(source)))));
  return Array.from({ length: count }, (_, i) =>
    count === rows ? i : Math.round((i * (rows - 1)) / (count - 1)),
  );
}

type Operand = Exclude<BatchedOperand, "c">;

/** An element of an operand by its place. */
type ReadElement = (operand: Operand, element: number) => number;

/** The reference of a program that has been compiled: its parameters are operands of its product. Rows of runs are those of one matrix, each of the run that has it; rows of none are left out. */
export function referenceProgram(
  source: AxisProgram,
  { a, b, steps }: ReferenceInputs,
  rows = checkedRows(source),
): Reference {
  const { operands, stored, results, launched } = anchored(source);
  const dtypes = new Map(source.params.map(({ name, dtype }) => [operands.get(name), dtype]));
  const read: ReadElement = (which, at) => {
    const data = which === "a" ? a : which === "b" ? b : steps?.[Number(which.slice(8))];
    return data == null || typeof data === "number" ? 0 : readElement(dtypes.get(which) ?? "f32", data, at);
  };
  const runs = axisOf(source, source.grid[0]).runs === undefined ? null : runsIn(source, launched, read);
  const has = ({ first, count }: Run, row: number): boolean => row >= first && row < first + count;
  const kept = runs === null ? rows : rows.filter((row) => runs.some((run) => has(run.rows, row)));
  const outputs = [stored.param, ...results.map(({ name }) => name)].map((name) => ({
    ...{ name, values: [] as number[], bounds: [] as number[] },
  }));
  const count = launched.batch.kind === "strided" ? launched.batch.count : 1;
  for (let problem = 0; problem < count / (runs?.length ?? 1); problem++)
    for (const measured of measuredRows(source, read, problem, kept))
      for (const { name, values, bounds } of outputs) {
        const made = measured.get(name);
        if (made === undefined) throw new TypeError("a program stores its results");
        for (const value of made.values) values.push(value);
        for (const bound of made.bounds) bounds.push(bound);
      }
  const [d, ...others] = outputs.map(({ name, values, bounds }) => ({
    ...{ name, values: Float64Array.from(values), bounds: Float64Array.from(bounds) },
  }));
  if (d === undefined) throw new TypeError("a program stores its result");
  const further = others.map(
    ({ name, ...each }) => [Number(operands.get(name)?.slice("epilogue".length)), each] as const,
  );
  return { rows: kept, places: kept, d, sumAbs: new Float64Array(0), steps: new Map(further) };
}

/** Rows of the result of one problem of a program's batch, of operands element by element; of runs rows of the one matrix. */
export function referenceRows(
  source: AxisProgram,
  read: ReadElement,
  problem: number,
  rows: readonly number[],
): Pick<MeasuredMatrix, "values" | "bounds"> {
  const { stored } = anchored(source);
  const parts = measuredRows(source, read, problem, rows).map((measured) => measured.get(stored.param));
  return {
    values: Float64Array.from(parts.flatMap((part) => [...(part?.values ?? [])])),
    bounds: Float64Array.from(parts.flatMap((part) => [...(part?.bounds ?? [])])),
  };
}

function anchored(source: AxisProgram): Anchor {
  const anchor = anchorOf(source);
  if (!anchor.ok) throw new TypeError("a program that was compiled has a product");
  return anchor.value;
}

type Run = ReturnType<typeof runAt> & { readonly rowOf?: (element: number) => number };

/** Where in memory the elements of run i lie. */
const rowsOf = (runs: ToldRuns, i: number, read: ReadElement) => (element: number) =>
  runs.pages === undefined
    ? element
    : rowInPage(runs.pages, element, (page) =>
        read(`epilogue${runs.pages?.table ?? 0}`, i * pagesOf(runs) + page),
      );

/** Of each position along the first axis of the batch the run of its rows, and that of each axis; null of a program whose rows are in no runs. */
function runsIn(
  source: AxisProgram,
  launched: Problem,
  read: ReadElement,
): readonly { readonly rows: Run; readonly along: ReadonlyMap<string, Run> }[] | null {
  const told = runsOf(launched);
  const { operands } = anchored(source);
  if (told.length === 0) return null;
  const positions = batchOf(source)[0]?.extent ?? 1;
  const [rows = ""] = source.grid;
  return Array.from({ length: positions }, (_, i) => {
    const along = new Map(
      source.axes.flatMap(({ name, runs }) => {
        const step = told.find((each) => runs && operands.get(runs.offsets) === `epilogue${each.step}`);
        if (step === undefined) return [];
        const ends = runEnds(step, i, (at) => read(`epilogue${step.step}`, at));
        return [[name, { ...runAt(step, ends), rowOf: rowsOf(step, i, read) }] as const];
      }),
    );
    const extent = axisOf(source, rows).extent;
    return { rows: along.get(rows) ?? { first: 0, count: extent }, along };
  });
}

/** What the program stores of these rows at one position of its batch; of runs of rows by each of them, whatever the position along the first axis. */
function measuredRows(
  source: AxisProgram,
  read: ReadElement,
  problem: number,
  rows: readonly number[],
): readonly ReadonlyMap<string, MeasuredMatrix>[] {
  const { operands, stored, results, launched } = anchored(source);
  const written = new Set([stored.param, ...results.map(({ name }) => name)]);
  const measured = (
    program: AxisProgram,
    at: number,
    checked: readonly number[],
    along: ReadonlyMap<string, Run>,
  ) => {
    const inputs = new Map(
      program.params.flatMap((param) => {
        const operand = operands.get(param.name);
        if (operand === undefined || written.has(param.name)) return [];
        const start = [...along].reduce(
          (sum, [axis, { first }]) => sum + first * strideAlong(param, axis),
          batchOffset(batchAxes(launched, operand), at),
        );
        const value = (i: number): number => read(operand, start + i);
        return [[param.name, valuesOf(program, param, value, checked, along)] as const];
      }),
    );
    return measureProgram(program, inputs, checked);
  };
  const runs = runsIn(source, launched, read);
  if (runs === null) return [measured(source, problem, rows, new Map())];
  const count = launched.batch.kind === "strided" ? launched.batch.count : 1;
  const inner = count / runs.length;
  const ofRows = axisOf(source, source.grid[0]).runs !== undefined;
  return runs.flatMap(({ rows: run, along }, i) => {
    if (!ofRows && i !== Math.floor(problem / inner)) return [];
    const own = ofRows
      ? rows.flatMap((row) => (row >= run.first && row < run.first + run.count ? [row - run.first] : []))
      : rows;
    const axes = source.axes.map(({ runs: _, ...axis }) => ({
      ...axis,
      extent: along.get(axis.name)?.count ?? axis.extent,
    }));
    return own.length === 0 ? [] : [measured({ ...source, axes }, i * inner + (problem % inner), own, along)];
  });
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
  along: ReadonlyMap<string, Run>,
): Float64Array {
  const extent = (name: string | undefined): number => axes.find((axis) => axis.name === name)?.extent ?? 1;
  const stride = (name: string | undefined): number => memory.find(({ axis }) => axis === name)?.stride ?? 0;
  const sampled = first === grid[0];
  const [rows, columns] = [sampled ? checked.length : extent(first), extent(second)];
  const [down, right] = [stride(first), stride(second)];
  const at = (axis: string | undefined, i: number): number => along.get(axis ?? "")?.rowOf?.(i) ?? i;
  return Float64Array.from({ length: rows * columns }, (_, i) => {
    const row = Math.floor(i / columns);
    const own = sampled ? (checked[row] ?? 0) : row;
    return read(at(first, own) * down + at(second, i % columns) * right);
  });
}
