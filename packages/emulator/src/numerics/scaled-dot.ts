/**
 * Dot products with a scale factor for each block of K, as Blackwell's block-scaled kinds make them. Source: MMA-Sim (arXiv
 * 2511.10909), B200: with operands of 8 and 6 bits the factors' exponents join those of the products, which are aligned one by
 * one and cut 25 bits below the largest; with 4-bit operands the products of 16 elements are added exactly, multiplied by the
 * factors exactly, and those few sums are aligned by the factors' exponents and cut 35 bits below the largest. Results are
 * cut towards zero.
 */
import { formats } from "@tilewright/core";
import { truncateToF32 } from "./fused-dot.ts";
import { alignmentExponent, specialExponent } from "./operands.ts";
import type { DotShape } from "./tensor-dot.ts";

/** Factors of A [m][k / block] and of B [n][k / block], decoded; NaN makes the whole dot product NaN. */
export interface ScaleFactors {
  /** Elements of K under one factor. */
  readonly block: 16 | 32;
  readonly format: "ue8m0" | "ue4m3";
  readonly a: Float32Array;
  readonly b: Float32Array;
}

/** Elements that the datapath for 4-bit operands adds before it scales. */
const group = 16;
const elementFraction = 25;
const groupFraction = 35;
const nanBits = 0x7fffffff;
/** ue8m0 has every exponent of an f32 and one more; e4m3's least exponent is -6. */
const leastScale = { ue8m0: -127, ue4m3: -6 } as const;

/** The exponent of a factor: ue8m0 values are powers of two, of which 2^-127 is subnormal as an f32. */
const scaleExponent = (value: number, format: ScaleFactors["format"]): number =>
  value === 2 ** -127 ? -127 : alignmentExponent(value, leastScale[format]);

/** Exponents of `count` values, as they are aligned. */
const exponentsOf = (
  values: Float32Array,
  count: number,
  exponent: (value: number) => number,
): Int32Array => {
  const out = new Int32Array(count);
  for (let i = 0; i < count; i++) out[i] = exponent(values[i] as number);
  return out;
};

/** As `tileDot`, with factors. The whole K of the instruction is one step. Accumulators are f32. */
export function scaledDot(
  { m, n, k, aKind, bKind }: DotShape,
  a: Float32Array,
  b: Float32Array,
  accumulators: Float32Array,
  scales: ScaleFactors,
): void {
  const bits = new Int32Array(accumulators.buffer, accumulators.byteOffset, m * n);
  const grouped = aKind === "e2m1" && bKind === "e2m1" && k >= 64;
  const width = grouped ? group : 1;
  const fraction = grouped ? groupFraction : elementFraction;
  const blocks = k / scales.block;
  // Elements of one group have no exponents of their own.
  const elementExponents = (values: Float32Array, rows: number, kind: DotShape["aKind"]): Int32Array =>
    exponentsOf(values, grouped ? 0 : rows * k, (x) => alignmentExponent(x, formats[kind].minExponent));
  const factorExponents = (values: Float32Array, rows: number): Int32Array =>
    exponentsOf(values, rows * blocks, (x) => scaleExponent(x, scales.format));
  const [aExponents, bExponents] = [elementExponents(a, m, aKind), elementExponents(b, n, bKind)];
  const [aFactors, bFactors] = [factorExponents(scales.a, m), factorExponents(scales.b, n)];
  const count = k / width;
  const perBlock = scales.block / width;
  const terms = new Float64Array(count);
  for (let row = 0; row < m; row++)
    for (let column = 0; column < n; column++) {
      const at = row * n + column;
      const c = accumulators[at] as number;
      let most = c === 0 ? -126 : alignmentExponent(c, -126);
      for (let block = 0, t = 0; block < blocks; block++) {
        const [x, y] = [row * blocks + block, column * blocks + block];
        const factor = (scales.a[x] as number) * (scales.b[y] as number);
        const factorExponent = (aFactors[x] as number) + (bFactors[y] as number);
        for (const end = t + perBlock; t < end; t++) {
          const from = t * width;
          let sum = 0;
          for (let i = row * k + from, j = column * k + from, last = i + width; i < last; i++, j++)
            sum += (a[i] as number) * (b[j] as number);
          // A double holds the sum of 16 products of 2 bits each, times two factors of 4 bits, exactly.
          terms[t] = sum * factor;
          const exponent = grouped
            ? factorExponent
            : factorExponent + (aExponents[row * k + t] as number) + (bExponents[column * k + t] as number);
          // What is zero takes no part in the alignment.
          if (exponent > most && (sum !== 0 || exponent >= specialExponent / 2)) most = exponent;
        }
      }
      if (most >= specialExponent / 2) {
        let sum = c;
        for (const term of terms) sum += term;
        bits[at] = Number.isNaN(sum) ? nanBits : sum > 0 ? 0x7f800000 : 0xff800000 | 0;
        continue;
      }
      const scale = 2 ** (fraction - most);
      let sum = Math.trunc(c * scale);
      for (let t = 0; t < count; t++) sum += Math.trunc((terms[t] as number) * scale);
      bits[at] = truncateToF32(sum / scale, 23);
    }
}
