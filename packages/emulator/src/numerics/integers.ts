/**
 * Integer operations that JavaScript lacks, on signed 32-bit words. A 64-bit result is the low word as the value and the
 * high word in `HI[0]`; a carry goes to `HI[1]`.
 */

export const HI: Int32Array = new Int32Array(2);

const big = (low: number, high: number): bigint => (BigInt(high) << 32n) | BigInt(low >>> 0);
const unsigned = (low: number, high: number): bigint => (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);

function split(value: bigint): number {
  HI[0] = Number(BigInt.asIntN(32, value >> 32n));
  return Number(BigInt.asIntN(32, value));
}

export function add64(al: number, ah: number, bl: number, bh: number): number {
  const low = (al + bl) | 0;
  HI[0] = ah + bh + (low >>> 0 < al >>> 0 ? 1 : 0);
  return low;
}

export function sub64(al: number, ah: number, bl: number, bh: number): number {
  HI[0] = ah - bh - (al >>> 0 < bl >>> 0 ? 1 : 0);
  return (al - bl) | 0;
}

export function addc32(a: number, b: number, carry: number): number {
  const sum = (a >>> 0) + (b >>> 0) + carry;
  HI[1] = sum > 0xffffffff ? 1 : 0;
  return sum | 0;
}

/** The carry out of a subtraction is the borrow. */
export function subc32(a: number, b: number, borrow: number): number {
  const difference = (a >>> 0) - (b >>> 0) - borrow;
  HI[1] = difference < 0 ? 1 : 0;
  return difference | 0;
}

export function addc64(al: number, ah: number, bl: number, bh: number, carry: number): number {
  const low = addc32(al, bl, carry);
  HI[0] = addc32(ah, bh, HI[1] as number);
  return low;
}

export function subc64(al: number, ah: number, bl: number, bh: number, borrow: number): number {
  const low = subc32(al, bl, borrow);
  HI[0] = subc32(ah, bh, HI[1] as number);
  return low;
}

/** High word of the unsigned product, by 16-bit halves: every partial sum stays below 2^53. */
export function mulHighU32(a: number, b: number): number {
  const x = a >>> 0;
  const y = b >>> 0;
  const low = (x & 0xffff) * y;
  const high = (x >>> 16) * y;
  return ((high + Math.floor(low / 65536)) / 65536) | 0;
}

export function mulHighS32(a: number, b: number): number {
  return (mulHighU32(a, b) - (a < 0 ? b : 0) - (b < 0 ? a : 0)) | 0;
}

export function mulLow64(al: number, ah: number, bl: number, bh: number): number {
  HI[0] = mulHighU32(al, bl) + Math.imul(al, bh) + Math.imul(ah, bl);
  return Math.imul(al, bl);
}

export const mulHighU64 = (al: number, ah: number, bl: number, bh: number): number =>
  split((unsigned(al, ah) * unsigned(bl, bh)) >> 64n);
export const mulHighS64 = (al: number, ah: number, bl: number, bh: number): number =>
  split((big(al, ah) * big(bl, bh)) >> 64n);

export const abs64 = (l: number, h: number): number => {
  if (h < 0) return sub64(0, 0, l, h);
  HI[0] = h;
  return l;
};

export function compareS64(al: number, ah: number, bl: number, bh: number): number {
  return ah !== bh ? ah - bh : (al >>> 0) - (bl >>> 0);
}
export function compareU64(al: number, ah: number, bl: number, bh: number): number {
  return ah !== bh ? (ah >>> 0) - (bh >>> 0) : (al >>> 0) - (bl >>> 0);
}

function choose(first: boolean, al: number, ah: number, bl: number, bh: number): number {
  HI[0] = first ? ah : bh;
  return first ? al : bl;
}
export const minS64 = (al: number, ah: number, bl: number, bh: number): number =>
  choose(compareS64(al, ah, bl, bh) < 0, al, ah, bl, bh);
export const maxS64 = (al: number, ah: number, bl: number, bh: number): number =>
  choose(compareS64(al, ah, bl, bh) > 0, al, ah, bl, bh);
export const minU64 = (al: number, ah: number, bl: number, bh: number): number =>
  choose(compareU64(al, ah, bl, bh) < 0, al, ah, bl, bh);
export const maxU64 = (al: number, ah: number, bl: number, bh: number): number =>
  choose(compareU64(al, ah, bl, bh) > 0, al, ah, bl, bh);

export const distanceS64 = (al: number, ah: number, bl: number, bh: number): number => {
  const d = big(al, ah) - big(bl, bh);
  return split(d < 0n ? -d : d);
};
export const distanceU64 = (al: number, ah: number, bl: number, bh: number): number => {
  const d = unsigned(al, ah) - unsigned(bl, bh);
  return split(d < 0n ? -d : d);
};

