/**
 * The meaning of a tile program: runs any stage on the CPU with typed arrays. Layouts, ownership, distributions, vector
 * widths and raster do not matter here; slots, guards, asynchronous arrival and the ring protocol do.
 */
import type { Checked } from "@tilewright/core";
import {
  batchAxes,
  batchOffset,
  batchReach,
  blockFactors,
  err,
  exchangedOf,
  fixedProblem,
  ok,
  operandStrides,
  type Problem,
  rowInPage,
  runAt,
  runEnds,
  runsOf,
  SCALE_FACTORS,
  scaleMatrix,
  sizeOf,
  stepMatrix,
  stepOfBuffer,
} from "@tilewright/core";
import { cosize, linearOffset, makeLayout } from "../layout/layout.ts";
import type { StepInput, StepOutputs } from "./interpret/epilogue.ts";
import { InterpretFailure, interpretCodes } from "./interpret/failure.ts";
import { Machine, type Order } from "./interpret/machine.ts";
import { type Memory, makeGlobal, makeTile, makeValues, type ValueArray } from "./interpret/memory.ts";
import { CELL_BYTES, Workspace } from "./interpret/workspace.ts";
import { atRuns, namesRows, storedByRows } from "./runs.ts";
import { programAt } from "./sizes.ts";
import type { ArrayDeclaration, Buffer, TileProgram } from "./types.ts";

/** Matrices as values (not codes) in their memory layout, as `operandStrides` and the batch strides say. */
export interface InterpretInputs {
  readonly a: ArrayLike<number>;
  readonly b: ArrayLike<number>;
  /** Needed iff the problem has a C. */
  readonly c?: ArrayLike<number>;
  /** Needed iff A (B) has factors, in their memory order (`problem/scales.ts`): codes four to a word, the first in the lowest byte, or values of f32. */
  readonly sfa?: ArrayLike<number>;
  readonly sfb?: ArrayLike<number>;
  /** What D's memory holds before, for instance in the gaps of its leading dimension; NaN (0 for integers) when absent. */
  readonly d?: ArrayLike<number>;
  /** Inputs of the epilogue's steps, by the step's position; matrices of a batch follow each other at `packedStride`. */
  readonly epilogue?: readonly (StepInput | undefined)[];
}

export interface InterpretOptions {
  /** When asynchronous copies land, and in which order roles run; `lazy` unless told otherwise. */
  readonly order?: Order;
  /** Of the order `random`. */
  readonly seed?: number;
  /** Values of alpha and beta where the problem leaves them to the launch; 1 and 0 unless told otherwise. */
  readonly alpha?: number;
  readonly beta?: number;
  /** Most turns of all loops, of one matrix of a batch; any number unless told otherwise. */
  readonly turns?: number;
}

export interface Interpreted {
  readonly d: ValueArray;
  /** Results of `output` and `reduce` steps by the step's position; one list a matrix of the batch. */
  readonly outputs: readonly StepOutputs[];
  /** What statements stored for `result` steps by the step's position, of all matrices of the batch where they lie. */
  readonly results: ReadonlyMap<number, ValueArray>;
}

/**
 * Run a program that the verifier accepts, at the problem's own sizes (`programAt` gives the program of others). Faults (out of bounds, uninitialised reads, broken protocol, deadlock, elements
 * of D never written) are diagnostics TW33xx; the first one ends the run.
 */
export function interpret(
  program: TileProgram,
  inputs: InterpretInputs,
  options: InterpretOptions = {},
): Checked<Interpreted> {
  try {
    return ok(runProgram(programAt(program, fixedProblem(program.problem)), inputs, options));
  } catch (failure) {
    if (failure instanceof InterpretFailure) return err([failure.diagnostic]);
    throw failure;
  }
}

type OperandName = "a" | "b" | "c" | "d" | "sfa" | "sfb";
const operandNames: Readonly<Record<string, OperandName>> = {
  A: "a",
  B: "b",
  C: "c",
  D: "d",
  SFA: "sfa",
  SFB: "sfb",
};

