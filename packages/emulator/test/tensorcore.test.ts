/** The arithmetic of tensor cores against big integers, and the fragment layouts. */
import { decode } from "@tilewright/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fragmentRows, fragmentsOf } from "../src/isa/fragments.ts";
import { fma64 } from "../src/numerics/exact.ts";
import { fmaNearest } from "../src/numerics/fma64.ts";
import { createTile, multiplyTile } from "../src/numerics/fused-dot.ts";
import { operandTable } from "../src/numerics/operands.ts";
import { arithmeticOf, type StepArithmetic, stepOf } from "../src/numerics/tensorcore.ts";

// ---------------------------------------------------------------- an independent model in big integers

/** Exact value n * 2^-400, and the exponent of alignment; null for zero. */
interface Term {
  readonly value: bigint;
  readonly exponent: number | null;
}
const unit = 400;

/** A finite double as an integer times 2^-400. */
function fixed(x: number): bigint {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0);
  const field = Number((bits >> 52n) & 0x7ffn);
  const fraction = bits & 0xfffffffffffffn;
  const [mantissa, exponent] = field === 0 ? [fraction, -1074] : [fraction | (1n << 52n), field - 1075];
  const shift = exponent + unit;
  const magnitude = shift >= 0 ? mantissa << BigInt(shift) : mantissa >> BigInt(-shift);
  return bits >> 63n === 1n ? -magnitude : magnitude;
}

const bitLength = (x: bigint): number => (x < 0n ? -x : x).toString(2).length;
const leading = (x: number): number => bitLength(fixed(x)) - 1 - unit;
const truncated = (value: bigint, shift: number): bigint => {
  if (shift <= 0) return value;
  const magnitude = (value < 0n ? -value : value) >> BigInt(shift);
  return value < 0n ? -magnitude : magnitude;
};

/** One fused step: terms cut `fraction` bits below the largest exponent, added, and the exact sum. */
function fusedSum(terms: readonly Term[], fraction: number): bigint {
  const exponent = Math.max(...terms.map((t) => t.exponent ?? -126));
  const shift = exponent - fraction + unit;
  const sum = terms.reduce((total, t) => total + truncated(t.value, shift), 0n);
  return sum << BigInt(shift);
}

/** Rounds n * 2^-400 to a format: towards zero, or to nearest even for f16. Gives a double. */
function rounded(value: bigint, mantissa: number, least: number, nearest: boolean): number {
  if (value === 0n) return 0;
  const lead = bitLength(value) - 1 - unit;
  const shift = Math.max(lead, least) - mantissa + unit;
  let magnitude = value < 0n ? -value : value;
  const rest = magnitude & ((1n << BigInt(shift)) - 1n);
  magnitude >>= BigInt(shift);
  const half = 1n << BigInt(shift - 1);
  if (nearest && (rest > half || (rest === half && (magnitude & 1n) === 1n))) magnitude += 1n;
  const x = Number(magnitude) * 2 ** (shift - unit);
  const limited = x >= (nearest ? 65520 : 2 ** 128) ? Number.POSITIVE_INFINITY : x;
  return value < 0n && limited !== 0 ? -limited : limited;
}

function model(
  a: readonly number[],
  b: readonly number[],
  c: number,
  minimum: readonly [number, number],
  arithmetic: StepArithmetic,
  half: boolean,
): number {
  const exponentOf = (x: number, least: number): number | null =>
    x === 0 ? null : Math.max(leading(x), least);
  let sum = c;
  const step = Math.min(a.length, arithmetic.step);
  for (let from = 0; from < a.length; from += step) {
    const terms: Term[] = [{ value: fixed(sum), exponent: exponentOf(sum, half ? -14 : -126) }];
    for (let k = from; k < from + step; k++) {
      const [x, y] = [a[k] ?? 0, b[k] ?? 0];
      const [ex, ey] = [exponentOf(x, minimum[0]), exponentOf(y, minimum[1])];
      // A product is exact in a double; its exponent is the sum of the factors', not that of the product.
      terms.push({ value: fixed(x * y), exponent: ex === null || ey === null ? null : ex + ey });
    }
    const exact = fusedSum(terms, arithmetic.fraction);
    sum = half ? rounded(exact, 10, -14, true) : rounded(exact, arithmetic.mantissa, -126, false);
    if (!Number.isFinite(sum)) return sum;
  }
  return sum;
}

// ---------------------------------------------------------------- numerics