// Division by zero: all ones, and the dividend as the remainder. 16- and 32-bit operands come as numbers of their range.
export const divS32 = (a: number, b: number): number => (b === 0 ? -1 : (a / b) | 0);
export const divU32 = (a: number, b: number): number => (b === 0 ? -1 : Math.floor(a / b) | 0);
export const remS32 = (a: number, b: number): number => (b === 0 ? a : (a % b) | 0);
export const remU32 = (a: number, b: number): number => (b === 0 ? a : (a % b) | 0);
export const divS64 = (al: number, ah: number, bl: number, bh: number): number => {
  const b = big(bl, bh);
  return split(b === 0n ? -1n : big(al, ah) / b);
};
export const divU64 = (al: number, ah: number, bl: number, bh: number): number => {
  const b = unsigned(bl, bh);
  return split(b === 0n ? -1n : unsigned(al, ah) / b);
};
export const remS64 = (al: number, ah: number, bl: number, bh: number): number => {
  const b = big(bl, bh);
  return split(b === 0n ? big(al, ah) : big(al, ah) % b);
};
export const remU64 = (al: number, ah: number, bl: number, bh: number): number => {
  const b = unsigned(bl, bh);
  return split(b === 0n ? unsigned(al, ah) : unsigned(al, ah) % b);
};

/** Shifts by any count from 0 to 2^32-1. */
export function shl64(l: number, h: number, n: number): number {
  if (n === 0) HI[0] = h;
  else if (n < 32) HI[0] = (h << n) | (l >>> (32 - n));
  else HI[0] = n < 64 ? l << (n - 32) : 0;
  return n < 32 ? l << n : 0;
}
export function shr64(l: number, h: number, n: number): number {
  HI[0] = n < 32 ? h >>> n : 0;
  if (n === 0) return l;
  if (n < 32) return (l >>> n) | (h << (32 - n));
  return n < 64 ? (h >>> (n - 32)) | 0 : 0;
}
export function sar64(l: number, h: number, n: number): number {
  HI[0] = n < 32 ? h >> n : h >> 31;
  if (n === 0) return l;
  if (n < 32) return (l >>> n) | (h << (32 - n));
  return n < 64 ? h >> (n - 32) : h >> 31;
}

/** High word of {hi, lo} << n, n from 0 to 32. */
export const funnelLeft = (lo: number, hi: number, n: number): number =>
  n === 0 ? hi : n === 32 ? lo : (hi << n) | (lo >>> (32 - n));
/** Low word of {hi, lo} >> n, n from 0 to 32. */
export const funnelRight = (lo: number, hi: number, n: number): number =>
  n === 0 ? lo : n === 32 ? hi : (lo >>> n) | (hi << (32 - n));

/** bfe as the ISA's pseudo-code has it: bits past the end repeat the field's sign bit (or zero). */
function field(value: bigint, bits: number, start: number, length: number, signed: boolean): bigint {
  const msb = bits - 1;
  if (length === 0) return 0n;
  const end = Math.min(start + length - 1, msb);
  const sign = signed ? (value >> BigInt(end)) & 1n : 0n;
  const kept = Math.max(0, Math.min(length, bits - start));
  const low = start > msb ? 0n : (value >> BigInt(start)) & ((1n << BigInt(kept)) - 1n);
  return sign === 0n ? low : low | (((1n << BigInt(bits)) - 1n) & ~((1n << BigInt(kept)) - 1n));
}
export function bfeU32(a: number, start: number, length: number): number {
  if (start > 31 || length === 0) return 0;
  const shifted = a >>> start;
  return length > 31 ? shifted | 0 : shifted & ((1 << length) - 1);
}
export const bfeS32 = (a: number, start: number, length: number): number =>
  Number(BigInt.asIntN(32, field(BigInt(a >>> 0), 32, start, length, true)));
export const bfeU64 = (l: number, h: number, start: number, length: number): number =>
  split(field(unsigned(l, h), 64, start, length, false));
export const bfeS64 = (l: number, h: number, start: number, length: number): number =>
  split(field(unsigned(l, h), 64, start, length, true));

/** Insert the low `length` bits of a into b at `start`. */
export function bfi32(a: number, b: number, start: number, length: number): number {
  if (start > 31 || length === 0) return b;
  const mask = (length > 31 ? -1 : (1 << length) - 1) << start;
  return (b & ~mask) | ((a << start) & mask);
}
export const bfi64 = (
  al: number,
  ah: number,
  bl: number,
  bh: number,
  start: number,
  length: number,
): number => {
  if (start > 63 || length === 0) return split(unsigned(bl, bh));
  const mask = BigInt.asUintN(64, ((1n << BigInt(length)) - 1n) << BigInt(start));
  return split((unsigned(bl, bh) & ~mask) | ((unsigned(al, ah) << BigInt(start)) & mask));
};

