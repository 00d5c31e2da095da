/** Matrix descriptors of operand tiles, from the layout of the tile. */

import type { Context } from "@tilewright/codegen";
import { sizeOf } from "@tilewright/core";
import {
  type Buffer,
  bufferOf,
  type Layout,
  linearOffset,
  must,
  PATTERN_ROWS,
  type TensorSwizzle,
  tensorSwizzleName,
} from "@tilewright/ir";
import { encodeWgmmaDescriptor } from "@tilewright/ptx";

/** Bytes of a core matrix's row: what the leading offset steps over without a swizzle. */
const CORE_BYTES = 16;

export interface OperandTile {
  readonly buffer: Buffer;
  /** Whether the tile is contiguous along m or n rather than along k: the instruction's transpose flag. */
  readonly transposed: boolean;
  /** The descriptor's words without the address. */
  readonly low: number;
  readonly high: number;
  /** Bytes from the tile's start to its element (row, column). */
  offsetOf(row: number, col: number): number;
}

/** Of the swizzles of tensor maps those that descriptors have. */
function swizzleOf({ swizzle }: Layout): Exclude<TensorSwizzle, "128B_ATOM_32B"> {
  const name = must(tensorSwizzleName(swizzle), "tiles have swizzles of descriptors (instructions)");
  return must(name === "128B_ATOM_32B" ? null : name, "wgmma permutes no pieces of 32 bytes (instructions)");
}

/**
 * `kAxis`: the axis of the tile along which k runs (columns of A, rows of B). K-major: rows of a panel are neighbours, eight of them a pattern, and
 * panels (without a swizzle chunks of 16 bytes) follow each other along k. MN-major: a panel's rows run along k, and panels follow each other along m or n.
 */
export function operandTile(ctx: Context, name: string, kAxis: 0 | 1): OperandTile {
  const buffer = bufferOf(ctx.program, name);
  const layout = must(buffer.layout, "shared tiles have layouts (complete)");
  const size = sizeOf(buffer.dtype);
  const swizzle = swizzleOf(layout);
  const contiguous = layout.stride[0] === 1 && layout.panels?.axis !== 1 ? 0 : 1;
  const panel = (layout.panels?.extent ?? buffer.shape[contiguous]) * size;
  const transposed = contiguous !== kAxis;
  const next = (layout.panels?.step ?? 0) * size;
  const pattern = PATTERN_ROWS * panel;
  // Without a swizzle the two offsets change places for transposed operands (PTX ISA, matrix descriptor).
  const [leading, stride] = transposed && swizzle === "none" ? [pattern, next] : [next, pattern];
  const word = encodeWgmmaDescriptor({
    address: 0,
    leading: leading || CORE_BYTES,
    stride,
    baseOffset: 0,
    swizzle,
  });
  return {
    buffer,
    transposed,
    low: Number(word & 0xffffffffn),
    high: Number(word >> 32n),
    offsetOf: (row, col) => linearOffset(layout, [row, col]) * size,
  };
}
