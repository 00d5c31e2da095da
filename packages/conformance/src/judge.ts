/** Results against what must come out, as sentences: no sentence, no fault. */
import {
  addsToD,
  type BatchAxis,
  batchAxes,
  batchOffset,
  bytesOfStorage,
  compareMatrix,
  decodeArray,
  dtypes,
  type Expectation,
  isApproximateEpilogue,
  type Operand,
  type OperandData,
  type Problem,
  readElement,
  roundTo,
  storedMatrix,
  storesMatrix,
} from "@tilewright/core";
import { type CaseData, operandMask, stepMask } from "./data.ts";

/** What a run stored: D and the second outputs, each in its dtype, gaps included. */
export interface Stored {
  readonly d: OperandData;
  /** By position of the step: `output` and `reduce`. */
  readonly steps: ReadonlyMap<number, OperandData>;
}

/** f32 holds integers up to here, and the quarters that alpha and beta make of them. */
const EXACT_BELOW = 2 ** 20;

/** Whether integers in mean exact values out: no approximate function on the way, nothing too large for the accumulator. */
function isExact(problem: Problem, data: CaseData): boolean {
  if (data.kind === "normal") return false;
  // Each sum is rounded to what memory has.
  if (addsToD(problem) && dtypes[problem.d.dtype].bits < 32) return false;
  const approximate = isApproximateEpilogue(problem.epilogue);
  const limit = problem.acc === "f16" ? 2 ** 9 : EXACT_BELOW;
  const exact = !approximate && problem.epilogue.every(({ kind }) => kind !== "map" && kind !== "quantize");
  return (
    exact &&
    [data.reference.sumAbs, data.reference.d.values].every((values) =>
      values.every((x) => !Number.isFinite(x) || Math.abs(x) < limit),
    )
  );
}

/** Where rows that are compared lie. `stride`: elements between the matrices of a batch, or its axes. */
interface Place {
  readonly rows: readonly number[];
  readonly columns: number;
  readonly stride: number | readonly BatchAxis[];
}

/** The first element that is not what exact arithmetic gives, NaN and infinities included. */
function firstInexact(
  operand: Operand,
  stored: OperandData,
  expected: Expectation,
  { rows, columns, stride }: Place,
): string | null {
  const values = decodeArray(operand.dtype, stored);
  const size = rows.length * columns;
  for (let i = 0; i < expected.values.length; i++) {
    const row = rows[Math.floor((i % size) / columns)] ?? 0;
    const column = i % columns;
    const item = Math.floor(i / size);
    const start = typeof stride === "number" ? item * stride : batchOffset(stride, item);
    const [rs, cs] = operand.layout === "row" ? [operand.ld, 1] : [1, operand.ld];
    const actual = values[start + row * rs + column * cs] ?? 0;
    const wanted = roundTo(operand.dtype, expected.values[i] ?? 0);
    // === and not Object.is: the sign of a zero sum depends on the order of its terms.
    if (actual === wanted || (Number.isNaN(actual) && Number.isNaN(wanted))) continue;
    return `(${row}, ${column}) of item ${item} is ${actual} and must be exactly ${wanted}`;
  }
  return null;
}

/** Everything that is wrong with the numbers of a run. */
export function judge(problem: Problem, data: CaseData, stored: Stored): readonly string[] {
  const { reference } = data;
  const exact = isExact(problem, data);
  const faults: string[] = [];
  const compare = (
    what: string,
    operand: Operand,
    actual: OperandData,
    expected: Expectation,
    place: Place,
    exactly: boolean,
  ): void => {
    const inexact = exactly ? firstInexact(operand, actual, expected, place) : null;
    if (inexact !== null) faults.push(`${what} ${inexact}`);
    // Bounds mean nothing where a term is infinite.
    if (data.kind === "special") return;
    const { failures, worst } = compareMatrix(operand, actual, expected, place);
    if (failures > 0 && worst !== null)
      faults.push(
        `${what} has ${failures} elements beyond their bound; (${worst.row}, ${worst.column}) of item ${worst.batch} is ${worst.actual} where ${worst.expected} within ${worst.bound} is right`,
      );
  };
  const stride = batchAxes(problem, "d");
  compare(
    "D",
    problem.d,
    stored.d,
    reference.d,
    { rows: reference.places, columns: problem.n, stride },
    exact,
  );
  for (const [index, expected] of reference.steps) {
    const step = problem.epilogue[index];
    const actual = stored.steps.get(index);
    if (!step || !actual) {
      faults.push(`epilogue[${index}] stored nothing`);
      continue;
    }
    if (storesMatrix(step)) {
      const matrix = storedMatrix(problem, index, actual);
      if (matrix === null) continue;
      const place = { rows: reference.rows, columns: matrix.columns, stride: matrix.stride };
      compare(`epilogue[${index}]`, matrix.operand, matrix.data, expected, place, exact);
    } else if (step.kind === "reduce") {
      const columns = expected.values.length;
      const operand: Operand = { dtype: step.dtype, layout: "row", ld: columns, align: 4 };
      // A sum over everything may pass what f32 holds exactly; the largest value is one of them.
      const exactly = exact && step.op === "amax";
      compare(`epilogue[${index}]`, operand, actual, expected, { rows: [0], columns, stride: 0 }, exactly);
    }
  }
  return faults;
}

/** Whether two runs stored the same bytes, sums of reductions too: what is said of one holds for the other. */
export function sameBytes(x: Stored, y: Stored): boolean {
  const same = (p: OperandData, q: OperandData | undefined): boolean =>
    q !== undefined && Buffer.compare(bytesOfStorage(p), bytesOfStorage(q)) === 0;
  return same(x.d, y.d) && [...x.steps].every(([i, stored]) => same(stored, y.steps.get(i)));
}

/** Elements of D, and of second outputs, whose bits differ between two runs; any two NaNs are the same. Sums of reductions are left out: they add in any order. */
export function differing(problem: Problem, x: Stored, y: Stored): number {
  const count = (operand: Operand, mask: Uint8Array, p: OperandData, q: OperandData | undefined): number =>
    mask.reduce((sum, used, i) => {
      if (used === 0) return sum;
      // Of elements that share bytes their values, whose bits they are.
      const [u, v] = [p, q].map((s) =>
        s === undefined || dtypes[operand.dtype].bits >= 8 ? s?.[i] : readElement(operand.dtype, s, i),
      );
      if (Object.is(u, v)) return sum;
      const both =
        v !== undefined && [p, q].every((s) => s && Number.isNaN(readElement(operand.dtype, s, i)));
      return both ? sum : sum + 1;
    }, 0);
  let total = count(problem.d, operandMask(problem, "d"), x.d, y.d);
  problem.epilogue.forEach((step, i) => {
    const stored = x.steps.get(i);
    if (storesMatrix(step) && stored)
      total += count(step.operand, stepMask(problem, i, step.operand, stored.length), stored, y.steps.get(i));
  });
  return total;
}
