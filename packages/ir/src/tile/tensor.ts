/** Tensor memory as a resource: which columns of a block each tensor tile takes, and how many are allocated. */
import { blockShape } from "./rewrite.ts";
import type { TileProgram } from "./types.ts";

/** Lanes of tensor memory: rows of a tile (PTX ISA, tensor memory). */
export const TENSOR_LANES = 128;
/** Columns of tensor memory in an SM. */
export const MOST_COLUMNS = 512;
/** Allocations are powers of two from here on (PTX ISA, tcgen05.alloc). */
const LEAST_COLUMNS = 32;

/** Distance of neighbouring lanes in an address of tensor memory, whose low half is the column: the row stride of a tensor tile's layout. */
export const LANE_STRIDE = 2 ** 16;

export interface TensorColumns {
  /** First column of each tensor tile; slot s begins s times the tile's columns later. */
  readonly first: ReadonlyMap<string, number>;
  /** Columns to allocate: those of all tiles, rounded up to a power of two of at least 32; 0 without tensor tiles. */
  readonly columns: number;
}

/** Tensor tiles lie side by side in the order of their declarations, a word a column. A pair's tiles take the same columns in both blocks. */
export function tensorColumns(program: TileProgram): TensorColumns {
  const first = new Map<string, number>();
  let used = 0;
  for (const buffer of program.buffers) {
    if (buffer.space !== "tensor") continue;
    first.set(buffer.name, used);
    used += blockShape(buffer)[1] * buffer.slots;
  }
  if (used === 0) return { first, columns: 0 };
  return { first, columns: Math.max(LEAST_COLUMNS, 2 ** Math.ceil(Math.log2(used))) };
}
