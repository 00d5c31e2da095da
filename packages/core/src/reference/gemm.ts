/** The float64 reference: what D should be, and how far a correct kernel may be from it. */
import type { DType } from "../dtype.ts";
import { gemmBound } from "../numerics/bounds.ts";
import { epsilonOf } from "../numerics/formats.ts";
import { decodeArray } from "../numerics/storage.ts";
import { type BatchedOperand, batchAxes, batchOffset, operandElements } from "../problem/batch.ts";
import { BLOCK_SCALE, blockFactors, scaleMatrix } from "../problem/scales.ts";
import { unpackWeights } from "../problem/weights.ts";
import { type Problem, productColumns, rowIndexOf, type Scalar, upFactor } from "../problem.ts";
import {
  applyStep,
  type Expectation,
  type StepContext,
  stepUnit,
  storeBound,
  type Tile,
  update,
} from "./epilogue.ts";
import type { Slip } from "./expression.ts";
import { gather, missing, multiply, type OperandData, valuesOf } from "./multiply.ts";
import { isTf32Exact } from "./random.ts";
import { applyScales, type FactorTable, factorTable } from "./scales.ts";

export interface ReferenceInputs {
  readonly a: OperandData;
  readonly b: OperandData;
  readonly c?: OperandData | null;
  /** Factors of block-scaled A and B in memory order (`problem/scales.ts`); not needed where a and b are decoded values. */
  readonly sfa?: Uint8Array | null;
  readonly sfb?: Uint8Array | null;
  /** Values of `runtime` scalars; 1 and 0 unless given. */
  readonly alpha?: number;
  readonly beta?: number;
  /**
   * What each epilogue step reads, by its position: a vector or matrix in the step's dtype, a number for a launch-time scalar. Vectors are
   * shared by a batch; matrices of a batch follow each other at `packedStride`.
   */
  readonly steps?: readonly (OperandData | number | null)[];
}

export interface Reference {
  /** Numbers of the rows that were computed, ascending; all unless told otherwise. */
  readonly rows: readonly number[];
  /** Where they lie in D: elsewhere only where an index says so. */
  readonly places: readonly number[];
  readonly d: Expectation;
  /** sum |a*b| of each element. */
  readonly sumAbs: Float64Array;
  /** By position of the step: what `output` steps store (rows x n) and `reduce` steps give (rows, n or 1 values per problem). */
  readonly steps: ReadonlyMap<number, Expectation>;
}

export interface ReferenceOptions {
  /** Compute only these rows of D, e.g. a sample of a large problem. Reductions over m and all are then left out. */
  readonly rows?: readonly number[];
}

/** What Ada's mma and Hopper's wgmma keep of a sum of fp8 products, whatever the accumulator's dtype says (found on an H200 and by DeepSeek-V3). */
const fp8Unit = 2 ** -13;

/** Spacing of the accumulator near 1. Integers accumulate exactly. */
export function accumulatorUnit(acc: DType, a: DType, b: DType): number {
  const byteFloat = (dtype: DType): boolean => dtype === "e4m3" || dtype === "e5m2";
  if (byteFloat(a) && byteFloat(b)) return Math.max(fp8Unit, acc === "f16" ? epsilonOf("f16") : 0);
  if (acc === "f64") return 2 ** -52;
  if (acc === "s32") return 0;
  return acc === "f16" ? epsilonOf("f16") : epsilonOf("f32");
}

/**
 * What three products of parts leave out of one of f32, relative to it. The large part of an element is a tf32 near it, with 10 bits of mantissa, from which the element is at most 0.65 * 2^-10
 * of itself away. Of that difference the tensor core drops what lies below a tf32's last bit: at most 2^-10 of it, of either element. The product of both differences is left out.
 */
const SPLIT_LOSS = 2 * 0.65 * 2 ** -20 + (0.65 * 2 ** -10) ** 2;

/** Half the smallest subnormal of the accumulator: what a result loses when it underflows, however small the values. */
function underflow(acc: DType): number {
  if (acc === "f64") return 2 ** -1074;
  if (acc === "s32") return 0;
  return acc === "f16" ? 2 ** -25 : 2 ** -150;
}

const numberOf = (scalar: Scalar, runtime: number | undefined, fallback: number): number =>
  scalar === "runtime" ? (runtime ?? fallback) : scalar;

