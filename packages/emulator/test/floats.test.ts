/** Floating-point instructions against exact rationals, rounded by search (model.ts). */
import { fc, test } from "@fast-check/vitest";
import { describe, expect } from "vitest";
import {
  compare,
  type Exact,
  exactOf,
  execute,
  type Format,
  formats,
  isInfinite,
  isNaNBits,
  plus,
  type Rounding,
  roundBy,
  roundExact,
  type Type,
  times,
} from "./model.ts";

const { f16, bf16, f32, f64 } = formats;

/** Bit patterns of a format: everything, with zeros, subnormals, infinities, NaN, powers of two and close neighbours often. */
const bitsOf = (f: Format): fc.Arbitrary<bigint> => {
  const top = 1n << BigInt(f.bits);
  const mantissa = 1n << BigInt(f.mantissa);
  const one = BigInt(f.bias) * mantissa;
  return fc.oneof(
    fc.bigInt({ min: 0n, max: top - 1n }),
    fc.constantFrom(
      0n,
      top / 2n,
      1n,
      mantissa - 1n,
      mantissa,
      mantissa + 1n,
      one,
      one + 1n,
      one - 1n,
      one + top / 2n,
    ),
    fc.bigInt({ min: one - 6n * mantissa, max: one + 6n * mantissa }),
    fc.bigInt({ min: 0n, max: 4n * mantissa }),
  );
};
const lists = (f: Format) =>
  fc.array(fc.tuple(bitsOf(f), bitsOf(f), bitsOf(f)), { minLength: 80, maxLength: 160 });

const finite = (f: Format, ...xs: readonly bigint[]): boolean =>
  xs.every((x) => !isNaNBits(f, x) && !isInfinite(f, x));
const negative = (f: Format, x: bigint): boolean => x >> BigInt(f.bits - 1) === 1n;
const isZero = (f: Format, x: bigint): boolean => exactOf(f, x).num === 0n;
const flush = (f: Format, x: bigint): bigint => {
  const sign = (x >> BigInt(f.bits - 1)) << BigInt(f.bits - 1);
  return (x - sign) >> BigInt(f.mantissa) === 0n ? sign : x;
};

/** A sum that is zero: x + (-x) is +0, and -0 when rounding down; equal zeros keep their sign. */
function zeroSign(allNegative: boolean, anyNegative: boolean, rounding: Rounding): boolean {
  return allNegative || (anyNegative && rounding === "rm");
}

interface FloatRow {
  readonly text: string;
  readonly type: Type;
  readonly format: Format;
  /** Expected bits, or null where infinities and NaN are left to other tests. */
  readonly model: (a: bigint, b: bigint, c: bigint) => bigint | null;
  readonly operands: number;
}
const rows: FloatRow[] = [];

function fma(f: Format, a: bigint, b: bigint, c: bigint, rounding: Rounding): bigint | null {
  if (!finite(f, a, b, c)) return null;
  const product = times(exactOf(f, a), exactOf(f, b));
  const exact = plus(product, exactOf(f, c));
  const productNegative = negative(f, a) !== negative(f, b);
  const [x, y] = [productNegative, negative(f, c)];
  return roundExact(f, exact, rounding, exact.num === 0n && zeroSign(x && y, x || y, rounding));
}
const one = (f: Format): bigint => BigInt(f.bias) << BigInt(f.mantissa);
const flip = (f: Format, x: bigint): bigint => x ^ (1n << BigInt(f.bits - 1));

function division(f: Format, a: bigint, b: bigint, rounding: Rounding): bigint | null {
  if (!finite(f, a, b) || isZero(f, a) || isZero(f, b)) return null;
  const [x, y] = [exactOf(f, a), exactOf(f, b)];
  const size = (e: Exact): Exact => ({ num: e.num < 0n ? -e.num : e.num, exp: e.exp });
  return roundBy(f, (q) => compare(times(q, size(y)), size(x)), rounding, negative(f, a) !== negative(f, b));
}
function squareRoot(f: Format, a: bigint, rounding: Rounding): bigint | null {
  if (!finite(f, a) || negative(f, a) || isZero(f, a)) return null;
  return roundBy(f, (q) => compare(times(q, q), exactOf(f, a)), rounding, false);
}

