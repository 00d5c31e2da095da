/**
 * Bulk tensor copies (TMA) from the layouts of a bound program: into which boxes a tile is cut, which map describes the matrix behind it, and
 * how many bytes a ring's barrier has to expect. Nothing here is chosen; it all follows from the tile's layout.
 */

import type { LaunchExpr, Problem, TensorMapRecipe } from "@tilewright/core";
import {
  type BatchAxis,
  batchAxes,
  commonDivisor,
  dtypes,
  type ExpertOperandName,
  factorStride,
  groupStrides,
  isPerExpert,
  largestDivisor,
  matrixOf,
  operandOfBuffer,
  rowIndexOf,
  type SizeName,
  sizeExpr,
  storedType,
  strideNames,
  weightStride,
} from "@tilewright/core";
import { contiguousIn, linearOffset } from "../layout/layout.ts";
import { type TensorSwizzle, tensorSwizzleName } from "../layout/swizzle.ts";
import { must } from "../must.ts";
import { elementBytes } from "../tile/elementBytes.ts";
import { bufferOf } from "../tile/rewrite.ts";
import { rowsInBlocks, symbolicExtent, symbolicLeading } from "../tile/sizes.ts";
import type { Buffer, RegionDeclaration, Ring, TileProgram } from "../tile/types.ts";

/** What maps call the bytes that a miss brings. */
const promotionNames = { 256: "256B", 128: "128B", 64: "64B", 0: "none" } as const;

/** Most elements of a box along one axis (cuTensorMapEncodeTiled). */
const MAX_BOX = 256;

/** What base, row pitch and batch stride have to be multiples of, in bytes (cuTensorMapEncodeTiled). */
export const TENSOR_ALIGN = 16;

/** The same for maps that spread elements under 8 bits over a byte each, and what the contiguous extent has to be a multiple of, in elements. */
export const SPREAD_ALIGN = 32;
export const SPREAD_EXTENT = 128;
/** Of both types of elements that are spread (CUDA driver API, cuTensorMapEncodeTiled). */
const spreadSwizzles: ReadonlySet<TensorSwizzle> = new Set(["none", "128B"]);

/** Rows after which every swizzle, and the core matrices without one, repeat (PTX ISA, canonical layouts of matrix descriptors): pieces begin at multiples of it, so that each has the pattern of a whole tile. */
export const PATTERN_ROWS = 8;

/** Rows of a matrix that one bulk copy gathers, each named by a coordinate of its own (PTX ISA, tile::gather4). */
export const GATHERED_ROWS = 4;

/** One box of a tile: where its first element stands in the tile, and where it lies from the slot's start. */
export interface TensorRange {
  readonly row: number;
  readonly col: number;
  /** Bytes. */
  readonly offset: number;
}

/** How bulk copies move a tile. */
export interface TensorCut {
  /** The axis that is contiguous in the tile, and so in the matrix. */
  readonly contiguous: 0 | 1;
  /** Elements along the contiguous axis and along the other: 1 where copies gather rows, `GATHERED_ROWS` of which make a piece. */
  readonly box: readonly [inner: number, outer: number];
  /** Runs to which rows across are interleaved, each of `box[1]`: 1 where they follow each other. More make one more dimension of the map. */
  readonly runs: number;
  readonly swizzle: TensorSwizzle;
  /** Elements under 8 bits are spread over a byte each. */
  readonly spread: boolean;
  /** Pieces of each part in turn: `pieces.length / parts` of them belong to one. */
  readonly pieces: readonly TensorRange[];
}

/** Where copies may write shared memory (PTX ISA, cp.async.bulk.tensor). */
const WRITE_ALIGN = 128;

/**
 * The boxes of a shared tile. `parts`: cut evenly along the axis across, for the blocks of a cluster that share a copy or the warpgroups that share
 * a store. `page`: rows across of which a box has no more, and none of two; `gathered`: an index names each of them. Null where bulk copies cannot make the layout: padded rows, a swizzle that TMA lacks, rows longer than a box, parts that cut the
 * swizzle's pattern.
 */
