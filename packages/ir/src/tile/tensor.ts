/** Tensor memory as a resource: where the elements of a tensor tile lie, which columns of a block it takes, and how many are allocated. */
import { type DType, sizeOf } from "@tilewright/core";
import type { Layout } from "../layout/types.ts";
import { blockShape } from "./rewrite.ts";
import { SCALE_LANES } from "./scaleTiles.ts";
import type { Buffer, TileProgram, Transport } from "./types.ts";

/** Lanes of tensor memory: rows of a matrix instruction in a block, or twice as many (PTX ISA, tensor memory). */
export const TENSOR_LANES = 128;
/** Columns of tensor memory in an SM. */
export const MOST_COLUMNS = 512;
/** Allocations are powers of two from here on (PTX ISA, tcgen05.alloc). */
const LEAST_COLUMNS = 32;
/** Lanes that a warp of the epilogue may touch; instructions of 64 rows use half of them (PTX ISA, tcgen05.mma data path layout F). */
const WARP_LANES = 32;

/** Distance of neighbouring lanes in an address of tensor memory, whose low half is the column: the stride of a tensor tile's layout along its lanes. */
export const LANE_STRIDE = 2 ** 16;

/**
 * Where matrix instructions put a block's part of an accumulator (PTX ISA, tcgen05.mma data path layouts).
 * `rows`: a row a lane (A and D). `half`: 64 rows of a block by itself, 16 in each warp's first lanes (F). `split`: 64 rows of each block of a pair,
 * the first half of the columns in lanes 0 to 63, the second in lanes 64 to 127 of the same columns (B).
 */
export type TensorForm = "rows" | "half" | "split";

export interface TensorPlace {
  readonly form: TensorForm;
  /** The axis that goes into lanes: 0 rows, 1 columns. `rows` and `columns` below count along it and across. */
  readonly lanes: 0 | 1;
  /** Rows of a block, and of one of its instructions; `stacks` instructions lie side by side, each in columns of its own. */
  readonly rows: number;
  readonly stacks: number;
  /** Columns of the tile, and columns of tensor memory that it takes. */
  readonly columns: number;
  readonly width: number;
}

/** What the place of a tensor tile follows from. Elements have a word each unless `dtype` says that two share one: those of 16 bits, of a first factor (PTX ISA, tcgen05.mma, packed A). */
type TensorTile = Pick<Buffer, "shape" | "halves" | "lanes"> & { readonly dtype?: DType };

/** Whether a copy moves elements between registers and tensor memory, by whole warps. */
export const movesTensor = ({ transport }: { readonly transport: Transport }): boolean =>
  transport === "tcgen05.ld" || transport === "tcgen05.st";

/** Bytes of a column in a lane of tensor memory. */
const WORD = 4;

/** Elements in a column of a lane. */
export const elementsPerColumn = ({ dtype }: { readonly dtype?: DType }): number =>
  dtype === undefined ? 1 : Math.max(1, WORD / sizeOf(dtype));

/** Null where no matrix instruction has such rows. */
export function tensorPlace(tile: TensorTile): TensorPlace | null {
  const lanes = tile.lanes ?? 0;
  const shape = blockShape(tile);
  const [rows, columns] = [shape[lanes], shape[1 - lanes] ?? 0];
  const paired = tile.halves === lanes;
  if (rows === TENSOR_LANES / 2) {
    if (paired && columns % 2 !== 0) return null;
    const width = (paired ? columns / 2 : columns) / elementsPerColumn(tile);
    return { form: paired ? "split" : "half", lanes, rows, stacks: 1, columns, width };
  }
  const stacks = rows / TENSOR_LANES;
  if (!Number.isInteger(stacks) || stacks < 1) return null;
  return { form: "rows", lanes, rows, stacks, columns, width: (columns * stacks) / elementsPerColumn(tile) };
}

/** The layout of a tensor tile: addresses of tensor memory from its first column, counted in elements. Null where `tensorPlace` is, but for tiles of scale factors. */
export function tensorTileLayout(tile: TensorTile): Layout | null {
  if (blockShape(tile)[0] === SCALE_LANES)
    return { shape: blockShape(tile), stride: [LANE_STRIDE, 1], swizzle: null };
  const place = tensorPlace(tile);
  if (place === null) return null;
  const { form, lanes, stacks, columns } = place;
  const across = lanes === 0 ? 1 : 0;
  const lane = LANE_STRIDE * elementsPerColumn(tile);
  const panels = {
    rows: stacks > 1 ? { axis: lanes, extent: TENSOR_LANES, step: columns } : null,
    half: { axis: lanes, extent: WARP_LANES / 2, step: WARP_LANES * lane },
    split: { axis: across, extent: columns / 2, step: (TENSOR_LANES / 2) * lane },
  } as const;
  const cut = panels[form];
  return {
    shape: blockShape(tile),
    stride: lanes === 0 ? [lane, 1] : [1, lane],
    swizzle: null,
    ...(cut === null ? {} : { panels: cut }),
  };
}

export const widthOf = (buffer: Buffer): number => tensorPlace(buffer)?.width ?? blockShape(buffer)[1];

/** Columns of tensor memory from one slot of a tensor tile to the next: all of a slot's, but for those that it shares with the next. */
export function slotColumns({ rings }: Pick<TileProgram, "rings">, buffer: Buffer): number {
  if (buffer.place !== undefined) return buffer.place.every;
  const ring = rings.find(({ buffers }) => buffers.includes(buffer.name));
  return widthOf(buffer) - (ring?.overlapped ?? 0);
}

export interface TensorColumns {
  /** First column of each tensor tile; slot s begins s times `slotColumns` later. */
  readonly first: ReadonlyMap<string, number>;
  /** Columns to allocate: those of all tiles, rounded up to a power of two of at least 32; 0 without tensor tiles. */
  readonly columns: number;
}

/**
 * Columns as the program declares them; before it does, tensor tiles lie side by side in the order of their declarations, a word a column. A pair's tiles take the
 * same columns in both blocks.
 */
export function tensorColumns(program: TileProgram): TensorColumns {
  const first = new Map<string, number>();
  let used = 0;
  for (const buffer of program.buffers) {
    if (buffer.space !== "tensor") continue;
    first.set(buffer.name, buffer.place?.offset ?? used);
    used += slotColumns(program, buffer) * (buffer.slots - 1) + widthOf(buffer);
  }
  if (program.machine !== undefined) return { first, columns: program.machine.memory.tensor };
  if (used === 0) return { first, columns: 0 };
  return { first, columns: Math.max(LEAST_COLUMNS, 2 ** Math.ceil(Math.log2(used))) };
}
