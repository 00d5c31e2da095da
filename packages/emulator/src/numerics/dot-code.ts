/**
 * The fused steps of fused-dot.ts, and integer products, as WebAssembly SIMD: eight columns of one row at a time.
 *
 * Where all exponents lie between -100 and 125 the products are exact in f32 (or so small that the cut makes them zero), and the
 * aligned ones are integers that fit 32 bits, sixteen of them together as well: 16 (2 - 2^-10)^2 2^25 < 2^31. Eight columns
 * in which some exponent lies outside are left as they are and listed, for the JavaScript form to make.
 */
import { FunctionCode } from "../compile/wasm.ts";
import type { StepArithmetic } from "./tensorcore.ts";

/** Exponents up to which everything stays in range, and the exponent that stands for "no product at all" and below. */
const least = -100;
const most = 125;
const nothing = -2000;
/** Operand exponents in 16 bits: a special one stays above `most` beside any other, two zeros stay below `nothing`. */
export const specialExponent16 = 12288;
export const zeroExponent16 = -4096;
/** Columns that the code makes at a time: n has to be a multiple. */
export const columnsAtOnce = 8;

/** Products of sixteen elements, and no accumulator, fit a 32-bit sum at 25 fraction bits. */
const productsAtOnce = 16;

/** Parameters of the functions, by position; all are byte addresses or byte counts. */
const floatParameters = {
  /** A[m][k] f32, their exponents as 16 bits, and bytes from row to row of the former. */
  a: 0,
  aExponents: 1,
  aRow: 2,
  /** B[k][n] f32 and exponents. */
  b: 3,
  bExponents: 4,
  /** Accumulators [m][n] f32, and where they end. */
  c: 5,
  end: 6,
  /** Bytes of n f32. */
  row: 7,
  /** Where addresses of accumulators left as they are go: the first word counts the bytes of the list. */
  list: 8,
} as const;
const floatParameterCount = Object.keys(floatParameters).length;

/**
 * How accumulators lie: `rows` [m][n]; `fragments` as a matrix instruction's registers hold eight rows: 32 lanes after 32 lanes,
 * four lanes a row, the even columns of eight in one register and the odd ones in the next, two registers on those of eight
 * columns further. B's columns are then permuted: the even ones of eight first.
 */
export type AccumulatorLayout = "rows" | "fragments";

/** Bytes between the two halves of eight columns. */
export const halfStride = { rows: 16, fragments: 128 } as const satisfies Record<AccumulatorLayout, number>;
/** Bytes of a row's four lanes in a register; the columns of a row that follow are `fragmentShift` bits further than in B. */
export const fragmentRow = 16;
const fragmentShift = 4;

/**
 * How f32 are cut to integers. The relaxed form is the faster one; it leaves open only what NaN and numbers outside 32 bits give, and
 * neither comes to it: with e the largest exponent of a column's terms, between `least` and `most` (else the eight columns are left),
 * each operand of a product has exponent ea or eb, ea + eb <= e, so |a b| < 2^(e + 2) and |c| < 2^(e + 1), and what is cut is that times
 * 2^(fraction - e): below 2^27. Infinity and NaN have exponents that put e above `most`.
 */
export type Truncation = "i32x4.trunc_sat_s" | "i32x4.relaxed_trunc_s";

/** Code that only hosts with relaxed SIMD compile. */
export function relaxedProbe(): FunctionCode {
  const f = new FunctionCode(1);
  const x = f.local();
  return f.get(x).op("i32x4.relaxed_trunc_s").set(x);
}