describe("fused dot products", () => {
  const formats = { f16: -14, bf16: -126, e4m3: -6, e5m2: -14 } as const;
  const names = ["f16", "bf16", "e4m3", "e5m2"] as const;
  const finite = (format: (typeof names)[number], seed: number): number => {
    const x = decode(format, seed % (format === "f16" || format === "bf16" ? 65536 : 256));
    return Number.isFinite(x) ? x : 0;
  };
  test.each(["sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_120"])(
    "of %s are those of the model in big integers",
    (target) => {
      const arithmetic = arithmeticOf(target);
      if (arithmetic === null) throw new Error(target);
      const code = fc.integer({ min: 0, max: 65535 });
      fc.assert(
        fc.property(
          fc.constantFrom(...names),
          fc.array(fc.tuple(code, code), { minLength: 16, maxLength: 16 }),
          fc.float({ noNaN: true, noDefaultInfinity: true }),
          fc.boolean(),
          (format, codes, accumulator, wantsHalf) => {
            const half = wantsHalf && format !== "bf16";
            const step = stepOf(arithmetic, format);
            const a = codes.map(([x]) => finite(format, x));
            const b = codes.map(([, y]) => finite(format, y));
            const c = half ? finite("f16", codes[0]?.[0] ?? 0) : accumulator;
            const tile = createTile(1, 1, 16, 1);
            const table = operandTable(format);
            codes.forEach(([x, y], k) => {
              const size = table.values.length;
              const put = (values: Float64Array, exponents: Int32Array, value: number, at: number): void => {
                values[k] = value;
                // Infinities and NaN were replaced by zero above.
                exponents[k] = value === 0 ? (table.exponents[0] ?? 0) : (table.exponents[at % size] ?? 0);
              };
              put(tile.a, tile.aExponents, a[k] ?? 0, x);
              put(tile.b, tile.bExponents, b[k] ?? 0, y);
            });
            tile.c[0] = c;
            multiplyTile(tile, 0, step, half);
            expect(tile.c[0]).toBe(model(a, b, c, [formats[format], formats[format]], step, half));
          },
        ),
        { numRuns: 300, seed: 1 },
      );
    },
  );

  test("targets have the arithmetic of their generation", () => {
    expect(arithmeticOf("sm_86")?.name).toBe("Ampere");
    expect(arithmeticOf("sm_90a")?.name).toBe("Hopper");
    expect(arithmeticOf("sm_100f")?.name).toBe("Blackwell");
    for (const none of ["sm_61", "sm_", "90", "hopper", ""]) expect(arithmeticOf(none)).toBeNull();
  });
});

describe("fma of doubles", () => {
  test("is the exact one rounded once", () => {
    const near = fc.tuple(
      fc.double({ min: 1, max: 2, noNaN: true }),
      fc.integer({ min: -60, max: 60 }),
      fc.boolean(),
    );
    const number = near.map(([x, e, negative]) => (negative ? -x : x) * 2 ** e);
    fc.assert(
      fc.property(number, number, number, fc.integer({ min: 0, max: 2 }), (a, b, c, kind) => {
        // Accumulators that nearly cancel the product, and ties, are where one rounding differs from two.
        const addend = kind === 0 ? c : kind === 1 ? -(a * b) : a * b * 2 ** 53;
        expect(fmaNearest(a, b, addend)).toBe(fma64(a, b, addend, "rn"));
      }),
      { numRuns: 3000, seed: 2 },
    );
    fc.assert(
      fc.property(fc.double(), fc.double(), fc.double(), (a, b, c) => {
        expect(fmaNearest(a, b, c)).toBe(fma64(a, b, c, "rn"));
      }),
      { numRuns: 2000, seed: 3 },
    );
    expect(fma64(1e300, -1e300, Number.POSITIVE_INFINITY, "rn")).toBe(Number.POSITIVE_INFINITY);
  });
});

// ---------------------------------------------------------------- fragments

describe("fragment layouts", () => {
  const requests = [
    ...fragmentRows.flatMap(({ shape, bits }) =>
      (bits === 64 ? [64] : bits < 8 ? [32] : [16, 32]).map((c) => ({
        shape,
        bits,
        cBits: c,
        dBits: c,
        aOrder: "row" as const,
        bOrder: "col" as const,
      })),
    ),
    ...(["row", "col"] as const).flatMap((aOrder) =>
      (["row", "col"] as const).map((bOrder) => ({
        shape: "m8n8k4",
        bits: 16,
        cBits: 16,
        dBits: 32,
        aOrder,
        bOrder,
      })),
    ),
  ].filter((r) => !(r.shape.startsWith("m8n8k") && r.bits !== 16 && r.cBits === 16));

  test.each(requests)(
    "$shape of $bits bits, accumulators of $cBits, $aOrder.$bOrder: each element once",
    (request) => {
      const fragments = fragmentsOf(request);
      if (fragments === null) throw new Error("no layout");
      const { m, n, k, tiles } = fragments;
      const covers = (
        name: "a" | "b" | "c" | "d",
        axes: readonly [["m" | "n", number], ["k" | "n", number]],
      ): void => {
        const fragment = fragments[name];
        const seen = new Set<string>();
        for (let lane = 0; lane < 32; lane++)
          for (let r = 0; r < fragment.registers; r++)
            for (let p = 0; p < fragment.parts; p++) {
              const at = fragment.at(lane, r, p);
              for (const [axis, extent] of axes) expect(at[axis]).toBeLessThan(extent);
              expect(at.t).toBeLessThan(tiles);
              seen.add(`${at.t}/${at[axes[0][0]]}/${at[axes[1][0]]}`);
            }
        const size = tiles * axes[0][1] * axes[1][1];
        expect(seen.size, name).toBe(size);
        expect(32 * fragment.registers * fragment.parts, name).toBe(size);
      };
      covers("a", [
        ["m", m],
        ["k", k],
      ]);
      covers("b", [
        ["n", n],
        ["k", k],
      ]);
      covers("c", [
        ["m", m],
        ["n", n],
      ]);
      covers("d", [
        ["m", m],
        ["n", n],
      ]);
    },
  );

  test("forms that do not exist have none", () => {
    const base = { shape: "m16n8k16", bits: 16, cBits: 32, dBits: 32, aOrder: "row", bOrder: "col" } as const;
    expect(fragmentsOf(base)).not.toBeNull();
    expect(fragmentsOf({ ...base, aOrder: "col" })).toBeNull();
    expect(fragmentsOf({ ...base, shape: "m16n8k64" })).toBeNull();
    expect(fragmentsOf({ ...base, shape: "16x8" })).toBeNull();
  });
});
