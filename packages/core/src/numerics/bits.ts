/** Bit patterns of JavaScript numbers seen as IEEE 754 values. */

// One scratch word shared by all views. Every function writes it before it reads it, so no state outlives a call.
const scratch = new ArrayBuffer(8);
const asF32 = new Float32Array(scratch);
const asU32 = new Uint32Array(scratch);
const asI32 = new Int32Array(scratch);
const asF64 = new Float64Array(scratch);
const asU64 = new BigUint64Array(scratch);
// Index of the most significant half of an f64: 1 on little-endian hosts.
const high = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1 ? 1 : 0;

/** The 32 bits of `x` rounded to f32 (round to nearest even), as an unsigned integer. */
export function f32Bits(x: number): number {
  asF32[0] = x;
  return asU32[0] ?? 0;
}

/** The f32 whose bits are the low 32 bits of `bits`. */
export function f32FromBits(bits: number): number {
  asI32[0] = bits;
  return asF32[0] ?? 0;
}

/** The 64 bits of `x`. */
export function f64Bits(x: number): bigint {
  asF64[0] = x;
  return asU64[0] ?? 0n;
}

/** The f64 whose bits are the low 64 bits of `bits`. */
export function f64FromBits(bits: bigint): number {
  asU64[0] = bits;
  return asF64[0] ?? 0;
}

/**
 * floor(log2 |x|) of a finite non-zero `x`, exactly; f64 subnormals count as 2^-1023 (no format here reaches that low).
 */
export function exponentOf(x: number): number {
  asF64[0] = x;
  return (((asU32[high] ?? 0) >>> 20) & 0x7ff) - 1023;
}

/** Whether the sign bit of `x` is set; true for -0. */
export function signBit(x: number): boolean {
  asF64[0] = x;
  return ((asU32[high] ?? 0) & 0x80000000) !== 0;
}

/** Least exponent of a double, a subnormal's. */
const leastExponent = -1074;
const powers = Float64Array.from({ length: 1023 - leastExponent + 1 }, (_, i) => 2 ** (leastExponent + i));

/** `2 ** exponent` for an integer from -1074 to 1023, by table: the operator is a call of a hundred instructions. */
export const powerOfTwo = (exponent: number): number => powers[exponent - leastExponent] as number;
