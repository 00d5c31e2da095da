/** A lattice of sampled rows and columns of a large problem: the small problem that it makes, its inputs, and its elements of D. */
import {
  applyScales,
  type BatchedOperand,
  BLOCK_SCALE,
  batchAxes,
  batchOffset,
  blockFactors,
  createRandom,
  type EpilogueStep,
  expertAxisOf,
  factorRow,
  factorStride,
  groupStart,
  groupStrides,
  isIndex,
  makeStorage,
  type Operand,
  ok,
  operandShape,
  operandStrides,
  type Problem,
  packedSize,
  productColumns,
  quantizeOf,
  readElement,
  roundTo,
  rowIndexOf,
  scaleMatrix,
  scaleOffset,
  sizeOf,
  storageFromBytes,
  weightIndex,
  writeElement,
} from "@tilewright/core";
import type { DeviceBuffer } from "../device.ts";
import type { OperandName } from "../operands.ts";
import { type BenchBuffers, operandDType } from "./buffers.ts";

/** Rows and columns of the lattice: 1024 elements, spread over all tiles of a large D. */
export const latticeSide = 32;
/** What launches passed for alpha, beta and the steps' scalars. */
export interface LaunchedScalars {
  readonly alpha: number;
  readonly beta: number;
  readonly steps: readonly (number | null)[];
}

/** First, last, and one at random from each equal part between: ascending, each once. */
export function sampleIndices(extent: number, count: number, seed: number): readonly number[] {
  if (extent <= count) return Array.from({ length: extent }, (_, index) => index);
  const random = createRandom(seed);
  const part = extent / count;
  const inner = Array.from({ length: count }, (_, index) =>
    Math.min(extent - 1, Math.floor((index + random.uniform()) * part)),
  );
  return [...new Set([0, ...inner.slice(1, -1), extent - 1])];
}

/** Columns of the lattice: of a quantised output all of the first and the last group, whose scales come from all of their values. */
export function sampleColumns(problem: Problem, seed: number): readonly number[] {
  const { n } = problem;
  const group = quantizeOf(problem)?.step.group;
  if (group === undefined) return sampleIndices(n, latticeSide, seed);
  const all = Array.from({ length: n }, (_, column) => column);
  return n === group ? all : [...all.slice(0, group), ...all.slice(-group)];
}

/** The problem that only the lattice's rows and columns make. */
export function latticeProblem(problem: Problem, rows: number, columns: number): Problem {
  const dense = (operand: Operand, width: number): Operand => ({ ...operand, layout: "row", ld: width });
  return {
    ...problem,
    m: rows,
    n: columns,
    a: dense(problem.a, problem.k),
    b: dense(problem.b, operandShape({ ...problem, n: columns }, "b")[1]),
    c: problem.c === null ? null : dense(problem.c, columns),
    d: dense(problem.d, columns),
    batch: { kind: "none" },
    epilogue: problem.epilogue.map(
      (step): EpilogueStep =>
        isIndex(step)
          ? { ...step, rows }
          : "operand" in step
            ? {
                ...step,
                operand: dense(step.operand, columns),
                ...(step.kind === "factor" ? { columns } : {}),
              }
            : step,
    ),
  };
}

/** A problem of a batch, or an expert that has rows of D: its number, rows and k, and where its operands begin, in elements. */
export interface Member {
  readonly item: number;
  readonly rows: number;
  readonly depth: number;
  start(which: BatchedOperand): number;
  /** Where the factors of A or B begin, in elements; in bytes where they are bytes. */
  factors(which: "a" | "b"): number;
}

/** The problems of a batch, or the experts that have rows of D. */
export function membersOf(problem: Problem, counts: readonly number[]): readonly Member[] {
  const { batch, m, k } = problem;
  if (batch.kind !== "grouped")
    return Array.from({ length: batch.kind === "strided" ? batch.count : 1 }, (_, item) => ({
      item,
      ...{ rows: m, depth: k },
      start: (which) => batchOffset(batchAxes(problem, which), item),
      factors: (which) => item * (scaleMatrix(problem, which)?.stride ?? factorStride(problem, which)),
    }));
  let first = 0;
  const axis = expertAxisOf(problem);
  return counts.flatMap((count, item): readonly Member[] => {
    const before = first;
    first += count;
    const [rows, depth] = axis === "m" ? [count, k] : [m, count];
    if (rows === 0) return [];
    const start = (which: OperandName): number => {
      const bytes = groupStart(groupStrides(problem, which), before, item);
      return Math.floor(bytes / packedSize(operandDType(problem, which)));
    };
    return [{ item, rows, depth, start, factors: (which) => start(`sf${which}`) }];
  });
}

