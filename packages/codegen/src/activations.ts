/**
 * Activations on one f32 register, from ex2.approx and rcp.approx (PTX ISA: 2^-22 and 1 ulp); the caller's predicate guards each. Powers are added to 1 or stand in place of
 * an error, and reciprocals are of 1 and more, so that flushing changes no result by more than 2^-126 of x.
 */
import { type Activation, hasFeature } from "@tilewright/core";
import { Arithmetic, type F32 } from "./arithmetic.ts";
import type { Pred } from "./code.ts";
import type { Context } from "./context.ts";

/** 1 / (1 + 2^(-x log2 e)); the power overflows to infinity for very negative x, and its reciprocal is 0. */
const sigmoid = (on: Arithmetic, x: F32): F32 =>
  on.reciprocalFtz(on.add(on.exp2Ftz(on.mul(x, -Math.LOG2E)), 1));

/** Below this |x| the quotient form of tanh cancels, and four terms of its series are exact to f32. */
const TANH_SERIES_BELOW = 0.25;

function tanh(on: Arithmetic, x: F32): F32 {
  const magnitude = on.abs(x);
  const square = on.mul(x, x);
  // x - x^3/3 + 2x^5/15 - 17x^7/315 + 62x^9/2835
  const slope = on.fma(on.fma(on.fma(square, 62 / 2835, -17 / 315), square, 2 / 15), square, -1 / 3);
  const series = on.fma(on.mul(slope, square), x, x);
  // 1 - 2 / (1 + e^(2|x|)): the power may overflow, the quotient is then 0.
  const quotient = on.reciprocalFtz(on.add(on.exp2Ftz(on.mul(magnitude, 2 * Math.LOG2E)), 1));
  const large = on.withSignOf(on.fma(quotient, -2, 1), x);
  return on.selectBelow(magnitude, TANH_SERIES_BELOW, series, large);
}

/** erf by Abramowitz and Stegun 7.1.26, absolute error 1.5e-7. */
function erf(on: Arithmetic, x: F32): F32 {
  const magnitude = on.abs(x);
  const t = on.reciprocalFtz(on.fma(magnitude, 0.3275911, 1));
  const rest = [1.421413741, -0.284496736, 0.254829592].reduce(
    (sum, coefficient) => on.fma(sum, t, coefficient),
    on.fma(t, 1.061405429, -1.453152027),
  );
  const power = on.exp2Ftz(on.mul(on.mul(magnitude, magnitude), -Math.LOG2E));
  const tail = on.mul(on.mul(rest, t), power);
  return on.withSignOf(on.fma(tail, -1, 1), x);
}

const table: Readonly<Record<Activation, (on: Arithmetic, x: F32) => F32>> = {
  relu: (on, x) => on.atLeast(x, 0),
  sigmoid,
  silu: (on, x) => on.mul(x, sigmoid(on, x)),
  tanh,
  // x/2 (1 + tanh u) is x sigmoid(2u), and 2u is x times a polynomial of its square.
  gelu_tanh(on, x) {
    const scale = -2 * Math.sqrt(2 / Math.PI) * Math.LOG2E;
    const power = on.exp2Ftz(on.mul(on.fma(on.mul(x, x), scale * 0.044715, scale), x));
    return on.mul(x, on.reciprocalFtz(on.add(power, 1)));
  },
  gelu(on, x) {
    const half = on.mul(x, 0.5);
    return on.fma(half, erf(on, on.mul(x, Math.SQRT1_2)), half);
  },
  tanh_approx: (on, x) => on.tanhApprox(x),
  sigmoid_approx: (on, x) => on.fma(on.tanhApprox(on.mul(x, 0.5)), 0.5, 0.5),
  silu_approx(on, x) {
    const half = on.mul(x, 0.5);
    return on.fma(on.tanhApprox(half), half, half);
  },
  gelu_tanh_approx(on, x) {
    const scale = Math.sqrt(2 / Math.PI);
    const u = on.mul(on.fma(on.mul(x, x), scale * 0.044715, scale), x);
    const half = on.mul(x, 0.5);
    return on.fma(on.tanhApprox(u), half, half);
  },
};

/** tanh.approx came with sm_75 (PTX ISA, tanh). Before, the forms `_approx` are those of the exponential. */
const BEFORE_TANH: Readonly<Partial<Record<Activation, Activation>>> = {
  tanh_approx: "tanh",
  sigmoid_approx: "sigmoid",
  silu_approx: "silu",
  gelu_tanh_approx: "gelu_tanh",
};

/** The activation of `x` under a predicate. */
export const lowerActivation = (ctx: Context, guard: Pred | null, fn: Activation, x: F32): F32 =>
  table[(hasFeature(ctx.target, "tanh.approx") ? undefined : BEFORE_TANH[fn]) ?? fn](
    new Arithmetic(ctx, guard),
    x,
  );
