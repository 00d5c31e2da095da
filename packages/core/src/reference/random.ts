/** Seeded input data. */
import { type DType, dtypes } from "../dtype.ts";
import { formats } from "../numerics/formats.ts";
import { encodeArray, roundTo, type Storage } from "../numerics/storage.ts";

/** Reproducible random numbers: the same seed gives the same sequence everywhere. */
export interface Random {
  /** 32 random bits, unsigned. */
  bits(): number;
  /** Uniform in [0, 1), 24 bits. */
  uniform(): number;
  /** An integer from `low` to `high`, both included. */
  integer(low: number, high: number): number;
  /** Mean 0, variance 1. */
  normal(): number;
}

/**
 * xoshiro128** 1.1 (Blackman and Vigna, public domain), its state filled from the seed by a 32-bit splitmix. Not for cryptography.
 */
export function createRandom(seed: number): Random {
  let mix = seed >>> 0;
  const split = (): number => {
    mix = (mix + 0x9e3779b9) >>> 0;
    let z = mix;
    z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
    z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
    return (z ^ (z >>> 16)) >>> 0;
  };
  let a = split();
  let b = split();
  let c = split();
  let d = split();
  const rotate = (x: number, by: number): number => (x << by) | (x >>> (32 - by));
  const bits = (): number => {
    const result = Math.imul(rotate(Math.imul(b, 5), 7), 9) >>> 0;
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = rotate(d, 11);
    return result;
  };
  const uniform = (): number => (bits() >>> 8) * 2 ** -24;
  return {
    bits,
    uniform,
    integer: (low, high) => low + Math.floor(uniform() * (high - low + 1)),
    // Box-Muller; 1 - u is never 0.
    normal: () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()),
  };
}

export type InputDistribution =
  /** Integers: products and sums stay exact in every accumulator, so results must be equal, not near. Default -4 … 4. */
  | { readonly kind: "integers"; readonly low?: number; readonly high?: number }
  /** Uniform in [low, high), default [-1, 1). */
  | { readonly kind: "uniform"; readonly low?: number; readonly high?: number }
  /** Normal with standard deviation `scale`, default 1. */
  | { readonly kind: "normal"; readonly scale?: number };

function sampler(distribution: InputDistribution, random: Random): () => number {
  switch (distribution.kind) {
    case "integers": {
      const { low = -4, high = 4 } = distribution;
      return () => random.integer(low, high);
    }
    case "uniform": {
      const { low = -1, high = 1 } = distribution;
      return () => low + (high - low) * random.uniform();
    }
    case "normal": {
      const { scale = 1 } = distribution;
      return () => scale * random.normal();
    }
  }
}

/**
 * `count` random elements of `dtype`, rounded to it: what is stored is exactly what a kernel reads (tf32 included). Unsigned types take
 * the magnitude of negative samples; integers from `uniform` and `normal` are scaled to a quarter of the type's range.
 */
export function randomStorage(
  dtype: DType,
  count: number,
  distribution: InputDistribution,
  seed: number,
): Storage {
  const sample = sampler(distribution, createRandom(seed));
  const whole = dtypes[dtype].kind === "int";
  const scale = whole && distribution.kind !== "integers" ? 2 ** (Math.min(8, dtypes[dtype].bits) - 3) : 1;
  const values = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const value = sample() * scale;
    values[i] = dtype === "u8" ? Math.abs(value) : value;
  }
  if (dtype === "tf32") for (let i = 0; i < count; i++) values[i] = roundTo("tf32", values[i] ?? 0);
  return encodeArray(dtype, values, "saturate");
}

/** Whether all elements of an f32 array are tf32 values: the bits that a tensor core drops are 0. */
export function isTf32Exact(values: Float64Array): boolean {
  const words = new Uint32Array(Float32Array.from(values).buffer);
  const dropped = 2 ** formats.tf32.shift - 1;
  return words.every((word) => (word & dropped) === 0);
}
