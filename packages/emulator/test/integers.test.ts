/** Integer, logic and comparison instructions against BigInt. */
import { fc, test } from "@fast-check/vitest";
import { describe, expect } from "vitest";
import { execute, type Type } from "./model.ts";

const u = (bits: number, x: bigint): bigint => BigInt.asUintN(bits, x);
const s = (bits: number, x: bigint): bigint => BigInt.asIntN(bits, x);

/** Numbers near the edges of all widths, and any others. */
const word = fc.oneof(
  fc.constantFrom(
    0n,
    1n,
    2n,
    3n,
    31n,
    32n,
    33n,
    63n,
    64n,
    65n,
    255n,
    0x7fn,
    0x80n,
    0x7fffn,
    0x8000n,
    0xffffn,
  ),
  fc.constantFrom(
    0x7fffffffn,
    0x80000000n,
    0xffffffffn,
    0x7fffffffffffffffn,
    0x8000000000000000n,
    0xffffffffffffffffn,
  ),
  fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
  fc.bigInt({ min: 0n, max: 300n }),
);
const tuples = fc.array(fc.tuple(word, word, word), { minLength: 60, maxLength: 120 });

interface Row {
  readonly text: string;
  readonly out: Type;
  readonly ins: readonly Type[];
  /** Inputs are unsigned values of their widths; the result is taken modulo 2^width. */
  readonly model: (a: bigint, b: bigint, c: bigint) => bigint;
}

const widths = [16, 32, 64] as const;
const signed = [true, false] as const;
const rows: Row[] = [];
const add = (text: string, out: Type, ins: readonly Type[], model: Row["model"]): void => {
  rows.push({ text, out, ins, model });
};
const abs = (x: bigint): bigint => (x < 0n ? -x : x);
const min = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);

for (const w of widths)
  for (const sg of signed) {
    const t = `${sg ? "s" : "u"}${w}` as Type;
    const v = (x: bigint): bigint => (sg ? s(w, x) : u(w, x));
    add(`add.${t} $0, $1, $2;`, t, [t, t], (a, b) => a + b);
    add(`sub.${t} $0, $1, $2;`, t, [t, t], (a, b) => a - b);
    add(`mul.lo.${t} $0, $1, $2;`, t, [t, t], (a, b) => a * b);
    add(`mul.hi.${t} $0, $1, $2;`, t, [t, t], (a, b) => (v(a) * v(b)) >> BigInt(w));
    add(`mad.lo.${t} $0, $1, $2, $3;`, t, [t, t, t], (a, b, c) => a * b + c);
    add(`mad.hi.${t} $0, $1, $2, $3;`, t, [t, t, t], (a, b, c) => ((v(a) * v(b)) >> BigInt(w)) + c);
    add(`min.${t} $0, $1, $2;`, t, [t, t], (a, b) => min(v(a), v(b)));
    add(`max.${t} $0, $1, $2;`, t, [t, t], (a, b) => max(v(a), v(b)));
    add(`sad.${t} $0, $1, $2, $3;`, t, [t, t, t], (a, b, c) => abs(v(a) - v(b)) + c);
    add(`div.${t} $0, $1, $2;`, t, [t, t], (a, b) => (v(b) === 0n ? -1n : v(a) / v(b)));
    add(`rem.${t} $0, $1, $2;`, t, [t, t], (a, b) => (v(b) === 0n ? v(a) : v(a) % v(b)));
    add(`shr.${t} $0, $1, $2;`, t, [t, "u32"], (a, b) => v(a) >> min(b, BigInt(w)));
    if (w < 64) {
      const wide = `${sg ? "s" : "u"}${w * 2}` as Type;
      add(`mul.wide.${t} $0, $1, $2;`, wide, [t, t], (a, b) => v(a) * v(b));
      add(`mad.wide.${t} $0, $1, $2, $3;`, wide, [t, t, wide], (a, b, c) => v(a) * v(b) + c);
    }
    for (const [op, test] of Object.entries({
      eq: (a: bigint, b: bigint) => a === b,
      ne: (a: bigint, b: bigint) => a !== b,
      lt: (a: bigint, b: bigint) => a < b,
      le: (a: bigint, b: bigint) => a <= b,
      gt: (a: bigint, b: bigint) => a > b,
      ge: (a: bigint, b: bigint) => a >= b,
    }))
      add(`setp.${op}.${t} $0, $1, $2;`, "pred", [t, t], (a, b) => (test(v(a), v(b)) ? 1n : 0n));
    if (sg) {
      add(`abs.${t} $0, $1;`, t, [t], (a) => abs(v(a)));
      add(`neg.${t} $0, $1;`, t, [t], (a) => -a);
    }
  }
