import { fc, test as property } from "@fast-check/vitest";
import { expect, test } from "vitest";
import { f32FromBits, f64Bits, f64FromBits } from "../../src/numerics/bits.ts";
import { fmaF32 } from "../../src/numerics/fma.ts";

/** A finite f32 as an integer multiple of 2^-149. */
function unitsOf(x: number): bigint {
  const bits = f64Bits(x);
  const exponent = Number((bits >> 52n) & 0x7ffn);
  if (exponent === 0) return 0n;
  // f32 values are normal in f64: mantissa * 2^(exponent-1075), so shift by exponent - 1075 + 149 >= 0 after dropping zeros.
  const mantissa = (bits & ((1n << 52n) - 1n)) | (1n << 52n);
  const shift = exponent - 1075 + 149;
  const magnitude = shift >= 0 ? mantissa << BigInt(shift) : mantissa >> BigInt(-shift);
  return x < 0 ? -magnitude : magnitude;
}

/** a*b+c with one rounding to nearest even, by integers only: units of 2^-298. */
function exactFma(a: number, b: number, c: number): number {
  const sum = unitsOf(a) * unitsOf(b) + (unitsOf(c) << 149n);
  if (sum === 0n) return a * b + c; // only the sign of zero is left, which f64 gets right
  const negative = sum < 0n;
  const magnitude = negative ? -sum : sum;
  const length = magnitude.toString(2).length;
  // Lowest kept bit: 24 significant bits, but never below 2^-149 (bit 149 here).
  const drop = BigInt(Math.max(length - 24, 149));
  const kept = magnitude >> drop;
  const rest = magnitude & ((1n << drop) - 1n);
  const half = 1n << (drop - 1n);
  const rounded = rest > half || (rest === half && (kept & 1n) === 1n) ? kept + 1n : kept;
  const exponent = Number(drop) - 298;
  const value = Number(rounded) * 2 ** exponent;
  const limited = value >= 2 ** 128 ? Number.POSITIVE_INFINITY : value;
  return negative ? -limited : limited;
}

const anyF32 = fc
  .nat(2 ** 32 - 1)
  .map(f32FromBits)
  .filter(Number.isFinite);
/** f32 values of near-by exponents with few or many set bits: sums that cancel, tie and round. */
const nearF32 = fc
  .record({
    negative: fc.boolean(),
    mantissa: fc.oneof(
      fc.nat(2 ** 24 - 1),
      fc.nat(255),
      fc.nat(255).map((x) => x << 16),
    ),
    exponent: fc.integer({ min: -40, max: 16 }),
  })
  .map(({ negative, mantissa, exponent }) => (negative ? -1 : 1) * mantissa * 2 ** exponent);

property.prop([anyF32, anyF32, anyF32], { numRuns: 20_000 })("one rounding on arbitrary bits", (a, b, c) => {
  expect(fmaF32(a, b, c)).toBe(exactFma(a, b, c));
});

property.prop([nearF32, nearF32, nearF32], { numRuns: 20_000 })(
  "one rounding on near-by magnitudes",
  (a, b, c) => {
    expect(fmaF32(a, b, c)).toBe(exactFma(a, b, c));
  },
);

/**
 * Double rounding, constructed: c is half a unit in the last place of the product's neighbourhood, and a tiny product decides the
 * tie. f64 loses the product, so fround(a*b+c) falls to the even side.
 */
test("constructed ties that f64 cannot see", () => {
  let repaired = 0;
  for (let i = 0; i < 4000; i++) {
    const head = 2 ** 23 + ((i * 2654435761) % 2 ** 23);
    const tail = 2 ** -1; // half a unit of `head`
    // head + 0.5 is no f32, but a*b can be: (2*head + 1) / 2 = p with p of 25 bits = x * y where it factors.
    const odd = 2 * head + 1;
    for (const factor of [3, 5, 7, 11, 13]) {
      if (odd % factor !== 0) continue;
      const a = odd / factor;
      const b = factor * tail;
      for (const c of [2 ** -40, -(2 ** -40), 2 ** -149, -(2 ** -149)]) {
        const wanted = exactFma(a, b, c);
        expect(fmaF32(a, b, c)).toBe(wanted);
        if (Math.fround(a * b + c) !== wanted) repaired++;
      }
    }
  }
  expect(repaired).toBeGreaterThan(1000);
});

