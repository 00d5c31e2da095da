/** Where wgmma finds an element, by the layouts of the PTX ISA, apart from how the emulator gathers rows. */
import { swizzledAddress, type WgmmaDescriptor } from "@tilewright/ptx";

/** Rows of 16 bytes that the swizzle's pattern is wide. */
const widths = { none: 16, "32B": 32, "64B": 64, "128B": 128 } as const;

/**
 * Byte in the window of element (row, k) of an operand with elements of `bytes` bytes. The XOR takes bits of the address itself,
 * so that a start inside a pattern (the next K of a tile) keeps the pattern.
 */
export function wgmmaAddress(
  descriptor: WgmmaDescriptor,
  major: "k" | "mn",
  row: number,
  k: number,
  bytes: number,
): number {
  const { swizzle, address, leading, stride } = descriptor;
  const width = widths[swizzle];
  let offset: number;
  if (major === "k") {
    const byte = k * bytes;
    // Eight rows make a pattern; a row is `width` bytes, of which the chunks of 16 are neighbours only with a swizzle.
    offset =
      (row >> 3) * stride +
      (row & 7) * width +
      (swizzle === "none" ? (byte >> 4) * leading + (byte & 15) : byte);
  } else {
    const perPattern = width / bytes;
    const [next, down] = swizzle === "none" ? [stride, leading] : [leading, stride];
    offset =
      (row % perPattern) * bytes + Math.floor(row / perPattern) * next + (k & 7) * width + (k >> 3) * down;
  }
  const linear = address + offset;
  return swizzle === "none" ? linear : swizzledAddress(descriptor, linear);
}