for (const [name, f] of [
  ["f32", f32],
  ["f64", f64],
] as const) {
  const type: Type = name;
  for (const rounding of ["rn", "rz", "rm", "rp"] as const) {
    rows.push(
      {
        text: `add.${rounding}.${name} $0, $1, $2;`,
        type,
        format: f,
        operands: 2,
        model: (a, b) => fma(f, a, one(f), b, rounding),
      },
      {
        text: `sub.${rounding}.${name} $0, $1, $2;`,
        type,
        format: f,
        operands: 2,
        model: (a, b) => fma(f, a, one(f), flip(f, b), rounding),
      },
      // A product takes the sign of its factors also when it is zero: add the zero of that sign.
      {
        text: `mul.${rounding}.${name} $0, $1, $2;`,
        type,
        format: f,
        operands: 2,
        model: (a, b) => fma(f, a, b, negative(f, a) !== negative(f, b) ? flip(f, 0n) : 0n, rounding),
      },
      {
        text: `fma.${rounding}.${name} $0, $1, $2, $3;`,
        type,
        format: f,
        operands: 3,
        model: (a, b, c) => fma(f, a, b, c, rounding),
      },
      {
        text: `div.${rounding}.${name} $0, $1, $2;`,
        type,
        format: f,
        operands: 2,
        model: (a, b) => division(f, a, b, rounding),
      },
      {
        text: `rcp.${rounding}.${name} $0, $1;`,
        type,
        format: f,
        operands: 1,
        model: (a) => division(f, one(f), a, rounding),
      },
      {
        text: `sqrt.${rounding}.${name} $0, $1;`,
        type,
        format: f,
        operands: 1,
        model: (a) => squareRoot(f, a, rounding),
      },
    );
  }
}
const ftz =
  (model: (a: bigint, b: bigint, c: bigint) => bigint | null) => (a: bigint, b: bigint, c: bigint) => {
    const result = model(flush(f32, a), flush(f32, b), flush(f32, c));
    return result === null ? null : flush(f32, result);
  };
rows.push(
  {
    text: "add.ftz.f32 $0, $1, $2;",
    type: "f32",
    format: f32,
    operands: 2,
    model: ftz((a, b) => fma(f32, a, one(f32), b, "rn")),
  },
  {
    text: "fma.rn.ftz.f32 $0, $1, $2, $3;",
    type: "f32",
    format: f32,
    operands: 3,
    model: ftz((a, b, c) => fma(f32, a, b, c, "rn")),
  },
  {
    text: "fma.rz.ftz.f32 $0, $1, $2, $3;",
    type: "f32",
    format: f32,
    operands: 3,
    model: ftz((a, b, c) => fma(f32, a, b, c, "rz")),
  },
  {
    text: "div.rn.ftz.f32 $0, $1, $2;",
    type: "f32",
    format: f32,
    operands: 2,
    model: ftz((a, b) => division(f32, a, b, "rn")),
  },
);
for (const [name, f] of [
  ["f16", f16],
  ["bf16", bf16],
] as const) {
  // Half registers are .b16: the harness moves them as such.
  rows.push(
    {
      text: `fma.rn.${name} $0, $1, $2, $3;`,
      type: "b16",
      format: f,
      operands: 3,
      model: (a, b, c) => fma(f, a, b, c, "rn"),
    },
    {
      text: `add.${name} $0, $1, $2;`,
      type: "b16",
      format: f,
      operands: 2,
      model: (a, b) => fma(f, a, one(f), b, "rn"),
    },
    {
      text: `sub.${name} $0, $1, $2;`,
      type: "b16",
      format: f,
      operands: 2,
      model: (a, b) => fma(f, a, one(f), flip(f, b), "rn"),
    },
    {
      text: `mul.${name} $0, $1, $2;`,
      type: "b16",
      format: f,
      operands: 2,
      model: (a, b) => fma(f, a, b, negative(f, a) !== negative(f, b) ? flip(f, 0n) : 0n, "rn"),
    },
  );
}

