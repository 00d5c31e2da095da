/**
 * The 64-bit descriptor of an operand of tcgen05.mma or tcgen05.cp in shared memory, and where its elements lie. PTX ISA 9.0,
 * chapters 9.7.16.3 (canonical layouts) and 9.7.16.4.1.
 */
import { field, readField, reservedBits, writeFields } from "./bit-fields.ts";
import type { Major } from "./tcgen05-instruction.ts";

/** Codes of the swizzle field. `128B/32B` permutes pieces of 32 bytes, the others pieces of 16. */
export const sharedSwizzleCodes = { none: 0, "128B/32B": 1, "128B": 2, "64B": 4, "32B": 6 } as const;
export type SharedSwizzle = keyof typeof sharedSwizzleCodes;

/** `bytes` of a row that belong together, rows in the pattern, and the XOR: bits `mask << to` get those `shift` above them. */
const patterns = {
  none: { row: 16, mask: 0, shift: 3 },
  "32B": { row: 32, mask: 0x10, shift: 3 },
  "64B": { row: 64, mask: 0x30, shift: 3 },
  "128B": { row: 128, mask: 0x70, shift: 3 },
  "128B/32B": { row: 128, mask: 0x60, shift: 2 },
} as const satisfies Record<SharedSwizzle, { row: number; mask: number; shift: number }>;

export interface SharedDescriptor {
  /** Byte in the block's window, a multiple of 16. */
  readonly address: number;
  /** Leading and stride dimension byte offsets, multiples of 16; see `pieceOffsets` for what they mean. */
  readonly leading: number;
  readonly stride: number;
  /** Rows of 128 bytes by which the start of the swizzle pattern is off its natural alignment. */
  readonly baseOffset: number;
  readonly swizzle: SharedSwizzle;
}

const fields = {
  address: field(0, 14),
  leading: field(16, 14),
  stride: field(32, 14),
  /** 0b001; 0 is the descriptor of wgmma. */
  version: field(46, 3),
  baseOffset: field(49, 3),
  absolute: field(52, 1),
  swizzle: field(61, 3),
};
const version = 1;
/** What 14 bits of 16-byte units reach. */
const reach = 1 << 18;

export function encodeSharedDescriptor(descriptor: SharedDescriptor): bigint {
  const { address, leading, stride, baseOffset, swizzle } = descriptor;
  return writeFields(fields, {
    address: (address % reach) / 16,
    leading: leading / 16,
    stride: stride / 16,
    version,
    baseOffset,
    swizzle: sharedSwizzleCodes[swizzle],
  });
}

/** Read a descriptor, naming everything that is wrong with it; null when its swizzle does not exist. */
export function decodeSharedDescriptor(word: bigint): {
  readonly descriptor: SharedDescriptor | null;
  readonly faults: readonly string[];
} {
  const faults = [...reservedBits(word, fields, 64)];
  const found = readField(word, fields.version);
  if (found !== version)
    faults.push(
      `bits 46 to 48 are 0b${found.toString(2).padStart(3, "0")} and have to be 0b001${found === 0 ? " (this is a descriptor of wgmma)" : ""}`,
    );
  if (readField(word, fields.absolute) !== 0)
    faults.push("bit 52 asks for an absolute leading address, which only sm_103a has");
  const code = readField(word, fields.swizzle);
  const swizzle = swizzleNames.get(code);
  if (swizzle === undefined) {
    faults.push(`bits 61 to 63 are ${code}, which is no swizzle`);
    return { descriptor: null, faults };
  }
  const baseOffset = readField(word, fields.baseOffset);
  return {
    descriptor: {
      address: readField(word, fields.address) * 16,
      leading: readField(word, fields.leading) * 16,
      stride: readField(word, fields.stride) * 16,
      baseOffset,
      swizzle,
    },
    faults,
  };
}

const swizzleNames = new Map<number, SharedSwizzle>();
for (const name of ["none", "128B/32B", "128B", "64B", "32B"] as const)
  swizzleNames.set(sharedSwizzleCodes[name], name);

/** Why an operand of `bits` per element cannot lie like that; null when it can (table 54; K-major as CuTe has it). */
export function swizzleFault(swizzle: SharedSwizzle, major: Major, bits: number): string | null {
  if (major === "k")
    return swizzle === "128B/32B" ? "swizzle 128B with 32-byte atoms is for M or N contiguous only" : null;
  if (bits === 32)
    return swizzle === "128B/32B"
      ? null
      : "32-bit elements with M or N contiguous need swizzle 128B with 32-byte atoms";
  return swizzle === "128B/32B" ? "swizzle 128B with 32-byte atoms is for 32-bit elements only" : null;
}

/** The swizzled address: applied to the byte in the window, so that a start inside a pattern keeps the pattern. */
export function swizzledAddress(
  { swizzle, baseOffset }: Pick<SharedDescriptor, "swizzle" | "baseOffset">,
  linear: number,
): number {
  const { mask, shift } = patterns[swizzle];
  return linear ^ (((linear - (baseOffset << 7)) >> shift) & mask);
}

/**
 * Bytes from the descriptor's address, before the swizzle, to each 16-byte piece of an operand.
 *
 * K contiguous: piece `row * (kBytes / 16) + j` holds bytes 16 j and up of a row. Eight rows lie together, one every row of the
 * pattern (16 bytes without swizzle); the next eight follow `stride` later. Without swizzle the pieces of a row are `leading`
 * apart, with it they are neighbours.
 *
 * M or N contiguous: piece `k * (rows / T) + c` holds T = 16 bytes of elements from row c T on, at one k. A pattern is as many
 * pieces wide as its row, and 8 k high (4 for 32-byte atoms). With a swizzle the next pieces follow `leading` later, the next k
 * `stride` later; without, the other way round.
 */
export function pieceOffsets(
  { swizzle, leading, stride }: Pick<SharedDescriptor, "swizzle" | "leading" | "stride">,
  major: Major,
  rows: number,
  k: number,
  bits: number,
): Int32Array {
  const { row } = patterns[swizzle];
  if (major === "k") {
    const across = (k * bits) / 128;
    const apart = swizzle === "none" ? leading : 16;
    return Int32Array.from(
      { length: rows * across },
      (_, i) =>
        (Math.floor(i / across) >> 3) * stride + (Math.floor(i / across) & 7) * row + (i % across) * apart,
    );
  }
  const across = (rows * bits) / 128;
  const wide = row / 16;
  const high = swizzle === "128B/32B" ? 4 : 8;
  const [nextPieces, nextK] = swizzle === "none" ? [stride, leading] : [leading, stride];
  return Int32Array.from({ length: k * across }, (_, i) => {
    const [at, c] = [Math.floor(i / across), i % across];
    return (
      (c % wide) * 16 + Math.floor(c / wide) * nextPieces + (at % high) * row + Math.floor(at / high) * nextK
    );
  });
}