export function tensorCut(
  buffer: Buffer,
  parts = 1,
  page: number | "gathered" | null = null,
): TensorCut | null {
  const { layout } = buffer;
  if (layout === null) return null;
  const contiguous = contiguousIn(buffer);
  const other = contiguous === 0 ? 1 : 0;
  const inner = layout.panels?.extent ?? buffer.shape[contiguous];
  const across = buffer.shape[other];
  const swizzle = tensorSwizzleName(layout.swizzle);
  const dense = layout.stride[contiguous] === 1 && (across === 1 || layout.stride[other] === inner);
  if (swizzle === null || !dense || inner > MAX_BOX) return null;
  if (parts > 1 && across % (parts * PATTERN_ROWS) !== 0) return null;
  const { interleaved } = layout;
  const runs = interleaved?.runs ?? 1;
  // Runs lie one behind the other, as the dimensions of one box do.
  if (
    interleaved !== undefined &&
    (interleaved.axis === contiguous || interleaved.step !== (across / runs) * inner)
  )
    return null;
  if (runs > 1 && (parts > 1 || across / runs > MAX_BOX || (across / runs) % PATTERN_ROWS !== 0)) return null;
  if (runs > 1 && page !== null) return null;
  const gathers = page === "gathered";
  if (gathers && (contiguous === 0 || (across / parts) % GATHERED_ROWS !== 0)) return null;
  const outer = gathers
    ? GATHERED_ROWS
    : runs > 1
      ? across / runs
      : largestDivisor(page === null ? across / parts : commonDivisor(across / parts, page), MAX_BOX);
  if (!gathers && swizzle !== "none" && outer * runs < across && outer % PATTERN_ROWS !== 0) return null;
  const size = elementBytes(buffer);
  const span = swizzle === "none" ? null : Number.parseInt(swizzle, 10);
  // Rows of a box lie as far apart as the swizzle reaches.
  if (span !== null && inner * size !== span) return null;
  const pieces = boxesOf(buffer, [inner, outer, runs]);
  // The bits of an address say how its piece is swizzled, so that rows may begin anywhere in the pattern.
  const aligned = span === null || gathers ? WRITE_ALIGN : PATTERN_ROWS * span;
  if (pieces.some(({ offset }) => offset % aligned !== 0)) return null;
  const spread = dtypes[buffer.dtype].bits < 8 && buffer.packed !== true;
  if (spread && (inner !== SPREAD_EXTENT || !spreadSwizzles.has(swizzle))) return null;
  return { contiguous, box: [inner, gathers ? 1 : outer], runs, swizzle, spread, pieces };
}

/** The boxes of a shared tile: elements along its contiguous axis, and across in so many runs. Those of one line across follow each other. */
export function boxesOf(
  buffer: Buffer,
  [inner = 1, outer = 1, runs = 1]: readonly number[],
): readonly TensorRange[] {
  const layout = must(buffer.layout, "a shared tile is laid out");
  const contiguous = contiguousIn(buffer);
  const pieces: TensorRange[] = [];
  for (let o = 0; o < buffer.shape[contiguous === 0 ? 1 : 0]; o += outer * runs)
    for (let i = 0; i < buffer.shape[contiguous]; i += inner) {
      const [row, col] = contiguous === 1 ? [o, i] : [i, o];
      pieces.push({ row, col, offset: linearOffset(layout, [row, col]) * elementBytes(buffer) });
    }
  return pieces;
}

/** Elements of the boxes that a vector of a tile comes in: all, or the most that divide it and begin where copies may write; null where neither fits a box. */
export function boxedRun(elements: number, size: number): number | null {
  if (elements <= MAX_BOX) return (elements * size) % TENSOR_ALIGN === 0 ? elements : null;
  for (let run = MAX_BOX; run > 0; run--)
    if (elements % run === 0 && (run * size) % WRITE_ALIGN === 0) return run;
  return null;
}

/** Whether bulk copies of all problems of a launch take a global buffer through one map, which the launch brings: of groups what each expert has all of, and factors. */
export function hasOneMap(problem: Problem, global: string): boolean {
  const operand = operandOfBuffer(global);
  if (problem.batch.kind !== "grouped" || operand === "sfa" || operand === "sfb") return true;
  // Rows of any expert lie anywhere in it.
  if (operand === "a" && rowIndexOf(problem, "a") !== null) return true;
  return operand !== null && isPerExpert(problem, operand);
}

/**
 * The dimensions that a strided batch adds to the map of a global buffer, the innermost first, and which part of the problem's number is the coordinate along
 * each. One, of which matrices may be shared, unless the batch has several axes. Of experts one of what each has all of: the expert's number. `size`: bytes of an element.
 */
function batchDimensions(problem: Problem, operand: ExpertOperandName, size: number): readonly BatchAxis[] {
  const { batch } = problem;
  if (batch.kind === "grouped" && isPerExpert(problem, operand))
    return [{ extent: batch.count, below: 1, stride: groupStrides(problem, operand).group / size }];
  if (batch.kind !== "strided") return [];
  const words = operand === "b" && problem.weights !== undefined;
  if (operand !== "sfa" && operand !== "sfb" && !words) {
    const found = batchAxes(problem, operand);
    if (found.length > 0 || batch.axes !== undefined) return found.toReversed();
  }
  const apart = { sfa: () => factorStride(problem, "a"), sfb: () => factorStride(problem, "b") };
  const stride = words
    ? weightStride(problem)
    : operand === "sfa" || operand === "sfb"
      ? apart[operand]()
      : 0;
  return [{ extent: Math.max(1, batch.count), below: 1, stride }];
}