test("ties among subnormal results", () => {
  const tiny = 2 ** -149;
  for (let odd = 1; odd < 2000; odd += 2) {
    // odd * 2^-150 is a tie between two subnormals; the addend is below f64's reach relative to nothing, so scale it up: 2^-140.
    const a = odd * 2 ** -75;
    const b = 2 ** -75;
    for (const c of [0, tiny, -tiny, 5 * tiny]) expect(fmaF32(a, b, c)).toBe(exactFma(a, b, c));
  }
  // The product alone underflows half way: 2^-75 * 2^-75 = 2^-150 ties to 0, a little more gives the smallest subnormal.
  expect(fmaF32(2 ** -75, 2 ** -75, 0)).toBe(0);
  expect(fmaF32(2 ** -75 * (1 + 2 ** -23), 2 ** -75, 0)).toBe(tiny);
  expect(fmaF32(-(2 ** -75), 2 ** -75, 0)).toBe(-0);
});

test("overflow is decided by the exact sum", () => {
  const max = 2 ** 128 - 2 ** 104;
  // max + 2^103 is the tie: infinite. A tiny bit less is max, although f64 rounds the sum to the tie.
  expect(fmaF32(2 ** 103, 1, max)).toBe(Number.POSITIVE_INFINITY);
  const belowTie = [2 ** 127, 2 - 2 ** -23] as const; // 2^128 - 2^104 again, as a product
  expect(fmaF32(belowTie[0], belowTie[1], 2 ** 103)).toBe(Number.POSITIVE_INFINITY);
  // (2^64 + 2^41)(2^64 - 2^41) - 2^104 + ... : product 2^128 - 2^82, sum with -2^103 is below the tie by 2^82 > 2^75 = half an f64 unit.
  const a = 2 ** 64 + 2 ** 41;
  const b = 2 ** 64 - 2 ** 40;
  expect(fmaF32(a, b, -(2 ** 103))).toBe(exactFma(a, b, -(2 ** 103)));
  // Product 2^103 * (1 - 2^-48) is 2^103 - 2^55: with max the f64 sum rounds to the tie, the true sum lies below it.
  const x = 2 ** 52 * (1 + 2 ** -24 * 2);
  const y = 2 ** 51 * (1 - 2 ** -24 * 2);
  expect(x * y + max).toBe(2 ** 128 - 2 ** 103);
  expect(Math.fround(x * y + max)).toBe(Number.POSITIVE_INFINITY);
  expect(fmaF32(x, y, max)).toBe(max);
  expect(fmaF32(-x, y, -max)).toBe(-max);
});

test("special values", () => {
  const inf = Number.POSITIVE_INFINITY;
  expect(fmaF32(inf, 1, 1)).toBe(inf);
  expect(fmaF32(inf, 0, 1)).toBeNaN();
  expect(fmaF32(inf, 1, -inf)).toBeNaN();
  expect(fmaF32(Number.NaN, 1, 1)).toBeNaN();
  expect(fmaF32(1, 1, -inf)).toBe(-inf);
  expect(fmaF32(2 ** 127, 2, -inf)).toBe(-inf);
  expect(fmaF32(0, -1, 0)).toBe(0);
  expect(fmaF32(0, -1, -0)).toBe(-0);
  expect(fmaF32(1, 1, -1)).toBe(0);
});

test("bit helpers are inverse", () => {
  for (const x of [0, -0, 1, -1.5, 2 ** -1074, Number.MAX_VALUE]) expect(f64FromBits(f64Bits(x))).toBe(x);
});
