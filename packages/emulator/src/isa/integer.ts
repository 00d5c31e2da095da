/** Integer arithmetic: PTX ISA 9.0, chapters 9.7.1 and 9.7.2 (extended precision). */
import type { LaneEmitter } from "../compile/emitter.ts";
import type { Operand, Operation } from "../load/types.ts";
import { binary, bitsOf, type Decoder, isSigned, lane, type Row, type Table, ternary, unary } from "./row.ts";

/** `.sat` of s32. */
const saturated = (value: string): string => `max(-2147483648,min(2147483647,${value}))|0`;

/** Bodies of a binary operation by width. `narrow` sees two numbers of the type's range and gives any integer. */
interface Binary {
  readonly narrow: (a: string, b: string) => string;
  /** Statements and result words of the 64-bit form. */
  readonly wide: (
    a: readonly [string, string],
    b: readonly [string, string],
    signed: boolean,
  ) => readonly [string, string];
}

function emitBinary(d: Decoder, body: Binary, type: string): Operation {
  const [to, a, b] = binary(d);
  const bits = bitsOf(type);
  const signed = isSigned(type);
  if (bits === 64) return lane((e) => e.setPair(to, ...body.wide(e.pair(a), e.pair(b), signed)));
  return lane((e) =>
    e.setNarrow(to, bits, body.narrow(e.narrow(a, bits, signed), e.narrow(b, bits, signed))),
  );
}

// 64-bit helpers leave the high word in HI (compile/environment.ts), so a low expression is always evaluated first.
const call64 =
  (name: string): Binary["wide"] =>
  ([al, ah], [bl, bh]) => [`${name}(${al},${ah},${bl},${bh})`, "HI[0]"];

const bySign =
  (unsigned: string, signed: string): Binary["wide"] =>
  (a, b, isSignedType) =>
    call64(isSignedType ? signed : unsigned)(a, b, isSignedType);

/** add and sub: the plain forms, `.sat.s32`, packed 16-bit halves, floating point is elsewhere. */
export function addSub(d: Decoder, op: "+" | "-"): Operation {
  const saturate = d.flag("sat");
  const type = d.type();
  if (type === "u16x2" || type === "s16x2") {
    const [to, a, b] = binary(d);
    return lane((e) => {
      const x = e.int(a);
      const y = e.int(b);
      return e.setInt(to, `((${x}${op}${y})&65535)|(((${x}>>>16)${op}(${y}>>>16))<<16)`);
    });
  }
  if (saturate) {
    const [to, a, b] = binary(d);
    return lane((e) => e.setInt(to, saturated(`${e.int(a)}${op}${e.int(b)}`)));
  }
  return emitBinary(
    d,
    { narrow: (x, y) => `${x}${op}${y}`, wide: call64(op === "+" ? "add64" : "sub64") },
    type,
  );
}

/** add.cc, addc, sub.cc, subc: the carry is a lane's own flag, kept in the register named %carry. */
function extended(d: Decoder, op: "+" | "-", carryIn: boolean): Operation {
  const carryOut = carryIn ? d.flag("cc") : true;
  const type = d.type();
  const [to, a, b] = binary(d);
  const flag = carryIn ? d.use(-1, "int") : null;
  const out = carryOut ? d.def(-1, "int") : null;
  return lane((e) => {
    const cin = flag === null ? "0" : e.int(flag);
    const setOut = out === null ? "" : e.setInt(out, "HI[1]");
    if (bitsOf(type) === 64) {
      return (
        e.setPair(to, `${op === "+" ? "addc64" : "subc64"}(${e.pair(a)},${e.pair(b)},${cin})`, "HI[0]") +
        setOut
      );
    }
    return e.setInt(to, `${op === "+" ? "addc32" : "subc32"}(${e.int(a)},${e.int(b)},${cin})`) + setOut;
  });
}

/** mul and the product of mad: which part of the product is wanted. */
function multiply(
  e: LaneEmitter,
  part: "lo" | "hi" | "wide",
  bits: number,
  signed: boolean,
  a: Operand,
  b: Operand,
): { readonly low: string; readonly high: string } {
  if (bits === 16) {
    const value = `imul(${e.narrow(a, 16, signed)},${e.narrow(b, 16, signed)})`;
    return part === "hi" ? { low: `(${value}>>16)`, high: "0" } : { low: value, high: "0" };
  }
  if (bits === 32) {
    const x = e.int(a);
    const y = e.int(b);
    const high = `${signed ? "mulHighS32" : "mulHighU32"}(${x},${y})`;
    if (part === "lo") return { low: `imul(${x},${y})`, high: "0" };
    if (part === "hi") return { low: high, high: "0" };
    return { low: `imul(${x},${y})`, high };
  }
  const name = part === "lo" ? "mulLow64" : signed ? "mulHighS64" : "mulHighU64";
  return { low: `${name}(${e.pair(a)},${e.pair(b)})`, high: "HI[0]" };
}