function runProgram(program: TileProgram, inputs: InterpretInputs, options: InterpretOptions): Interpreted {
  const { problem } = program;
  const batches = problem.batch.kind === "strided" ? problem.batch.count : 1;
  const workspace = new Workspace(program, problem);
  const memories = new Map<string, Memory>();
  let d: ValueArray | null = null;
  const results = new Map<number, ValueArray>();
  for (const buffer of program.buffers) {
    if (buffer.space !== "global") {
      memories.set(buffer.name, makeTile(buffer));
      continue;
    }
    const step = stepOfBuffer(buffer.name);
    if (step !== null && problem.epilogue[step]?.kind === "result") {
      const length = spanOf(buffer) + batchReach(batchAxes(problem, `epilogue${step}`));
      const made = makeValues(buffer.dtype, length).fill(Number.NaN);
      results.set(step, made);
      memories.set(buffer.name, makeGlobal(buffer, made, made));
      continue;
    }
    const input = stepMemory(problem, buffer, inputs);
    if (input !== null) {
      memories.set(buffer.name, input);
      continue;
    }
    const operand = operandNames[exchangedOf(buffer.name) ?? buffer.name];
    if (operand === undefined)
      return fail(
        `%${buffer.name}`,
        "is no operand",
        "global buffers are %A, %B, %C, %D, %SFA, %SFB and what steps read, %E0 and so on",
      );
    const own = asDeclared(inMemory(buffer, problem), problem, workspace);
    const length = requiredLength(own, problem, operand);
    const data = inputs[operand];
    if (operand === "d") {
      d = makeValues(buffer.dtype, Math.max(length, data?.length ?? 0));
      if (data !== undefined) d.set(data);
      else if (!(d instanceof Int32Array)) d.fill(Number.NaN);
      memories.set(buffer.name, makeGlobal(buffer, d, d));
    } else {
      if (data === undefined || data.length < length)
        return fail(
          `inputs.${operand}`,
          `has ${data?.length ?? 0} values where the layout spans ${length}`,
          "pass the whole matrix in its memory layout",
        );
      const repeated = repeatedRows(own, problem, operand, data);
      const source = repeated ?? makeGlobal(own, data, null);
      const copied = buffer.transposed === true && workspace.declared;
      memories.set(buffer.name, copied ? copyOf(buffer, source, workspace) : source);
    }
  }
  if (d === null) return fail("%D", "is missing", "declare the output as global %D");
  const outputs: StepOutputs[] = [];
  for (let batch = 0; batch < batches; batch++) {
    for (const memory of memories.values()) {
      if (memory.buffer.space !== "global") continue;
      memory.base = startAt(problem, memory.buffer, batch, workspace);
      if (memory.source === undefined) continue;
      memory.source.base = memory.base;
      memory.base = copyStart(memory, batch, workspace);
    }
    const told = runsOf(problem);
    const places = told.map((runs) => {
      const read = numbersOf(problem, runs.step, inputs, batch);
      return runAt(runs, runEnds(runs, 0, read));
    });
    const own = atRuns(program, places);
    const outer = places[told.findIndex((runs) => runs.outer)];
    const limited = new Set(storedByRows(program));
    const visible = new Map(memories);
    for (const [name, memory] of memories) {
      const { paged } = memory.buffer;
      const at = told.findIndex(({ step }) => step === paged?.step);
      const pages = told[at]?.pages;
      // Rows behind the run are others'.
      if (outer !== undefined && limited.has(name))
        visible.set(name, withExtent(memory, 0, outer.first + outer.count));
      if (paged !== undefined && namesRows(program, paged))
        visible.set(name, {
          ...withExtent(memory, paged.axis, problem.m),
          pages: {
            axis: paged.axis,
            at: namedRow(memory.buffer, numbersOf(problem, paged.step, inputs, batch)),
          },
        });
      if (paged === undefined || pages === undefined) continue;
      const number = numbersOf(problem, pages.table, inputs, batch);
      visible.set(name, {
        ...withExtent(memory, paged.axis, places[at]?.count ?? 0),
        pages: { axis: paged.axis, at: (row) => rowInPage(pages, row, number) },
      });
    }
    const machine = new Machine(own, visible, {
      order: options.order ?? "lazy",
      turns: options.turns ?? Number.POSITIVE_INFINITY,
      random: generator((options.seed ?? 1) + batch),
      alpha: problem.alpha === "runtime" ? (options.alpha ?? 1) : problem.alpha,
      beta: problem.beta === "runtime" ? (options.beta ?? 0) : problem.beta,
      epilogue: problem.epilogue.map((_, i) => stepInputAt(problem, i, inputs.epilogue?.[i], batch)),
      ...{ workspace, problem: batch },
    });
    machine.run();
    for (const memory of visible.values())
      if (memory.buffer.space === "global" && memory.store !== null)
        checkComplete(memory, limited.has(memory.buffer.name) ? (outer?.first ?? 0) : 0);
    outputs.push(machine.outputs);
  }
  workspace.checkEnd();
  return { d, outputs, results };
}

