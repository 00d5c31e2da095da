/** Comparison and selection: PTX ISA 9.0, chapter 9.7.6 (and 9.7.7 for halves). */
import type { LaneEmitter } from "../compile/emitter.ts";
import type { Operand } from "../load/types.ts";
import { bitsOf, isSigned, lane, type Row, type Table } from "./row.ts";

/** JavaScript's operator on two numbers, of the forms that are false where one is NaN; `!` stands before one that is true there. */
const operators = {
  ...{ eq: "===", ne: "!==", lt: "<", le: "<=", gt: ">", ge: ">=", lo: "<", ls: "<=", hi: ">", hs: ">=" },
  ...{ equ: "", neu: "!==", ltu: "!>=", leu: "!>", gtu: "!<=", geu: "!<", num: "", nan: "" },
} as const;
type Comparison = keyof typeof operators;
const comparisons = Object.keys(operators) as readonly Comparison[];

/** The truth of a comparison of two JavaScript numbers, as an expression. */
function floatTest(op: Comparison, a: string, b: string): string {
  if (op === "num") return `(${a}===${a}&&${b}===${b})`;
  if (op === "nan") return `(${a}!==${a}||${b}!==${b})`;
  if (op === "ne") return `(${a}<${b}||${a}>${b})`;
  if (op === "equ") return `!(${a}<${b}||${a}>${b})`;
  const operator = operators[op];
  const inverse = /^!([<>]=?)$/.exec(operator)?.[1];
  return inverse === undefined ? `${a}${operator}${b}` : `!(${a}${inverse}${b})`;
}

function test(e: LaneEmitter, op: Comparison, type: string, a: Operand, b: Operand, ftz: boolean): string {
  if (type === "f64") return floatTest(op, e.f64(a), e.f64(b));
  if (type === "f32") {
    const of = (x: Operand): string => (ftz ? `flush(${e.f32(x)})` : e.f32(x));
    return floatTest(op, of(a), of(b));
  }
  if (type === "f16" || type === "bf16") {
    const of = (x: Operand): string => {
      const value = `from${type === "f16" ? "F16" : "Bf16"}(${e.narrow(x, 16, false)})`;
      return ftz ? `flushHalf(${value})` : value;
    };
    return floatTest(op, of(a), of(b));
  }
  const operator = operators[op];
  const bits = bitsOf(type);
  const unsigned = op === "lo" || op === "ls" || op === "hi" || op === "hs";
  const signed = isSigned(type) && !unsigned;
  if (bits < 64) {
    // Equality of signed words needs no conversion and is what addresses and counters use most.
    const as = signed || (bits === 32 && (op === "eq" || op === "ne"));
    return `${e.narrow(a, bits, as)}${operator}${e.narrow(b, bits, as)}`;
  }
  const [al, ah] = e.pair(a);
  const [bl, bh] = e.pair(b);
  if (op === "eq") return `(${al}===${bl}&&${ah}===${bh})`;
  if (op === "ne") return `(${al}!==${bl}||${ah}!==${bh})`;
  return `compare${signed ? "S" : "U"}64(${al},${ah},${bl},${bh})${operator}0`;
}

/** Combines a comparison with a predicate operand, which may be negated. */
const combine = (value: string, op: "and" | "or" | "xor" | null, other: string | null): string =>
  op === null || other === null ? value : `${value}${{ and: "&", or: "|", xor: "^" }[op]}${other}`;

/** One half of a packed operand as a number. */
function packedPart(e: LaneEmitter, x: Operand, format: string, shift: string, ftz: boolean): string {
  const value = `from${format}(${e.int(x)}${shift})`;
  return ftz ? `flushHalf(${value})` : value;
}

const setp: Row = (d) => {
  const op = d.choice(...comparisons);
  const bool = d.option("and", "or", "xor");
  const ftz = d.flag("ftz");
  const type = d.type();
  const float = type === "f32" || type === "f64";
  const view = float ? "float" : "int";
  const to = d.def(0, "int");
  const a = d.use(1, view);
  const b = d.use(2, view);
  const c = bool === null ? null : d.predicate(3);
  if (type === "f16x2" || type === "bf16x2") {
    // The lower half's comparison, and the upper half's where a second predicate takes it.
    const [first, second] = to.kind === "pair" ? [to.first, to.second] : [to, null];
    const format = type === "f16x2" ? "F16" : "Bf16";
    return lane((e) => {
      const half = (k: 0 | 1): string => {
        const of = (x: Operand): string => packedPart(e, x, format, k === 0 ? "&65535" : ">>>16", ftz);
        return combine(`(${floatTest(op, of(a), of(b))}?1:0)`, bool, c === null ? null : e.int(c));
      };
      const p = e.temporary();
      const q = e.temporary();
      return `const ${p}=${half(0)},${q}=${half(1)};${e.setInt(first, p)}${second === null ? "" : e.setInt(second, q)}`;
    });
  }
  return lane((e) => {
    const t = test(e, op, type, a, b, ftz);
    const other = c === null ? null : e.int(c);
    if (to.kind !== "pair") return e.setInt(to, combine(`(${t}?1:0)`, bool, other));
    const v = e.temporary();
    const p = e.temporary();
    const q = e.temporary();
    return (
      `const ${v}=${t}?1:0,${p}=${combine(v, bool, other)},${q}=${combine(`(${v}^1)`, bool, other)};` +
      e.setInt(to.first, p) +
      e.setInt(to.second, q)
    );
  });
};