/** The extent of a global buffer that the launch supplies; of factors in blocks of rows as many as all groups have. */
function extentOfLaunch(problem: Problem, global: string, axis: 0 | 1): LaunchExpr | null {
  const size = symbolicExtent(problem, global, axis);
  const rows = rowsInBlocks(problem, global);
  if (size === null || rows === 1) return size;
  const { blocks } = groupStrides(problem, "sfa");
  const slack =
    blocks === undefined || problem.batch.kind === "none" ? 0 : blocks.slack * problem.batch.count;
  return ["ceilDiv", slack === 0 ? size : ["add", size, slack], rows];
}

const quotient = (value: LaunchExpr, by: number): LaunchExpr =>
  typeof value === "number" ? value / by : ["div", value, by];
const product = (value: LaunchExpr, by: number): LaunchExpr =>
  typeof value === "number" ? value * by : ["mul", value, by];

/**
 * The map of a global buffer for copies to or from a shared tile in boxes of `cut`. Dimensions: contiguous axis, the other one (of a tile whose
 * rows are interleaved: every so-many-th, then which of them), and in a strided batch the problem's number, or its parts by axis. `copy`: where a transposed buffer lies. Throws (a bug) for buffers that are no operand.
 */
export function tensorMapFor(
  program: TileProgram,
  global: string,
  cut: TensorCut,
  copy?: RegionDeclaration,
): TensorMapRecipe {
  const buffer = bufferOf(program, global);
  const { layout } = buffer;
  const operand = operandOfBuffer(global);
  if (operand === null || layout === null) throw new RangeError(`%${global} is no operand`);
  const { problem } = program;
  const other = cut.contiguous === 0 ? 1 : 0;
  const size = elementBytes(buffer);
  const interleaved = cut.runs > 1;
  const [inner, outer] = [buffer.shape[cut.contiguous], buffer.shape[other]];
  const gathers = operand === "a" && rowIndexOf(problem, "a") !== null;
  const extent = (axis: 0 | 1): LaunchExpr =>
    (gathers && axis === 0 ? null : extentOfLaunch(problem, global, axis)) ?? buffer.shape[axis];
  const leading = symbolicLeading(problem, global);
  const align = cut.spread ? SPREAD_ALIGN : TENSOR_ALIGN;
  // Of a single row the pitch is never used, and may be anything; the driver asks for a multiple all the same.
  const pitch: LaunchExpr =
    leading !== null
      ? ["mul", sizeExpr(problem, leading), size]
      : outer === 1 && symbolicExtent(problem, global, other) === null
        ? Math.ceil((inner * size) / align) * align
        : (layout.stride[other] ?? 0) * size;
  const batch =
    copy === undefined
      ? batchDimensions(problem, operand, size)
      : problem.batch.kind === "strided"
        ? [{ extent: problem.batch.count, below: 1, stride: (copy.stride ?? 0) / size }]
        : [];
  const given = (which: SizeName, fixed: LaunchExpr): LaunchExpr =>
    problem.symbolic?.[which] === undefined ? fixed : which;
  // Scale factors have the strides that follow from fixed sizes.
  const matrix = matrixOf(global);
  const stride = matrix === null ? null : strideNames[matrix];
  const between = (axis: BatchAxis): LaunchExpr =>
    stride !== null && problem.symbolic?.[stride] !== undefined
      ? ["mul", stride, size]
      : axis.extent === 1 && problem.symbolic?.batch === undefined
        ? 0
        : axis.stride * size;
  const ones = batch.map(() => 1);
  return {
    ...(copy === undefined ? { operand } : { operand: "workspace", at: Number(copy.at) }),
    dtype: cut.spread ? storedType(buffer.dtype) : buffer.dtype,
    dims: [
      extent(cut.contiguous),
      ...(interleaved ? [quotient(extent(other), cut.runs), cut.runs] : [extent(other)]),
      ...batch.map(({ extent }) => given("batch", extent)),
    ],
    strides: [...(interleaved ? [product(pitch, cut.runs)] : []), pitch, ...batch.map(between)],
    box: [...cut.box, ...(interleaved ? [cut.runs] : []), ...ones],
    elementStrides: [1, 1, ...(interleaved ? [1] : []), ...ones],
    interleave: "none",
    swizzle: cut.swizzle,
    l2: promotionNames[buffer.l2Promotion ?? 256],
    oob: "zero",
  };
}

/**
 * Bytes that one chunk brings to its slot of a ring: what the full barrier of a ring of transport tma expects. Elements count as in global memory,
 * without what spreading them leaves between. Of a pair the leader expects those of both blocks; a tile without halves is copied by each.
 */
export const transactionBytes = (program: TileProgram, ring: Ring): number =>
  program.buffers.reduce((bytes, b) => {
    if (!ring.buffers.includes(b.name)) return bytes;
    const copies = program.launch.pair === true && b.halves === undefined ? 2 : 1;
    return bytes + (copies * b.shape[0] * b.shape[1] * dtypes[b.dtype].bits) / 8;
  }, 0);
