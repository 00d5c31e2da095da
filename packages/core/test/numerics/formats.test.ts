import { fc, test as property } from "@fast-check/vitest";
import { describe, expect, test } from "vitest";
import {
  decode,
  decodeUe8m0,
  encode,
  encodeUe8m0,
  epsilonOf,
  type FloatFormat,
  formats,
  maxFinite,
  type Rounding,
  roundToFormat,
} from "../../src/numerics/formats.ts";

const small: readonly { readonly format: FloatFormat; readonly bits: number }[] = [
  { format: "f16", bits: 16 },
  { format: "bf16", bits: 16 },
  { format: "e4m3", bits: 8 },
  { format: "e5m2", bits: 8 },
  { format: "e3m2", bits: 6 },
  { format: "e2m3", bits: 6 },
  { format: "e2m1", bits: 4 },
];

describe.each(small)("$format, every code", ({ format, bits }) => {
  test("encode(decode(code)) is the code, in every rounding mode", () => {
    let checked = 0;
    for (let code = 0; code < 2 ** bits; code++) {
      const value = decode(format, code);
      if (Number.isNaN(value)) continue;
      checked++;
      for (const rounding of ["rn", "rna", "rz", "rm", "rp"] as const) {
        if (encode(format, value, rounding) !== code)
          expect.fail(`${format} ${code} = ${value} under ${rounding}`);
      }
    }
    // All codes but the NaNs: both signs of every mantissa but 0 with all exponent bits set, or just S.1111.111 in e4m3.
    const nans = { f16: 2 * 1023, bf16: 2 * 127, e4m3: 2, e5m2: 6 } as Partial<Record<FloatFormat, number>>;
    expect(checked).toBe(2 ** bits - (nans[format] ?? 0));
  });

  test("between neighbours each mode picks the right side", () => {
    const values: number[] = [];
    for (let code = 0; code <= formats[format].maxCode; code++) values.push(decode(format, code));
    for (let i = 0; i + 1 < values.length; i++) {
      const low = values[i] ?? 0;
      const high = values[i + 1] ?? 0;
      expect(high).toBeGreaterThan(low);
      const middle = (low + high) / 2;
      const even = i % 2 === 0 ? low : high;
      const near = low + (high - low) * 0.49;
      const far = low + (high - low) * 0.51;
      const cases: readonly (readonly [number, Rounding, number])[] = [
        [middle, "rn", even],
        [middle, "rna", high],
        [near, "rn", low],
        [far, "rn", high],
        [far, "rz", low],
        [-far, "rz", -low],
        [near, "rp", high],
        [-near, "rp", -low],
        [far, "rm", low],
        [-near, "rm", -high],
      ];
      for (const [x, rounding, wanted] of cases) {
        const got = roundToFormat(format, x, rounding);
        if (!Object.is(got, wanted)) expect.fail(`${format} ${rounding}(${x}) = ${got}, not ${wanted}`);
      }
    }
  });
});

test("known codes", () => {
  expect(encode("f16", 1)).toBe(0x3c00);
  expect(encode("f16", -2)).toBe(0xc000);
  expect(decode("f16", 0x0001)).toBe(2 ** -24);
  expect(maxFinite("f16")).toBe(65504);
  expect(encode("bf16", 1)).toBe(0x3f80);
  expect(encode("tf32", 1)).toBe(0x3f800000);
  expect(encode("tf32", 1 + 2 ** -11, "rna")).toBe(0x3f802000);
  expect(encode("tf32", 1 + 2 ** -11, "rn")).toBe(0x3f800000);
  expect(maxFinite("e4m3")).toBe(448);
  expect(maxFinite("e5m2")).toBe(57344);
  expect(maxFinite("e2m1")).toBe(6);
  expect(maxFinite("e2m3")).toBe(7.5);
  expect(maxFinite("e3m2")).toBe(28);
  expect(maxFinite("f32")).toBe(3.4028234663852886e38);
  expect([0, 1, 2, 3, 4, 5, 6, 7].map((code) => decode("e2m1", code))).toEqual([0, 0.5, 1, 1.5, 2, 3, 4, 6]);
  expect(epsilonOf("bf16")).toBe(2 ** -7);
});

