/** Bit patterns of numbers, for generated code: two's complement words in and out. */

const scratch = new ArrayBuffer(8);
const asF32 = new Float32Array(scratch);
const asI32 = new Int32Array(scratch);
const asF64 = new Float64Array(scratch);

/** The 32 bits of a number that is exact in f32; every NaN is 0x7fffffff, the one NaN that the arithmetic units make. */
export function floatBits(x: number): number {
  if (Number.isNaN(x)) return 0x7fffffff;
  asF32[0] = x;
  return asI32[0] as number;
}

export function bitsFloat(bits: number): number {
  asI32[0] = bits;
  return asF32[0] as number;
}

/** Low word of a double; NaN is 0x7fff_ffff_ffff_ffff as f64 units make it. */
export function doubleLow(x: number): number {
  if (Number.isNaN(x)) return -1;
  asF64[0] = x;
  return asI32[0] as number;
}

export function doubleHigh(x: number): number {
  if (Number.isNaN(x)) return 0x7fffffff;
  asF64[0] = x;
  return asI32[1] as number;
}

export function bitsDouble(low: number, high: number): number {
  asI32[0] = low;
  asI32[1] = high;
  return asF64[0] as number;
}
