/**
 * The approximate functions bit for bit. The multi-function unit of sm_90 interpolates each by segments of 2^16 or 2^17
 * arguments: c0 + c1 t + c2 t^2, where columns of t^2 below a place are never summed, cut to 24 bits (the scheme of S. Oberman and
 * M. Siu, "A high-performance area-efficient multifunction interpolator", ARITH 2005). All 2^32 arguments of rcp, rsqrt, sqrt, ex2,
 * lg2, sin, cos and tanh give what an H100 or H200 gives. Text for every target gets these tables; that sm_80 has the same ones is an assumption.
 */
import { fmaNearest } from "./fma64.ts";
import { ex2Rows, lg2Rows, rcpRows, rsqrtRows, sinRows, sqrtRows, tanhRows } from "./mufu-tables.ts";

/** Fraction bits that a sum keeps below the last place of the result. */
const guard = 2 ** 17;

interface Segments {
  /** In units of the result's last place over `guard`. */
  readonly c0: Float64Array;
  readonly c1: Float64Array;
  readonly c2: Float64Array;
  /** Bits of t, and the lowest column of its square. */
  readonly bits: number;
  readonly column: number;
  /** Squares by t, -1 where none has been asked for. */
  readonly squares: Int32Array;
}

const squaresOf = new Map<number, Int32Array>();

function segments(
  text: string,
  [unit, bias, linear, quadratic]: readonly [number, number, number, number],
  bits = 17,
  column = 19,
): Segments {
  const rows = text.split(";").map((row) => row.split(",").map(Number));
  const of = (k: number, scale: number, add: number) =>
    Float64Array.from(rows, (row) => (row[k] ?? 0) * scale + add);
  const squares = squaresOf.get(column) ?? new Int32Array(2 ** bits).fill(-1);
  squaresOf.set(column, squares);
  return { c0: of(0, unit, bias), c1: of(1, linear, 0), c2: of(2, quadratic, 0), bits, column, squares };
}

const rcpSegments = segments(rcpRows, [2 ** 15, 8092, 4, 4], 16, 17);
const rsqrtSegments = segments(rsqrtRows, [2 ** 15, 32766, 2, 8]);
const sqrtSegments = segments(sqrtRows, [2 ** 15, 32767, 1, 2]);
const ex2Segments = segments(ex2Rows, [2 ** 15, 24456, 4, 4]);
const lg2Segments = segments(lg2Rows, [2 ** 14, 3348, 4, 8]);
const sinSegments = segments(sinRows, [2 ** 15, 0, 16, 16]);
const tanhSegments = segments(tanhRows, [2 ** 15, 0, 4, 8]);
/** Of each exponent from -8 to 2: its first segment; as many follow as the fraction has bits above 17. */
const tanhFirst = [0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43, 51];

/** t^2 over 2^column without what the columns below it would have carried. */
function square(t: number, column: number): number {
  let sum = 0;
  for (let rest = t, i = 0; rest !== 0; rest >>>= 1, i++) {
    if ((rest & 1) === 0) continue;
    if (2 * i >= column) sum += 2 ** (2 * i - column);
    const from = Math.max(i + 1, column - i - 1);
    sum += (t >>> from) * 2 ** (from + i + 1 - column);
  }
  return sum;
}

/** The sum for an argument of `bits` low bits in a segment, before it is cut. */
function interpolate({ c0, c1, c2, bits, column, squares }: Segments, argument: number): number {
  const k = argument >>> bits;
  const t = argument & ((1 << bits) - 1);
  let squared = squares[t] ?? -1;
  if (squared < 0) {
    squared = square(t, column);
    squares[t] = squared;
  }
  return (c0[k] ?? 0) + (c1[k] ?? 0) * t + (c2[k] ?? 0) * squared;
}

const float = new Float32Array(1);
const word = new Uint32Array(float.buffer);
/** Cut towards zero to 24 significant bits. */
function cut(x: number): number {
  float[0] = x;
  if (Math.abs(float[0] ?? 0) > Math.abs(x)) word[0] = (word[0] ?? 0) - 1;
  return float[0] ?? 0;
}

/** Significand of 23 bits below the point, and exponent, of a positive normal f32. */
function parts(x: number): readonly [number, number] {
  float[0] = x;
  const bits = word[0] ?? 0;
  return [bits & 0x7fffff, (bits >>> 23) - 127];
}

const smallest = 2 ** -126;

