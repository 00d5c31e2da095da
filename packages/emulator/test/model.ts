/**
 * Independent models for instruction tests: exact rationals in BigInt, rounded by searching the format's values. Shares no
 * code with the emulator.
 */
import { kernel, machine } from "./support.ts";

export type Type =
  | "pred"
  | `${"b" | "u" | "s"}${8 | 16 | 32 | 64}`
  | "f16"
  | "bf16"
  | "f16x2"
  | "f32"
  | "f64";

const widthOf = (type: Type): number =>
  type === "pred" ? 32 : type === "f16x2" ? 32 : Number(type.replace(/\D+/, ""));
const registerOf = (type: Type, k: number): string => {
  if (type === "pred") return `%p${k}`;
  if (type === "f32") return `%f${k}`;
  if (type === "f64") return `%g${k}`;
  return `${{ 8: "%h", 16: "%h", 32: "%r", 64: "%d" }[widthOf(type)]}${k}`;
};

/**
 * Run `text` once per tuple. Operands are written $0 for the result and $1, $2, $3 for the inputs. Bits go in and come out
 * as unsigned BigInts.
 */
export function execute(
  text: string,
  out: Type,
  ins: readonly Type[],
  tuples: readonly (readonly bigint[])[],
): bigint[] {
  const load = ins.map((type, k) => {
    const at = `[%d9+${8 * k}]`;
    if (type === "pred") return `ld.global.b32 %r12, ${at}; setp.ne.s32 ${registerOf(type, k + 1)}, %r12, 0;`;
    const moved = type === "f32" || type === "f64" ? type : `b${widthOf(type)}`;
    return `ld.global.${moved} ${registerOf(type, k + 1)}, ${at};`;
  });
  const store =
    out === "pred"
      ? "selp.b32 %r12, 1, 0, %p0; st.global.b32 [%d10], %r12;"
      : `st.global.${out === "f32" || out === "f64" ? out : `b${widthOf(out)}`} [%d10], ${registerOf(out, 0)};`;
  const body = text.replace(/\$(\d)/g, (_, k) =>
    registerOf(k === "0" ? out : (ins[Number(k) - 1] ?? out), Number(k)),
  );
  const source = kernel(
    `ld.param.u64 %d9, [in]; ld.param.u64 %d10, [out];
     mad.wide.u32 %d9, %t, ${8 * ins.length}, %d9; mad.wide.u32 %d10, %t, 8, %d10;
     ${load.join("\n")}
     ${body}
     ${store}`,
    { params: ["in", "out"], target: "sm_100a" },
  );
  const device = machine(source);
  const results: bigint[] = [];
  for (let from = 0; from < tuples.length; from += 1024) {
    const part = tuples.slice(from, from + 1024);
    const input = device.put(BigUint64Array.from(part.flat(), (x) => BigInt.asUintN(64, x)));
    const output = device.put(new BigUint64Array(part.length));
    const report = device.launch("k", 1, part.length, [input, output]);
    if (report.findings.length > 0) throw new Error(JSON.stringify(report.findings));
    results.push(...device.u64(output, part.length));
    device.emulator.free(input);
    device.emulator.free(output);
  }
  return results;
}

// ---------------------------------------------------------------- floating point

export type Rounding = "rn" | "rna" | "rz" | "rm" | "rp";

export interface Format {
  readonly bits: number;
  readonly mantissa: number;
  readonly bias: number;
}
export const formats = {
  f16: { bits: 16, mantissa: 10, bias: 15 },
  bf16: { bits: 16, mantissa: 7, bias: 127 },
  f32: { bits: 32, mantissa: 23, bias: 127 },
  f64: { bits: 64, mantissa: 52, bias: 1023 },
} as const satisfies Record<string, Format>;

/** num * 2^exp, exactly. */
export interface Exact {
  readonly num: bigint;
  readonly exp: number;
}

const infinityBits = (f: Format): bigint =>
  ((1n << BigInt(f.bits - 1 - f.mantissa)) - 1n) << BigInt(f.mantissa);
export const isNaNBits = (f: Format, bits: bigint): boolean =>
  (bits & ((1n << BigInt(f.bits - 1)) - 1n)) > infinityBits(f);
export const isInfinite = (f: Format, bits: bigint): boolean =>
  (bits & ((1n << BigInt(f.bits - 1)) - 1n)) === infinityBits(f);

export function exactOf(f: Format, bits: bigint): Exact {
  const mantissa = bits & ((1n << BigInt(f.mantissa)) - 1n);
  const field = Number((bits >> BigInt(f.mantissa)) & ((1n << BigInt(f.bits - 1 - f.mantissa)) - 1n));
  const num = field === 0 ? mantissa : mantissa | (1n << BigInt(f.mantissa));
  const negative = bits >> BigInt(f.bits - 1) === 1n;
  return { num: negative ? -num : num, exp: Math.max(1, field) - f.bias - f.mantissa };
}

export function compare(a: Exact, b: Exact): number {
  const exp = Math.min(a.exp, b.exp);
  const d = (a.num << BigInt(a.exp - exp)) - (b.num << BigInt(b.exp - exp));
  return d < 0n ? -1 : d > 0n ? 1 : 0;
}
export const plus = (a: Exact, b: Exact): Exact => {
  const exp = Math.min(a.exp, b.exp);
  return { num: (a.num << BigInt(a.exp - exp)) + (b.num << BigInt(b.exp - exp)), exp };
};
export const times = (a: Exact, b: Exact): Exact => ({ num: a.num * b.num, exp: a.exp + b.exp });

/**
 * The format's value for a positive number that is known by comparison only: `order(x)` is the sign of x minus it. `negative`
 * is its sign, which the directed modes look at.
 */
export function roundBy(
  f: Format,
  order: (x: Exact) => number,
  rounding: Rounding,
  negative: boolean,
): bigint {
  let low = 0n;
  // One past the largest finite value stands for infinity: its "value" as if the exponent went on.
  let high = infinityBits(f);
  while (low + 1n < high) {
    const middle = (low + high) >> 1n;
    if (order(exactOf(f, middle)) <= 0) low = middle;
    else high = middle;
  }
  const sign = negative ? 1n << BigInt(f.bits - 1) : 0n;
  if (order(exactOf(f, low)) === 0) return sign | low;
  const half = times(plus(exactOf(f, low), beyond(f, high)), { num: 1n, exp: -1 });
  const side = order(half);
  const up =
    rounding === "rn"
      ? side < 0 || (side === 0 && (low & 1n) === 1n)
      : rounding === "rna"
        ? side <= 0
        : rounding === "rz"
          ? false
          : (rounding === "rp") !== negative;
  return sign | (up ? high : low);
}

/** The value of a code, infinity taken as the next power of two. */
function beyond(f: Format, code: bigint): Exact {
  if (code !== infinityBits(f)) return exactOf(f, code);
  const top = exactOf(f, code - 1n);
  return plus(top, { num: 1n, exp: top.exp });
}

export function roundExact(f: Format, x: Exact, rounding: Rounding, zeroSign = false): bigint {
  if (x.num === 0n) return zeroSign ? 1n << BigInt(f.bits - 1) : 0n;
  const negative = x.num < 0n;
  const magnitude = { num: negative ? -x.num : x.num, exp: x.exp };
  return roundBy(f, (y) => compare(y, magnitude), rounding, negative);
}