/**
 * `D = epilogue(alpha * A.B + beta * C)` in f64 from the stored inputs, with a bound per element: `gemmBound` of the products, then what
 * each later step adds or stretches, then the rounding to D's dtype. `values` are before that rounding.
 *
 * Integer inputs with integer steps have bound 0 up to the last rounding. tf32 inputs that are not exact tf32 values add the error of
 * dropping their low bits. Throws (a bug) on buffers that are too short, missing inputs, and grouped batches: those are a list of
 * problems, one reference each.
 */
export function referenceGemm(
  problem: Problem,
  inputs: ReferenceInputs,
  options: ReferenceOptions = {},
): Reference {
  const { m, n, k, batch } = problem;
  if (batch.kind === "grouped")
    throw new TypeError("a grouped batch is a list of problems: make one reference for each");
  const rows = options.rows ?? Array.from({ length: m }, (_, i) => i);
  const partial = rows.length < m;
  const count = batch.kind === "strided" ? batch.count : 1;
  const alpha = numberOf(problem.alpha, inputs.alpha, 1);
  const beta = numberOf(problem.beta, inputs.beta, 0);
  const [aFactors, bFactors] = [factorsOf(problem, "a", inputs), factorsOf(problem, "b", inputs)];
  const elements = (which: "a" | "b"): Float64Array =>
    (which === "a" ? aFactors : bFactors) === null
      ? valuesOf(problem[which].dtype, inputs[which])
      : decodeArray(problem[which].dtype, inputs[which], operandElements(problem, which));
  const bStored = unpackWeights(problem, inputs.b, inputs.sfb ?? null);
  const [aValues, bValues] = [elements("a"), bStored ?? elements("b")];
  const cValues = problem.c === null ? null : valuesOf(problem.c.dtype, inputs.c ?? missing("C"));
  const exact = (values: Float64Array | null): boolean => values === null || isTf32Exact(values);
  const factors = [aValues, bValues, upValues(problem, inputs)];
  const tf32Loss = problem.a.dtype === "tf32" && !factors.every(exact) ? 2 * epsilonOf("tf32") : 0;
  const dropped = problem.precision === "3xtf32" ? SPLIT_LOSS : tf32Loss;
  const unit = accumulatorUnit(problem.acc, problem.a.dtype, problem.b.dtype);
  // Promoted sums lose what short ones do, and then what f32 does.
  const sumBound = (s: number): number =>
    problem.precision === "promoted" || problem.blockScales !== undefined
      ? gemmBound(Math.min(k, BLOCK_SCALE), s, unit) + gemmBound(k, s)
      : gemmBound(k, s, unit);
  const lost = k * underflow(problem.acc);
  // An f64 problem works in f64 throughout; everything else scales and activates in f32.
  const slip: Slip =
    problem.acc === "f64"
      ? (v) => Math.abs(v) * 2 ** -52 + 2 ** -1074
      : (v) => Math.abs(v) * stepUnit + 2 ** -149;

  const size = rows.length * n;
  const d = { values: new Float64Array(count * size), bounds: new Float64Array(count * size) };
  const sumAbs = new Float64Array(count * size);
  const stepResults = new Map<number, Expectation[]>();
  const width = productColumns(problem);
  const everyN = Array.from({ length: width }, (_, i) => i);

  for (let item = 0; item < count; item++) {
    const offset = (which: BatchedOperand) => batchOffset(batchAxes(problem, which), item);
    const aDense = gather(problem.a, aValues, placesOf(problem, "a", rows, inputs), k, offset("a"));
    const bDense = gatherFactors(problem, bValues, inputs, item);
    if (aFactors !== null) applyScales(aDense, aFactors, item, rows, k, [k, 1]);
    if (bFactors !== null) applyScales(bDense, bFactors, item, everyN, k, [1, width]);
    const product = multiply(aDense, bDense, rows.length, width, k);
    const sumsOf = (column: (j: number) => number): Tile & { readonly sumAbs: Float64Array } => {
      const at = (values: Float64Array): Float64Array =>
        width === n
          ? values
          : Float64Array.from(
              { length: size },
              (_, i) => values[Math.floor(i / n) * width + column(i % n)] ?? 0,
            );
      const [values, sumAbs] = [at(product.sum), at(product.sumAbs)];
      const tile = { values, sumAbs, bounds: sumAbs.map((s) => sumBound(s) + dropped * s + lost) };
      if (alpha !== 1) update(tile, n, (v, e) => [v * alpha, e * Math.abs(alpha) + slip(v * alpha)]);
      return tile;
    };
    const apart = problem.gated === "interleaved";
    const tile = sumsOf((j) => (apart ? 2 * j : j));
    const up = problem.gated === undefined ? null : sumsOf((j) => (apart ? 2 * j + 1 : n + j));
    sumAbs.set(
      tile.sumAbs.map((s, i) => Math.max(s, up?.sumAbs[i] ?? 0)),
      item * size,
    );
    if (problem.c !== null && cValues !== null) {
      const c = gather(problem.c, cValues, rows, n, offset("c"));
      // Integers with an integral beta stay integers; anything else rounds product and sum.
      const exact =
        problem.acc === "s32" &&
        Number.isInteger(alpha) &&
        Number.isInteger(beta) &&
        problem.c.dtype !== "f32";
      update(tile, n, (v, e, row, column) => {
        const term = beta * (c[row * n + column] ?? 0);
        return [v + term, e + (exact ? 0 : slip(term) + slip(v + term))];
      });
    }
    const loaded: StepContext["loaded"] = new Map();
    for (const index of problem.epilogue.keys()) {
      const result = applyStep(index, tile, {
        problem,
        rows,
        item,
        slip,
        input: inputs.steps?.[index] ?? null,
        loaded,
        up,
        partial,
      });
      if (result !== null) stepResults.set(index, [...(stepResults.get(index) ?? []), result]);
    }
    for (let i = 0; i < size; i++) {
      const value = tile.values[i] ?? 0;
      d.values[item * size + i] = value;
      d.bounds[item * size + i] =
        (tile.bounds[i] ?? 0) + storeBound(problem.d.dtype, value, tile.bounds[i] ?? 0);
    }
  }
  const steps = new Map([...stepResults].map(([index, parts]) => [index, concatenate(parts)]));
  return { rows, places: placesOf(problem, "d", rows, inputs), d, sumAbs, steps };
}

