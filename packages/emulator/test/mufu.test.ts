/** The approximate functions against an H100: sums over the outputs of 2^20 consecutive bit patterns (scripts/corpus/approx.cu). */
import { describe, expect, it } from "vitest";
import * as mufu from "../src/numerics/mufu.ts";

const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);

/** The two sums that hash_NAME of approx.cu makes of a block. */
function sums(block: number, value: (x: number) => number): readonly [number, number] {
  let [first, second] = [0, 0];
  for (let k = 0; k < 2 ** 20; k++) {
    const i = (block * 2 ** 20 + k) >>> 0;
    word[0] = i;
    const result = value(float[0] ?? 0);
    float[0] = result;
    const bits = Number.isNaN(result) ? 0x7fffffff : (word[0] ?? 0);
    const a = Math.imul(bits ^ Math.imul(i, 0x9e3779b1), 0x85ebca6b);
    const b = Math.imul((bits + Math.imul(i, 0xc2b2ae35)) | 0, 0x27d4eb2f);
    first = (first + (a ^ (a >>> 15))) | 0;
    second = (second + (b ^ (b >>> 13))) | 0;
  }
  return [first >>> 0, second >>> 0];
}

/** Function, block of 2^20 arguments, sums on an H100. 0x3f9 is 1.125 to 1.25, 0x3f7 and 0x3f8 end and begin at 1, where results of lg2 are small; block 0 and 1 are subnormal numbers. */
const measured = [
  ["rcp", mufu.rcpApprox, 0xbf9, 78224880, 1201829845],
  ["rsqrt", mufu.rsqrtApprox, 0x3f9, 5525597, 584094977],
  ["rsqrt", mufu.rsqrtApprox, 0x001, 2858808791, 2739773658],
  ["sqrt", mufu.sqrtApprox, 0x3f9, 952991198, 3618059259],
  ["sqrt", mufu.sqrtApprox, 0x001, 1319114294, 1527885378],
  ["ex2", mufu.ex2Approx, 0x3f9, 4202342795, 3579228426],
  ["ex2", mufu.ex2Approx, 0xbf9, 94663069, 3685486834],
  ["lg2", mufu.lg2Approx, 0x3f9, 883273333, 1463547547],
  ["lg2", mufu.lg2Approx, 0x001, 2201983887, 1657904755],
  ["lg2", mufu.lg2Approx, 0x3f0, 4023268089, 1674672723],
  ["lg2", mufu.lg2Approx, 0x3f7, 1402989799, 774210171],
  ["lg2", mufu.lg2Approx, 0x3f8, 965436907, 1797830728],
  ["sin", mufu.sinApprox, 0xbf9, 1588886511, 2787494756],
  ["cos", mufu.cosApprox, 0x3f9, 1314763026, 317793255],
  ["tanh", mufu.tanhApprox, 0x3b9, 1611958517, 1520827356],
  ["tanh", mufu.tanhApprox, 0x3ea, 3259806998, 1290353372],
  ["tanh", mufu.tanhApprox, 0x3f2, 549935311, 3518513240],
  ["tanh", mufu.tanhApprox, 0x403, 2494297689, 2066350866],
  ["tanh", mufu.tanhApprox, 0xbfd, 1887914130, 260185365],
] as const;

describe("approximate functions", () => {
  it.each(measured)("%s gives an H100's bits (%#)", (_name, value, block, first, second) => {
    expect(sums(block, (x) => value(x))).toEqual([first, second]);
  });

  it("keep the special cases that the ISA lists", () => {
    expect(mufu.rcpApprox(-0)).toBe(Number.NEGATIVE_INFINITY);
    expect(mufu.rsqrtApprox(-1)).toBeNaN();
    expect(mufu.ex2Approx(Number.NEGATIVE_INFINITY)).toBe(0);
    expect(mufu.lg2Approx(0)).toBe(Number.NEGATIVE_INFINITY);
    expect(mufu.cosApprox(Number.POSITIVE_INFINITY)).toBeNaN();
    const quotient = (scale: number): number => scale * mufu.rcpApprox(2 ** 127 * scale);
    expect(quotient(mufu.fullScale(2 ** 127))).toBe(2 ** -127);
    expect([2 ** -130, 1, 2 ** 127].map(mufu.approxScale)).toEqual([2 ** 24, 1, 1]);
    expect([mufu.rcpExact(255) - mufu.rcpApprox(255), mufu.rcpExact(3)]).toEqual([
      2 ** -31,
      Math.fround(1 / 3),
    ]);
    expect(mufu.tanhApprox(-0)).toBe(-0);
    expect(mufu.tanhApprox(Number.NEGATIVE_INFINITY)).toBe(-1);
    expect(mufu.rcpApprox64(-(2 ** -1060))).toBe(Number.NEGATIVE_INFINITY);
    expect(mufu.rcpApprox64(2 ** 1023)).toBe(0);
    expect(mufu.rsqrtFlushed64(2 ** -1060)).toBe(Number.POSITIVE_INFINITY);
    expect(mufu.rsqrtApprox64(-1)).toBeNaN();
  });
});

it("the 16-bit forms of ex2 cut towards zero, to the digits and the least place of their format", () => {
  expect(mufu.cutF16(1 + 2 ** -10 + 2 ** -11)).toBe(1 + 2 ** -10);
  expect(mufu.cutF16(2 ** -24 * 1.75)).toBe(2 ** -24);
  expect(mufu.cutBf16(1 + 2 ** -7 + 2 ** -8)).toBe(1 + 2 ** -7);
  expect(mufu.cutBf16(Number.POSITIVE_INFINITY)).toBe(Number.POSITIVE_INFINITY);
});

it("the f64 forms have an H200's upper words", () => {
  const word = new DataView(new ArrayBuffer(8));
  const upperOf = (value: (x: number) => number, high: number): number => {
    word.setBigUint64(0, BigInt(high) << 32n);
    word.setFloat64(0, value(word.getFloat64(0)));
    return word.getUint32(0);
  };
  expect(upperOf(mufu.rcpApprox64, 0x3ff9abcd)).toBe(0x3fe3f1d1);
  expect(upperOf(mufu.rcpApprox64, 0x3ff12345)).toBe(0x3fede022);
  expect(upperOf(mufu.rsqrtFlushed64, 0x3ff9abcd)).toBe(0x3fe9435e);
  expect(upperOf(mufu.rsqrtFlushed64, 0x3ff12345)).toBe(0x3feeeb65);
  expect(upperOf(mufu.rsqrtFlushed64, 0x4009abcd)).toBe(0x3fe1dd1f);
  expect(upperOf(mufu.rsqrtFlushed64, 0x40012345)).toBe(0x3fe5dd08);
  expect(upperOf(mufu.rsqrtApprox64, 0x4009abcd)).toBe(0x3fe1dd1f);
  expect(upperOf(mufu.rsqrtApprox64, 0x40012345)).toBe(0x3fe5dd08);
});

it("rsqrt.approx.f64 is within two units of the root, over all magnitudes", () => {
  for (let exponent = -1070; exponent < 1024; exponent += 7) {
    const x = 1.37 * 2 ** exponent;
    expect(mufu.rsqrtApprox64(x) * Math.sqrt(x)).toBeCloseTo(1, 14);
  }
});
