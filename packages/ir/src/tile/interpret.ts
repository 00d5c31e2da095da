/**
 * The meaning of a tile program: runs any stage on the CPU with typed arrays. Layouts, ownership, distributions, vector
 * widths and raster do not matter here; slots, guards, asynchronous arrival and the ring protocol do.
 */

import type { Checked } from "@tilewright/core";
import {
  batchAxes,
  batchOffset,
  batchReach,
  err,
  exchangedOf,
  fixedProblem,
  namedOperand,
  ok,
  type Problem,
  rowInPage,
  runAt,
  runEnds,
  runsOf,
  stepOfBuffer,
} from "@tilewright/core";
import type { StepInput, StepOutputs } from "./interpret/epilogue.ts";
import { failInput, InterpretFailure, interpretCodes } from "./interpret/failure.ts";
import {
  asDeclared,
  copyOf,
  copyStart,
  inMemory,
  numbersOf,
  repeatedRows,
  requiredLength,
  spanOf,
  startAt,
  stepMemory,
} from "./interpret/globals.ts";
import { Machine, type Order } from "./interpret/machine.ts";
import { type Memory, makeGlobal, makeTile, makeValues, type ValueArray } from "./interpret/memory.ts";
import { Workspace } from "./interpret/workspace.ts";
import { atRuns, namesRows, storedByRows } from "./runs.ts";
import { programAt } from "./sizes.ts";
import type { Buffer, TileProgram } from "./types.ts";

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
    const operand = namedOperand(exchangedOf(buffer.name) ?? buffer.name);
    if (operand === null)
      return failInput(
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
        return failInput(
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
  if (d === null) return failInput("%D", "is missing", "declare the output as global %D");
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
