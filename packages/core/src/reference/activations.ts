/** Activation functions in f64, with how much they stretch an error. */
import type { Activation } from "../problem.ts";

interface ActivationRow {
  readonly value: (x: number) => number;
  /** Largest slope: an error of the argument grows by at most this. */
  readonly slope: number;
  /** Whether a kernel evaluates it with approximate exponentials, not exactly. */
  readonly approximate: boolean;
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
const geluTanh = (x: number): number =>
  0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** One row per activation. gelu is the exact one, x/2 (1 + erf(x / sqrt 2)). */
export const activations: Readonly<Record<Activation, ActivationRow>> = {
  // -0 and NaN stay what they are.
  relu: { value: (x) => (x < 0 ? 0 : x), slope: 1, approximate: false },
  gelu: { value: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)), slope: 1.13, approximate: true },
  gelu_tanh: { value: geluTanh, slope: 1.13, approximate: true },
  silu: { value: (x) => x * sigmoid(x), slope: 1.1, approximate: true },
  sigmoid: { value: sigmoid, slope: 0.25, approximate: true },
  tanh: { value: Math.tanh, slope: 1, approximate: true },
};