/** rcp.approx.f32; arguments and results below 2^-126 are scaled. */
export function rcpApprox(x: number): number {
  const size = Math.abs(x);
  if (!(size > 0 && size < Number.POSITIVE_INFINITY)) return 1 / x;
  if (size < smallest) return rcpApprox(x * 2 ** 24) * 2 ** 24;
  const [significand, exponent] = parts(size);
  const value = Math.floor(interpolate(rcpSegments, significand) / guard) * 2 ** (-24 - exponent);
  return x < 0 ? -value : value;
}

/** Significand with the exponent's parity above it, and the exponent halved. */
function halved(x: number): readonly [number, number] {
  const [significand, exponent] = parts(x);
  return [significand + (exponent & 1) * 2 ** 23, exponent >> 1];
}

/** rsqrt.approx.f32. */
export function rsqrtApprox(x: number): number {
  if (!(x > 0 && x < Number.POSITIVE_INFINITY)) return x < 0 ? Number.NaN : 1 / x;
  if (x < smallest) return rsqrtApprox(x * 2 ** 24) * 2 ** 12;
  const [argument, half] = halved(x);
  if (argument === 0) return 2 ** -half;
  return Math.floor(interpolate(rsqrtSegments, argument) / guard) * 2 ** (-24 - half);
}

/** sqrt.approx.f32. */
export function sqrtApprox(x: number): number {
  if (!(x > 0 && x < Number.POSITIVE_INFINITY)) return x < 0 ? Number.NaN : x;
  if (x < smallest) return sqrtApprox(x * 2 ** 24) * 2 ** -12;
  const [argument, half] = halved(x);
  return Math.floor(interpolate(sqrtSegments, argument) / guard) * 2 ** (half - 23);
}

/** Units of the last place of 2^-126 to 2^127. */
const powers = Float64Array.from({ length: 254 }, (_, k) => 2 ** (k - 126 - 23));

/** ex2.approx.ftz.f32. */
function ex2Flushed(x: number): number {
  if (Number.isNaN(x)) return x;
  if (x >= 128) return Number.POSITIVE_INFINITY;
  if (x < -126) return 0;
  // A negative argument's fraction is the complement of its size's, unless that is zero.
  const size = Math.floor(Math.abs(x) * 2 ** 23);
  const rest = size % 2 ** 23;
  const below = x < 0 && rest !== 0;
  const whole = (x < 0 ? -1 : 1) * Math.floor(size * 2 ** -23) - (below ? 1 : 0);
  const fraction = below ? rest ^ 0x7fffff : rest;
  return Math.floor(interpolate(ex2Segments, fraction) / guard) * (powers[whole + 126] ?? 0);
}

/** ex2.approx.f32: below -126 the square of half the exponent's. `ftz`: of the form that flushes. */
export function ex2Approx(x: number, ftz = false): number {
  if (ftz || !(x < -126)) return ex2Flushed(x);
  const root = ex2Flushed(Math.fround(x * 0.5));
  return Math.fround(root * root);
}

/** The 16-bit forms of ex2 and tanh cut what the f32 form gives to `digits` bits, of places from `least` on. */
const cutTo =
  (digits: number, least: number) =>
  (x: number): number => {
    const size = Math.abs(x);
    if (!(size > 0 && size < Number.POSITIVE_INFINITY)) return x;
    const place = Math.max(2 ** (parts(Math.max(size, smallest))[1] + 1 - digits), least);
    return Math.trunc(x / place) * place;
  };
export const cutF16 = cutTo(11, 2 ** -24);
export const cutBf16 = cutTo(8, 2 ** -133);

/** Last place of a logarithm's fraction, which is cut before the exponent is added [H200, all arguments]. */
const lg2Unit = 2 ** -36;

/** lg2.approx.f32. Negative results are complements of sums: one unit nearer to 0 than their opposites. The segments give a power of two a fraction that is not 0; of 1 alone the result is 0 all the same. */
export function lg2Approx(x: number): number {
  if (!(x > 0 && x < Number.POSITIVE_INFINITY))
    return x < 0 ? Number.NaN : x === 0 ? Number.NEGATIVE_INFINITY : x;
  if (x === 1) return 0;
  if (x < smallest) return Math.fround(lg2Approx(x * 2 ** 24) - 24);
  const [significand, exponent] = parts(x);
  const units = Math.floor(interpolate(lg2Segments, significand) / (guard * 2 ** 23 * lg2Unit));
  return cut(exponent + (exponent < 0 ? units + 1 : units) * lg2Unit);
}

/** Sine of so many turns: 25 bits below the point, the first quadrant mirrored by complement. */
function sine(turns: number): number {
  const argument = turns & 0x7fffff;
  const mirrored = (turns & 0x800000) === 0 ? argument : argument ^ 0x7fffff;
  const value = cut(interpolate(sinSegments, mirrored) / (guard * 2 ** 24));
  return (turns & 0x1000000) === 0 ? value : -value;
}