const mul: Row = (d) => {
  const part = d.choice("lo", "hi", "wide");
  const type = d.type();
  const bits = bitsOf(type);
  const signed = isSigned(type);
  const [to, a, b] = binary(d);
  const result = part === "wide" ? bits * 2 : bits;
  return lane((e) => {
    const { low, high } = multiply(e, part, bits, signed, a, b);
    return result === 64 ? e.setPair(to, low, high) : e.setNarrow(to, result, low);
  });
};

/** mad and madc, which adds the lane's carry. */
function multiplyAdd(d: Decoder, carryIn: boolean): Operation {
  const part = d.choice("lo", "hi", "wide");
  const saturate = d.flag("sat");
  const carryOut = d.flag("cc");
  const type = d.type();
  const bits = bitsOf(type);
  const signed = isSigned(type);
  const [to, a, b, c] = ternary(d);
  const result = part === "wide" ? bits * 2 : bits;
  const flag = carryIn ? d.use(-1, "int") : null;
  const out = carryOut ? d.def(-1, "int") : null;
  return lane((e) => {
    const { low, high } = multiply(e, part, bits, signed, a, b);
    if (saturate) return e.setInt(to, saturated(`${low}+${e.int(c)}`));
    const carried = flag !== null || out !== null;
    const cin = flag === null ? "0" : e.int(flag);
    const setOut = out === null ? "" : e.setInt(out, "HI[1]");
    if (result === 64) {
      const [x, y] = [e.temporary(), e.temporary()];
      const sum = carried ? `addc64(${x},${y},${e.pair(c)},${cin})` : `add64(${x},${y},${e.pair(c)})`;
      return `const ${x}=${low},${y}=${high};${e.setPair(to, sum, "HI[0]")}${setOut}`;
    }
    if (carried) return e.setInt(to, `addc32(${low},${e.int(c)},${cin})`) + setOut;
    return e.setNarrow(to, result, `${low}+${e.narrow(c, result, signed)}`);
  });
}

/** mul24 and mad24: the low or high 32 bits of the 48-bit product of 24-bit operands. */
function mul24(d: Decoder, add: boolean): Operation {
  const part = d.choice("lo", "hi");
  const saturate = d.flag("sat");
  const type = d.type();
  const signed = isSigned(type);
  const [to, a, b] = binary(d);
  const c = add ? d.use(3, "int") : null;
  return lane((e) => {
    const x = signed ? `(${e.int(a)}<<8>>8)` : `(${e.int(a)}&16777215)`;
    const y = signed ? `(${e.int(b)}<<8>>8)` : `(${e.int(b)}&16777215)`;
    // The product has 48 bits, exact in a double.
    const value = part === "lo" ? `imul(${x},${y})` : `floor(${x}*${y}/65536)`;
    if (c === null) return e.setInt(to, `(${value})|0`);
    const sum = `${value}+${e.int(c)}`;
    return e.setInt(to, saturate ? saturated(sum) : `(${sum})|0`);
  });
}

const signedUnary =
  (
    body: (e: LaneEmitter, a: Operand, bits: number) => string,
    wideBody: (a: readonly [string, string]) => readonly [string, string],
  ): Row =>
  (d) => {
    const type = d.type();
    const [to, a] = unary(d);
    const bits = bitsOf(type);
    return lane((e) =>
      bits === 64 ? e.setPair(to, ...wideBody(e.pair(a))) : e.setNarrow(to, bits, body(e, a, bits)),
    );
  };

export const absInteger = signedUnary(
  (e, a, bits) => `abs(${e.narrow(a, bits, true)})`,
  ([l, h]) => [`abs64(${l},${h})`, "HI[0]"],
);
export const negInteger = signedUnary(
  (e, a, bits) => `-${e.narrow(a, bits, true)}`,
  ([l, h]) => [`sub64(0,0,${l},${h})`, "HI[0]"],
);

export function minMaxInteger(d: Decoder, op: "min" | "max"): Operation {
  const relu = d.flag("relu");
  const type = d.type();
  const pick: Binary["wide"] = bySign(`${op}U64`, `${op}S64`);
  if (type === "u16x2" || type === "s16x2") {
    const signed = type === "s16x2";
    const [to, a, b] = binary(d);
    return lane((e) => {
      const x = e.int(a);
      const y = e.int(b);
      const low = (v: string): string => (signed ? `(${v}<<16>>16)` : `(${v}&65535)`);
      const high = (v: string): string => (signed ? `(${v}>>16)` : `(${v}>>>16)`);
      const clip = (v: string): string => (relu ? `max(0,${v})` : v);
      return e.setInt(
        to,
        `(${clip(`${op}(${low(x)},${low(y)})`)}&65535)|(${clip(`${op}(${high(x)},${high(y)})`)}<<16)`,
      );
    });
  }
  return emitBinary(
    d,
    { narrow: (x, y) => (relu ? `max(0,${op}(${x},${y}))` : `${op}(${x},${y})`), wide: pick },
    type,
  );
}

