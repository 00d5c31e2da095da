/** mma of doubles. */
import type { Register } from "../load/types.ts";
import type { Execution, Machine, Warp } from "../machine/state.ts";
import { bitsDouble, doubleHigh, doubleLow } from "../numerics/bits.ts";
import { fma64 } from "../numerics/exact.ts";
import { fmaNearest } from "../numerics/fma64.ts";
import { laneZero } from "./aligned.ts";
import { type Form, indicesOf } from "./mma-forms.ts";

// ---------------------------------------------------------------- f64

/** One fused multiply-add per element of K, in ascending order. */
export function doubleProduct(machine: Machine, form: Form): (by: Execution) => void {
  const { m, n, k } = form.fragments;
  const index = indicesOf(form.fragments);
  const a = new Float64Array(m * k);
  const b = new Float64Array(n * k);
  const c = new Float64Array(m * n);
  const { rounding } = form;
  return ({ warp }) => {
    loadDoubles(machine, warp, form.a, index.a, a);
    loadDoubles(machine, warp, form.b, index.b, b);
    loadDoubles(machine, warp, form.c, index.c, c);
    for (let row = 0; row < m; row++)
      for (let column = 0; column < n; column++) {
        let sum = c[row * n + column] as number;
        for (let i = 0; i < k; i++) {
          const [x, y] = [a[row * k + i] as number, b[column * k + i] as number];
          sum = rounding === "rn" ? fmaNearest(x, y, sum) : fma64(x, y, sum, rounding);
        }
        c[row * n + column] = sum;
      }
    const { words } = machine.arena;
    form.d.forEach((register, r) => {
      for (let l = 0; l < 32; l++) {
        const value = c[index.d[r * 32 + l] as number] as number;
        const [low, high] = wordsOf64(warp, register, l);
        words[low] = doubleLow(value);
        words[high] = doubleHigh(value);
      }
    });
  };
}

const wordsOf64 = (warp: Warp, register: Register, lane: number): readonly [number, number] =>
  register.cls === "f64"
    ? [laneZero(warp, register) + 2 * lane, laneZero(warp, register) + 2 * lane + 1]
    : [laneZero(warp, register) + lane, laneZero(warp, register) + 32 + lane];

function loadDoubles(
  machine: Machine,
  warp: Warp,
  registers: readonly Register[],
  index: Int32Array,
  to: Float64Array,
): void {
  const { words } = machine.arena;
  registers.forEach((register, r) => {
    for (let l = 0; l < 32; l++) {
      const [low, high] = wordsOf64(warp, register, l);
      to[index[r * 32 + l] as number] = bitsDouble(words[low] as number, words[high] as number);
    }
  });
}
