/** `fma.rn.f64` in doubles, for the products of f64 matrices: what `exact.ts` computes with big integers, some fifty times faster. */
import { fma64 } from "./exact.ts";

const scratch = new Float64Array(1);
const words = new Int32Array(scratch.buffer);

/** Within these magnitudes no partial result overflows or loses bits to underflow. */
const least = 2 ** -900;
const most = 2 ** 900;
const inRange = (x: number): boolean => x === 0 || (x > least && x < most) || (x < -least && x > -most);

/** 2^27 + 1: splits a double into two halves of 26 bits (Dekker 1971). */
const splitter = 134217729;

/**
 * a * b + c rounded once, to nearest even. The exact sum is split into a leading double and a rest; the rest rounded to odd
 * leaves the last addition to round rightly (Boldo and Melquiond 2008, algorithm 5).
 */
export function fmaNearest(a: number, b: number, c: number): number {
  const p = a * b;
  if (!inRange(p) || !inRange(c) || !inRange(a) || !inRange(b)) return fma64(a, b, c, "rn");
  const sa = splitter * a;
  const ah = sa - (sa - a);
  const al = a - ah;
  const sb = splitter * b;
  const bh = sb - (sb - b);
  const bl = b - bh;
  const low = al * bl - (p - ah * bh - al * bh - ah * bl);
  if (low === 0) return p + c;
  const t = c + low;
  const tPart = t - c;
  const tError = c - (t - tPart) + (low - tPart);
  const v = p + t;
  const vPart = v - p;
  const vError = p - (v - vPart) + (t - vPart);
  return v + oddSum(tError, vError);
}

/** x + y rounded to odd: an inexact sum has its last bit set. */
function oddSum(x: number, y: number): number {
  const s = x + y;
  const part = s - x;
  const error = x - (s - part) + (y - part);
  if (error === 0) return s;
  scratch[0] = s;
  const low = words[0] as number;
  if ((low & 1) === 1) return s;
  if (error > 0 === s > 0) words[0] = low | 1;
  else {
    words[0] = low - 1;
    if (low === 0) words[1] = (words[1] as number) - 1;
  }
  return scratch[0] as number;
}
