/** Activation functions in f64, with how much they stretch an error. */
import type { Activation } from "../problem.ts";

interface ActivationRow {
  readonly value: (x: number) => number;
  /** Largest slope: an error of the argument grows by at most this. */
  readonly slope: number;
  /** Largest error of a kernel's evaluation beside its last rounding, by the argument and the value; null where it is exact. */
  readonly error: ((x: number, value: number) => number) | null;
}

/**
 * erf by series and continued fraction, about 1e-15: Abramowitz and Stegun 7.1.6 (all terms positive, so no cancellation) and the
 * continued fraction of erfc, 7.1.14, beyond 3.
 */
export function erf(x: number): number {
  if (Number.isNaN(x)) return x;
  const magnitude = Math.abs(x);
  if (magnitude > 6) return Math.sign(x);
  if (magnitude < 3) {
    let term = 1;
    let sum = 1;
    for (let n = 1; term > 1e-18 * sum; n++) {
      term *= (2 * magnitude * magnitude) / (2 * n + 1);
      sum += term;
    }
    return ((2 * x) / Math.sqrt(Math.PI)) * Math.exp(-magnitude * magnitude) * sum;
  }
  let fraction = 0;
  for (let n = 60; n >= 1; n--) fraction = n / 2 / (magnitude + fraction);
  return (
    Math.sign(x) * (1 - Math.exp(-magnitude * magnitude) / (Math.sqrt(Math.PI) * (magnitude + fraction)))
  );
}

const sigmoid = (x: number): number => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));
const silu = (x: number): number => x * sigmoid(x);
const geluTanh = (x: number): number =>
  0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** The few roundings of an approximate exponential (ex2.approx: 2^-22 relative, then a division), whose argument may be rounded. */
export const EXPONENTIAL_ERROR = 2 ** -20;
const byExponential = (x: number, value: number): number =>
  (Math.abs(value) + Math.min(1, Math.abs(x))) * EXPONENTIAL_ERROR;

/** Half the relative error of tanh.approx, which is at most 2^-11 (PTX ISA, tanh), and the roundings of its argument. */
const HALF_TANH_ERROR = 2 ** -12 + 2 ** -20;
/** x/2 + x/2 tanh(...). */
const byTanh = (x: number, value: number): number =>
  Math.abs(x) * HALF_TANH_ERROR + Math.abs(value) * EXPONENTIAL_ERROR;

/** One row per activation. gelu is the exact one, x/2 (1 + erf(x / sqrt 2)). */
export const activations: Readonly<Record<Activation, ActivationRow>> = {
  // NaN stays NaN.
  relu: { value: (x) => (x < 0 ? 0 : x), slope: 1, error: null },
  gelu: { value: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)), slope: 1.13, error: byExponential },
  gelu_tanh: { value: geluTanh, slope: 1.13, error: byExponential },
  silu: { value: silu, slope: 1.1, error: byExponential },
  sigmoid: { value: sigmoid, slope: 0.25, error: byExponential },
  tanh: { value: Math.tanh, slope: 1, error: byExponential },
  gelu_tanh_approx: { value: geluTanh, slope: 1.13, error: byTanh },
  silu_approx: { value: silu, slope: 1.1, error: byTanh },
  sigmoid_approx: {
    value: sigmoid,
    slope: 0.25,
    error: (x) => HALF_TANH_ERROR * Math.min(1, Math.abs(x)) + EXPONENTIAL_ERROR,
  },
  tanh_approx: { value: Math.tanh, slope: 1, error: (_, value) => 2 * HALF_TANH_ERROR * Math.abs(value) },
};