/** What a step reads as a matrix of its own; null for other buffers. */
function stepMemory(problem: Problem, buffer: Buffer, { epilogue }: InterpretInputs): Memory | null {
  const step = stepOfBuffer(exchangedOf(buffer.name) ?? buffer.name);
  if (step === null || stepMatrix(problem, step) === null) return null;
  const data = epilogue?.[step];
  if (data === undefined || typeof data === "number")
    return fail(`inputs.epilogue[${step}]`, "is missing", "pass the values that the step reads");
  return makeGlobal(buffer, data, null);
}

/** Elements of a buffer before those of one problem of the batch. */
function startOf(problem: Problem, { name, shape, layout }: Buffer, batch: number): number {
  const own = exchangedOf(name) ?? name;
  const step = stepOfBuffer(own);
  const operand = step === null ? operandNames[own] : (`epilogue${step}` as const);
  if (operand !== "sfa" && operand !== "sfb")
    return operand === undefined ? 0 : batchOffset(batchAxes(problem, operand), batch);
  const which = operand === "sfa" ? "a" : "b";
  const stride = blockFactors(problem, which)?.stride;
  const words = stride && layout?.interleaved !== undefined ? shape[0] * shape[1] : stride;
  return batch * (words ?? (scaleMatrix(problem, which)?.stride ?? 0) / SCALE_FACTORS);
}

type Matrix = "a" | "b" | "c" | "d";

/** What a kernel declares of an operand that it addresses: a matrix in the caller's memory. */
function declaredArray(problem: Problem, { name }: Buffer, workspace: Workspace): ArrayDeclaration | null {
  const operand = operandNames[name];
  const which = (["a", "b", "c", "d"] satisfies Matrix[]).find((each) => each === operand);
  const words = which === "b" && problem.weights !== undefined;
  const array = which === undefined || words ? null : workspace.array(which);
  return array?.region === true ? null : array;
}

/** Where the matrix of one problem begins: as its array says, where kernels declare one. */
function startAt(problem: Problem, buffer: Buffer, batch: number, workspace: Workspace): number {
  const array = declaredArray(problem, buffer, workspace);
  if (array === null || problem.batch.kind !== "strided") return startOf(problem, buffer, batch);
  if (array.axes !== undefined) return batchOffset(array.axes, batch);
  return array.batch === undefined ? 0 : batch * workspace.distance(array.batch);
}

/** A matrix with the strides that kernels declare of it. */
function asDeclared(buffer: Buffer, problem: Problem, workspace: Workspace): Buffer {
  const { layout } = buffer;
  const array = declaredArray(problem, buffer, workspace);
  if (array === null || layout === null) return buffer;
  const stride = array.strides.map((each) => workspace.distance(each));
  return { ...buffer, layout: { ...layout, stride } };
}

