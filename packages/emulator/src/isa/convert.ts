/** cvt: between all integer and floating-point types, packed pairs included. PTX ISA 9.0, chapter 9.7.9.22. */
import type { LaneEmitter } from "../compile/emitter.ts";
import type { Operand, Operation } from "../load/types.ts";
import { convertNarrow, isNarrowPair } from "./convert-narrow.ts";
import { finish } from "./float.ts";
import { binary, bitsOf, type Decoder, isSigned, lane, type Row, type Table, unary } from "./row.ts";

const integers = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"] as const;
const bytePairs = ["e4m3x2", "e5m2x2"] as const;
const floatRoundings = ["rn", "rna", "rz", "rm", "rp"] as const;
const integerRoundings = ["rni", "rzi", "rmi", "rpi"] as const;

type Rounding = (typeof floatRoundings)[number];

const isInteger = (type: string): boolean => integers.some((t) => t === type);
const formatName = (type: string): string =>
  ({ f16: "F16", bf16: "Bf16", f16x2: "F16", bf16x2: "Bf16" })[type] ?? type;

/** An operand as a JavaScript number, from any floating-point type. */
function readFloat(e: LaneEmitter, operand: Operand, type: string, ftz: boolean): string {
  switch (type) {
    case "f64":
      return e.f64(operand);
    case "f32":
      return ftz ? `flush(${e.f32(operand)})` : e.f32(operand);
    default:
      return `from${formatName(type)}(${e.narrow(operand, 16, false)})`;
  }
}

/** Bits of a half or a byte float from a number, by rounding mode. */
function encodeHalf(type: string, value: string, rounding: Rounding, saturate: boolean): string {
  if (rounding === "rn" && !saturate && (type === "f16" || type === "bf16"))
    return `to${formatName(type)}(${value})`;
  return `encodeFloat("${type}",${value},"${rounding}","${saturate ? "saturate" : "ieee"}")`;
}

const ranges: Readonly<Record<string, readonly [string, string]>> = {
  u8: ["0", "255"],
  s8: ["-128", "127"],
  u16: ["0", "65535"],
  s16: ["-32768", "32767"],
  u32: ["0", "4294967295"],
  s32: ["-2147483648", "2147483647"],
};

/** Store a small integer, extended to the width of the register as its type says. */
function storeInteger(e: LaneEmitter, to: Operand, type: string, value: string): string {
  const bits = bitsOf(type);
  const width = to.kind === "register" ? to.register.bits : 32;
  const signed = isSigned(type);
  const shift = 32 - bits;
  const extended =
    bits >= 32 ? `(${value})|0` : signed ? `(${value})<<${shift}>>${shift}` : `(${value})&${2 ** bits - 1}`;
  if (width === 64) {
    const t = e.temporary();
    return `const ${t}=${extended};${e.setPair(to, t, signed ? `${t}>>31` : "0")}`;
  }
  return width === 16 ? e.setInt(to, `(${extended})&65535`) : e.setInt(to, extended);
}

function integerToInteger(
  e: LaneEmitter,
  to: Operand,
  a: Operand,
  dst: string,
  src: string,
  saturate: boolean,
): string {
  const signed = isSigned(src);
  if (bitsOf(src) === 64) {
    const [l, h] = e.pair(a);
    if (bitsOf(dst) === 64) {
      if (!saturate || dst === src) return e.setPair(to, l, h);
      return e.setPair(to, `clampSign64(${l},${h},${isSigned(dst) ? 1 : 0})`, "HI[0]");
    }
    if (!saturate) return storeInteger(e, to, dst, l);
    const [least, most] = ranges[dst] ?? ["0", "0"];
    return storeInteger(e, to, dst, `clamp64(${l},${h},${signed ? 1 : 0},${least},${most})`);
  }
  const value = e.narrow(a, bitsOf(src), signed);
  if (bitsOf(dst) === 64) {
    if (saturate && signed && !isSigned(dst)) return e.setPair(to, `max(0,${value})`, "0");
    const t = e.temporary();
    return `const ${t}=${value}|0;${e.setPair(to, t, signed ? `${t}>>31` : "0")}`;
  }
  if (!saturate) return storeInteger(e, to, dst, value);
  const [least, most] = ranges[dst] ?? ["0", "0"];
  return storeInteger(e, to, dst, `min(${most},max(${least},${value}))`);
}