for (const w of widths) {
  const t = `b${w}` as Type;
  add(`and.${t} $0, $1, $2;`, t, [t, t], (a, b) => a & b);
  add(`or.${t} $0, $1, $2;`, t, [t, t], (a, b) => a | b);
  add(`xor.${t} $0, $1, $2;`, t, [t, t], (a, b) => a ^ b);
  add(`not.${t} $0, $1;`, t, [t], (a) => ~a);
  add(`cnot.${t} $0, $1;`, t, [t], (a) => (a === 0n ? 1n : 0n));
  add(`shl.${t} $0, $1, $2;`, t, [t, "u32"], (a, b) => (b >= BigInt(w) ? 0n : a << b));
  add(`shl.${t} $0, $1, 5;`, t, [t], (a) => a << 5n);
  add(`selp.${t} $0, $1, $2, $3;`, t, [t, t, "pred"], (a, b, c) => (u(32, c) !== 0n ? a : b));
  add(`slct.${t}.s32 $0, $1, $2, $3;`, t, [t, t, "s32"], (a, b, c) => (s(32, c) >= 0n ? a : b));
  if (w === 16) continue;
  const bits = (x: bigint): string => u(w, x).toString(2).padStart(w, "0");
  add(`popc.${t} $0, $1;`, "u32", [t], (a) => BigInt([...bits(a)].filter((c) => c === "1").length));
  add(`clz.${t} $0, $1;`, "u32", [t], (a) => BigInt(/^0*/.exec(bits(a))?.[0].length ?? 0));
  add(`brev.${t} $0, $1;`, t, [t], (a) => BigInt(`0b${[...bits(a)].reverse().join("")}`));
  add(`bfind.u${w} $0, $1;`, "u32", [t], (a) => (a === 0n ? -1n : BigInt(a.toString(2).length - 1)));
  add(`bfind.shiftamt.s${w} $0, $1;`, "u32", [t], (a) => {
    const x = s(w, a) < 0n ? u(w, ~a) : a;
    return x === 0n ? -1n : BigInt(w - x.toString(2).length);
  });
  const field = (a: bigint, b: bigint, c: bigint, sg: boolean): bigint => {
    const [pos, len] = [b & 255n, c & 255n];
    const msb = BigInt(w - 1);
    const sign = !sg || len === 0n ? 0n : (a >> min(pos + len - 1n, msb)) & 1n;
    let d = 0n;
    for (let k = 0n; k <= msb; k++) d |= (k < len && pos + k <= msb ? (a >> (pos + k)) & 1n : sign) << k;
    return d;
  };
  add(`bfe.u${w} $0, $1, $2, $3;`, t, [t, "u32", "u32"], (a, b, c) => field(a, b, c, false));
  add(`bfe.s${w} $0, $1, $2, $3;`, t, [t, "u32", "u32"], (a, b, c) => field(a, b, c, true));
  add(`bfi.${t} $0, $1, $2, $3, 7;`, t, [t, t, "u32"], (a, b, c) => {
    let f = b;
    const pos = c & 255n;
    for (let k = 0n; k < 7n && pos + k <= BigInt(w - 1); k++)
      f = (f & ~(1n << (pos + k))) | (((a >> k) & 1n) << (pos + k));
    return f;
  });
}
add("shr.s64 $0, $1, 37;", "s64", ["s64"], (a) => s(64, a) >> 37n);
add("shr.u64 $0, $1, 5;", "u64", ["u64"], (a) => a >> 5n);
add("shl.b64 $0, $1, 40;", "b64", ["b64"], (a) => a << 40n);
const clamp32 = (n: bigint): bigint => min(n, 32n);
add(
  "shf.l.wrap.b32 $0, $1, $2, $3;",
  "b32",
  ["b32", "b32", "b32"],
  (a, b, c) => (((b << 32n) | a) << (c & 31n)) >> 32n,
);
add(
  "shf.r.wrap.b32 $0, $1, $2, $3;",
  "b32",
  ["b32", "b32", "b32"],
  (a, b, c) => ((b << 32n) | a) >> (c & 31n),
);
add(
  "shf.l.clamp.b32 $0, $1, $2, $3;",
  "b32",
  ["b32", "b32", "b32"],
  (a, b, c) => (((b << 32n) | a) << clamp32(c)) >> 32n,
);
add(
  "shf.r.clamp.b32 $0, $1, $2, $3;",
  "b32",
  ["b32", "b32", "b32"],
  (a, b, c) => ((b << 32n) | a) >> clamp32(c),
);
add("add.sat.s32 $0, $1, $2;", "s32", ["s32", "s32"], (a, b) =>
  max(-(1n << 31n), min((1n << 31n) - 1n, s(32, a) + s(32, b))),
);
add("sub.sat.s32 $0, $1, $2;", "s32", ["s32", "s32"], (a, b) =>
  max(-(1n << 31n), min((1n << 31n) - 1n, s(32, a) - s(32, b))),
);
add("mul24.lo.s32 $0, $1, $2;", "s32", ["s32", "s32"], (a, b) => s(24, a) * s(24, b));
add("mul24.hi.u32 $0, $1, $2;", "u32", ["u32", "u32"], (a, b) => (u(24, a) * u(24, b)) >> 16n);
const bytes = (x: bigint): bigint[] => [0n, 8n, 16n, 24n].map((k) => (x >> k) & 255n);
const dot = (a: bigint[], b: bigint[]): bigint => a.reduce((t, x, k) => t + x * (b[k] ?? 0n), 0n);
add(
  "dp4a.s32.u32 $0, $1, $2, $3;",
  "s32",
  ["b32", "b32", "s32"],
  (a, b, c) =>
    dot(
      bytes(a).map((x) => s(8, x)),
      bytes(b),
    ) + c,
);
add(
  "dp2a.hi.u32.s32 $0, $1, $2, $3;",
  "s32",
  ["b32", "b32", "s32"],
  (a, b, c) =>
    dot(
      [a & 0xffffn, a >> 16n],
      bytes(b)
        .slice(2)
        .map((x) => s(8, x)),
    ) + c,
);
for (const table of [0x96, 0xe8, 0x1b, 0xca, 0x80, 0xfe, 0x01, 0x7f, 0x55, 0x2d])
  add(`lop3.b32 $0, $1, $2, $3, ${table};`, "b32", ["b32", "b32", "b32"], (a, b, c) => {
    let d = 0n;
    for (let k = 0n; k < 32n; k++) {
      const at = (((a >> k) & 1n) << 2n) | (((b >> k) & 1n) << 1n) | ((c >> k) & 1n);
      d |= ((BigInt(table) >> at) & 1n) << k;
    }
    return d;
  });