/** Division by zero gives all ones, and the dividend as remainder: the values the hardware's sequence leaves. */
const divided =
  (op: "div" | "rem"): Row =>
  (d) => {
    const type = d.type();
    const name = `${op}${isSigned(type) ? "S" : "U"}`;
    return emitBinary(d, { narrow: (x, y) => `${name}32(${x},${y})`, wide: call64(`${name}64`) }, type);
  };

const sad: Row = (d) => {
  const type = d.type();
  const bits = bitsOf(type);
  const signed = isSigned(type);
  const [to, a, b, c] = ternary(d);
  return lane((e) => {
    if (bits < 64)
      return e.setNarrow(
        to,
        bits,
        `abs(${e.narrow(a, bits, signed)}-${e.narrow(b, bits, signed)})+${e.narrow(c, bits, false)}`,
      );
    const x = e.pair(a);
    const y = e.pair(b);
    const low = e.temporary();
    const high = e.temporary();
    return `const ${low}=${signed ? "distanceS64" : "distanceU64"}(${x},${y}),${high}=HI[0];${e.setPair(to, `add64(${low},${high},${e.pair(c)})`, "HI[0]")}`;
  });
};

/** Part k of a word as a number. */
function field(word: string, k: number, bits: number, signed: boolean): string {
  const up = 32 - bits * (k + 1);
  return `(${word}<<${up}${signed ? ">>" : ">>>"}${32 - bits})`;
}

const packedForms: Readonly<Record<string, (x: string, y: string) => string>> = {
  vadd: (x, y) => `${x}+${y}`,
  vsub: (x, y) => `${x}-${y}`,
  vavrg: (x, y) => `(${x}+${y}+(${x}+${y}>=0?1:0))>>1`,
  vabsdiff: (x, y) => `abs(${x}-${y})`,
  vmin: (x, y) => `min(${x},${y})`,
  vmax: (x, y) => `max(${x},${y})`,
};
const relations = { eq: "===", ne: "!==", lt: "<", le: "<=", gt: ">", ge: ">=" } as const;

/** vadd2, vabsdiff4 and their kin (PTX ISA 9.0, chapter 9.7.10): halves or bytes one by one, or with `.add` their sum and c. */
const simd =
  (name: string, bits: 8 | 16): Row =>
  (d) => {
    const relation = name === "vset" ? d.choice("eq", "ne", "lt", "le", "gt", "ge") : null;
    const result = relation === null ? d.type() : "u32";
    const [ta, tb] = [d.type(), d.type()];
    const saturate = d.flag("sat");
    const sum = d.flag("add");
    const to = d.def(0, "int");
    const [a, b, c] = [d.use(1, "int"), d.use(2, "int"), d.use(3, "int")];
    const [least, most] = isSigned(result) ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
    return lane((e) => {
      const parts = Array.from({ length: 32 / bits }, (_, k) => {
        const [x, y] = [field(e.int(a), k, bits, isSigned(ta)), field(e.int(b), k, bits, isSigned(tb))];
        if (relation !== null) return `(${x}${relations[relation]}${y}?1:0)`;
        const value = packedForms[name]?.(x, y) ?? "0";
        return saturate ? `min(${most},max(${least},${value}))` : `(${value})`;
      });
      if (sum) return e.setInt(to, `(${[e.int(c), ...parts].join("+")})|0`);
      return e.setInt(to, parts.map((part, k) => `((${part}&${2 ** bits - 1})<<${k * bits})`).join("|"));
    });
  };

/** dp4a and dp2a: dot products of bytes, with a 32-bit sum. */
function dotProduct(d: Decoder, halves: boolean): Operation {
  const part = halves ? d.choice("lo", "hi") : "lo";
  const ta = d.type();
  const tb = d.type();
  const [to, a, b, c] = ternary(d);
  return lane((e) => {
    const terms = (halves ? [0, 1] : [0, 1, 2, 3]).map((k) => {
      const x = field(e.int(a), k, halves ? 16 : 8, isSigned(ta));
      const y = field(e.int(b), halves ? k + (part === "hi" ? 2 : 0) : k, 8, isSigned(tb));
      return `imul(${x},${y})`;
    });
    return e.setInt(to, `(${[e.int(c), ...terms].join("+")})|0`);
  });
}

export const integerTable: Table = {
  ...Object.fromEntries(
    [...Object.keys(packedForms), "vset"].flatMap((name) => [
      [`${name}2`, simd(name, 16)],
      [`${name}4`, simd(name, 8)],
    ]),
  ),
  "add.cc": (d) => extended(d, "+", false),
  addc: (d) => extended(d, "+", true),
  "sub.cc": (d) => extended(d, "-", false),
  subc: (d) => extended(d, "-", true),
  mad: (d) => multiplyAdd(d, false),
  madc: (d) => multiplyAdd(d, true),
  mul,
  mul24: (d) => mul24(d, false),
  mad24: (d) => mul24(d, true),
  div: divided("div"),
  rem: divided("rem"),
  sad,
  dp4a: (d) => dotProduct(d, false),
  dp2a: (d) => dotProduct(d, true),
};
