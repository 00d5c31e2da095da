/** The steps of an epilogue in f64, with what each adds to a tile's bounds or stretches them by. */
import type { DType } from "../dtype.ts";
import type { FunctionName } from "../expression/tree.ts";
import { gemmBound, roundingBound } from "../numerics/bounds.ts";
import { decodeScale, storedType } from "../numerics/scaled.ts";
import { roundTo } from "../numerics/storage.ts";
import { batchAxes, batchOffset } from "../problem/batch.ts";
import { foldMap, mapOf } from "../problem/epilogueExpression.ts";
import { type Quantize, quantizedForm, scaleCode } from "../problem/quantize.ts";
import type { EpilogueStep, Problem } from "../problem.ts";
import { type Approximate, applyApproximately, castValue, type Slip } from "./expression.ts";
import { gather, missing, type OperandData, valuesOf } from "./multiply.ts";

/** Expected values and the largest error allowed for each, row-major over (batch, row, column). */
export interface Expectation {
  readonly values: Float64Array;
  readonly bounds: Float64Array;
}

/** One rounding of an f32 result. */
export const stepUnit = 2 ** -23;

/** The tile of one problem of the batch while it goes through the epilogue. */
export interface Tile {
  readonly values: Float64Array;
  readonly bounds: Float64Array;
}

/** Replace every value v and its bound e; `row`, `column` count within the tile. */
export function update(
  tile: Tile,
  columns: number,
  next: (v: number, e: number, row: number, column: number) => readonly [number, number],
): void {
  for (let i = 0; i < tile.values.length; i++) {
    const [value, bound] = next(
      tile.values[i] ?? 0,
      tile.bounds[i] ?? 0,
      Math.floor(i / columns),
      i % columns,
    );
    tile.values[i] = value;
    tile.bounds[i] = bound;
  }
}

function reduce(
  step: Extract<EpilogueStep, { kind: "reduce" }>,
  tile: Tile,
  rows: number,
  columns: number,
): Expectation {
  const size = step.over === "n" ? rows : step.over === "m" ? columns : 1;
  const values = new Float64Array(size);
  const bounds = new Float64Array(size);
  const magnitudes = new Float64Array(size);
  for (let i = 0; i < tile.values.length; i++) {
    const slot = step.over === "n" ? Math.floor(i / columns) : step.over === "m" ? i % columns : 0;
    const value = tile.values[i] ?? 0;
    const bound = tile.bounds[i] ?? 0;
    if (step.op === "sum") {
      values[slot] = (values[slot] ?? 0) + value;
      bounds[slot] = (bounds[slot] ?? 0) + bound;
      magnitudes[slot] = (magnitudes[slot] ?? 0) + Math.abs(value);
    } else {
      values[slot] = Math.max(values[slot] ?? 0, Math.abs(value));
      bounds[slot] = Math.max(bounds[slot] ?? 0, bound);
    }
  }
  const terms = tile.values.length / size;
  for (let i = 0; i < size; i++) {
    const [value, error] = [values[i] ?? 0, (bounds[i] ?? 0) + gemmBound(terms, magnitudes[i] ?? 0)];
    bounds[i] = error + storeBound(step.dtype, value, error);
  }
  return { values, bounds };
}

const expectation = (pairs: readonly Approximate[]): Expectation => ({
  values: Float64Array.from(pairs, ([value]) => value),
  bounds: Float64Array.from(pairs, ([, error]) => error),
});

/** Groups of columns divided by their scales, which it gives. */
function quantize({ group }: Quantize, dtype: DType, tile: Tile, columns: number, slip: Slip): Expectation {
  const groups = columns / group;
  const largest = {
    values: new Float64Array(tile.values.length / group),
    bounds: new Float64Array(tile.values.length / group),
  };
  const groupOf = (row: number, column: number): number => row * groups + Math.floor(column / group);
  update(tile, columns, (v, e, row, column) => {
    const at = groupOf(row, column);
    // NaN stays, as the largest of all.
    if (Number.isNaN(v) || Math.abs(v) > (largest.values[at] ?? 0)) largest.values[at] = Math.abs(v);
    largest.bounds[at] = Math.max(largest.bounds[at] ?? 0, e);
    return [v, e];
  });
  const { most, least, codes } = quantizedForm(dtype);
  const magnitude = (at: number): Approximate => [
    Math.max(largest.values[at] ?? 0, least),
    largest.bounds[at] ?? 0,
  ];
  if (codes !== null) {
    // Magnitudes on either side of a step of the scales have scales of either side.
    const forms = Array.from(largest.values, (_, at) => {
      const [value, bound] = magnitude(at);
      // A power of two is made of the exponent's bits, the other scales by a product.
      const far = bound + (codes.format === "ue8m0" ? 0 : slip(value));
      return [value, Math.max(least, value - far), value + far].map((x) => {
        const code = scaleCode(x, dtype);
        return { code, inverse: 1 / decodeScale(codes.format, code) };
      });
    });
    const spread = (at: number, of: "code" | "inverse"): Approximate => {
      const [own = Number.NaN, ...others] = (forms[at] ?? []).map((form) => form[of]);
      return [own, Math.max(...others.map((other) => Math.abs(other - own)))];
    };
    update(tile, columns, (v, e, row, column) => {
      const at = spread(groupOf(row, column), "inverse");
      const [value, bound] = applyApproximately("mul", [[v, e], at], slip);
      return [Math.max(-most, Math.min(most, value)), bound];
    });
    return expectation(forms.map((_, at) => spread(at, "code")));
  }
  const inverses = Array.from(largest.values, (_, at) =>
    applyApproximately("div", [[most, 0], magnitude(at)], slip),
  );
  update(tile, columns, (v, e, row, column) =>
    applyApproximately("mul", [[v, e], inverses[groupOf(row, column)] ?? [0, 0]], slip),
  );
  return expectation(
    Array.from(largest.values, (_, at) =>
      applyApproximately("mul", [magnitude(at), [1 / most, stepUnit / most]], slip),
    ),
  );
}