describe("arithmetic is exactly rounded", () => {
  for (const row of rows)
    test.prop([lists(row.format)], { numRuns: 2 })(row.text, (list) => {
      const ins = Array.from({ length: row.operands }, () => row.type);
      const input = list.map((tuple) => ins.map((_, k) => tuple[k] ?? 0n));
      const got = execute(row.text, row.type, ins, input);
      input.forEach((tuple, k) => {
        const [a = 0n, b = 0n, c = 0n] = tuple;
        const want = row.model(a, b, c);
        if (want !== null)
          expect(got[k]?.toString(16), `${tuple.map((x) => x.toString(16))}`).toBe(want.toString(16));
      });
    });
});

/** What rounding the double sum gives: wrong where it rounds twice. */
function naive(a: bigint, b: bigint, c: bigint): bigint {
  const view = new DataView(new ArrayBuffer(4));
  const number = (bits: bigint): number => {
    view.setUint32(0, Number(bits));
    return view.getFloat32(0);
  };
  view.setFloat32(0, Math.fround(number(a) * number(b) + number(c)));
  return BigInt(view.getUint32(0));
}

describe("a long run of fma.rn.f32 (WebAssembly) equals the single instruction (JavaScript)", () => {
  // 24 dependent steps on registers: long enough to be a vector run.
  const steps = Array.from(
    { length: 24 },
    (_, k) => `fma.rn.f32 a${k % 3}, a${(k + 1) % 3}, $2, a${(k + 2) % 3};`,
  );
  const chain = `{ .reg .f32 a0, a1, a2; mov.f32 a0, $1; mov.f32 a1, $2; mov.f32 a2, $3; ${steps.join(" ")} add.f32 $0, a0, a1; }`;
  test.prop([lists(f32)], { numRuns: 6 })("chains of 24", (list) => {
    const input = list.slice(0, 64).map((t) => [...t]);
    // Whole warps only: a partial one runs the JavaScript form.
    while (input.length % 32 !== 0) input.pop();
    const got = execute(chain, "f32", ["f32", "f32", "f32"], input);
    input.forEach((tuple, k) => {
      const [a = 0n, b = 0n, c = 0n] = tuple;
      const v = [a, b, c];
      for (let j = 0; j < 24; j++) {
        const next = fma(f32, v[(j + 1) % 3] ?? 0n, b, v[(j + 2) % 3] ?? 0n, "rn");
        if (next === null) return;
        v[j % 3] = next;
      }
      const want = fma(f32, v[0] ?? 0n, one(f32), v[1] ?? 0n, "rn");
      if (want !== null)
        expect(got[k]?.toString(16), `${tuple.map((x) => x.toString(16))}`).toBe(want.toString(16));
    });
  });

  test("ties of the double sum, which round wrongly twice", () => {
    // a*b = (1 + k u)(1 - k u) 2^-24 with u = 2^-23: half a unit of 1's last place, less k^2 u^2 of it, which a double sum
    // with an odd multiple of u above 1 cannot show. Both signs of the product, so both directions.
    const cases: bigint[][] = [];
    for (let k = 1n; k <= 64n; k++) {
      const c = 0x3f800001n + 2n * (k % 5n);
      const [a, b] = [0x33800000n + k, 0x3f800000n - 2n * k];
      cases.push([a, b, c], [a | 0x80000000n, b, c], [a, b, c | 0x80000000n]);
    }
    // The same below the normal range, where a subnormal's unit is 2^-149: (1 + k u)(1 - k u) 2^-150 plus an odd multiple.
    for (let k = 1n; k <= 32n; k++) cases.push([0x1a800000n + k, 0x1a000000n - 2n * k, 1n + 2n * k]);
    expect(cases.some(([a = 0n, b = 0n, c = 0n]) => naive(a, b, c) !== fma(f32, a, b, c, "rn"))).toBe(true);
    for (const text of [
      "fma.rn.f32 $0, $1, $2, $3;",
      `{ .reg .f32 z; mov.f32 z, $3; ${"mov.f32 $0, z; ".repeat(10)} fma.rn.f32 $0, $1, $2, z; }`,
    ]) {
      const got = execute(text, "f32", ["f32", "f32", "f32"], cases);
      cases.forEach(([a = 0n, b = 0n, c = 0n], k) => {
        expect(got[k]?.toString(16)).toBe(fma(f32, a, b, c, "rn")?.toString(16));
      });
    }
  });
});

