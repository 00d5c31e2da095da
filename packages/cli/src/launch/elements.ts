/** Element types of launch files: the dtypes of kernels, and the integers that any other code computes with. */
import {
  bytesOfStorage,
  type DType,
  decodeArray,
  dtypeNames,
  dtypes,
  encodeArray,
  isDType,
  storageBytes,
  storageFromBytes,
} from "@tilewright/core";
import { encodeNpy, encodeNpyIntegers } from "../files/npy.ts";

/** Integers that are no dtype of a matrix product. */
const integers = {
  s16: { bits: 16, signed: true, npy: "i2" },
  u16: { bits: 16, signed: false, npy: "u2" },
  u32: { bits: 32, signed: false, npy: "u4" },
  s64: { bits: 64, signed: true, npy: "i8" },
  u64: { bits: 64, signed: false, npy: "u8" },
} as const;

type IntegerName = keyof typeof integers;
export type ElementType = DType | IntegerName;

const isInteger = (type: ElementType): type is IntegerName => Object.hasOwn(integers, type);

export const elementTypes: readonly ElementType[] = [
  ...dtypeNames,
  ...(Object.keys(integers) as IntegerName[]),
];

export const isElementType = (text: string): text is ElementType =>
  isDType(text) || Object.hasOwn(integers, text);

/** Bits of one element. */
export const bitsOfElement = (type: ElementType): number =>
  isInteger(type) ? integers[type].bits : dtypes[type].bits;

/** Bytes that `count` elements take. */
export const elementBytes = (type: ElementType, count: number): number =>
  isInteger(type) ? (integers[type].bits / 8) * count : storageBytes(type, count);

/** Whether values are integers, which a fraction or an infinity cannot be. */
export const isIntegral = (type: ElementType): boolean => isInteger(type) || dtypes[type].kind === "int";

/** Smallest and largest value of an integer type. */
export function integerRange(type: ElementType): readonly [bigint, bigint] {
  const bits = BigInt(bitsOfElement(type));
  const signed = type.startsWith("s");
  return signed ? [-(1n << (bits - 1n)), (1n << (bits - 1n)) - 1n] : [0n, (1n << bits) - 1n];
}

/** Little-endian bytes of values: floats round to nearest; integers keep their low bits. */
export function encodeElements(type: ElementType, values: readonly (number | bigint)[]): Uint8Array {
  if (!isInteger(type)) return bytesOfStorage(encodeArray(type, values.map(Number)));
  const width = integers[type].bits / 8;
  const bytes = new Uint8Array(width * values.length);
  const view = new DataView(bytes.buffer);
  values.forEach((value, k) => {
    const word = BigInt.asUintN(64, BigInt(value));
    if (width === 8) view.setBigUint64(8 * k, word, true);
    else if (width === 4) view.setUint32(4 * k, Number(word & 0xffffffffn), true);
    else view.setUint16(2 * k, Number(word & 0xffffn), true);
  });
  return bytes;
}

/** `count` elements as numbers; 64-bit integers as bigint. */
export function decodeElements(
  type: ElementType,
  bytes: Uint8Array,
  count: number,
): ArrayLike<number | bigint> {
  if (!isInteger(type)) return decodeArray(type, storageFromBytes(type, bytes, count), count);
  // A copy, because views of wide elements want an aligned start.
  const { buffer } = bytes.slice(0, elementBytes(type, count));
  switch (type) {
    case "s16":
      return new Int16Array(buffer);
    case "u16":
      return new Uint16Array(buffer);
    case "u32":
      return new Uint32Array(buffer);
    case "s64":
      return new BigInt64Array(buffer);
    case "u64":
      return new BigUint64Array(buffer);
  }
}

/** A .npy file of `bytes`. */
export const npyOf = (type: ElementType, shape: readonly number[], bytes: Uint8Array): Uint8Array =>
  isInteger(type)
    ? encodeNpyIntegers(shape, integers[type].npy, bytes)
    : encodeNpy(
        shape,
        type,
        storageFromBytes(
          type,
          bytes,
          shape.reduce((product, extent) => product * extent, 1),
        ),
      );

const byCode: Readonly<Record<string, ElementType>> = {
  f2: "f16",
  f4: "f32",
  f8: "f64",
  i1: "s8",
  u1: "u8",
  i2: "s16",
  u2: "u16",
  i4: "s32",
  u4: "u32",
  i8: "s64",
  u8: "u64",
};

/** The element type of a .npy file's dtype code (`f4`), null where there is none. */
export const elementOfNpy = (code: string): ElementType | null => byCode[code] ?? null;

/** Whether a type is one of the dtypes that random numbers come in. */
export const isRandomType = (type: ElementType): type is DType => isDType(type);