/** Where rows of A or D lie. Throws (a bug) where an index has none for each. */
function placesOf(
  problem: Problem,
  which: "a" | "d",
  rows: readonly number[],
  { steps }: ReferenceInputs,
): readonly number[] {
  const index = rowIndexOf(problem, which);
  if (index === null) return rows;
  const given = steps?.[index.step];
  if (given == null || typeof given === "number") return missing("an index of rows");
  return rows.map((row) => Number(given[row] ?? missing(`the place of row ${row}`)));
}

/** Elements of the second matrix of a gated product; null where B has both factors. */
function upValues(problem: Problem, { steps }: ReferenceInputs): Float64Array | null {
  const up = upFactor(problem);
  if (up === null) return null;
  const given = steps?.[up];
  return given == null || typeof given === "number"
    ? missing("the second matrix of a gated product")
    : valuesOf(problem.b.dtype, given);
}

/** B of one problem of a batch, k x the columns that are multiplied: of a gated product with two matrices the second one's behind those of the first. */
function gatherFactors(
  problem: Problem,
  values: Float64Array,
  inputs: ReferenceInputs,
  item: number,
): Float64Array {
  const { k, n, b } = problem;
  const up = upFactor(problem);
  const width = productColumns(problem);
  const everyK = Array.from({ length: k }, (_, i) => i);
  const offset = (which: BatchedOperand) => batchOffset(batchAxes(problem, which), item);
  const first = gather(b, values, everyK, up === null ? width : n, offset("b"));
  if (up === null) return first;
  const second = gather(b, upValues(problem, inputs) ?? values, everyK, n, offset(`epilogue${up}`));
  const both = new Float64Array(k * width);
  for (let row = 0; row < k; row++) {
    both.set(first.subarray(row * n, (row + 1) * n), row * width);
    both.set(second.subarray(row * n, (row + 1) * n), row * width + n);
  }
  return both;
}

/** The factors that an operand's elements still have to be multiplied by; null where there are none, or the values have them. */
function factorsOf(problem: Problem, which: "a" | "b", inputs: ReferenceInputs): FactorTable | null {
  const none = scaleMatrix(problem, which) === null && blockFactors(problem, which) === null;
  if (none || inputs[which] instanceof Float64Array) return null;
  const factors = which === "a" ? inputs.sfa : inputs.sfb;
  return factorTable(problem, which, factors ?? missing(`the scale factors of ${which.toUpperCase()}`));
}

function concatenate(parts: readonly Expectation[]): Expectation {
  const join = (pick: (part: Expectation) => Float64Array): Float64Array =>
    Float64Array.from(parts.flatMap((part) => [...pick(part)]));
  return { values: join((part) => part.values), bounds: join((part) => part.bounds) };
}