describe("conversions", () => {
  const wide = [
    ["f16", "f32", f16, f32],
    ["bf16", "f32", bf16, f32],
    ["f32", "f64", f32, f64],
    ["f16", "f64", f16, f64],
  ] as const;
  const register = (t: string): Type => (t.endsWith("16") ? "b16" : (t as Type));
  for (const [narrow, big, fn, fb] of wide) {
    for (const rounding of ["rn", "rz", "rm", "rp"] as const) {
      if (narrow === "bf16" && (rounding === "rm" || rounding === "rp")) continue;
      const text = `cvt.${rounding}.${narrow}.${big} $0, $1;`;
      test.prop([fc.array(bitsOf(fb), { minLength: 100, maxLength: 150 })], { numRuns: 2 })(text, (list) => {
        const got = execute(
          text,
          register(narrow),
          [register(big)],
          list.map((x) => [x]),
        );
        list.forEach((x, k) => {
          if (!finite(fb, x)) return;
          expect(got[k]?.toString(16), x.toString(16)).toBe(
            roundExact(fn, exactOf(fb, x), rounding, negative(fb, x)).toString(16),
          );
        });
      });
    }
    const up = `cvt.${big}.${narrow} $0, $1;`;
    test.prop([fc.array(bitsOf(fn), { minLength: 100, maxLength: 150 })], { numRuns: 2 })(up, (list) => {
      const got = execute(
        up,
        register(big),
        [register(narrow)],
        list.map((x) => [x]),
      );
      list.forEach((x, k) => {
        if (finite(fn, x)) expect(got[k]).toBe(roundExact(fb, exactOf(fn, x), "rn", negative(fn, x)));
      });
    });
  }

  const nearEven = (e: Exact): bigint => {
    if (e.exp >= 0) return e.num << BigInt(e.exp);
    const scale = 1n << BigInt(-e.exp);
    const doubled = 2n * e.num + scale;
    let q = doubled / (2n * scale);
    if (doubled < 0n && doubled % (2n * scale) !== 0n) q -= 1n;
    return doubled % (2n * scale) === 0n && q % 2n !== 0n ? q - 1n : q;
  };
  const floor = (e: Exact): bigint => {
    if (e.exp >= 0) return e.num << BigInt(e.exp);
    return e.num >> BigInt(-e.exp);
  };
  const integral = {
    rni: nearEven,
    rmi: floor,
    rpi: (e: Exact) => -floor({ num: -e.num, exp: e.exp }),
    rzi: (e: Exact) => (e.num < 0n ? -floor({ num: -e.num, exp: e.exp }) : floor(e)),
  };
  for (const [mode, round] of Object.entries(integral))
    for (const to of ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"] as const)
      for (const [from, f] of [
        ["f32", f32],
        ["f64", f64],
      ] as const) {
        const text = `cvt.${mode}.${to}.${from} $0, $1;`;
        test.prop([fc.array(bitsOf(f), { minLength: 60, maxLength: 90 })], { numRuns: 1 })(text, (list) => {
          const w = Number(to.slice(1));
          const store = (w === 8 ? "b16" : to) as Type;
          const got = execute(
            text,
            store,
            [from],
            list.map((x) => [x]),
          );
          const least = to.startsWith("s") ? -(1n << BigInt(w - 1)) : 0n;
          const most = to.startsWith("s") ? (1n << BigInt(w - 1)) - 1n : (1n << BigInt(w)) - 1n;
          list.forEach((x, k) => {
            const whole = isNaNBits(f, x)
              ? 0n
              : isInfinite(f, x)
                ? negative(f, x)
                  ? least
                  : most
                : round(exactOf(f, x));
            const clamped = whole < least ? least : whole > most ? most : whole;
            expect(got[k], `${x.toString(16)}`).toBe(BigInt.asUintN(w === 8 ? 16 : w, clamped));
          });
        });
      }
  for (const from of ["u16", "s16", "u32", "s32", "u64", "s64"] as const)
    for (const [to, f] of [
      ["f32", f32],
      ["f64", f64],
      ["f16", f16],
    ] as const)
      for (const rounding of ["rn", "rz", "rp"] as const) {
        if (to === "f16" && rounding !== "rn") continue;
        const text = `cvt.${rounding}.${to}.${from} $0, $1;`;
        test.prop(
          [
            fc.array(
              fc.oneof(fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), fc.bigInt({ min: 0n, max: 1n << 26n })),
              { minLength: 60, maxLength: 90 },
            ),
          ],
          { numRuns: 1 },
        )(text, (list) => {
          const w = Number(from.slice(1));
          const values = list.map((x) => (from.startsWith("s") ? BigInt.asIntN(w, x) : BigInt.asUintN(w, x)));
          const got = execute(
            text,
            to === "f16" ? "b16" : to,
            [from],
            values.map((x) => [x]),
          );
          values.forEach((x, k) => {
            expect(got[k]?.toString(16), `${x}`).toBe(
              roundExact(f, { num: x, exp: 0 }, rounding).toString(16),
            );
          });
        });
      }
});