/** Code of one fused step for all m x n accumulators: `f(a, aExponents, aRow, b, bExponents, c, end, row, list)`. */
export function floatStep(
  { fraction, step, mantissa }: StepArithmetic,
  half: boolean,
  layout: AccumulatorLayout = "rows",
  truncation: Truncation = "i32x4.trunc_sat_s",
): FunctionCode {
  const apart = halfStride[layout];
  const f = new FunctionCode(floatParameterCount);
  const p = floatParameters;
  const [b, bExponents, column, listed] = [f.counter(), f.counter(), f.counter(), f.counter()];
  const pointer = f.counter();
  const exponents = f.local();
  const c = [f.local(), f.local()] as const;
  const e = [f.local(), f.local()] as const;
  const scale = [f.local(), f.local()] as const;
  const sums = [f.local(), f.local()] as const;
  const totals = [f.local(), f.local(), f.local(), f.local()] as const;
  const power = f.local();
  const splat = f.local();
  const sides = [0, 1] as const;
  f.get(p.list).set(listed);
  f.loop(); // rows
  f.i32(0).set(column);
  f.loop(); // groups of eight columns
  f.block();
  // The largest exponent of the products.
  f.get(p.bExponents).get(column).i32(1).i32ShiftRight().i32Add().set(bExponents);
  f.wordSplat(0xe000e000 | 0).set(exponents);
  for (let k = 0; k < step; k++) {
    f.get(exponents)
      .get(p.aExponents)
      .loadSplat16(2 * k)
      .get(bExponents)
      .load();
    f.op("i16x8.add").op("i16x8.max_s").set(exponents);
    f.get(bExponents).get(p.row).i32(1).i32ShiftRight().i32Add().set(bExponents);
  }
  f.get(p.c).get(column);
  if (layout === "fragments") f.i32(fragmentShift).i32ShiftLeft();
  f.i32Add().set(pointer);
  for (const s of sides) {
    f.get(pointer)
      .load(apart * s)
      .set(c[s]);
    // That of the accumulator; a zero has none.
    f.wordSplat(zeroExponent16);
    f.get(c[s]).i32(23).op("i32x4.shr_u").wordSplat(255).op("v128.and").wordSplat(127).op("i32x4.sub");
    f.wordSplat(half ? -14 : -126).op("i32x4.max_s");
    f.get(c[s]).wordSplat(0x7fffffff).op("v128.and").wordSplat(0).op("i32x4.eq");
    f.op("v128.bitselect");
    f.get(exponents).op(s === 0 ? "i32x4.extend_low_s" : "i32x4.extend_high_s");
    f.op("i32x4.max_s").set(e[s]);
    f.get(e[s]).wordSplat(most).op("i32x4.gt_s");
    f.get(e[s]).wordSplat(least).op("i32x4.lt_s").get(e[s]).wordSplat(nothing).op("i32x4.gt_s");
    f.op("v128.and").op("v128.or");
  }
  f.op("v128.or").op("v128.any_true").if();
  f.get(listed).i32(4).i32Add().tee(listed).get(pointer).i32Store();
  f.branch(1);
  f.end();
  for (const s of sides) {
    f.get(e[s]).wordSplat(least).op("i32x4.max_s").set(e[s]);
    f.wordSplat(127 + fraction)
      .get(e[s])
      .op("i32x4.sub")
      .i32(23)
      .op("i32x4.shl")
      .set(scale[s]);
    f.get(c[s]).get(scale[s]).op("f32x4.mul").op(truncation).set(sums[s]);
  }
  // The accumulator joins the products' sum where that has room for it.
  const room = step * 2 ** (fraction + 2) + 2 ** (fraction + 1) < 2 ** 31;
  const widen = (s: 0 | 1, first: boolean): void => {
    for (const part of sides) {
      const total = totals[2 * s + part] as number;
      f.get(sums[s]);
      if (part === 1) f.get(sums[s]).shuffleWords(2, 3, 2, 3);
      f.op("f64x2.convert_low_s");
      if (!first) f.get(total).op("f64x2.add");
      f.set(total);
    }
  };
  if (!room)
    for (const s of sides) {
      widen(s, true);
      f.wordSplat(0).set(sums[s]);
    }
  f.get(p.b).get(column).i32Add().set(b);
  for (let k = 0; k < step; k++) {
    if (k > 0 && k % productsAtOnce === 0 && !room)
      for (const s of sides) {
        widen(s, false);
        f.wordSplat(0).set(sums[s]);
      }
    f.get(p.a)
      .loadSplat32(4 * k)
      .set(splat);
    for (const s of sides) {
      f.get(splat)
        .get(b)
        .load(16 * s)
        .op("f32x4.mul")
        .get(scale[s])
        .op("f32x4.mul");
      f.op(truncation).get(sums[s]).op("i32x4.add").set(sums[s]);
    }
    f.get(b).get(p.row).i32Add().set(b);
  }
  for (const s of sides) {
    widen(s, room);
    for (const part of sides) {
      const total = totals[2 * s + part] as number;
      f.wordSplat(1023 - fraction)
        .get(e[s])
        .op("i32x4.add");
      f.op(part === 0 ? "i64x2.extend_low_s" : "i64x2.extend_high_s")
        .i32(52)
        .op("i64x2.shl");
      f.get(total).op("f64x2.mul").set(total);
      if (half) toHalf(f, total, power);
      // Towards zero: the bits that the result has no room for go.
      else {
        const low = mantissa === 23 ? 0xe0000000 | 0 : 0;
        const high = mantissa === 23 ? -1 : -1 << (20 - mantissa);
        f.get(total).words(low, high, low, high).op("v128.and").set(total);
      }
    }
    f.get(pointer);
    f.get(totals[2 * s] as number).op("f32x4.demote");
    f.get(totals[2 * s + 1] as number).op("f32x4.demote");
    f.shuffleWords(0, 1, 4, 5).store(apart * s);
  }
  f.end();
  f.advanceBelow(column, 4 * columnsAtOnce, p.row);
  f.end();
  f.get(p.a).get(p.aRow).i32Add().set(p.a);
  f.get(p.aExponents).get(p.aRow).i32(1).i32ShiftRight().i32Add().set(p.aExponents);
  f.get(p.c);
  if (layout === "rows") f.get(p.row);
  else f.i32(fragmentRow);
  f.i32Add().tee(p.c).get(p.end).i32Below().branchIf(0);
  f.end();
  f.get(p.list).get(listed).get(p.list).i32Sub().i32Store();
  return f;
}

