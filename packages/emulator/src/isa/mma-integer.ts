/** mma of integers and of single bits. */
import type { Register } from "../load/types.ts";
import type { Execution, Machine, Warp } from "../machine/state.ts";
import { gatherStored } from "../numerics/sparsity.ts";
import { tileDotInt } from "../numerics/tensor-dot.ts";
import { laneZero } from "./aligned.ts";
import type { Fragments } from "./fragments.ts";
import { type ElementType, elementTypes, type Form, indicesOf } from "./mma-forms.ts";
import type { StoredPositions } from "./sparse.ts";

// ---------------------------------------------------------------- integers

/** Exact; beyond 32 bits the result wraps, or stops at the ends with .satfinite. */
export function integerProduct(
  machine: Machine,
  form: Form,
  stored: StoredPositions,
): (by: Execution) => void {
  const { m, n, k, depth } = form.fragments;
  const { combine, saturate } = form;
  const index = indicesOf(form.fragments);
  const a = new Int16Array(m * depth);
  const b = new Int16Array(n * k);
  const c = new Int32Array(m * n);
  const met = new Int16Array(n * depth);
  const rowShape = { m: 1, n, k: depth };
  return (by) => {
    const { warp } = by;
    loadIntegers(machine, warp, form.a, index.a, form.aType, a);
    loadIntegers(machine, warp, form.b, index.b, form.bType, b);
    const { words } = machine.arena;
    form.c.forEach((register, r) => {
      const base = laneZero(warp, register);
      for (let l = 0; l < 32; l++) c[index.c[r * 32 + l] as number] = words[base + l] as number;
    });
    if (stored !== null) {
      const positions = stored(by);
      for (let row = 0; row < m; row++) {
        gatherStored(b, k, positions, row, met);
        const [from, to] = [a.subarray(row * depth, (row + 1) * depth), c.subarray(row * n, (row + 1) * n)];
        tileDotInt(rowShape, from, met, to, saturate);
      }
    } else if (combine === "multiply") tileDotInt(form.fragments, a, b, c, saturate);
    else combineBits(combine, form.fragments, a, b, c);
    form.d.forEach((register, r) => {
      const base = laneZero(warp, register);
      for (let l = 0; l < 32; l++) words[base + l] = c[index.d[r * 32 + l] as number] as number;
    });
  };
}

/** Counts of the bits that .xor or .and leaves; they do not saturate. */
function combineBits(
  combine: "xor" | "and",
  { m, n, k }: Fragments,
  a: Int16Array,
  b: Int16Array,
  c: Int32Array,
): void {
  for (let row = 0; row < m; row++)
    for (let column = 0; column < n; column++) {
      let count = 0;
      for (let i = 0; i < k; i++) {
        const x = a[row * k + i] as number;
        const y = b[column * k + i] as number;
        count += combine === "xor" ? x ^ y : x & y;
      }
      c[row * n + column] = ((c[row * n + column] as number) + count) | 0;
    }
}

function loadIntegers(
  machine: Machine,
  warp: Warp,
  registers: readonly Register[],
  index: Int32Array,
  type: ElementType,
  to: Int16Array,
): void {
  const { words } = machine.arena;
  const { bits } = elementTypes[type];
  const parts = 32 / bits;
  const signed = type === "s8" || type === "s4";
  let from = 0;
  for (const register of registers) {
    const base = laneZero(warp, register);
    for (let l = 0; l < 32; l++) {
      const word = words[base + l] as number;
      for (let p = 0; p < parts; p++) {
        // Up to the top of the word, and back down with its sign or zeros.
        const top = word << (32 - bits * (p + 1));
        to[index[from] as number] = signed ? top >> (32 - bits) : top >>> (32 - bits);
        from += 1;
      }
    }
  }
}
