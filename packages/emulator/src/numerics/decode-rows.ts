/** Elements of tensor operands as they lie in shared or tensor memory, decoded to numbers. */
import { decodeUe8m0, entryOf } from "@tilewright/core";
import { decodeFloat, fromF16 } from "./floats.ts";
import { tf32Mask } from "./operands.ts";
import type { TensorKind } from "./tensorcore.ts";

/**
 * How elements below 8 bits lie in memory: `dense` one behind the other, `padded` sixteen of them in every 16 bytes, from the
 * first byte on, the rest unused (what kind f8f6f4 reads).
 */
export type Packing = "dense" | "padded";

const elementBits = {
  f16: 16,
  bf16: 16,
  tf32: 32,
  e4m3: 8,
  e5m2: 8,
  e2m3: 6,
  e3m2: 6,
  e2m1: 4,
  ue8m0: 8,
  ue4m3: 8,
} as const satisfies Record<TensorKind | "ue8m0" | "ue4m3", number>;

/** Formats of operands and of scale factors (ue8m0, ue4m3). */
export type RowFormat = keyof typeof elementBits;

/** Bits of an element, without padding. */
export const bitsOfKind = (format: RowFormat): number => elementBits[format];

const scratch = new Float32Array(1);
const scratchBits = new Int32Array(scratch.buffer);
const byteTables = new Map<RowFormat, Float32Array>();

/** Values by code of a format of at most 8 bits. */
const byteTable = (format: Exclude<RowFormat, "f16" | "bf16" | "tf32">): Float32Array =>
  entryOf(byteTables, format, () =>
    Float32Array.from({ length: 2 ** elementBits[format] }, (_, code) =>
      format === "ue8m0"
        ? decodeUe8m0(code)
        : format === "ue4m3"
          ? decodeFloat("e4m3", code & 0x7f)
          : decodeFloat(format, code),
    ),
  );

let halves: Float32Array | undefined;
/** Values of all f16 by code. */
function halfTable(): Float32Array {
  halves ??= Float32Array.from({ length: 65536 }, (_, code) => fromF16(code));
  return halves;
}

/** Codes of 16 bits from byte `from` on, which may be odd. */
const codesOf = (bytes: Uint8Array, from: number, count: number): Uint16Array => {
  const start = bytes.byteOffset + from;
  return (start & 1) === 0
    ? new Uint16Array(bytes.buffer, start, count)
    : new Uint16Array(bytes.slice(from, from + 2 * count).buffer);
};

/**
 * Decode `count` elements that begin at byte `from` into `to`, from index `at` on. Every code is exact in an f32; a tf32 is what
 * the tensor core sees of it, without its low 13 bits.
 */
export function decodeRow(
  format: RowFormat,
  bytes: Uint8Array,
  from: number,
  count: number,
  to: Float32Array,
  at: number,
  packing: Packing = "dense",
): void {
  switch (format) {
    case "f16": {
      const codes = codesOf(bytes, from, count);
      const table = halfTable();
      for (let i = 0; i < count; i++) to[at + i] = table[codes[i] as number] as number;
      return;
    }
    case "bf16": {
      const codes = codesOf(bytes, from, count);
      const bits = new Int32Array(to.buffer, to.byteOffset, to.length);
      for (let i = 0; i < count; i++) bits[at + i] = (codes[i] as number) << 16;
      return;
    }
    case "tf32":
      for (let i = 0; i < count; i++) {
        const b = from + 4 * i;
        scratchBits[0] =
          (((bytes[b] as number) | ((bytes[b + 1] as number) << 8)) & tf32Mask) |
          ((bytes[b + 2] as number) << 16) |
          ((bytes[b + 3] as number) << 24);
        to[at + i] = scratch[0] as number;
      }
      return;
    case "e4m3":
    case "e5m2":
    case "ue8m0":
    case "ue4m3": {
      const table = byteTable(format);
      for (let i = 0; i < count; i++) to[at + i] = table[bytes[from + i] as number] as number;
      return;
    }
    case "e2m3":
    case "e3m2":
    case "e2m1": {
      const table = byteTable(format);
      const bits = elementBits[format];
      const mask = 2 ** bits - 1;
      for (let i = 0; i < count; i++) {
        const bit = packing === "dense" ? i * bits : (i >> 4) * 128 + (i & 15) * bits;
        const byte = from + (bit >> 3);
        // A code of six bits may reach into the next byte.
        const pair = (bytes[byte] as number) | ((bytes[byte + 1] ?? 0) << 8);
        to[at + i] = table[(pair >> (bit & 7)) & mask] as number;
      }
      return;
    }
    default:
      format satisfies never;
  }
}