add("prmt.b32 $0, $1, $2, $3;", "b32", ["b32", "b32", "b32"], (a, b, c) => {
  const all = [...bytes(a), ...bytes(b)];
  return [0n, 4n, 8n, 12n].reduce((d, shift, k) => {
    const n = Number((c >> shift) & 15n);
    const byte = all[n & 7] ?? 0n;
    return d | ((n & 8 ? (byte & 128n ? 255n : 0n) : byte) << BigInt(8 * k));
  }, 0n);
});
// Extended precision: a 96-bit sum and difference through the carry flag.
add(
  "{ .reg .b32 lo, hi, z; mov.b64 {lo, hi}, $1; add.cc.u32 lo, lo, $2; addc.cc.u32 hi, hi, $2; addc.u32 z, 0, 0; shl.b32 z, z, 4; xor.b32 lo, lo, z; mov.b64 $0, {lo, hi}; }",
  "b64",
  ["b64", "b32"],
  (a, b) => {
    const lo = (a & 0xffffffffn) + b;
    const hi = (a >> 32n) + b + (lo >> 32n);
    return (u(32, lo) ^ ((hi >> 32n) << 4n)) | (u(32, hi) << 32n);
  },
);
add(
  "{ .reg .b64 lo; sub.cc.u64 lo, $1, $2; subc.u64 $0, $1, 0; xor.b64 $0, $0, lo; }",
  "b64",
  ["b64", "b64"],
  (a, b) => u(64, a - (a < b ? 1n : 0n)) ^ u(64, a - b),
);
add(
  "{ .reg .b32 lo; mad.lo.cc.u32 lo, $1, $2, $3; madc.hi.u32 $0, $1, $2, 5; xor.b32 $0, $0, lo; }",
  "b32",
  ["b32", "b32", "b32"],
  (a, b, c) => {
    const lo = u(32, a * b) + c;
    return (((a * b) >> 32n) + 5n + (lo >> 32n)) ^ u(32, lo);
  },
);
// Conversions between integers: extension, truncation, saturation.
const types: readonly Type[] = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];
const value = (t: Type, x: bigint): bigint => (t.startsWith("s") ? s : u)(Number(t.slice(1)), x);
for (const from of types)
  for (const to of types) {
    const w = Number(to.slice(1));
    const store = (w === 8 ? "b16" : to) as Type;
    const model =
      (sat: boolean) =>
      (a: bigint): bigint => {
        const x = value(from, a);
        const least = to.startsWith("s") ? -(1n << BigInt(w - 1)) : 0n;
        const most = to.startsWith("s") ? (1n << BigInt(w - 1)) - 1n : (1n << BigInt(w)) - 1n;
        return value(to, sat ? max(least, min(most, x)) : x);
      };
    add(`cvt.${to}.${from} $0, $1;`, store, [from], model(false));
    // PTX allows .sat only where it can do something.
    const wf = Number(from.slice(1));
    const fits = from.startsWith("s") ? to.startsWith("s") && wf <= w : to.startsWith("s") ? wf < w : wf <= w;
    if (!fits) add(`cvt.sat.${to}.${from} $0, $1;`, store, [from], model(true));
  }

