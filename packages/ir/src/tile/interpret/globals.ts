/** Matrices in global memory as the interpreter holds them: where each problem of a batch begins, copies in the workspace, factors whose rows share places. */
import {
  batchAxes,
  batchOffset,
  batchReach,
  exchangedOf,
  factorStride,
  matrixOf,
  type NamedOperand,
  operandOfBuffer,
  operandStrides,
  type Problem,
  sizeOf,
  stepMatrix,
  stepOfBuffer,
  weightStride,
} from "@tilewright/core";
import { cosize, linearOffset, makeLayout } from "../../layout/layout.ts";
import type { InterpretInputs } from "../interpret.ts";
import type { ArrayDeclaration, Buffer } from "../types.ts";
import { failInput } from "./failure.ts";
import { type Memory, makeGlobal } from "./memory.ts";
import { CELL_BYTES, type Workspace } from "./workspace.ts";

/** What a step reads as a matrix of its own; null for other buffers. */
export function stepMemory(problem: Problem, buffer: Buffer, { epilogue }: InterpretInputs): Memory | null {
  const step = stepOfBuffer(exchangedOf(buffer.name) ?? buffer.name);
  if (step === null || stepMatrix(problem, step) === null) return null;
  const data = epilogue?.[step];
  if (data === undefined || typeof data === "number")
    return failInput(`inputs.epilogue[${step}]`, "is missing", "pass the values that the step reads");
  return makeGlobal(buffer, data, null);
}

/** Elements of a buffer before those of one problem of the batch. */
function startOf(problem: Problem, { name, shape, layout }: Buffer, batch: number): number {
  const operand = operandOfBuffer(name);
  if (operand === "b" && problem.weights !== undefined) return batch * weightStride(problem);
  if (operand !== "sfa" && operand !== "sfb")
    return operand === null ? 0 : batchOffset(batchAxes(problem, operand), batch);
  const stride = factorStride(problem, operand === "sfa" ? "a" : "b");
  return batch * (stride > 0 && layout?.interleaved !== undefined ? shape[0] * shape[1] : stride);
}

/** What a kernel declares of an operand that it addresses: a matrix in the caller's memory. */
function declaredArray(problem: Problem, { name }: Buffer, workspace: Workspace): ArrayDeclaration | null {
  const which = matrixOf(name);
  const words = which === "b" && problem.weights !== undefined;
  const array = which === null || words ? null : workspace.array(which);
  return array?.region === true ? null : array;
}

/** Where the matrix of one problem begins: as its array says, where kernels declare one. */
export function startAt(problem: Problem, buffer: Buffer, batch: number, workspace: Workspace): number {
  const array = declaredArray(problem, buffer, workspace);
  if (array === null || problem.batch.kind !== "strided") return startOf(problem, buffer, batch);
  if (array.axes !== undefined) return batchOffset(array.axes, batch);
  return array.batch === undefined ? 0 : batch * workspace.distance(array.batch);
}

/** A matrix with the strides that kernels declare of it. */
export function asDeclared(buffer: Buffer, problem: Problem, workspace: Workspace): Buffer {
  const { layout } = buffer;
  const array = declaredArray(problem, buffer, workspace);
  if (array === null || layout === null) return buffer;
  const stride = array.strides.map((each) => workspace.distance(each));
  return { ...buffer, layout: { ...layout, stride } };
}

/** A transposed copy in the workspace, undefined until its kernel has made it. */
export function copyOf(buffer: Buffer, source: Memory, workspace: Workspace): Memory {
  const { values } = workspace;
  const copy = makeGlobal(buffer, values, null);
  const strides = workspace.array(copyName(buffer))?.strides.map((each) => workspace.distance(each));
  const [rowStride = copy.rowStride, colStride = copy.colStride] = strides ?? [];
  const cells = cellsOf(buffer);
  return {
    ...copy,
    ...{ source, written: new Uint8Array(values.length) },
    ...{ rowStride: rowStride * cells, colStride: colStride * cells },
  };
}

const copyName = ({ name }: Buffer): "a" | "b" => (name === "A" ? "a" : "b");
const cellsOf = ({ dtype }: Buffer): number => sizeOf(dtype) / CELL_BYTES;

/** The cell at which the copy of one problem begins. */
export function copyStart({ buffer }: Memory, batch: number, workspace: Workspace): number {
  const name = copyName(buffer);
  const apart = workspace.array(name)?.batch;
  const before = apart === undefined ? 0 : batch * workspace.distance(apart) * cellsOf(buffer);
  return workspace.region(name, `%${buffer.name}`).at / CELL_BYTES + before;
}

/** The numbers of rows, or of pages, that a step tells of a problem, from its first one on. */
export function numbersOf(
  problem: Problem,
  step: number,
  { epilogue }: InterpretInputs,
  batch: number,
): (at: number) => number {
  const data = epilogue?.[step];
  const start = batchOffset(batchAxes(problem, `epilogue${step}`), batch);
  return (at) => (data === undefined || typeof data === "number" ? 0 : (data[start + at] ?? 0));
}

/** Rows of a matrix as an index names them. */

/** A matrix as the launch has it: a transposed copy holds the same elements elsewhere. */
export function inMemory(buffer: Buffer, problem: Problem): Buffer {
  if (buffer.transposed !== true) return buffer;
  const operand = buffer.name === "A" ? problem.a : problem.b;
  return { ...buffer, layout: { shape: buffer.shape, stride: operandStrides(operand), swizzle: null } };
}

/** Factors of which several rows are one and the same in memory, each in a place of its own; null for other operands. */
export function repeatedRows(
  buffer: Buffer,
  problem: Problem,
  operand: NamedOperand,
  data: ArrayLike<number>,
): Memory | null {
  const { layout, shape } = buffer;
  if (layout?.interleaved === undefined || (operand !== "sfa" && operand !== "sfb")) return null;
  const [rows, cols] = shape;
  const count = problem.batch.kind === "strided" ? problem.batch.count : 1;
  const every = startOf(problem, { ...buffer, layout: null }, 1);
  const matrices = every === 0 ? 1 : count;
  const values = new Float32Array(matrices * rows * cols);
  for (let i = 0; i < values.length; i++) {
    const at = [Math.floor(i / cols) % rows, i % cols];
    values[i] = data[Math.floor(i / (rows * cols)) * every + linearOffset(layout, at)] ?? 0;
  }
  return makeGlobal({ ...buffer, layout: { ...layout, stride: [cols, 1] } }, values, null);
}

/** Elements from the first to the last of all matrices of the batch. */
export function requiredLength(buffer: Buffer, problem: Problem, operand: NamedOperand): number {
  if (buffer.shape.includes(0)) return 0;
  const one = spanOf(buffer);
  const count = problem.batch.kind === "strided" ? problem.batch.count : 1;
  return (
    one +
    (operand === "sfa" || operand === "sfb" || (operand === "b" && problem.weights !== undefined)
      ? startOf(problem, { ...buffer, layout: null }, count - 1)
      : batchReach(batchAxes(problem, operand)))
  );
}

/** Elements from the first to the last of one matrix. */
export const spanOf = ({ shape, layout }: Buffer): number => cosize(layout ?? makeLayout(shape, [1, 1]));
