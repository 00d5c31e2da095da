/** Bytes of elements under 8 bits, which depend on where they lie. */
import { packedSize, sizeOf } from "@tilewright/core";
import type { Buffer } from "./types.ts";

/**
 * Bytes from an element of a buffer to its neighbour along the contiguous axis; a fraction where several share a byte: in global memory, and in
 * shared tiles that are `packed`. Elsewhere an element under 8 bits takes a byte: of 16 in a row the first 8 or 12 bytes hold the bits of all
 * (PTX ISA 9.0, 5.5.1.1), which only whole groups of 16 can tell from an element a byte.
 */
export const elementBytes = ({ space, dtype, packed }: Pick<Buffer, "space" | "dtype" | "packed">): number =>
  space === "global" || packed === true ? packedSize(dtype) : sizeOf(dtype);
