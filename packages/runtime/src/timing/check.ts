/**
 * Numbers before the clock starts: a kernel that is fast and wrong is not fast. Every element of D is looked at for the poison that it was
 * filled with, and a lattice of sampled rows and columns is compared with the float64 reference, epilogue included.
 */
import {
  batchAxes,
  batchOffset,
  type Checked,
  compareMatrix,
  compareWithBound,
  dtypes,
  type Operand,
  ok,
  type Problem,
  referenceGemm,
  sizeOf,
} from "@tilewright/core";
import type { DeviceBuffer } from "../device.ts";
import type { BenchBuffers } from "./buffers.ts";
import {
  type LaunchedScalars,
  latticeInputs,
  latticeProblem,
  latticeSide,
  type Member,
  membersOf,
  readLattice,
  sampleColumns,
  sampleIndices,
} from "./lattice.ts";
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

/** Bytes read back at once. */
const chunkBytes = 16 * 2 ** 20;

type Sampled = Pick<NumbersCheck, "sampled" | "maxAbs" | "boundRatio">;

/** Check D of set 0, as the launch that just ended left it. */
export function checkNumbers(
  problem: Problem,
  buffers: BenchBuffers,
  seed: number,
  scalars: LaunchedScalars,
  counts: readonly number[] = [],
): Checked<NumbersCheck> {
  const members = membersOf(problem, counts);
  // The first and the last problem of a batch, or expert that stores something, and the largest.
  const largest = members.reduce<Member | undefined>(
    (a, b) => (a && a.rows * a.depth >= b.rows * b.depth ? a : b),
    undefined,
  );
  const picked = [...new Set([members[0], largest, members.at(-1)])].filter((member) => member !== undefined);
  return checkAll(problem, buffers, members, picked, (d, member) => {
    const rows = sampleIndices(member.rows, latticeSide, seed);
    const columns = sampleColumns(problem, seed + 1);
    const own = { ...problem, k: member.depth };
    const small = latticeProblem(own, rows.length, columns.length);
    const reference = referenceGemm(small, latticeInputs(own, buffers, member, rows, columns, scalars));
    const actual = readLattice(problem, d, member.start("d"), rows, columns);
    if (!actual.ok) return actual;
    const sampled = rows.length * columns.length;
    return ok({ ...compareWithBound(small, actual.value, reference), sampled });
  });
}

/** Check rows of D of set 0 against what they must be, of a tile program. */
export function checkRows(
  problem: Problem,
  buffers: BenchBuffers,
  { rows, items }: BenchProgram,
): Checked<NumbersCheck> {
  const columns = Array.from({ length: problem.n }, (_, column) => column);
  const dense: Operand = { ...problem.d, layout: "row", ld: problem.n };
  const shape = { rows: rows.map((_, row) => row), columns: problem.n, stride: 0 };
  return checkAll(problem, buffers, membersOf(problem, []), items, (d, { item, values, bounds }) => {
    const start = batchOffset(batchAxes(problem, "d"), item);
    const actual = readLattice(problem, d, start, rows, columns);
    if (!actual.ok) return actual;
    const right = { values: Float64Array.from(values), bounds: Float64Array.from(bounds) };
    return ok({ ...compareMatrix(dense, actual.value, right, shape), sampled: values.length });
  });
}

/** D's poison is counted, and the worst taken of what `compare` finds of each sample. */
function checkAll<Sample>(
  problem: Problem,
  buffers: BenchBuffers,
  members: readonly Member[],
  samples: readonly Sample[],
  compare: (d: DeviceBuffer, sample: Sample) => Checked<Sampled>,
): Checked<NumbersCheck> {
  const [set] = buffers.sets;
  if (set === undefined) throw new RangeError("there is no buffer set");
  const unwritten = countPoison(problem, set.d, members);
  if (!unwritten.ok) return unwritten;
  const worst = { sampled: 0, maxAbs: 0, boundRatio: 0 };
  for (const sample of samples) {
    const found = compare(set.d, sample);
    if (!found.ok) return found;
    worst.maxAbs = Math.max(worst.maxAbs, found.value.maxAbs);
    worst.boundRatio = Math.max(worst.boundRatio, found.value.boundRatio);
    worst.sampled += found.value.sampled;
  }
  return ok({ against: "float64 on a lattice of elements", ...worst, unwritten: unwritten.value });
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