const set: Row = (d) => {
  const op = d.choice(...comparisons);
  const bool = d.option("and", "or", "xor");
  const ftz = d.flag("ftz");
  const result = d.type();
  const type = d.type();
  const float = type === "f32" || type === "f64";
  const to = d.def(0, result === "f32" ? "float" : "int");
  const a = d.use(1, float ? "float" : "int");
  const b = d.use(2, float ? "float" : "int");
  const c = bool === null ? null : d.predicate(3);
  const packed = type.endsWith("x2");
  const one = result.startsWith("f16") ? "0x3c00" : result.startsWith("bf16") ? "0x3f80" : "0xffff";
  return lane((e) => {
    const other = c === null ? null : e.int(c);
    if (packed) {
      const format = type === "f16x2" ? "F16" : "Bf16";
      const half = (shift: string): string =>
        combine(
          `(${floatTest(op, packedPart(e, a, format, shift, ftz), packedPart(e, b, format, shift, ftz))}?1:0)`,
          bool,
          other,
        );
      const value = bitsOf(result) === 32 && !result.endsWith("x2") ? "0xffff" : one;
      return e.setInt(to, `(${half("&65535")}?${value}:0)|((${half(">>>16")}?${value}:0)<<16)`);
    }
    const value = combine(`(${test(e, op, type, a, b, ftz)}?1:0)`, bool, other);
    if (result === "f32") return e.setF32(to, `${value}?1:0`);
    if (bitsOf(result) === 32) return e.setInt(to, `-(${value})|0`);
    return e.setInt(to, `(${value})?${one}:0`);
  });
};

const selp: Row = (d) => {
  const type = d.type();
  const to = d.def(0);
  const a = d.use(1);
  const b = d.use(2);
  const p = d.predicate(3);
  d.link(to, a);
  d.link(to, b);
  return {
    ...lane((e) => select(e, to, a, b, `${e.int(p)}!==0`, type)),
    // The operand that is not chosen need not be defined: what follows a load under a mask.
    defined: (e) => `${e.defined(p)}===255?(${e.int(p)}!==0?${e.defined(a)}:${e.defined(b)}):0`,
  };
};

function select(
  e: LaneEmitter,
  to: Operand,
  a: Operand,
  b: Operand,
  condition: string,
  type: string,
): string {
  const bits = bitsOf(type);
  const cls = to.kind === "register" ? to.register.cls : "i32";
  if (bits === 64) {
    if (cls === "f64") return e.setF64(to, `${condition}?${e.f64(a)}:${e.f64(b)}`);
    const [al, ah] = e.pair(a);
    const [bl, bh] = e.pair(b);
    return e.setPair(to, `${condition}?${al}:${bl}`, `${condition}?${ah}:${bh}`);
  }
  if (cls === "f32") return e.setF32(to, `${condition}?${e.f32(a)}:${e.f32(b)}`);
  return e.setInt(
    to,
    `${condition}?${bits < 32 ? e.narrow(a, bits, false) : e.int(a)}:${bits < 32 ? e.narrow(b, bits, false) : e.int(b)}`,
  );
}

const slct: Row = (d) => {
  const ftz = d.flag("ftz");
  const type = d.type();
  const by = d.type();
  const to = d.def(0);
  const a = d.use(1);
  const b = d.use(2);
  const c = d.use(3, by === "f32" ? "float" : "int");
  d.link(to, a);
  d.link(to, b);
  return lane((e) => {
    // NaN selects b; a flushed subnormal is a zero, so it selects a.
    const condition = by === "s32" ? `${e.int(c)}>=0` : `${ftz ? `flush(${e.f32(c)})` : e.f32(c)}>=0`;
    return select(e, to, a, b, condition, type);
  });
};

export const compareTable: Table = { setp, set, selp, slct };
