/**
 * Bulk tensor copies (TMA) from the layouts of a bound program: into which boxes a tile is cut, which map describes the matrix behind it, and
 * how many bytes a ring's barrier has to expect. Nothing here is chosen; it all follows from the tile's layout.
 */
import { sizeOf } from "../dtype.ts";
import { linearOffset } from "../layout/layout.ts";
import { type TensorSwizzle, tensorSwizzleName } from "../layout/swizzle.ts";
import type { LaunchExpr } from "../manifest.ts";
import {
  extentNames,
  leadingNames,
  type SizeName,
  sizeMost,
  sizeMultiple,
  strideNames,
} from "../problem/symbolic.ts";
import type { Problem } from "../problem.ts";
import { bufferOf } from "../tile/rewrite.ts";
import { symbolicExtent, symbolicLeading } from "../tile/sizes.ts";
import type { Buffer, Ring, TileProgram } from "../tile/types.ts";
import type { TensorMapRecipe } from "./tensor-map.ts";

/** Most elements of a box along one axis (cuTensorMapEncodeTiled). */
const MAX_BOX = 256;

/** What base, row pitch and batch stride have to be multiples of, in bytes (cuTensorMapEncodeTiled). */
export const TENSOR_ALIGN = 16;

/** Rows after which every swizzle repeats: pieces begin at multiples of it, so that each has the pattern of a whole tile. */
const PATTERN_ROWS = 8;

/** One box of a tile: where its first element stands in the tile, and where it lies from the slot's start. */
export interface TensorPiece {
  readonly row: number;
  readonly col: number;
  /** Bytes. */
  readonly offset: number;
}

/** How bulk copies move a tile. */
export interface TensorCut {
  /** The axis that is contiguous in the tile, and so in the matrix. */
  readonly contiguous: 0 | 1;
  /** Elements along the contiguous axis and along the other. */
  readonly box: readonly [inner: number, outer: number];
  readonly swizzle: TensorSwizzle;
  /** Pieces of each part in turn: `pieces.length / parts` of them belong to one. */
  readonly pieces: readonly TensorPiece[];
}

/**
 * The boxes of a shared tile. `parts`: cut evenly along the axis across, for the blocks of a cluster that share a copy or the warpgroups that share
 * a store. Null where bulk copies cannot make the layout: padded rows, a swizzle that TMA lacks, rows longer than a box, parts that cut the
 * swizzle's pattern.
 */
export function tensorCut(buffer: Buffer, parts = 1): TensorCut | null {
  const { layout } = buffer;
  if (layout === null) return null;
  const contiguous = layout.stride[0] === 1 && layout.panels?.axis !== 1 ? 0 : 1;
  const other = contiguous === 0 ? 1 : 0;
  const inner = layout.panels?.extent ?? buffer.shape[contiguous];
  const across = buffer.shape[other];
  const swizzle = tensorSwizzleName(layout.swizzle);
  const dense = layout.stride[contiguous] === 1 && (across === 1 || layout.stride[other] === inner);
  if (swizzle === null || !dense || inner > MAX_BOX) return null;
  if (parts > 1 && across % (parts * PATTERN_ROWS) !== 0) return null;
  const outer = largestDivisor(across / parts, MAX_BOX);
  if (swizzle !== "none" && outer < across && outer % PATTERN_ROWS !== 0) return null;
  const size = sizeOf(buffer.dtype);
  const pieces: TensorPiece[] = [];
  for (let o = 0; o < across; o += outer)
    for (let i = 0; i < buffer.shape[contiguous]; i += inner) {
      const [row, col] = contiguous === 1 ? [o, i] : [i, o];
      pieces.push({ row, col, offset: linearOffset(layout, [row, col]) * size });
    }
  return { contiguous, box: [inner, outer], swizzle, pieces };
}

function largestDivisor(n: number, most: number): number {
  let d = Math.min(n, most);
  while (n % d !== 0) d--;
  return d;
}

const letters = { A: "a", B: "b", C: "c", D: "d" } as const;
type Letter = keyof typeof letters;

/** Elements between neighbouring matrices of a strided batch; null without one. */
function batchStride(
  problem: Problem,
  name: Letter,
): { readonly count: number; readonly stride: number } | null {
  const { batch } = problem;
  if (batch.kind !== "strided") return null;
  const stride = { A: batch.strideA, B: batch.strideB, C: batch.strideC, D: batch.strideD }[name];
  return { count: Math.max(1, batch.count), stride };
}

