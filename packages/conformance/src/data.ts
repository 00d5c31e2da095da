/** Inputs of a case and what must come out of them. */
import {
  type BatchAxis,
  batchAxes,
  batchOffset,
  createRandom,
  type DType,
  decodeArray,
  dtypes,
  encodeArray,
  type InputDistribution,
  isIndex,
  isLaunchScalar,
  type Operand,
  type OperandData,
  operandElements,
  operandShape,
  operandStrides,
  type Problem,
  type Reference,
  type ReferenceInputs,
  randomScales,
  randomStorage,
  referenceGemm,
  rowIndexData,
  runData,
  scaleMatrix,
  scaleOffset,
  sizeOf,
  stepExtents,
  storedIn,
} from "@tilewright/core";
import { deviceOperands } from "@tilewright/runtime";

/**
 * - `integers`: every result is exact;
 * - `normal`: results lie within the derived bound;
 * - `special`: integers with NaN and infinities among them.
 */
export type DataKind = "integers" | "normal" | "special";

export interface CaseData {
  readonly kind: DataKind;
  readonly a: OperandData;
  readonly b: OperandData;
  readonly c: OperandData | null;
  /** Scale factors of block-scaled A and B. */
  readonly sfa: Uint8Array | null;
  readonly sfb: Uint8Array | null;
  /** What each step of the epilogue reads, by position. */
  readonly steps: readonly (OperandData | number | null)[];
  readonly alpha: number;
  readonly beta: number;
  readonly reference: Reference;
}

/** Values of scalars that the problem leaves to the launch. */
export interface RuntimeScalars {
  readonly alpha?: number;
  readonly beta?: number;
}

/** Neither is 0 or 1, so that a kernel which forgets one of them is wrong. */
const usual = { alpha: 0.5, beta: -2 };

/** Of `scale` by a launch-time scalar: products of integers stay integers. */
const SCALE = { integers: 2, special: 2, normal: 0.75 } as const;

/** Every byte 0xff is NaN in all float types and -1 in the signed ones: what lies between the rows must not be used. */
const POISON = 0xff;

/** Which elements of a buffer belong to its matrices. `axes`: where those of a batch lie. */
function elementMask(
  operand: Operand,
  [rows, columns]: readonly [number, number],
  {
    count,
    axes,
    length,
  }: { readonly count: number; readonly axes: readonly BatchAxis[]; readonly length: number },
): Uint8Array {
  const mask = new Uint8Array(length);
  const [rowStride, columnStride] = operandStrides(operand);
  for (let item = 0; item < count; item++) {
    const start = batchOffset(axes, item);
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) mask[start + i * rowStride + j * columnStride] = 1;
  }
  return mask;
}

const batchCount = (problem: Problem): number => (problem.batch.kind === "none" ? 1 : problem.batch.count);

/** The mask of A, B, C or D in its buffer. */
export function operandMask(problem: Problem, which: "a" | "b" | "c" | "d"): Uint8Array {
  const operand = problem[which];
  if (operand === null) return new Uint8Array();
  const place = {
    count: batchCount(problem),
    axes: batchAxes(problem, which),
    length: operandElements(problem, which),
  };
  return elementMask(operand, operandShape(problem, which), place);
}

/** The mask of the matrices that a step of the epilogue reads or stores. */
export function stepMask(problem: Problem, step: number, operand: Operand, length: number): Uint8Array {
  const given = problem.epilogue[step];
  const codes = given?.kind === "quantize" ? scaleMatrix(problem, "d") : null;
  if (codes !== null) {
    const mask = new Uint8Array(length);
    for (let item = 0; item < batchCount(problem); item++)
      for (let row = 0; row < codes.rows; row++)
        for (let factor = 0; factor < codes.factors; factor++)
          mask[item * codes.stride + scaleOffset(codes, row, factor)] = 1;
    return mask;
  }
  const extents = given === undefined ? ([0, 0] as const) : stepExtents(problem, given);
  return elementMask(operand, extents, {
    count: batchCount(problem),
    axes: batchAxes(problem, `epilogue${step}`),
    length,
  });
}

/** Poison what no matrix covers; of elements that share bytes, those bits. */
function poisonGaps(dtype: DType, data: OperandData, mask: Uint8Array): OperandData {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const { bits } = dtypes[dtype];
  mask.forEach((used, i) => {
    if (used !== 0) return;
    if (bits >= 8) bytes.fill(POISON, (i * bits) / 8, ((i + 1) * bits) / 8);
    else
      for (let at = i * bits; at < (i + 1) * bits; at++)
        bytes[at >> 3] = (bytes[at >> 3] ?? 0) | (1 << (at & 7));
  });
  return data;
}

