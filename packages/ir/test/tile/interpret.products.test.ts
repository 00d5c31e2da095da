/** Dense products of the interpreter: bit for bit those of the plain loop, whatever is left out of them. */

import { createRandom, fmaF32 } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { multiplyDense } from "../../src/tile/interpret/products.ts";

const kinds = [
  { name: "f32", make: (n: number) => new Float32Array(n), add: fmaF32 },
  {
    name: "f64",
    make: (n: number) => new Float64Array(n),
    add: (x: number, y: number, sum: number) => sum + x * y,
  },
  {
    name: "integers",
    make: (n: number) => new Int32Array(n),
    add: (x: number, y: number, sum: number) => (sum + Math.imul(x, y)) | 0,
  },
] as const;

describe.each(kinds)("$name", ({ name, make, add }) => {
  test("zeros behind the last element, -0, NaN and infinities give the bits of the whole loop", () => {
    const random = createRandom(7);
    let [negative, special] = [0, 0];
    for (let seed = 0; seed < 300; seed++) {
      const [m, n, k] = [random.integer(1, 6), random.integer(1, 6), random.integer(1, 6)];
      const [liveM, liveN, liveK] = [random.integer(0, m), random.integer(0, n), random.integer(0, k)];
      const odd = name === "integers" ? [] : [Number.NaN, Number.POSITIVE_INFINITY, -0];
      const value = (): number =>
        odd.length > 0 && random.integer(0, 40) === 0
          ? (odd[random.integer(0, odd.length - 1)] ?? 0)
          : random.integer(-3, 3);
      const a = Float64Array.from({ length: m * k }, (_, i) =>
        Math.floor(i / k) < liveM && i % k < liveK ? value() : 0,
      );
      const b = Float64Array.from({ length: k * n }, (_, i) =>
        Math.floor(i / n) < liveK && i % n < liveN ? value() : 0,
      );
      // Columns lie two apart, rows in reverse.
      const rowOf = (i: number): number => (m - 1 - i) * 2 * n;
      const want = make(2 * m * n).map(() => (random.integer(0, 20) === 0 ? -0 : random.integer(-2, 2)));
      const out = want.slice();
      negative += [...want].some((x) => Object.is(x, -0)) ? 1 : 0;
      special += [...a, ...b].some((x) => !Number.isFinite(x)) ? 1 : 0;
      for (let i = 0; i < m; i++)
        for (let j = 0; j < n; j++)
          for (let kk = 0; kk < k; kk++) {
            const at = rowOf(i) + 2 * j;
            want[at] = add(a[i * k + kk] ?? 0, b[kk * n + j] ?? 0, want[at] ?? 0);
          }
      multiplyDense(out, rowOf, 2, a, b, { m, n, k });
      expect([...out], `seed ${seed}`).toEqual([...want]);
    }
    // Both reasons to leave nothing out occur, and neither always.
    for (const count of name === "integers" ? [] : [negative, special]) {
      expect(count).toBeGreaterThan(10);
      expect(count).toBeLessThan(290);
    }
  });
});