/** Rounding of a store; nothing where the value is an exact integer of an integer type. */
export function storeBound(of: DType, value: number, error: number): number {
  // Elements with scales of their own end at the largest value.
  const dtype = storedType(of);
  const most =
    dtype === of ? Number.POSITIVE_INFINITY : roundTo(dtype, Number.POSITIVE_INFINITY, "rn", "saturate");
  if (error === 0 && roundTo(dtype, value) === value) return 0;
  // The kernel rounds its own value, which may lie up to `error` further out.
  return Math.max(roundingBound(dtype, value), roundingBound(dtype, Math.min(most, Math.abs(value) + error)));
}

export interface StepContext {
  readonly problem: Problem;
  readonly rows: readonly number[];
  readonly item: number;
  readonly slip: Slip;
  readonly input: OperandData | number | null;
  /** The second sums of a gated product. */
  readonly up: Tile | null;
  /** What the steps before have loaded of an element, by position. */
  readonly loaded: Map<number, (row: number, column: number) => number>;
  readonly partial: boolean;
}

/** What a step reads for an element of the tile. */
function readerOf(step: EpilogueStep, context: StepContext): (row: number, column: number) => number {
  const { problem, rows, item, input } = context;
  const { n } = problem;
  const start = batchOffset(batchAxes(problem, `epilogue${problem.epilogue.indexOf(step)}`), item);
  const data = (): OperandData =>
    input === null || typeof input === "number" ? missing(`the input of ${step.kind}`) : input;
  if ("operand" in step) {
    const { operand } = step;
    const matrix = gather(operand, valuesOf(operand.dtype, data()), rows, n, start);
    return (row, column) => matrix[row * n + column] ?? 0;
  }
  if (typeof input === "number") return () => input;
  if (step.kind !== "bias" && step.kind !== "scale" && step.kind !== "load") return missing("an operand");
  const vector = valuesOf(step.dtype, data());
  const by = step.kind === "bias" ? step.along : step.by;
  return (row, column) =>
    vector[start + (by === "m" ? (rows[row] ?? 0) : by === "n" ? column : 0)] ??
    missing(`a longer ${step.kind}`);
}

/** Apply one step to the tile; `output` and `reduce` steps leave it and return what they store. */
export function applyStep(index: number, tile: Tile, context: StepContext): Expectation | null {
  const { problem, rows, slip, loaded, up } = context;
  const { n, epilogue } = problem;
  const step = epilogue[index];
  const combine = (fn: FunctionName, step: EpilogueStep): null => {
    const read = readerOf(step, context);
    update(tile, n, (v, e, row, column) =>
      applyApproximately(
        fn,
        [
          [v, e],
          [read(row, column), 0],
        ],
        slip,
      ),
    );
    return null;
  };
  switch (step?.kind) {
    case undefined:
    // Multiplied before, or of a tile program, which has a reference of its own.
    case "factor":
    case "result":
    case "gather":
    case "scatter":
      return null;
    case "bias":
    case "residual":
      return combine("add", step);
    case "scale":
    case "gate":
      return combine("mul", step);
    case "load":
    case "source":
      loaded.set(index, readerOf(step, context));
      return null;
    case "map": {
      const tree = mapOf(epilogue, index);
      update(tile, n, (v, e, row, column) =>
        foldMap<Approximate>(tree, {
          acc: [v, e],
          up: up && [up.values[row * n + column] ?? 0, up.bounds[row * n + column] ?? 0],
          loaded: (from) => [loaded.get(from)?.(row, column) ?? missing(`what step ${from} loads`), 0],
          number: (x) => [x, 0],
          apply: (fn, args) => applyApproximately(fn, args, slip),
        }),
      );
      return null;
    }
    case "activation":
      update(tile, n, (v, e) => applyApproximately(step.fn, [[v, e]], slip));
      return null;
    case "clamp":
      update(tile, n, (v, e) => [Math.min(step.max, Math.max(step.min, v)), e]);
      return null;
    case "cast":
      update(tile, n, (v, e) => castValue(step, [v, e]));
      return null;
    case "output":
      return {
        values: tile.values.slice(),
        bounds: tile.bounds.map((e, i) => e + storeBound(step.operand.dtype, tile.values[i] ?? 0, e)),
      };
    case "quantize":
      return quantize(step, problem.d.dtype, tile, n, slip);
    case "reduce":
      return context.partial && step.over !== "n" ? null : reduce(step, tile, rows.length, n);
  }
}