test("overflow: infinity, NaN or the largest value, as format and mode say", () => {
  expect(encode("f16", 65519.99)).toBe(0x7bff);
  expect(encode("f16", 65520)).toBe(0x7c00);
  expect(encode("f16", 1e9, "rz")).toBe(0x7bff);
  expect(encode("f16", -1e9, "rp")).toBe(0xfbff);
  expect(encode("f16", -1e9, "rm")).toBe(0xfc00);
  expect(encode("f16", Number.POSITIVE_INFINITY, "rn", "saturate")).toBe(0x7bff);
  expect(encode("e4m3", 464)).toBe(0x7e);
  expect(encode("e4m3", 464.01)).toBe(0x7f);
  expect(encode("e4m3", 1e9, "rn", "saturate")).toBe(0x7e);
  expect(encode("e4m3", -1e9, "rn", "saturate")).toBe(0xfe);
  expect(encode("e5m2", 61440)).toBe(0x7c);
  expect(encode("e2m1", -100)).toBe(0xf);
});

test("NaN: canonical codes, kept under saturation; formats without it give the largest value", () => {
  expect(encode("f16", Number.NaN, "rn", "saturate")).toBe(0x7fff);
  expect(encode("f32", Number.NaN)).toBe(0x7fffffff);
  expect(encode("tf32", Number.NaN)).toBe(0x7fffe000);
  expect(encode("e5m2", Number.NaN)).toBe(0x7f);
  expect(encode("e2m1", Number.NaN)).toBe(0x7);
  expect(decode("e4m3", 0xff)).toBeNaN();
  expect(decode("f16", 0xfc01)).toBeNaN();
});

test("signed zeros keep their sign", () => {
  expect(encode("f16", -0)).toBe(0x8000);
  expect(decode("bf16", 0x8000)).toBe(-0);
  expect(encode("e4m3", -1e-30)).toBe(0x80);
});

const bitsToF32 = (bits: number) => new Float32Array(Uint32Array.of(bits).buffer)[0] ?? 0;

property.prop([fc.nat(2 ** 32 - 1)], { numRuns: 20_000 })("f32 codes are those of the host", (bits) => {
  const value = bitsToF32(bits);
  if (Number.isNaN(value)) expect(decode("f32", bits)).toBeNaN();
  else {
    expect(decode("f32", bits)).toBe(value);
    expect(encode("f32", value)).toBe(bits);
  }
});

property.prop([fc.double({ noNaN: true })], { numRuns: 20_000 })("f32 rn is Math.fround", (x) => {
  expect(roundToFormat("f32", x)).toBe(Math.fround(x));
});

property.prop([fc.nat(2 ** 32 - 1)], { numRuns: 5_000 })("tf32 rz drops the low 13 bits", (bits) => {
  const value = bitsToF32(bits);
  fc.pre(Number.isFinite(value));
  expect(encode("tf32", value, "rz")).toBe((bits & 0xffffe000) >>> 0);
});

test("ue8m0: every code, and rounding up or down to a power of two", () => {
  for (let code = 0; code < 255; code++) {
    expect(encodeUe8m0(decodeUe8m0(code))).toBe(code);
    expect(encodeUe8m0(decodeUe8m0(code) * 1.5, "rz")).toBe(code);
    expect(encodeUe8m0(decodeUe8m0(code) * 1.5, "rp")).toBe(Math.min(254, code + 1));
  }
  expect(encodeUe8m0(0)).toBe(0);
  expect(encodeUe8m0(Number.NaN)).toBe(255);
  expect(decodeUe8m0(255)).toBeNaN();
});