/**
 * Two doubles to the nearest f16, ties to even: adding and taking away 1.5 * 2^(e + 42) leaves multiples of 2^(e - 10), e the
 * exponent, not below f16's least. From 2^16 on it is infinity.
 */
function toHalf(f: FunctionCode, x: number, power: number): void {
  f.get(x).words(0, 0x7ff00000, 0, 0x7ff00000).op("v128.and");
  f.f64Pair(2 ** -14).op("f64x2.max");
  f.f64Pair(1.5 * 2 ** 42)
    .op("f64x2.mul")
    .set(power);
  f.get(x).get(power).op("f64x2.add").get(power).op("f64x2.sub").set(x);
  // Infinity of the same sign.
  f.get(x)
    .words(0, 0x80000000 | 0, 0, 0x80000000 | 0)
    .op("v128.and");
  f.words(0, 0x7ff00000, 0, 0x7ff00000).op("v128.or");
  f.get(x).get(x).op("f64x2.abs").f64Pair(65536).op("f64x2.ge").op("v128.bitselect").set(x);
}

const integerParameters = { a: 0, aRow: 1, b: 2, c: 3, end: 4, row: 5 } as const;
const integerParameterCount = Object.keys(integerParameters).length;

/**
 * Code of integer products, k even: `f(a, aRow, b, c, end, row)`. A is [m][k] and B [k / 2][n][2], both 16 bits; accumulators
 * [m][n] 32 bits.
 */
export function integerStep(k: number, saturate: boolean): FunctionCode {
  const f = new FunctionCode(integerParameterCount);
  const p = integerParameters;
  const [b, column, pointer] = [f.counter(), f.counter(), f.counter()];
  const splat = f.local();
  const old = f.local();
  const sum = f.local();
  const dots = [f.local(), f.local()] as const;
  f.loop();
  f.i32(0).set(column);
  f.loop();
  f.get(p.b).get(column).i32Add().set(b);
  for (const dot of dots) f.wordSplat(0).set(dot);
  for (let pair = 0; pair < k / 2; pair++) {
    f.get(p.a)
      .loadSplat32(4 * pair)
      .set(splat);
    dots.forEach((dot, s) => {
      f.get(splat)
        .get(b)
        .load(16 * s)
        .op("i32x4.dot_i16x8_s")
        .get(dot)
        .op("i32x4.add")
        .set(dot);
    });
    f.get(b).get(p.row).i32Add().set(b);
  }
  f.get(p.c).get(column).i32Add().set(pointer);
  dots.forEach((dot, s) => {
    f.get(pointer)
      .load(16 * s)
      .tee(old)
      .get(dot)
      .op("i32x4.add")
      .set(sum);
    f.get(pointer);
    if (saturate) {
      // Overflow: the sum's sign differs from that of both terms; it then stops at the end that the accumulator's sign names.
      f.get(old).i32(31).op("i32x4.shr_s").wordSplat(0x7fffffff).op("v128.xor");
      f.get(sum);
      f.get(old).get(sum).op("v128.xor").get(dot).get(sum).op("v128.xor").op("v128.and");
      f.i32(31).op("i32x4.shr_s").op("v128.bitselect");
    } else f.get(sum);
    f.store(16 * s);
  });
  f.advanceBelow(column, 4 * columnsAtOnce, p.row);
  f.end();
  f.get(p.a).get(p.aRow).i32Add().set(p.a);
  f.get(p.c).get(p.row).i32Add().tee(p.c).get(p.end).i32Below().branchIf(0);
  f.end();
  return f;
}