const hasInfinity = (dtype: DType): boolean => {
  const [infinite = 0] = decodeArray(dtype, encodeArray(dtype, [Number.POSITIVE_INFINITY]));
  return infinite === Number.POSITIVE_INFINITY;
};

/** Whether NaN and infinity can stand in A and B, and come out of D. */
export const takesSpecials = ({ a, b, d, acc }: Problem): boolean =>
  [a.dtype, b.dtype, d.dtype, acc].every((dtype) => dtypes[dtype].kind === "float" && hasInfinity(dtype));

/** A few of the matrix's elements become NaN or infinite: each row and column of D that they reach shows it. */
function scatterSpecials(data: OperandData, dtype: DType, mask: Uint8Array, seed: number): void {
  const places = [...mask.keys()].filter((i) => mask[i] === 1);
  const random = createRandom(seed);
  const values = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const codes = encodeArray(dtype, values);
  for (const i of values.keys()) {
    const at = places[random.integer(0, places.length - 1)];
    if (at !== undefined) data[at] = codes[i] ?? 0;
  }
}

/** Inputs from a seed, and the reference: `reference` of them, the matrix product's unless given; `rows`: of these rows of D only. */
export function caseData(
  problem: Problem,
  kind: DataKind,
  seed: number,
  {
    scalars = {},
    rows,
    first = 0,
    reference: referenceOf = (inputs) => referenceGemm(problem, inputs, rows ? { rows } : {}),
  }: {
    readonly scalars?: RuntimeScalars;
    readonly rows?: readonly number[];
    /** Rows of the experts before. */
    readonly first?: number;
    readonly reference?: (inputs: ReferenceInputs) => Reference;
  } = {},
): CaseData {
  const distribution: InputDistribution = kind === "normal" ? { kind } : { kind: "integers" };
  const random = (dtype: DType, count: number, stream: number) =>
    randomStorage(dtype, count, distribution, seed * 32 + stream);
  const matrix = (which: "a" | "b" | "c", stream: number): OperandData => {
    const dtype = problem[which]?.dtype ?? "f32";
    const mask = operandMask(problem, which);
    const data = random(dtype, mask.length, stream);
    if (kind === "special") scatterSpecials(data, dtype, mask, seed * 32 + stream);
    return poisonGaps(dtype, data, mask);
  };
  const a = matrix("a", 0);
  const b = matrix("b", 1);
  const c = problem.c ? matrix("c", 2) : null;
  const factors = (which: "a" | "b", stream: number): Uint8Array | null =>
    randomScales(problem, which, distribution, seed * 32 + stream);
  const [sfa, sfb] = [factors("a", 30), factors("b", 31)];
  const read = new Map<string, number>(
    deviceOperands(problem).flatMap(({ name, direction, bytes }) =>
      direction === "in" ? [[name, bytes]] : [],
    ),
  );
  const steps = problem.epilogue.map((step, i): OperandData | number | null => {
    if (isLaunchScalar(step)) return SCALE[kind];
    const bytes = read.get(`epilogue${i}`);
    if (bytes === undefined) return null;
    const operand = "operand" in step ? step.operand : null;
    const dtype = operand?.dtype ?? ("dtype" in step ? step.dtype : "f32");
    const count = bytes / sizeOf(dtype);
    if (isIndex(step)) return rowIndexData(step, { first, count: problem.m, seed });
    const data =
      storedIn(problem, `epilogue${i}`) === "b"
        ? b.slice(0, count)
        : (runData(problem, i, count, (each) => seed * 32 + each) ?? random(dtype, count, 3 + i));
    return operand ? poisonGaps(operand.dtype, data, stepMask(problem, i, operand, data.length)) : data;
  });
  const alpha = problem.alpha === "runtime" ? (scalars.alpha ?? usual.alpha) : problem.alpha;
  const beta = problem.beta === "runtime" ? (scalars.beta ?? usual.beta) : problem.beta;
  const reference = referenceOf({ a, b, c, sfa, sfb, steps, alpha, beta });
  return { kind, a, b, c, sfa, sfb, steps, alpha, beta, reference };
}
