/**
 * Numbers before the clock starts: a kernel that is fast and wrong is not fast. Every element of D is looked at for the poison that it was
 * filled with, and a lattice of sampled rows and columns is compared with the float64 reference, epilogue included.
 */
import {
  applyScales,
  type BatchedOperand,
  BLOCK_SCALE,
  batchAxes,
  batchOffset,
  blockFactors,
  type Checked,
  compareMatrix,
  compareWithBound,
  createRandom,
  dtypes,
  type EpilogueStep,
  expertAxisOf,
  groupStrides,
  isIndex,
  makeStorage,
  type Operand,
  ok,
  operandShape,
  operandStrides,
  type Problem,
  packedSize,
  quantizeOf,
  readElement,
  referenceGemm,
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
import type { BenchProgram } from "./outcome.ts";

export interface NumbersCheck {
  /** How it was checked, for the record. */
  readonly against: "float64 on a lattice of elements";
  /** Elements compared with the reference. */
  readonly sampled: number;
  readonly maxAbs: number;
  /** Largest error over its bound; at most 1 passes. */
  readonly boundRatio: number;
  /** Elements of D that still hold the poison; null where every pattern is a number. */
  readonly unwritten: number | null;
}

/** Rows and columns of the lattice: 1024 elements, spread over all tiles of a large D. */
const latticeSide = 32;
/** Bytes read back at once. */
const chunkBytes = 16 * 2 ** 20;

/** First, last, and one at random from each equal part between: ascending, each once. */
function sampleIndices(extent: number, count: number, seed: number): readonly number[] {
  if (extent <= count) return Array.from({ length: extent }, (_, index) => index);
  const random = createRandom(seed);
  const part = extent / count;
  const inner = Array.from({ length: count }, (_, index) =>
    Math.min(extent - 1, Math.floor((index + random.uniform()) * part)),
  );
  return [...new Set([0, ...inner.slice(1, -1), extent - 1])];
}

/** Columns of the lattice: of a quantised output all of the first and the last group, whose scales come from all of their values. */
function sampleColumns(problem: Problem, seed: number): readonly number[] {
  const { n } = problem;
  const group = quantizeOf(problem)?.step.group;
  if (group === undefined) return sampleIndices(n, latticeSide, seed);
  const all = Array.from({ length: n }, (_, column) => column);
  return n === group ? all : [...all.slice(0, group), ...all.slice(-group)];
}

/** The problem that only the lattice's rows and columns make. */
function latticeProblem(problem: Problem, rows: number, columns: number): Problem {
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

/** Check D of set 0, as the launch that just ended left it. `scalars`: what launches passed for alpha and beta. */
export function checkNumbers(
  problem: Problem,
  buffers: BenchBuffers,
  seed: number,
  scalars: { readonly alpha: number; readonly beta: number; readonly steps: readonly (number | null)[] },
  counts: readonly number[] = [],
): Checked<NumbersCheck> {
  const [set] = buffers.sets;
  if (set === undefined) throw new RangeError("there is no buffer set");
  const members = membersOf(problem, counts);
  const unwritten = countPoison(problem, set.d, members);
  if (!unwritten.ok) return unwritten;
  let maxAbs = 0;
  let boundRatio = 0;
  let sampled = 0;
  // The first and the last problem of a batch, or expert that stores something, and the largest.
  const largest = members.reduce<Member | undefined>(
    (a, b) => (a && a.rows * a.depth >= b.rows * b.depth ? a : b),
    undefined,
  );
  for (const member of new Set([members[0], largest, members.at(-1)])) {
    if (member === undefined) continue;
    const rows = sampleIndices(member.rows, latticeSide, seed);
    const columns = sampleColumns(problem, seed + 1);
    const own = { ...problem, k: member.depth };
    const small = latticeProblem(own, rows.length, columns.length);
    const reference = referenceGemm(small, latticeInputs(own, buffers, member, rows, columns, scalars));
    const actual = readLattice(problem, set.d, member.start("d"), rows, columns);
    if (!actual.ok) return actual;
    const found = compareWithBound(small, actual.value, reference);
    maxAbs = Math.max(maxAbs, found.maxAbs);
    boundRatio = Math.max(boundRatio, found.boundRatio);
    sampled += rows.length * columns.length;
  }
  return ok({
    against: "float64 on a lattice of elements",
    sampled,
    maxAbs,
    boundRatio,
    unwritten: unwritten.value,
  });
}

/** Check rows of D of set 0 against what they must be, of a tile program. */
export function checkRows(
  problem: Problem,
  buffers: BenchBuffers,
  { rows, items }: BenchProgram,
): Checked<NumbersCheck> {
  const [set] = buffers.sets;
  if (set === undefined) throw new RangeError("there is no buffer set");
  const members = membersOf(problem, []);
  const unwritten = countPoison(problem, set.d, members);
  if (!unwritten.ok) return unwritten;
  const columns = Array.from({ length: problem.n }, (_, column) => column);
  const dense: Operand = { ...problem.d, layout: "row", ld: problem.n };
  const own = rows.map((_, row) => row);
  let [maxAbs, boundRatio, sampled] = [0, 0, 0];
  for (const { item, values, bounds } of items) {
    const start = batchOffset(batchAxes(problem, "d"), item);
    const actual = readLattice(problem, set.d, start, rows, columns);
    if (!actual.ok) return actual;
    const right = { values: Float64Array.from(values), bounds: Float64Array.from(bounds) };
    const shape = { rows: own, columns: problem.n, stride: 0 };
    const found = compareMatrix(dense, actual.value, right, shape);
    maxAbs = Math.max(maxAbs, found.maxAbs);
    boundRatio = Math.max(boundRatio, found.boundRatio);
    sampled += values.length;
  }
  return ok({
    against: "float64 on a lattice of elements",
    ...{ sampled, maxAbs, boundRatio, unwritten: unwritten.value },
  });
}

/** A problem of a batch, or an expert that has rows of D: its number, rows and k, and where its operands begin, in elements. */
interface Member {
  readonly item: number;
  readonly rows: number;
  readonly depth: number;
  start(which: BatchedOperand): number;
  /** Where the factors of A or B begin, in elements; in bytes where they are bytes. */
  factors(which: "a" | "b"): number;
}

/** The problems of a batch, or the experts that have rows of D. */
function membersOf(problem: Problem, counts: readonly number[]): readonly Member[] {
  const { batch, m, k } = problem;
  if (batch.kind !== "grouped")
    return Array.from({ length: batch.kind === "strided" ? batch.count : 1 }, (_, item) => ({
      item,
      ...{ rows: m, depth: k },
      start: (which) => batchOffset(batchAxes(problem, which), item),
      factors: (which) =>
        item * (blockFactors(problem, which)?.stride ?? scaleMatrix(problem, which)?.stride ?? 0),
    }));
  let first = 0;
  const axis = expertAxisOf(problem);
  return counts.flatMap((count, item): readonly Member[] => {
    const before = first;
    first += count;
    const [rows, depth] = axis === "m" ? [count, k] : [m, count];
    if (rows === 0) return [];
    const start = (which: OperandName): number => {
      const { row, group } = groupStrides(problem, which);
      return Math.floor((before * row + item * group) / sizeOf(operandDType(problem, which)));
    };
    return [{ item, rows, depth, start, factors: (which) => start(`sf${which}`) }];
  });
}

function latticeInputs(
  problem: Problem,
  buffers: BenchBuffers,
  { item, start, factors }: Member,
  rows: readonly number[],
  columns: readonly number[],
  scalars: { readonly alpha: number; readonly beta: number; readonly steps: readonly (number | null)[] },
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
      case "factor":
        return gather(name, step.operand, start(name), all, columns);
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
  scale("a", a, rows, [k, 1]);
  scale("b", b, ofB, [1, ofB.length]);
  const weights = problem.weights;
  if (weights !== undefined)
    for (const [i, column] of ofB.entries())
      for (const row of all) {
        const factor = Math.floor(row / weights.group) * problem.n + column;
        const code = buffers.valueOf(problem, "b", weightIndex(problem, row, column));
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
  const { strides, each } = floats;
  return {
    block: BLOCK_SCALE,
    at: (row, factor) => Math.floor(row / each) * strides[0] + factor * strides[1],
  };
}

/** The lattice's elements of D, dense. */
function readLattice(
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

/** Elements of D whose bytes are all 0xff: NaN in every float type. Padding between lines is not looked at. */
function countPoison(problem: Problem, d: DeviceBuffer, members: readonly Member[]): Checked<number | null> {
  const { dtype, layout, ld } = problem.d;
  // Every pattern is a number.
  if (dtypes[dtype].kind === "int" || dtypes[dtype].bits < 8) return ok(null);
  const size = sizeOf(dtype);
  const perChunk = Math.max(1, Math.floor(chunkBytes / (ld * size)));
  let unwritten = 0;
  for (const { rows, start } of members) {
    const base = start("d");
    const [extent, lines] = layout === "row" ? [problem.n, rows] : [rows, problem.n];
    for (let line = 0; line < lines; line += perChunk) {
      const count = Math.min(perChunk, lines - line);
      const bytes = d.read((base + line * ld) * size, ((count - 1) * ld + extent) * size);
      if (!bytes.ok) return bytes;
      unwritten += poisonIn(bytes.value, size, ld, extent, count);
    }
  }
  return ok(unwritten);
}

function poisonIn(bytes: Uint8Array, size: number, ld: number, extent: number, lines: number): number {
  const words = wordsOf(bytes, size);
  const poison = size === 8 ? 2n ** 64n - 1n : 2 ** (8 * size) - 1;
  let found = 0;
  for (let line = 0; line < lines; line++) {
    const part = words.subarray(line * ld, line * ld + extent) as ArrayLike<number | bigint> & {
      indexOf(value: number | bigint, from: number): number;
    };
    for (let at = part.indexOf(poison, 0); at >= 0; at = part.indexOf(poison, at + 1)) found++;
  }
  return found;
}

/** Bytes as unsigned words of an element's size; `read` gives memory of its own, which is aligned. */
function wordsOf(bytes: Uint8Array, size: number) {
  const { buffer, byteOffset, byteLength } = bytes;
  switch (size) {
    case 8:
      return new BigUint64Array(buffer, byteOffset, byteLength / 8);
    case 4:
      return new Uint32Array(buffer, byteOffset, byteLength / 4);
    case 2:
      return new Uint16Array(buffer, byteOffset, byteLength / 2);
    default:
      return bytes;
  }
}
