/** XOR swizzles of byte offsets (see `Swizzle`). */
import type { Swizzle } from "./types.ts";

/**
 * Why three numbers are no swizzle, or null when they are one: fields are non-negative integers, bits >= 1, shift >= bits
 * (else source and target bits overlap and the map need not be an involution), and all bits lie in 31-bit offsets.
 */
export function swizzleFault(swizzle: Swizzle): string | null {
  const { bits, base, shift } = swizzle;
  for (const [name, value] of Object.entries({ bits, base, shift }))
    if (!Number.isInteger(value) || value < 0)
      return `swizzle ${name} must be a non-negative integer, not ${value}`;
  if (bits < 1) return "a swizzle of 0 bits does nothing: leave it out";
  if (shift < bits) return `swizzle shift ${shift} must be at least bits ${bits}`;
  if (base + shift + bits > 31) return `swizzle<${bits},${base},${shift}> reaches beyond 31-bit offsets`;
  return null;
}

/** The swizzled byte offset. A bijection, and its own inverse, on offsets below 2^31. */
export function applySwizzle(swizzle: Swizzle | null, byteOffset: number): number {
  if (swizzle === null) return byteOffset;
  const mask = 2 ** swizzle.bits - 1;
  return byteOffset ^ (((byteOffset >>> (swizzle.base + swizzle.shift)) & mask) << swizzle.base);
}

/** Bytes of the aligned block that a swizzle permutes among itself: offsets leave no block of this size. */
export const swizzleSpan = (swizzle: Swizzle | null): number =>
  swizzle === null ? 1 : 2 ** (swizzle.base + swizzle.bits);

/**
 * Bytes after which the pattern repeats: a base address that is a multiple of this does not change it.
 * 1024 for the 128-byte TMA swizzle, 512 and 256 for the narrower ones.
 */
export const swizzlePeriod = (swizzle: Swizzle | null): number =>
  swizzle === null ? 1 : 2 ** (swizzle.base + swizzle.shift + swizzle.bits);

/** The shared-memory swizzles of TMA, wgmma and tcgen05 by their names in tensor maps. The last permutes pieces of 32 bytes, and came with sm_100. */
export const tensorSwizzles = {
  none: null,
  "32B": { bits: 1, base: 4, shift: 3 },
  "64B": { bits: 2, base: 4, shift: 3 },
  "128B": { bits: 3, base: 4, shift: 3 },
  "128B_ATOM_32B": { bits: 2, base: 5, shift: 2 },
} as const satisfies Record<string, Swizzle | null>;

export type TensorSwizzle = keyof typeof tensorSwizzles;

/** The name TMA has for a swizzle, or null where the tensor engines cannot make it. */
export function tensorSwizzleName(swizzle: Swizzle | null): TensorSwizzle | null {
  for (const [name, row] of Object.entries(tensorSwizzles) as [TensorSwizzle, Swizzle | null][])
    if (
      row === swizzle ||
      (row?.bits === swizzle?.bits && row?.base === swizzle?.base && row?.shift === swizzle?.shift)
    )
      return name;
  return null;
}
