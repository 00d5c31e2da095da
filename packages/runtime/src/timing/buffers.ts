/** The buffer sets that launches walk through: so many that their sum is at least twice the L2, all of one seed. */
import {
  type Checked,
  type Diagnostic,
  type DType,
  entryOf,
  err,
  expertAxisOf,
  expertRowsData,
  expertRowsOf,
  hasSlopes,
  isIndex,
  ok,
  type Problem,
  rowIndexData,
  runData,
  scaleMatrix,
  sizeMultiple,
  storedIn,
} from "@tilewright/core";
import { CudaBuffer } from "../cuda/buffer.ts";
import type { CudaContext } from "../cuda/context.ts";
import { type DeviceOperand, deviceOperands, expertOperands, type OperandName } from "../operands.ts";
import { measuringProblem } from "./diagnostics.ts";
import { type InputKind, InputPool, type PoolType } from "./inputs.ts";

/** More sets than this change nothing but the time to make them. */
const mostSets = 512;
/** Of the free memory; the rest is for workspaces and for peers. */
const memoryShare = 0.7;

/** Element type of an operand. */
export function operandDType(problem: Problem, name: OperandName): DType {
  switch (name) {
    case "a":
      return problem.a.dtype;
    case "b":
      return problem.b.dtype;
    case "c":
    case "d":
      return problem.d.dtype;
    case "sfa":
    case "sfb":
      return problem.weights === undefined
        ? problem.blockScales === undefined
          ? "u8"
          : "f32"
        : problem.a.dtype;
    default: {
      const step = problem.epilogue[Number(name.slice("epilogue".length))];
      if (step !== undefined && "dtype" in step) return step.dtype;
      return step !== undefined && "operand" in step ? step.operand.dtype : "f32";
    }
  }
}

/** What an operand is filled from: factors of block-scaled dtypes have codes of their own. */
function poolTypeOf(problem: Problem, name: OperandName): PoolType {
  const which = name === "sfa" ? "a" : name === "sfb" ? "b" : null;
  return (which === null ? null : scaleMatrix(problem, which)?.format) ?? operandDType(problem, name);
}

/** What `bench` cannot feed or check. */
export function unmeasurable(problem: Problem): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  const refuse = (at: string, message: string): number =>
    found.push(measuringProblem("unmeasurable", at, message, "measure the product without it"));
  if (problem.batch.kind === "grouped" && expertRowsOf(problem) === null)
    refuse("problem.batch", "a grouped batch has no shape to fill");
  if (problem.weights?.zeros)
    refuse("problem.weights", "zero points are whole numbers, and benchmarks fill buffers with others");
  problem.epilogue.forEach((step, index) => {
    if (step.kind === "reduce")
      refuse(`problem.epilogue[${index}]`, "a reduction needs its target zeroed before each launch");
    if (step.kind === "scatter")
      refuse(
        `problem.epilogue[${index}]`,
        "an index leaves rows of D as they are, and each is to be checked",
      );
  });
  return found;
}

/** Rows of each expert that a benchmark gives them unless told otherwise: as even as they can be; empty without experts. */
export function evenRows(problem: Problem): readonly number[] {
  const { batch } = problem;
  if (batch.kind !== "grouped" || batch.rows === undefined) return [];
  const { count, rows } = batch;
  const axis = expertAxisOf(problem);
  const all = problem[axis];
  const multiple = sizeMultiple(problem, axis);
  const end = (g: number): number => Math.floor((g * all) / (count * multiple)) * multiple;
  return Array.from({ length: count }, (_, g) => (rows === "counts" ? all : end(g + 1) - end(g)));
}

/** The product that is timed: of experts the rows that they have, as one matrix of them. */
export const timedProblem = (problem: Problem, counts: readonly number[]): Problem =>
  problem.batch.kind === "grouped"
    ? {
        ...problem,
        [expertAxisOf(problem)]: Math.max(
          1,
          counts.reduce((sum, rows) => sum + rows, 0),
        ),
        batch: { ...problem.batch, rows: "offsets" },
      }
    : problem;

/** Number of sets for one set of `bytes` bytes. At least 1; fewer than wanted where memory is short. */
function setCount(bytes: number, l2Bytes: number, freeBytes: number): number {
  const wanted = Math.ceil((2 * l2Bytes) / bytes);
  const room = Math.floor((memoryShare * freeBytes) / bytes);
  return Math.max(1, Math.min(wanted, room, mostSets));
}

/** Of every index of rows. */
const INDEX_SEED = 1;

/** Offsets of runs of equal lengths, where an operand tells runs, or rows at random where it is an index; null of others. */
function runDataOf(problem: Problem, name: string, operands: readonly DeviceOperand[]): Int32Array | null {
  const digits = /^epilogue(\d+)$/.exec(name)?.[1];
  if (digits === undefined) return null;
  const count = (operands.find((operand) => operand.name === name)?.bytes ?? 0) / 4;
  const step = problem.epilogue[Number(digits)];
  return isIndex(step)
    ? rowIndexData(step, { first: 0, count, seed: INDEX_SEED })
    : runData(problem, Number(digits), count);
}

