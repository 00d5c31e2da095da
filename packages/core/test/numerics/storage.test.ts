import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import { type DType, dtypeNames, dtypes } from "../../src/dtype.ts";
import { gemmBound, roundingBound } from "../../src/numerics/bounds.ts";
import { encode } from "../../src/numerics/formats.ts";
import {
  decodeScaled,
  encodeScaled,
  isScaled,
  type ScaledDType,
  scaledTypes,
} from "../../src/numerics/scaled.ts";
import {
  bytesOfStorage,
  decodeArray,
  encodeArray,
  makeStorage,
  readElement,
  roundTo,
  storageBytes,
  storageFromBytes,
  writeElement,
} from "../../src/numerics/storage.ts";

const values = [0, 1, -1, 0.3, 2.5, -3.5, 100.25, 6, -0.0625];

describe.each(dtypeNames.map((dtype) => ({ dtype })))("$dtype", ({ dtype }) => {
  test("array, element and scalar conversion agree", () => {
    const storage = encodeArray(dtype, values);
    const decoded = decodeArray(dtype, storage, values.length);
    const second = makeStorage(dtype, values.length);
    values.forEach((x, i) => {
      writeElement(dtype, second, i, 999);
      writeElement(dtype, second, i, x);
      // A tf32 in memory is a whole f32; only its use rounds.
      const stored = dtype === "tf32" ? Math.fround(x) : roundTo(dtype, x);
      expect(decoded[i]).toBe(stored + 0 === 0 ? decoded[i] : stored);
      expect(Math.abs((decoded[i] ?? 0) - stored)).toBe(0);
      expect(readElement(dtype, storage, i)).toBe(decoded[i]);
    });
    expect([...bytesOfStorage(second)]).toEqual([...bytesOfStorage(storage)]);
    expect(storage.byteLength).toBe(storageBytes(dtype, values.length));
  });

  test("bytes carry the same elements, at any offset", () => {
    const storage = encodeArray(dtype, values);
    for (const offset of [0, 1, 8]) {
      const bytes = new Uint8Array(offset + storage.byteLength);
      bytes.set(bytesOfStorage(storage), offset);
      const back = storageFromBytes(dtype, bytes, values.length, offset);
      expect(decodeArray(dtype, back, values.length)).toEqual(decodeArray(dtype, storage, values.length));
    }
    expect(() => storageFromBytes(dtype, new Uint8Array(1), 100)).toThrow("exceed a buffer of 1 bytes");
  });
});

test("integers round to nearest even and clamp", () => {
  expect([0.5, 1.5, -0.5, -1.5, 127.6, -400].map((x) => roundTo("s8", x))).toEqual([0, 2, 0, -2, 127, -128]);
  expect([300, -4, Number.NaN].map((x) => roundTo("u8", x))).toEqual([255, 0, 0]);
  expect(roundTo("s32", 1e12)).toBe(2 ** 31 - 1);
});

test("tf32 rounds on use, not in memory", () => {
  expect(roundTo("tf32", 1 + 2 ** -12)).toBe(1);
  expect(encodeArray("tf32", [1 + 2 ** -12])[0]).toBe(1 + 2 ** -12);
});

test("4-bit elements: the even one in the low nibble", () => {
  expect([...encodeArray("mxf4", [1, 6, -0.5])]).toEqual([0x72, 0x09]);
});

test("6-bit elements follow each other from the lowest bits on", () => {
  // Codes 0x08, 0x28, 0x1f and 0 from bit 0, 6, 12 and 18 on.
  expect([...encodeArray("e2m3", [1, -1, 7.5, 0])]).toEqual([0x08, 0xfa, 0x01]);
});

test("the f64 path has no double rounding through f32", () => {
  // 1 + 2^-11 + 2^-40 is above the tie of f16; rounded to f32 first it would be the tie and fall to 1.
  expect(encode("f16", 1 + 2 ** -11 + 2 ** -40)).toBe(0x3c01);
});

const scaledNames = dtypeNames.filter(isScaled);
describe.each(scaledNames.map((dtype: ScaledDType) => ({ dtype })))("scaled $dtype", ({ dtype }) => {
  property.prop([
    fc.array(fc.float({ min: -1000, max: 1000, noNaN: true }), { minLength: 1, maxLength: 100 }),
  ])("each element is within its block's step", (input) => {
    const decoded = decodeScaled(dtype, encodeScaled(dtype, input), input.length);
    const { block } = scaledTypes[dtype];
    for (let from = 0; from < input.length; from += block) {
      const part = input.slice(from, from + block);
      const amax = Math.max(...part.map(Math.abs));
      // The coarsest step of the element format at the block's scale; mx scales floor, so up to one binade may saturate.
      const bound = Math.max(
        roundingBound(dtype, amax),
        amax * (scaledTypes[dtype].element === "e4m3" ? 0.13 : 0.26),
        2 ** -7,
      );
      part.forEach((x, i) => {
        expect(Math.abs((decoded[from + i] ?? 0) - x)).toBeLessThanOrEqual(bound);
      });
    }
  });
});

test("a block whose values fit the element format is exact under each scaled type", () => {
  for (const dtype of scaledNames) {
    const input = Array.from({ length: 70 }, (_, i) => (i % 3 === 0 ? -6 : 2 ** (i % 3)));
    expect([...decodeScaled(dtype, encodeScaled(dtype, input), 70)]).toEqual(input);
  }
});

test("bounds", () => {
  expect(gemmBound(16, 2 ** 23)).toBe(9);
  const floats: readonly DType[] = ["f32", "f16", "bf16", "e4m3", "e5m2"];
  for (const dtype of floats) {
    for (const x of [1, 2.75, 1e-3, 200, 1e-9, 2 ** -30]) {
      expect(Math.abs(roundTo(dtype, x) - x)).toBeLessThanOrEqual(roundingBound(dtype, x));
      // Not vacuous: within a factor 16 (a decade of mantissas) of the error that a tie makes.
      if (x === 1)
        expect(roundingBound(dtype, x)).toBeLessThanOrEqual(2 ** -(dtypes[dtype].bits === 8 ? 3 : 8));
    }
  }
  expect(roundingBound("f16", 1e6)).toBe(Number.POSITIVE_INFINITY);
});
