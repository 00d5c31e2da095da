/**
 * The approximate functions bit for bit. The multi-function unit of sm_80 and sm_90 interpolates each by segments of 2^16 or 2^17
 * arguments: c0 + c1 t + c2 t^2, where columns of t^2 below a place are never summed, cut to 24 bits (the scheme of S. Oberman and
 * M. Siu, "A high-performance area-efficient multifunction interpolator", ARITH 2005). All 2^32 arguments of rcp, rsqrt, sqrt, ex2,
 * lg2, sin and cos give what an H100 gives.
 */
import { ex2Rows, lg2Rows, rcpRows, rsqrtRows, sinRows, sqrtRows } from "./mufu-tables.ts";

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
}

function segments(
  text: string,
  [unit, bias, linear, quadratic]: readonly [number, number, number, number],
  bits = 17,
  column = 19,
): Segments {
  const rows = text.split(";").map((row) => row.split(",").map(Number));
  const of = (k: number, scale: number, add: number) =>
    Float64Array.from(rows, (row) => (row[k] ?? 0) * scale + add);
  return { c0: of(0, unit, bias), c1: of(1, linear, 0), c2: of(2, quadratic, 0), bits, column };
}

const rcpSegments = segments(rcpRows, [2 ** 15, 8092, 4, 4], 16, 17);
const rsqrtSegments = segments(rsqrtRows, [2 ** 15, 32766, 2, 8]);
const sqrtSegments = segments(sqrtRows, [2 ** 15, 32767, 1, 2]);
const ex2Segments = segments(ex2Rows, [2 ** 15, 24456, 4, 4]);
const lg2Segments = segments(lg2Rows, [2 ** 14, 3348, 4, 8]);
const sinSegments = segments(sinRows, [2 ** 15, 0, 16, 16]);

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
function interpolate({ c0, c1, c2, bits, column }: Segments, argument: number): number {
  const k = argument >>> bits;
  const t = argument & ((1 << bits) - 1);
  return (c0[k] ?? 0) + (c1[k] ?? 0) * t + (c2[k] ?? 0) * square(t, column);
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
  return Math.floor(interpolate(ex2Segments, fraction) / guard) * 2 ** (whole - 23);
}

/** ex2.approx.f32: below -126 the square of half the exponent's. `ftz`: of the form that flushes. */
export function ex2Approx(x: number, ftz = false): number {
  if (ftz || !(x < -126)) return ex2Flushed(x);
  const root = ex2Flushed(Math.fround(x * 0.5));
  return Math.fround(root * root);
}

/** The 16-bit forms of ex2 cut what the f32 form gives: a positive number to `digits` bits, of places from `least` on. */
const cutTo =
  (digits: number, least: number) =>
  (x: number): number => {
    if (!(x > 0 && x < Number.POSITIVE_INFINITY)) return x;
    const place = Math.max(2 ** (parts(Math.max(x, smallest))[1] + 1 - digits), least);
    return Math.floor(x / place) * place;
  };
export const cutF16 = cutTo(11, 2 ** -24);
export const cutBf16 = cutTo(8, 2 ** -133);

/** lg2.approx.f32. */
export function lg2Approx(x: number): number {
  if (!(x > 0 && x < Number.POSITIVE_INFINITY))
    return x < 0 ? Number.NaN : x === 0 ? Number.NEGATIVE_INFINITY : x;
  if (x < smallest) return Math.fround(lg2Approx(x * 2 ** 24) - 24);
  const [significand, exponent] = parts(x);
  return cut(exponent + interpolate(lg2Segments, significand) / (guard * 2 ** 23));
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

/** div.full.f32: the product with a reciprocal, both scaled where the divisor or its reciprocal is no normal number. */
export function divFull(a: number, b: number): number {
  const size = Math.abs(b);
  const scale = size > 2 ** 126 ? 0.25 : size < smallest ? 2 ** 24 : 1;
  return Math.fround(Math.fround(a * scale) * rcpApprox(Math.fround(b * scale)));
}

/** div.approx.f32: a divisor beyond 2^126 gives 0, or NaN for an infinite dividend. */
export function divApprox(a: number, b: number): number {
  const scale = Math.abs(b) < smallest ? 2 ** 24 : 1;
  const reciprocal = rcpApprox(b * scale);
  return Math.fround(
    Math.fround(a * scale) * (Math.abs(reciprocal) < smallest ? reciprocal * 0 : reciprocal),
  );
}
