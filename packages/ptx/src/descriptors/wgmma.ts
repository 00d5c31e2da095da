/**
 * The 64-bit matrix descriptor of wgmma: where an operand lies in shared memory. PTX ISA 9.0, chapter 9.7.15.5.1; the layouts
 * are tcgen05's, under other swizzle codes. Lengths and addresses are in bytes.
 */
import type { SharedDescriptor, SharedSwizzle } from "./tcgen05-shared.ts";

/** Bits of each field; addresses and offsets are in units of 16 bytes. */
const layout = {
  address: { low: 0, bits: 14 },
  leading: { low: 16, bits: 14 },
  stride: { low: 32, bits: 14 },
  baseOffset: { low: 49, bits: 3 },
  swizzle: { low: 62, bits: 2 },
} as const;

/** By the code of the swizzle field. */
export const wgmmaSwizzles = ["none", "128B", "64B", "32B"] as const satisfies readonly SharedSwizzle[];
export type WgmmaSwizzle = (typeof wgmmaSwizzles)[number];

export interface WgmmaDescriptor extends SharedDescriptor {
  readonly swizzle: WgmmaSwizzle;
}

/** Bits [at, at + bits) of a 64-bit word given as two halves; fields do not cross the halves. */
const bitsAt = (low: number, high: number, { low: at, bits }: { low: number; bits: number }): number =>
  ((at < 32 ? low >>> at : high >>> (at - 32)) & ((1 << bits) - 1)) >>> 0;

const allBits = Object.values(layout);
const maskOf = (from: number): number =>
  allBits.reduce(
    (mask, { low, bits }) =>
      low >= from && low < from + 32 ? mask | (((1 << bits) - 1) << (low - from)) : mask,
    0,
  );
const [knownLow, knownHigh] = [maskOf(0), maskOf(32)];

/** Read a descriptor from its two words. `reserved` says whether bits are set that have no meaning. */
export function decodeWgmmaDescriptor(
  low: number,
  high: number,
): { readonly descriptor: WgmmaDescriptor; readonly reserved: boolean } {
  const descriptor: WgmmaDescriptor = {
    address: bitsAt(low, high, layout.address) * 16,
    leading: bitsAt(low, high, layout.leading) * 16,
    stride: bitsAt(low, high, layout.stride) * 16,
    baseOffset: bitsAt(low, high, layout.baseOffset),
    swizzle: wgmmaSwizzles[bitsAt(low, high, layout.swizzle)] ?? "none",
  };
  return { descriptor, reserved: (low & ~knownLow) !== 0 || (high & ~knownHigh) !== 0 };
}

/** The descriptor's word. Offsets are multiples of 16 bytes below 2^18; of the address the lower 18 bits count. */
export function encodeWgmmaDescriptor(descriptor: WgmmaDescriptor): bigint {
  const values = {
    address: (descriptor.address & 0x3ffff) >> 4,
    leading: descriptor.leading >> 4,
    stride: descriptor.stride >> 4,
    baseOffset: descriptor.baseOffset,
    swizzle: wgmmaSwizzles.indexOf(descriptor.swizzle),
  };
  let word = 0n;
  for (const name of ["address", "leading", "stride", "baseOffset", "swizzle"] as const)
    word |= BigInt(values[name]) << BigInt(layout[name].low);
  return word;
}