export function latticeInputs(
  problem: Problem,
  buffers: BenchBuffers,
  { item, start, factors }: Member,
  rows: readonly number[],
  columns: readonly number[],
  scalars: LaunchedScalars,
) {
  const { k } = problem;
  const all = Array.from({ length: k }, (_, index) => index);
  const gather = (
    name: Parameters<BenchBuffers["valueOf"]>[1],
    operand: Operand,
    base: number,
    at: readonly number[],
    along: readonly number[],
  ): Float64Array => {
    const [rowStride, columnStride] = operandStrides(operand);
    const dense = new Float64Array(at.length * along.length);
    let next = 0;
    for (const row of at)
      for (const column of along)
        dense[next++] = buffers.valueOf(problem, name, base + row * rowStride + column * columnStride);
    return dense;
  };
  /** Elements times their factors: element (at[i], k) stands at i * step[0] + k * step[1]. */
  const scale = (
    which: "a" | "b",
    dense: Float64Array,
    at: readonly number[],
    step: readonly [number, number],
  ): void => {
    const places = factorPlaces(problem, which);
    if (places === null) return;
    const base = factors(which);
    const table = {
      block: places.block,
      at: (_: number, row: number, factor: number): number =>
        buffers.valueOf(problem, `sf${which}`, base + places.at(row, factor)),
    };
    applyScales(dense, table, item, at, k, step);
  };
  const steps = problem.epilogue.map((step, index) => {
    const name = `epilogue${index}` as const;
    const vector = (at: readonly number[]): Float64Array =>
      Float64Array.from(at, (position) => buffers.valueOf(problem, name, start(name) + position));
    switch (step.kind) {
      case "bias":
        return vector(step.along === "m" ? rows : columns);
      case "scale":
      case "load":
        if (step.by === "scalar") return scalars.steps[index] ?? 1;
        return vector(step.by === "m" ? rows : step.by === "n" ? columns : [0]);
      case "residual":
      case "source":
      case "gate":
        return gather(name, step.operand, start(name), rows, columns);
      case "factor": {
        const second = gather(name, step.operand, start(name), all, columns);
        const behind = columns.map((column) => problem.n + column);
        if (problem.gated !== undefined) scale("b", second, behind, [1, columns.length]);
        return second;
      }
      // Rows have been read where it says.
      case "gather":
      case "scatter":
        return Float64Array.from(rows, (_, row) => row);
      case "activation":
      case "map":
      case "clamp":
      case "cast":
      case "output":
      case "result":
      case "reduce":
      case "quantize":
        return null;
      default:
        return step satisfies never;
    }
  });
  const index = rowIndexOf(problem, "a");
  const place = (row: number): number =>
    index === null
      ? row
      : buffers.valueOf(problem, `epilogue${index.step}`, start(`epilogue${index.step}`) + row);
  const a = gather("a", problem.a, start("a"), rows.map(place), all);
  const ofB = columnsOfB(problem, columns);
  const b = gather("b", problem.b, start("b"), all, ofB);
  scale("a", a, rows, [k, 1]);
  scale("b", b, ofB, [1, ofB.length]);
  const weights = problem.weights;
  if (weights !== undefined)
    for (const [i, column] of ofB.entries())
      for (const row of all) {
        const factor = factors("b") + Math.floor(row / weights.group) * productColumns(problem) + column;
        const code = buffers.valueOf(problem, "b", start("b") + weightIndex(problem, row, column));
        const value = code * buffers.valueOf(problem, "sfb", factor);
        b[row * ofB.length + i] = roundTo(problem.a.dtype, value);
      }
  return {
    a,
    b,
    c: problem.c === null ? null : gather("c", problem.c, start("c"), rows, columns),
    alpha: scalars.alpha,
    beta: scalars.beta,
    steps,
  };
}

/** The columns of B whose products make some columns of D: of a gated product there are two for each, side by side or n apart. */
const columnsOfB = ({ n, gated }: Problem, columns: readonly number[]): readonly number[] =>
  gated === undefined || gated === "matrices"
    ? columns
    : gated === "interleaved"
      ? columns.flatMap((column) => [2 * column, 2 * column + 1])
      : [...columns, ...columns.map((column) => n + column)];

/** Elements of K under a factor of A or B, and the element of one problem's factors where that of a row (column of B) stands; null where there are none. */
function factorPlaces(
  problem: Problem,
  which: "a" | "b",
): { readonly block: number; at(row: number, factor: number): number } | null {
  const [codes, floats] = [scaleMatrix(problem, which), blockFactors(problem, which)];
  if (codes !== null) return { block: codes.block, at: (row, factor) => scaleOffset(codes, row, factor) };
  if (floats === null) return null;
  const { strides } = floats;
  return {
    block: BLOCK_SCALE,
    at: (row, factor) => factorRow(floats, row) * strides[0] + factor * strides[1],
  };
}

/** The lattice's elements of D, dense. */
export function readLattice(
  problem: Problem,
  d: DeviceBuffer,
  base: number,
  rows: readonly number[],
  columns: readonly number[],
) {
  const { dtype } = problem.d;
  const size = packedSize(dtype);
  const [rowStride, columnStride] = operandStrides(problem.d);
  const dense = makeStorage(dtype, rows.length * columns.length);
  let next = 0;
  for (const row of rows)
    for (const column of columns) {
      const place = (base + row * rowStride + column * columnStride) * size;
      const bytes = d.read(Math.floor(place), sizeOf(dtype));
      if (!bytes.ok) return bytes;
      // Which of those that share the byte.
      const at = (place % 1) / size;
      writeElement(
        dtype,
        dense,
        next++,
        readElement(dtype, storageFromBytes(dtype, bytes.value, at + 1), at),
      );
    }
  return ok(dense);
}