export function reverse32(value: number): number {
  let x = value;
  x = ((x >>> 1) & 0x55555555) | ((x & 0x55555555) << 1);
  x = ((x >>> 2) & 0x33333333) | ((x & 0x33333333) << 2);
  x = ((x >>> 4) & 0x0f0f0f0f) | ((x & 0x0f0f0f0f) << 4);
  x = ((x >>> 8) & 0x00ff00ff) | ((x & 0x00ff00ff) << 8);
  return (x >>> 16) | (x << 16);
}

export function bfind(l: number, h: number, bits: number, signed: number, amount: number): number {
  let value = bits === 64 ? unsigned(l, h) : BigInt(l >>> 0);
  if (signed === 1 && (value >> BigInt(bits - 1)) & 1n) value = BigInt.asUintN(bits, ~value);
  if (value === 0n) return -1;
  const position = value.toString(2).length - 1;
  return amount === 1 ? bits - 1 - position : position;
}

/** fns: the position of the n-th set bit from `base`, upwards for positive n, downwards for negative. */
export function nthSet(mask: number, base: number, offset: number): number {
  const set = (k: number): boolean => ((mask >>> k) & 1) === 1;
  if (offset === 0) return set(base & 31) ? base & 31 : -1;
  const step = offset > 0 ? 1 : -1;
  let left = Math.abs(offset);
  for (let k = base & 31; k >= 0 && k < 32; k += step) {
    if (!set(k)) continue;
    left -= 1;
    if (left === 0) return k;
  }
  return -1;
}

const byteOf = (a: number, b: number, k: number): number =>
  (k < 4 ? a >>> (8 * k) : b >>> (8 * (k - 4))) & 255;

/** Four nibbles select bytes of {b, a}; bit 3 of a nibble repeats the byte's sign instead. */
export function prmt(a: number, b: number, selector: number): number {
  let result = 0;
  for (let k = 0; k < 4; k++) {
    const nibble = (selector >>> (4 * k)) & 15;
    let byte = byteOf(a, b, nibble & 7);
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * k);
  }
  return result;
}

/** The fixed patterns of prmt.mode, rows by selector 0 to 3, bytes lowest first: f4e, b4e, rc8, ecl, ecr, rc16. */
const prmtPatterns = [
  "0123 1234 2345 3456",
  "0765 1076 2107 3210",
  "0000 1111 2222 3333",
  "0123 1123 2223 3333",
  "0000 0111 0122 0123",
  "0101 2323 0101 2323",
].map((row) => row.split(" ").map((bytes) => [...bytes].map(Number)));

export function prmtMode(a: number, b: number, selector: number, mode: number): number {
  const bytes = prmtPatterns[mode]?.[selector & 3] ?? [];
  return bytes.reduce((word, byte, k) => word | (byteOf(a, b, byte) << (8 * k)), 0);
}

/** bmsk: `length` ones from bit `start`. */
export function bmsk(start: number, length: number, wrap: number): number {
  const at = wrap === 1 ? start & 31 : Math.min(32, start);
  const count = wrap === 1 ? length & 31 : Math.min(32, length);
  let mask = 0;
  for (let k = at; k < Math.min(32, at + count); k++) mask |= 1 << k;
  return mask;
}

/** .sat between 64-bit integers of different signedness: negative becomes 0, beyond 2^63-1 becomes that. */
export function clampSign64(l: number, h: number, toSigned: number): number {
  if (h >= 0) {
    HI[0] = h;
    return l;
  }
  HI[0] = toSigned === 1 ? 0x7fffffff : 0;
  return toSigned === 1 ? -1 : 0;
}
/** A 64-bit integer clamped to a narrower range. */
export function clamp64(l: number, h: number, signed: number, least: number, most: number): number {
  const value = signed === 1 ? big(l, h) : unsigned(l, h);
  if (value < BigInt(least)) return least;
  return value > BigInt(most) ? most : Number(value);
}

export function atomic64(
  op: string,
  signed: number,
  ol: number,
  oh: number,
  bl: number,
  bh: number,
  cl: number,
  ch: number,
): number {
  switch (op) {
    case "add":
      return add64(ol, oh, bl, bh);
    case "min":
      return signed === 1 ? minS64(ol, oh, bl, bh) : minU64(ol, oh, bl, bh);
    case "max":
      return signed === 1 ? maxS64(ol, oh, bl, bh) : maxU64(ol, oh, bl, bh);
    case "and":
      HI[0] = oh & bh;
      return ol & bl;
    case "or":
      HI[0] = oh | bh;
      return ol | bl;
    case "xor":
      HI[0] = oh ^ bh;
      return ol ^ bl;
    case "exch":
      HI[0] = bh;
      return bl;
    default: {
      const equal = ol === bl && oh === bh;
      HI[0] = equal ? ch : oh;
      return equal ? cl : ol;
    }
  }
}