describe("special values", () => {
  const [inf, ninf, nan, one32] = [0x7f800000n, 0xff800000n, 0x7fc12345n, 0x3f800000n];
  const canonical = 0x7fffffffn;
  const check = (text: string, ins: bigint[], want: bigint): void => {
    expect(
      execute(
        text,
        "f32",
        ins.map(() => "f32" as const),
        [ins],
      )[0]?.toString(16),
      text,
    ).toBe(want.toString(16));
  };
  test("infinities and NaN: the result NaN is 0x7fffffff", () => {
    check("add.f32 $0, $1, $2;", [inf, ninf], canonical);
    check("add.f32 $0, $1, $2;", [inf, one32], inf);
    check("fma.rn.f32 $0, $1, $2, $3;", [inf, 0n, one32], canonical);
    check("fma.rn.f32 $0, $1, $2, $3;", [ninf, one32, one32], ninf);
    check("mul.f32 $0, $1, $2;", [nan, one32], canonical);
    check("div.rn.f32 $0, $1, $2;", [one32, 0n], inf);
    check("sqrt.rn.f32 $0, $1;", [0xbf800000n], canonical);
    check("rcp.approx.f32 $0, $1;", [0x80000000n], ninf);
  });
  test("min, max, .NaN, .sat, copysign, neg and abs", () => {
    check("min.f32 $0, $1, $2;", [nan, one32], one32);
    check("max.NaN.f32 $0, $1, $2;", [nan, one32], canonical);
    check("min.f32 $0, $1, $2;", [0n, 0x80000000n], 0x80000000n);
    check("max.f32 $0, $1, $2;", [0x80000000n, 0n], 0n);
    check("add.sat.f32 $0, $1, $2;", [one32, one32], one32);
    check("add.sat.f32 $0, $1, $2;", [nan, one32], 0n);
    check("copysign.f32 $0, $1, $2;", [0x80000000n, one32], 0xbf800000n);
    check("neg.f32 $0, $1;", [0n], 0x80000000n);
    check("abs.ftz.f32 $0, $1;", [0x80000001n], 0n);
    check(
      "selp.f32 $0, $1, $2, 1;".replace(", 1;", ", %p7;").replace("selp", "setp.eq.f32 %p7, $1, $1; selp"),
      [nan, one32],
      one32,
    );
  });
  test("data that only passes through keeps every bit, signalling NaN included", () => {
    check("mov.f32 $0, $1;", [0x7f800001n], 0x7f800001n);
    check("{ .reg .f32 x; mov.f32 x, $1; mov.f32 $0, x; }", [0xffb12345n], 0xffb12345n);
  });
  test("approximate functions stay within the documented error", () => {
    const values = [0.001, 0.3, 1, 1.7, 3.9, 12.5, 100.25];
    const toBits = (x: number): bigint => BigInt(new Uint32Array(Float32Array.of(x).buffer)[0] ?? 0);
    const fromBits = (x: bigint | undefined): number =>
      new Float32Array(Uint32Array.of(Number(x)).buffer)[0] ?? Number.NaN;
    const table: readonly (readonly [string, (x: number) => number, number])[] = [
      ["ex2.approx.f32", (x) => 2 ** x, 2 ** -22],
      ["lg2.approx.f32", (x) => Math.log2(x), 2 ** -22],
      ["sin.approx.f32", (x) => Math.sin(x), 2 ** -20],
      ["cos.approx.ftz.f32", (x) => Math.cos(x), 2 ** -20],
      ["rsqrt.approx.f32", (x) => 1 / Math.sqrt(x), 2 ** -22],
      ["tanh.approx.f32", (x) => Math.tanh(x), 2 ** -11],
      ["rcp.approx.ftz.f32", (x) => 1 / x, 2 ** -22],
      ["sqrt.approx.f32", (x) => Math.sqrt(x), 2 ** -22],
    ];
    for (const [op, f, error] of table) {
      const got = execute(
        `${op} $0, $1;`,
        "f32",
        ["f32"],
        values.map((x) => [toBits(x)]),
      );
      values.forEach((x, k) => {
        const want = f(Math.fround(x));
        // The ISA bounds sin and cos from -pi to pi; further out the argument's own cut counts (the bits are in mufu.test.ts).
        const far = /^(sin|cos)/.test(op) && x > Math.PI ? x : 1;
        expect(Math.abs(fromBits(got[k]) - want), `${op} ${x}`).toBeLessThanOrEqual(
          error * Math.max(far, Math.abs(want)),
        );
      });
    }
  });
  test("tf32, fp8 pairs and packed conversions", () => {
    const bits = (x: number): bigint => BigInt(new Uint32Array(Float32Array.of(x).buffer)[0] ?? 0);
    expect(execute("cvt.rna.tf32.f32 $0, $1;", "b32", ["f32"], [[0x3f801000n]])[0]).toBe(0x3f802000n);
    // The first operand becomes the upper half.
    expect(execute("cvt.rn.f16x2.f32 $0, $1, $2;", "b32", ["f32", "f32"], [[bits(1), bits(-2)]])[0]).toBe(
      0x3c00c000n,
    );
    expect(
      execute("cvt.rn.relu.bf16x2.f32 $0, $1, $2;", "b32", ["f32", "f32"], [[bits(1.5), bits(-2)]])[0],
    ).toBe(0x3fc00000n);
    expect(
      execute("cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;", "b16", ["f32", "f32"], [[bits(1000), bits(-1)]])[0],
    ).toBe(0x7eb8n);
    expect(execute("cvt.rn.f16x2.e5m2x2 $0, $1;", "b32", ["b16"], [[0x3cc0n]])[0]).toBe(0x3c00c000n);
    expect(
      execute(
        "fma.rn.f16x2 $0, $1, $2, $3;",
        "b32",
        ["b32", "b32", "b32"],
        [[0x3c004000n, 0x40004000n, 0x3c003c00n]],
      )[0],
    ).toBe(0x42004500n);
  });
});
