/** How the elements of each dtype lie in memory, and conversion of whole arrays. */

import { type DType, dtypes, sizeOf } from "../dtype.ts";
import { entryOf } from "../entry.ts";
import { decode, encode, type FloatFormat, type Overflow, type Rounding, roundToFormat } from "./formats.ts";

/** Memory of a matrix: one array entry per element, except for types under 8 bits, which follow each other bit by bit, the first in the lowest bits. */
export type Storage = Float32Array | Float64Array | Uint16Array | Int8Array | Uint8Array | Int32Array;

/** Values to convert. */
export type Values = ArrayLike<number>;

type Store =
  /** The array holds the values themselves, after this rounding. */
  | {
      readonly kind: "native";
      readonly round: (x: number) => number;
      readonly make: (length: number) => Storage;
    }
  /** The array holds codes of a format. */
  | { readonly kind: "code"; readonly format: FloatFormat; readonly make: (length: number) => Storage }
  /** Codes of fewer than 8 bits, without gaps. */
  | { readonly kind: "packed"; readonly format: FloatFormat; readonly bits: 4 | 6 }
  /** Whole numbers from -8 to 7, whose codes are 8 more, without gaps. */
  | { readonly kind: "offset"; readonly bits: 4 };

/** Round to nearest even and clamp, as `cvt.rni.sat` does; NaN becomes 0. */
function roundInteger(x: number, low: number, high: number): number {
  if (Number.isNaN(x)) return 0;
  const down = Math.floor(x);
  const rest = x - down;
  const rounded = rest > 0.5 || (rest === 0.5 && down % 2 !== 0) ? down + 1 : down;
  // Integers have one zero: + 0 turns -0 into it.
  return Math.min(high, Math.max(low, rounded)) + 0;
}

const bytesOf = (length: number) => new Uint8Array(length);
const packed = (format: FloatFormat, bits: 4 | 6): Store => ({ kind: "packed", format, bits });
const halves = (length: number) => new Uint16Array(length);

/** The data part of a block-scaled type is its element format; the scales are a second array (`scaled.ts`). */
const stores: Record<DType, Store> = {
  f32: { kind: "native", round: Math.fround, make: (length) => new Float32Array(length) },
  f64: { kind: "native", round: (x) => x, make: (length) => new Float64Array(length) },
  // tf32 is stored as the full f32: the tensor core drops the low 13 bits when it reads.
  tf32: { kind: "native", round: Math.fround, make: (length) => new Float32Array(length) },
  f16: { kind: "code", format: "f16", make: halves },
  bf16: { kind: "code", format: "bf16", make: halves },
  e4m3: { kind: "code", format: "e4m3", make: bytesOf },
  e5m2: { kind: "code", format: "e5m2", make: bytesOf },
  s8: { kind: "native", round: (x) => roundInteger(x, -128, 127), make: (length) => new Int8Array(length) },
  u8: { kind: "native", round: (x) => roundInteger(x, 0, 255), make: bytesOf },
  s4: { kind: "offset", bits: 4 },
  s32: {
    kind: "native",
    round: (x) => roundInteger(x, -(2 ** 31), 2 ** 31 - 1),
    make: (length) => new Int32Array(length),
  },
  e2m3: packed("e2m3", 6),
  e3m2: packed("e3m2", 6),
  e2m1: packed("e2m1", 4),
  mxf8: { kind: "code", format: "e4m3", make: bytesOf },
  mxf8e5m2: { kind: "code", format: "e5m2", make: bytesOf },
  mxf6e2m3: packed("e2m3", 6),
  mxf6e3m2: packed("e3m2", 6),
  mxf4: packed("e2m1", 4),
  nvf4: packed("e2m1", 4),
};

/** The code of element `index` among codes of `bits` that follow each other: at most two bytes hold it. */
function readPacked(storage: Storage, bits: number, index: number): number {
  const [byte, shift] = [(index * bits) >> 3, (index * bits) & 7];
  return (((storage[byte] ?? 0) | ((storage[byte + 1] ?? 0) << 8)) >> shift) & (2 ** bits - 1);
}

function writePacked(storage: Storage, bits: number, index: number, code: number): void {
  const [byte, shift] = [(index * bits) >> 3, (index * bits) & 7];
  const mask = (2 ** bits - 1) << shift;
  const word = (((storage[byte] ?? 0) | ((storage[byte + 1] ?? 0) << 8)) & ~mask) | (code << shift);
  storage[byte] = word & 0xff;
  if (shift + bits > 8) storage[byte + 1] = word >> 8;
}

const OFFSET = 8;
const roundS4 = (x: number): number => roundInteger(x, -OFFSET, OFFSET - 1);

/** Bytes that `count` elements of `dtype` take, scales not counted. */
export const storageBytes = (dtype: DType, count: number): number =>
  Math.ceil((count * dtypes[dtype].bits) / 8);

/** Zeroed memory for `count` elements of `dtype`. */
export function makeStorage(dtype: DType, count: number): Storage {
  const store = stores[dtype];
  return "make" in store ? store.make(count) : new Uint8Array(storageBytes(dtype, count));
}