/** Turns of an angle, in units of 2^-25: a product cut to 24 bits, then cut again. */
function turnsOf(x: number): number {
  const turns = Math.abs(cut(x * 0.15915493667125702));
  return Math.floor(turns * 2 ** 25) % 2 ** 25;
}

/** sin.approx.f32. */
export function sinApprox(x: number): number {
  if (!Number.isFinite(x)) return Number.NaN;
  const value = sine(turnsOf(x));
  return x < 0 || Object.is(x, -0) ? -value : value;
}

/** cos.approx.f32. */
export const cosApprox = (x: number): number =>
  Number.isFinite(x) ? sine((turnsOf(x) + 2 ** 23) % 2 ** 25) : Number.NaN;

/** tanh.approx.f32: itself below 2^-8, 1 from 8 on; between, low bits of the argument are cut that its exponent's segments have no place for. */
export function tanhApprox(x: number): number {
  const size = Math.abs(x);
  if (!(size >= 2 ** -8)) return x;
  if (size >= 8) return Math.sign(x);
  const [significand, exponent] = parts(size);
  const first = tanhFirst[exponent + 8] ?? 0;
  const count = (tanhFirst[exponent + 9] ?? 0) - first;
  const argument = Math.floor((significand * count) / 64);
  const sum = interpolate(tanhSegments, first * 2 ** 17 + argument);
  return Math.sign(x) * cut((sum / guard) * 2 ** (Math.min(exponent, -1) - 23));
}

const double = new DataView(new ArrayBuffer(8));
/** What lies in the upper 32 bits of an f64. */
function upper(x: number): number {
  double.setFloat64(0, x);
  double.setInt32(4, 0);
  return double.getFloat64(0);
}

/** Of a positive normal f64 the upper word's significand, 1 to 2, and the exponent. */
function scaled(x: number): readonly [number, number] {
  double.setFloat64(0, x);
  const high = double.getInt32(0);
  return [1 + (high & 0xfffff) * 2 ** -20, (high >> 20) - 1023];
}

const smallest64 = 2 ** -1022;

/** rcp.approx.ftz.f64: f32's interpolation of the upper word, cut to an upper word. */
export function rcpApprox64(x: number): number {
  const size = Math.abs(x);
  if (!(size >= smallest64)) return Number.isNaN(x) ? x : Object.is(x, -0) || x < 0 ? -1 / 0 : 1 / 0;
  if (size === Number.POSITIVE_INFINITY) return 1 / x;
  const [significand, exponent] = scaled(size);
  const value = upper(rcpApprox(significand));
  const whole = exponent < 1022 || (exponent === 1022 && value === 1) ? value * 2 ** -exponent : 0;
  return x < 0 ? -whole : whole;
}

/** rsqrt.approx.ftz.f64, in the same way. */
export function rsqrtFlushed64(x: number): number {
  if (!(Math.abs(x) >= smallest64)) return Number.isNaN(x) ? x : Object.is(x, -0) || x < 0 ? -1 / 0 : 1 / 0;
  if (!(x > 0 && x < Number.POSITIVE_INFINITY)) return x < 0 ? Number.NaN : 0;
  const [significand, exponent] = scaled(x);
  return upper(rsqrtApprox(significand * 2 ** (exponent & 1))) * 2 ** -(exponent >> 1);
}

/** rsqrt.approx.f64: the flushing form and one step behind it, as ptxas 13.0 has them; subnormal numbers are scaled. */
export function rsqrtApprox64(x: number): number {
  if (x > 0 && x < smallest64) return rsqrtApprox64(x * 2 ** 54) * 2 ** 27;
  const first = rsqrtFlushed64(x);
  if (!(x > 0 && x < Number.POSITIVE_INFINITY)) return first;
  const rest = fmaNearest(x, -(first * first), 1);
  return fmaNearest(fmaNearest(rest, 0.375, 0.5), first * rest, first);
}

/**
 * Both operands of div.full.f32 are scaled where the divisor or its reciprocal is no normal number, then one is multiplied by
 * the other's reciprocal.
 */
export function fullScale(divisor: number): number {
  const size = Math.abs(divisor);
  return size > 2 ** 126 ? 0.25 : size < smallest ? 2 ** 24 : 1;
}

/** The same of div.approx.f32. A divisor beyond 2^126 gives 0, or NaN for an infinite dividend: its reciprocal is flushed. */
export const approxScale = (divisor: number): number => (Math.abs(divisor) < smallest ? 2 ** 24 : 1);

/** What ptxas has for the reciprocal of a number that it knows. */
export const rcpExact = (x: number): number => Math.fround(1 / x);