function integerToFloat(
  e: LaneEmitter,
  to: Operand,
  a: Operand,
  dst: string,
  src: string,
  rounding: Rounding,
  saturate: boolean,
): string {
  const signed = isSigned(src);
  let value: string;
  if (bitsOf(src) === 64) {
    value = `integer64(${e.pair(a)},${signed ? 1 : 0},"${dst === "f64" ? "f64" : "f32"}","${rounding}")`;
    if (dst === "f32") return e.setF32(to, finish(value, false, saturate));
  } else value = e.narrow(a, bitsOf(src), signed);
  if (dst === "f64") return e.setF64(to, saturate ? `saturate(${value})` : value);
  if (dst === "f32") {
    const rounded = rounding === "rn" ? `fround(${value})` : `encodeDecode32(${value},"${rounding}")`;
    return e.setF32(to, finish(rounded, false, saturate));
  }
  return e.setInt(to, encodeHalf(dst, saturate ? `saturate(${value})` : value, rounding, false));
}

const wholes: Readonly<Record<string, string>> = { rzi: "trunc", rmi: "floor", rpi: "ceil" };

function floatToInteger(e: LaneEmitter, to: Operand, value: string, dst: string, rounding: string): string {
  if (bitsOf(dst) === 64)
    return e.setPair(to, `float64ToInteger(${value},"${rounding}",${isSigned(dst) ? 1 : 0})`, "HI[0]");
  const [least, most] = ranges[dst] ?? ["0", "0"];
  // NaN becomes 0; what is beyond the range becomes its end, with or without .sat.
  const whole = `${wholes[rounding] ?? "roundEven"}(${value})`;
  return storeInteger(e, to, dst, `clampNumber(${whole},${least},${most})`);
}

interface FloatForm extends ReturnType<typeof optionsOf> {
  readonly dst: string;
  readonly src: string;
  readonly integral: (typeof integerRoundings)[number] | null;
}

function floatToFloat(e: LaneEmitter, to: Operand, a: Operand, form: FloatForm): string {
  const { dst, src, rounding, integral, ftz, saturate, relu, satfinite } = form;
  let value = readFloat(e, a, src, ftz);
  if (integral !== null) value = `roundInteger(${value},"${integral}")`;
  if (saturate) value = `saturate(${value})`;
  if (relu) value = `reluHalf(${value})`;
  switch (dst) {
    case "f64":
      return e.setF64(to, value);
    case "f32": {
      const rounded =
        src !== "f64"
          ? value
          : rounding === "rn"
            ? `fround(${value})`
            : `encodeDecode32(${value},"${rounding}")`;
      return e.setF32(to, ftz ? `flush(${rounded})` : rounded);
    }
    default:
      return e.setInt(to, encodeHalf(dst, value, rounding, satfinite));
  }
}

/** Pairs of f32 to a packed type: the first operand becomes the upper half. */
function packPair(d: Decoder, dst: string): Operation {
  const { rounding, ftz, relu, satfinite } = optionsOf(d);
  const bits = bitsOf(dst) / 2;
  const to = d.def(0, "int");
  const [a, b] = [d.use(1, "float"), d.use(2, "float")];
  return lane((e) => {
    const one = (operand: Operand): string => {
      const value = readFloat(e, operand, "f32", ftz);
      const kept = relu ? `reluHalf(${value})` : value;
      return encodeHalf(dst.slice(0, -2), kept, rounding, satfinite || bits === 8);
    };
    return e.setInt(to, `(${one(b)})|((${one(a)})<<${bits})`);
  });
}

const optionsOf = (d: Decoder) => ({
  rounding: d.option(...floatRoundings) ?? "rn",
  ftz: d.flag("ftz"),
  saturate: d.flag("sat"),
  relu: d.flag("relu"),
  satfinite: d.flag("satfinite"),
});