// Numbers in the place of predicates: ptxas folds each of these to the same, for 2, 3 and 4 too. Triton writes `mov.pred %p, -1`.
for (const [number, truth] of [
  ["0", 0n],
  ["-1", 1n],
  ["2", 1n],
] as const) {
  const p = (x: bigint): bigint => (u(32, x) !== 0n ? 1n : 0n);
  add(`mov.pred $0, ${number}; not.pred $0, $0;`, "pred", ["pred"], () => 1n - truth);
  add(`not.pred $0, ${number};`, "pred", ["pred"], () => 1n - truth);
  add(`and.pred $0, $1, ${number};`, "pred", ["pred"], (a) => p(a) & truth);
  add(`xor.pred $0, ${number}, $1;`, "pred", ["pred"], (a) => p(a) ^ truth);
  add(`setp.eq.xor.b32 $0, $1, $1, ${number};`, "pred", ["b32"], () => 1n ^ truth);
  add(`selp.u32 $0, $1, $2, ${number};`, "u32", ["u32", "u32"], (a, b) => (truth === 1n ? a : b));
  add(`vote.sync.any.pred $0, ${number}, -1; not.pred $0, $0;`, "pred", ["pred"], () => 1n - truth);
}

describe("integer instructions", () => {
  for (const row of rows)
    test.prop([tuples], { numRuns: 2 })(row.text, (list) => {
      const width = (t: Type): number => (t === "pred" ? 32 : Number(t.slice(1)));
      const input = list.map((tuple) => row.ins.map((t, k) => u(width(t), tuple[k] ?? 0n)));
      const got = execute(row.text, row.out, row.ins, input);
      const want = input.map(([a = 0n, b = 0n, c = 0n]) => u(width(row.out), row.model(a, b, c)));
      expect(got).toEqual(want);
    });
});
