/**
 * The fused dot products of one matrix instruction, as tensorcore.ts describes them.
 *
 * Aligned products are integers below 2^(fraction + 2): two significands below 2 make less than 4. With at most 25 fraction
 * bits four of them fit 32-bit integers, which V8 adds without leaving registers.
 */
import { toF16 } from "./floats.ts";
import { specialExponent } from "./operands.ts";
import type { StepArithmetic } from "./tensorcore.ts";

/** Row-major A[m][k], B as [n][k]; the accumulators C[m][n] are replaced by the results. Several tiles lie behind one another. */
export interface Tile {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: Float64Array;
  readonly aExponents: Int32Array;
  readonly b: Float64Array;
  readonly bExponents: Int32Array;
  /** Accumulators: f32, or f16 values held as f32. */
  readonly c: Float32Array;
  /** The same memory as `c`. */
  readonly cBits: Int32Array;
}

export const createTile = (m: number, n: number, k: number, tiles: number): Tile => {
  const c = new Float32Array(m * n * tiles);
  return {
    m,
    n,
    k,
    a: new Float64Array(m * k * tiles),
    aExponents: new Int32Array(m * k * tiles),
    b: new Float64Array(n * k * tiles),
    bExponents: new Int32Array(n * k * tiles),
    c,
    cBits: new Int32Array(c.buffer),
  };
};

/** Powers of two from 2^-powerBias up: sums of two exponents of f32 range, and 25 bits below. */
const powerBias = 320;
const powers = Float64Array.from({ length: 2 * powerBias + 1 }, (_, i) => 2 ** (i - powerBias));

const nanBits = 0x7fffffff;
const overflow = 2 ** 128;
const scratch = new Float32Array(1);
const scratchBits = new Int32Array(scratch.buffer);

/** Bits of `x` cut to f32, towards zero, with `mantissa` fraction bits; infinity from 2^128 on. */
export function truncateToF32(x: number, mantissa: number): number {
  if (x >= overflow || x <= -overflow) return x > 0 ? 0x7f800000 : 0xff800000 | 0;
  scratch[0] = x;
  let bits = scratchBits[0] as number;
  const rounded = scratch[0] as number;
  // What vanishes is +0, whatever its sign was.
  if ((bits & 0x7fffffff) === 0) return 0;
  // One unit less in magnitude is one less as an integer, across binades and back from infinity.
  if (x > 0 ? rounded > x : rounded < x) bits -= 1;
  if ((bits & 0x7fffffff) === 0) return 0;
  return mantissa === 23 ? bits : bits & (-1 << (23 - mantissa));
}

/**
 * D = A * B + C for tile number `index`.
 *
 * @param half accumulators are f16: results round to nearest even, and subnormal accumulators align at 2^-14.
 */
export function multiplyTile(tile: Tile, index: number, arithmetic: StepArithmetic, half: boolean): void {
  const { m, n, k, a, b, aExponents, bExponents, c, cBits } = tile;
  const { fraction, mantissa } = arithmetic;
  const step = Math.min(k, arithmetic.step);
  const least = half ? -14 : -126;
  const aBase = index * m * k;
  const bBase = index * n * k;
  const cBase = index * m * n;
  for (let from = 0; from < k; from += step)
    for (let row = 0; row < m; row++) {
      const aRow = aBase + row * k + from;
      for (let column = 0; column < n; column++) {
        const bRow = bBase + column * k + from;
        const at = cBase + row * n + column;
        const bits = cBits[at] as number;
        const field = (bits >>> 23) & 255;
        let e = field === 255 ? specialExponent : (bits & 0x7fffffff) === 0 ? -126 : field - 127;
        if (e < least && (bits & 0x7fffffff) !== 0) e = least;
        for (let i = 0; i < step; i += 4) {
          const e0 = (aExponents[aRow + i] as number) + (bExponents[bRow + i] as number);
          const e1 = (aExponents[aRow + i + 1] as number) + (bExponents[bRow + i + 1] as number);
          const e2 = (aExponents[aRow + i + 2] as number) + (bExponents[bRow + i + 2] as number);
          const e3 = (aExponents[aRow + i + 3] as number) + (bExponents[bRow + i + 3] as number);
          const x = e0 > e1 ? e0 : e1;
          const y = e2 > e3 ? e2 : e3;
          const z = x > y ? x : y;
          if (z > e) e = z;
        }
        if (e >= specialExponent / 2) {
          cBits[at] = special(tile, aRow, bRow, step, c[at] as number);
          continue;
        }
        const scale = powers[powerBias + fraction - e] as number;
        let sum = ((c[at] as number) * scale) | 0;
        for (let i = 0; i < step; i += 4)
          sum +=
            ((((a[aRow + i] as number) * (b[bRow + i] as number) * scale) | 0) +
              (((a[aRow + i + 1] as number) * (b[bRow + i + 1] as number) * scale) | 0) +
              (((a[aRow + i + 2] as number) * (b[bRow + i + 2] as number) * scale) | 0) +
              (((a[aRow + i + 3] as number) * (b[bRow + i + 3] as number) * scale) | 0)) |
            0;
        const value = sum * (powers[powerBias + e - fraction] as number);
        if (half) c[at] = halfValue(value);
        else cBits[at] = truncateToF32(value, mantissa);
      }
    }
}

/** Some operand is infinite or NaN: the bits of the sum, by the usual rules; every NaN is 0x7fffffff. */
function special(tile: Tile, aRow: number, bRow: number, step: number, c: number): number {
  let sum = c;
  for (let i = 0; i < step; i++) sum += (tile.a[aRow + i] ?? 0) * (tile.b[bRow + i] ?? 0);
  return Number.isNaN(sum) ? nanBits : sum > 0 ? 0x7f800000 : 0xff800000 | 0;
}

/** The f16 nearest to `x`, ties to even. */
function halfValue(x: number): number {
  const code = toF16(x);
  const magnitude = code & 0x7fff;
  // What vanishes is +0, whatever its sign was (measured on an H200).
  if (magnitude === 0) return 0;
  const value =
    magnitude === 0x7c00
      ? Number.POSITIVE_INFINITY
      : magnitude < 0x400
        ? magnitude * 2 ** -24
        : (1024 + (magnitude & 0x3ff)) * (powers[powerBias + (magnitude >> 10) - 25] as number);
  return (code & 0x8000) === 0 ? value : -value;
}