/** Whether an operand holds slopes, drawn above 0. */
const isSlopes = ({ epilogue }: Problem, name: string): boolean =>
  hasSlopes(epilogue[Number(name.slice("epilogue".length))]);

/** Elements of operands of set 0 as `bench` fills them from a seed, by the operand's name and the element's place in it. */
export function benchInputs(
  problem: Problem,
  kind: InputKind,
  seed: number,
): (name: OperandName, index: number) => number {
  const operands = deviceOperands(problem);
  const pools = new Map<PoolType, InputPool>();
  return (name, index) => {
    const told = runDataOf(problem, name, operands);
    if (told !== null) return told[index] ?? 0;
    const type = poolTypeOf(problem, name);
    const drawn = entryOf(pools, type, () => InputPool.make(type, kind, seed)).value(
      operands.findIndex((operand) => operand.name === storedIn(problem, name)),
      index,
    );
    return isSlopes(problem, name) ? Math.abs(drawn) : drawn;
  };
}

export type BufferSet = Readonly<Record<string, CudaBuffer>> & { readonly d: CudaBuffer };

export class BenchBuffers {
  readonly sets: readonly BufferSet[];
  /** Bytes of one set, and of all. */
  readonly setBytes: number;
  readonly kind: InputKind;
  readonly #pools: ReadonlyMap<PoolType, InputPool>;
  readonly #operands: readonly DeviceOperand[];

  private constructor(
    sets: readonly BufferSet[],
    setBytes: number,
    kind: InputKind,
    pools: ReadonlyMap<PoolType, InputPool>,
    operands: readonly DeviceOperand[],
  ) {
    this.sets = sets;
    this.setBytes = setBytes;
    this.kind = kind;
    this.#pools = pools;
    this.#operands = operands;
  }

  get rotatedBytes(): number {
    return this.sets.length * this.setBytes;
  }

  /** Allocate and fill. What is made on the way is freed on failure. `pools` is used again by later calls of one seed. */
  static make(
    context: CudaContext,
    problem: Problem,
    kind: InputKind,
    pools: Map<PoolType, InputPool>,
    seed: number,
    counts: readonly number[] = evenRows(problem),
  ): Checked<BenchBuffers> {
    const rows = expertRowsOf(problem);
    const operands = rows === null ? deviceOperands(problem) : expertOperands(problem, counts);
    const setBytes = operands.reduce((sum, { bytes }) => sum + bytes, 0);
    const memory = context.call("bench.memory", (driver) => driver.memGetInfo());
    if (!memory.ok) return memory;
    const count = setCount(setBytes, context.info.l2Bytes, memory.value[0]);
    const sets: BufferSet[] = [];
    const made: CudaBuffer[] = [];
    for (let set = 0; set < count; set++) {
      const buffers: Record<string, CudaBuffer> = {};
      for (const [index, operand] of operands.entries()) {
        const other = buffers[storedIn(problem, operand.name)];
        if (other !== undefined) {
          buffers[operand.name] = other;
          continue;
        }
        const buffer = CudaBuffer.alloc(context, operand.bytes);
        const filled = buffer.ok ? fill(buffer.value, operand, set * operands.length + index) : buffer;
        if (buffer.ok) made.push(buffer.value);
        if (!filled.ok) {
          for (const one of made) one.free();
          return err(filled.error);
        }
        if (buffer.ok) buffers[operand.name] = buffer.value;
      }
      if (rows !== null) {
        const data = expertRowsData(rows, counts);
        const told = CudaBuffer.alloc(context, data.byteLength);
        if (told.ok) made.push(told.value);
        const written = told.ok ? told.value.write(new Uint8Array(data.buffer)) : told;
        if (!written.ok) {
          for (const one of made) one.free();
          return err(written.error);
        }
        if (told.ok) buffers.groups = told.value;
      }
      sets.push(buffers as BufferSet);
    }
    return ok(new BenchBuffers(sets, setBytes, kind, pools, operands));

    function fill(buffer: CudaBuffer, operand: DeviceOperand, stream: number): Checked<true> {
      if (operand.direction !== "in") return buffer.fill(0xff);
      const told = runDataOf(problem, operand.name, operands);
      if (told !== null) return buffer.write(new Uint8Array(told.buffer));
      const type = poolTypeOf(problem, operand.name);
      const pool = entryOf(pools, type, () => InputPool.make(type, kind, seed));
      if (!isSlopes(problem, operand.name)) return pool.fill(buffer, stream);
      const slopes = Float32Array.from({ length: operand.bytes / 4 }, (_, i) => pool.value(stream, i));
      return buffer.write(new Uint8Array(slopes.map(Math.abs).buffer));
    }
  }

  /** Element `index` of an operand in set 0, in elements from its start. */
  valueOf(problem: Problem, name: OperandName, index: number): number {
    const stream = this.#operands.findIndex((operand) => operand.name === storedIn(problem, name));
    const told = runDataOf(problem, name, this.#operands);
    const value = told?.[index] ?? this.#pools.get(poolTypeOf(problem, name))?.value(stream, index) ?? 0;
    return isSlopes(problem, name) ? Math.abs(value) : value;
  }

  free(): void {
    for (const set of this.sets) for (const buffer of new Set(Object.values(set))) buffer.free();
  }
}