/** A transposed copy in the workspace, undefined until its kernel has made it. */
function copyOf(buffer: Buffer, source: Memory, workspace: Workspace): Memory {
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
function copyStart({ buffer }: Memory, batch: number, workspace: Workspace): number {
  const name = copyName(buffer);
  const apart = workspace.array(name)?.batch;
  const before = apart === undefined ? 0 : batch * workspace.distance(apart) * cellsOf(buffer);
  return workspace.region(name, `%${buffer.name}`).at / CELL_BYTES + before;
}

/** The numbers of rows, or of pages, that a step tells of a problem, from its first one on. */
function numbersOf(
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
const namedRow =
  ({ name, shape }: Buffer, index: (at: number) => number) =>
  (at: number): number => {
    const row = index(at);
    if (row >= 0 && row < shape[0]) return row;
    throw new InterpretFailure(
      interpretCodes.outOfBounds,
      `%${name}`,
      `row ${at} is row ${row} of %${name}, which has ${shape[0]}`,
      "an index names rows that there are",
    );
  };

/** A matrix of which the problem at hand has so many rows (or columns). */
function withExtent(memory: Memory, axis: 0 | 1, extent: number): Memory {
  const [rows, columns] = memory.buffer.shape;
  return { ...memory, buffer: { ...memory.buffer, shape: axis === 0 ? [extent, columns] : [rows, extent] } };
}

/** A step's input of one problem of the batch, whose scalars, and vectors of a batch along one axis, are shared. */
function stepInputAt(
  problem: Problem,
  index: number,
  input: StepInput | undefined,
  batch: number,
): StepInput | undefined {
  const start = batchOffset(batchAxes(problem, `epilogue${index}`), batch);
  if (typeof input === "number" || start === 0) return input;
  return input && Array.prototype.slice.call(input, start);
}

function fail(at: string, message: string, hint: string): never {
  throw new InterpretFailure(interpretCodes.input, at, message, hint);
}

/** A matrix as the launch has it: a transposed copy holds the same elements elsewhere. */
function inMemory(buffer: Buffer, problem: Problem): Buffer {
  if (buffer.transposed !== true) return buffer;
  const operand = buffer.name === "A" ? problem.a : problem.b;
  return { ...buffer, layout: { shape: buffer.shape, stride: operandStrides(operand), swizzle: null } };
}

/** Factors of which several rows are one and the same in memory, each in a place of its own; null for other operands. */
function repeatedRows(
  buffer: Buffer,
  problem: Problem,
  operand: OperandName,
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
function requiredLength(buffer: Buffer, problem: Problem, operand: OperandName): number {
  if (buffer.shape.includes(0)) return 0;
  const one = spanOf(buffer);
  const count = problem.batch.kind === "strided" ? problem.batch.count : 1;
  return (
    one +
    (operand === "sfa" || operand === "sfb"
      ? startOf(problem, { ...buffer, layout: null }, count - 1)
      : batchReach(batchAxes(problem, operand)))
  );
}

/** Elements from the first to the last of one matrix. */
const spanOf = ({ shape, layout }: Buffer): number => cosize(layout ?? makeLayout(shape, [1, 1]));

/** Every element of this matrix that the program stores must have been written. */
function checkComplete({ buffer, written, base, rowStride, colStride, pages }: Memory, first: number): void {
  for (let r = first; r < buffer.shape[0]; r++)
    for (let c = 0; c < buffer.shape[1]; c++)
      if (written?.[base + (pages?.at(r) ?? r) * rowStride + c * colStride] !== 1)
        throw new InterpretFailure(
          interpretCodes.incomplete,
          `%${buffer.name}`,
          `element (${r}, ${c}) of %${buffer.name} is never written`,
          "the tiles and their epilogues must cover the matrix",
        );
}

/** mulberry32: small, seeded, the same in every process. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