/**
 * The map of a global buffer for copies to or from a shared tile in boxes of `cut`. Dimensions: contiguous axis, the other one, and in a strided
 * batch the problem's number. Throws (a bug) for buffers that are no operand.
 */
export function tensorMapFor(program: TileProgram, global: string, cut: TensorCut): TensorMapRecipe {
  const buffer = bufferOf(program, global);
  const { layout } = buffer;
  if (!(global in letters) || layout === null) throw new RangeError(`%${global} is no operand`);
  const name = global as Letter;
  const { problem } = program;
  const other = cut.contiguous === 0 ? 1 : 0;
  const size = sizeOf(buffer.dtype);
  const [inner, outer] = [buffer.shape[cut.contiguous], buffer.shape[other]];
  const extent = (axis: 0 | 1): LaunchExpr => symbolicExtent(problem, global, axis) ?? buffer.shape[axis];
  const leading = symbolicLeading(problem, global);
  // Of a single row the pitch is never used, and may be anything; the driver asks for a multiple of 16 all the same.
  const pitch: LaunchExpr =
    leading !== null
      ? ["mul", leading, size]
      : outer === 1 && symbolicExtent(problem, global, other) === null
        ? Math.ceil((inner * size) / TENSOR_ALIGN) * TENSOR_ALIGN
        : (layout.stride[other] ?? 0) * size;
  const batch = batchStride(problem, name);
  const given = (which: SizeName, fixed: LaunchExpr): LaunchExpr =>
    problem.symbolic?.[which] === undefined ? fixed : which;
  const stride = strideNames[letters[name]];
  const third: LaunchExpr | null =
    batch === null
      ? null
      : problem.symbolic?.[stride] !== undefined
        ? ["mul", stride, size]
        : batch.count === 1 && problem.symbolic?.batch === undefined
          ? 0
          : batch.stride * size;
  return {
    operand: letters[name],
    dtype: buffer.dtype,
    dims: [extent(cut.contiguous), extent(other), ...(batch === null ? [] : [given("batch", batch.count)])],
    strides: [pitch, ...(third === null ? [] : [third])],
    box: [...cut.box, ...(batch === null ? [] : [1])],
    elementStrides: [1, 1, ...(batch === null ? [] : [1])],
    interleave: "none",
    swizzle: cut.swizzle,
    l2: "256B",
    oob: "zero",
  };
}

/** Why bulk copies cannot take a matrix, with what could; null when they can. */
export function tensorAccessFault(
  problem: Problem,
  name: Letter,
): { readonly message: string; readonly hint: string } | null {
  const operand = problem[letters[name]];
  if (operand === null) return null;
  const size = sizeOf(operand.dtype);
  const [rows, cols] = extentNames[letters[name]];
  const across = sizeMost(problem, operand.layout === "row" ? rows : cols);
  const ld = sizeMultiple(problem, leadingNames[letters[name]]);
  const stride = sizeMultiple(problem, strideNames[letters[name]]);
  const batch = batchStride(problem, name);
  const wrong = (bytes: number): boolean => bytes % TENSOR_ALIGN !== 0;
  const up = (bytes: number): number => Math.ceil(bytes / TENSOR_ALIGN) * TENSOR_ALIGN;
  if (wrong(operand.align))
    return {
      message: `${name} may begin at any multiple of ${operand.align} bytes; bulk tensor copies need multiples of ${TENSOR_ALIGN}`,
      hint: `promise an alignment of ${TENSOR_ALIGN} for ${name.toLowerCase()}`,
    };
  if (across > 1 && wrong(ld * size))
    return {
      message: `rows of ${name} are ${ld * size} bytes apart${problem.symbolic?.[leadingNames[letters[name]]] === undefined ? "" : ", or a multiple of that"}; bulk tensor copies need multiples of ${TENSOR_ALIGN}`,
      hint: `a leading dimension of ${up(ld * size) / size}`,
    };
  if (batch !== null && sizeMost(problem, "batch") > 1 && wrong(stride * size))
    return {
      message: `the matrices ${name} of the batch are ${stride * size} bytes apart; bulk tensor copies need multiples of ${TENSOR_ALIGN}`,
      hint: `a batch stride of ${up(stride * size) / size}`,
    };
  return null;
}

/** Bytes that one chunk brings to its slot of a ring: what the full barrier of a ring of transport tma expects. */
export const transactionBytes = (program: TileProgram, ring: Ring): number =>
  program.buffers.reduce(
    (bytes, b) => (ring.buffers.includes(b.name) ? bytes + b.shape[0] * b.shape[1] * sizeOf(b.dtype) : bytes),
    0,
  );