/** f16x2 to or from two byte floats. */
function bytePair(d: Decoder, dst: string, src: string): Operation {
  const { rounding, relu } = optionsOf(d);
  const toHalves = dst === "f16x2";
  const format = (toHalves ? src : dst).slice(0, -2);
  const [to, a] = unary(d);
  const kept = (value: string): string => (relu ? `reluHalf(${value})` : value);
  return lane((e) => {
    const one = (shift: number): string =>
      toHalves
        ? `toF16(${kept(`decodeFloat("${format}",(${e.int(a)}>>>${shift})&255)`)})`
        : encodeHalf(format, kept(`fromF16((${e.int(a)}>>>${2 * shift})&65535)`), rounding, true);
    return e.setInt(to, `(${one(0)})|((${one(8)})<<${toHalves ? 16 : 8})`);
  });
}

/** Which bytes a conversion of `from` bytes to `to` defines: what is cut off is none of the result, a sign is in all that it fills. */
function extended(mask: string, from: number, to: number, src: string): string {
  const kept = Math.min(from, to);
  const above = 255 ^ (2 ** kept - 1);
  return isSigned(src) && from < to
    ? `(${mask}>>${from - 1}&1?${mask}|${above}:${mask}&${255 ^ above})`
    : `${mask}|${above}`;
}

const cvt: Row = (d) => {
  const integral = d.option(...integerRoundings);
  const [dst, src] = [d.type(), d.type()];
  if (isNarrowPair(dst) || isNarrowPair(src)) return convertNarrow(d, dst, src);
  if (bytePairs.some((t) => t === src) || (bytePairs.some((t) => t === dst) && src === "f16x2"))
    return bytePair(d, dst, src);
  if (dst.endsWith("x2")) return packPair(d, dst);
  const options = optionsOf(d);
  const { rounding, ftz, saturate } = options;
  if (dst === "tf32") {
    const [to, a] = [d.def(0, "int"), d.use(1, "float")];
    return lane((e) => {
      const value = options.relu ? `reluHalf(${e.f32(a)})` : e.f32(a);
      const overflow = options.satfinite ? "saturate" : "ieee";
      return e.setInt(to, `encodeFloat("tf32",${value},"${rounding}","${overflow}")|0`);
    });
  }
  const floatIn = !isInteger(src);
  const floatOut = !isInteger(dst);
  const to = d.def(0, dst === "f32" || dst === "f64" ? "float" : "int");
  const a = d.use(1, src === "f32" || src === "f64" ? "float" : "int");
  if (!floatIn && !floatOut)
    return {
      ...{ kind: "lane", emit: (e) => integerToInteger(e, to, a, dst, src, saturate) },
      ...(saturate ? {} : { defined: (e) => extended(e.defined(a), bitsOf(src) / 8, bitsOf(dst) / 8, src) }),
    };
  if (!floatIn) return lane((e) => integerToFloat(e, to, a, dst, src, rounding, saturate));
  if (!floatOut) {
    if (integral === null) return d.refuse("a conversion to an integer needs .rni, .rzi, .rmi or .rpi");
    return lane((e) => floatToInteger(e, to, readFloat(e, a, src, ftz), dst, integral));
  }
  return lane((e) => floatToFloat(e, to, a, { ...options, dst, src, integral }));
};

/** cvt.pack.sat: two 32-bit integers to two of 16 bits, or to two narrower ones below the low bits of c. */
const convertPack: Row = (d) => {
  const dst = d.choice("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2");
  const bits = bitsOf(dst);
  if (bits < 16) d.flag("b32");
  const [to, a, b] = binary(d);
  const c = bits < 16 ? d.use(3, "int") : null;
  const [least, most] = isSigned(dst) ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
  return lane((e) => {
    const one = (operand: Operand): string =>
      `(min(${most},max(${least},${e.int(operand)}))&${2 ** bits - 1})`;
    const packed = `(${one(a)}<<${bits})|${one(b)}`;
    return e.setInt(to, c === null ? packed : `(${e.int(c)}<<${2 * bits})|${packed}`);
  });
};

export const convertTable: Table = { cvt, "cvt.pack": convertPack };