/** The `count` elements of `dtype` that start at byte `offset` of `bytes`: a view where alignment allows, else a copy. Little-endian. */
export function storageFromBytes(dtype: DType, bytes: Uint8Array, count: number, offset = 0): Storage {
  const size = storageBytes(dtype, count);
  if (offset < 0 || offset + size > bytes.byteLength)
    throw new RangeError(
      `${count} elements of ${dtype} at byte ${offset} exceed a buffer of ${bytes.byteLength} bytes`,
    );
  const start = bytes.byteOffset + offset;
  const aligned = start % sizeOf(dtype) === 0;
  const buffer = aligned ? bytes.buffer : bytes.slice(offset, offset + size).buffer;
  const at = aligned ? start : 0;
  switch (dtype) {
    case "f32":
    case "tf32":
      return new Float32Array(buffer, at, count);
    case "f64":
      return new Float64Array(buffer, at, count);
    case "f16":
    case "bf16":
      return new Uint16Array(buffer, at, count);
    case "s32":
      return new Int32Array(buffer, at, count);
    case "s8":
      return new Int8Array(buffer, at, count);
    default:
      // Elements of at most a byte.
      return new Uint8Array(buffer, at, size);
  }
}

/** The bytes of a storage, sharing its memory. */
export const bytesOfStorage = (storage: Storage): Uint8Array =>
  new Uint8Array(storage.buffer, storage.byteOffset, storage.byteLength);

/** The value that `x` has once stored as `dtype` (rn; integers clamp). tf32 rounds to its 10 mantissa bits, as a multiplication sees it. */
export function roundTo(
  dtype: DType,
  x: number,
  rounding: Rounding = "rn",
  overflow: Overflow = "ieee",
): number {
  if (dtype === "tf32" || dtype === "f32") return roundToFormat(dtype, x, rounding, overflow);
  const store = stores[dtype];
  if (store.kind === "offset") return roundS4(x);
  return store.kind === "native" ? store.round(x) : roundToFormat(store.format, x, rounding, overflow);
}

/**
 * Values to memory, rounding to nearest even. `ieee` overflow gives infinity or NaN, `saturate` the largest finite value;
 * integers always clamp.
 */
export function encodeArray(dtype: DType, values: Values, overflow: Overflow = "ieee"): Storage {
  const store = stores[dtype];
  const out = makeStorage(dtype, values.length);
  for (let i = 0; i < values.length; i++) {
    const x = values[i] ?? 0;
    switch (store.kind) {
      case "native":
        out[i] = store.round(x);
        break;
      case "code":
        out[i] = encode(store.format, x, "rn", overflow);
        break;
      case "packed":
        writePacked(out, store.bits, i, encode(store.format, x, "rn", overflow));
        break;
      case "offset":
        writePacked(out, store.bits, i, roundS4(x) + OFFSET);
        break;
      default:
        store satisfies never;
    }
  }
  return out;
}

// Decoding 8- and 16-bit codes by table costs a load; the tables are filled on first use (65536 entries at most).
const tables = new Map<FloatFormat, Float64Array>();

const decodeTable = (format: FloatFormat, bits: number): Float64Array =>
  entryOf(tables, format, () => Float64Array.from({ length: 2 ** bits }, (_, code) => decode(format, code)));

/** Memory to values. Scaled types give the unscaled elements. `count` is needed only where elements under 8 bits do not fill the last byte. */
export function decodeArray(dtype: DType, storage: Storage, count?: number): Float64Array {
  const store = stores[dtype];
  if (store.kind === "native") return Float64Array.from(storage);
  const whole = store.kind === "code" ? storage.length : Math.floor((storage.length * 8) / store.bits);
  const out = new Float64Array(count ?? whole);
  if (store.kind === "offset") return out.map((_, i) => readPacked(storage, store.bits, i) - OFFSET);
  const table = decodeTable(store.format, dtypes[dtype].bits);
  for (let i = 0; i < out.length; i++) {
    const code = store.kind === "packed" ? readPacked(storage, store.bits, i) : (storage[i] ?? 0);
    out[i] = table[code] ?? 0;
  }
  return out;
}

/** Element `index` of a storage as a value; scaled types unscaled. */
export function readElement(dtype: DType, storage: Storage, index: number): number {
  const store = stores[dtype];
  switch (store.kind) {
    case "native":
      return storage[index] ?? 0;
    case "code":
      return decode(store.format, storage[index] ?? 0);
    case "packed":
      return decode(store.format, readPacked(storage, store.bits, index));
    case "offset":
      return readPacked(storage, store.bits, index) - OFFSET;
  }
}

/** Store `x` as element `index`, rounded to nearest even. */
export function writeElement(
  dtype: DType,
  storage: Storage,
  index: number,
  x: number,
  overflow: Overflow = "ieee",
): void {
  const store = stores[dtype];
  switch (store.kind) {
    case "native":
      storage[index] = store.round(x);
      break;
    case "code":
      storage[index] = encode(store.format, x, "rn", overflow);
      break;
    case "packed":
      writePacked(storage, store.bits, index, encode(store.format, x, "rn", overflow));
      break;
    case "offset":
      writePacked(storage, store.bits, index, roundS4(x) + OFFSET);
      break;
    default:
      store satisfies never;
  }
}
