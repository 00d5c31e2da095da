/** Half precision: f16, bf16 and their packed pairs, in integer registers. PTX ISA 9.0, chapter 9.7.4. */
import type { Operand, Operation } from "../load/types.ts";
import type { Decoder } from "./row.ts";

export const halfTypes = ["f16", "f16x2", "bf16", "bf16x2"] as const;

/** The NaN of tensor maps in each 16 bits. */
const outside = 0x7ff7;

interface HalfForm {
  readonly operands: 1 | 2 | 3;
  /** Double-precision value, or one rounded to odd, of the result before it is rounded to the half format. */
  readonly value: (a: string, b: string, c: string) => string;
  /** The result is one of the operands or its sign flipped, so bits and NaN pass without rounding. */
  readonly exact?: boolean;
  /** An approximate function, whose f32 result is cut towards zero. */
  readonly cut?: boolean;
}

// Sums and products of 11- or 8-bit significands: the double result is exact for products; sums are rounded to odd, so
// that the one rounding that follows is right.
const forms: Readonly<Record<string, HalfForm>> = {
  add: { operands: 2, value: (a, b) => `fmaOdd(${a},1,${b},"rn")` },
  sub: { operands: 2, value: (a, b) => `fmaOdd(${b},-1,${a},"rn")` },
  mul: { operands: 2, value: (a, b) => `${a}*${b}` },
  fma: { operands: 3, value: (a, b, c) => `fmaOdd(${a},${b},${c},"rn")` },
  neg: { operands: 1, value: (a) => `-${a}`, exact: true },
  abs: { operands: 1, value: (a) => `abs(${a})`, exact: true },
  min: { operands: 2, value: (a, b) => `min2(${a},${b})`, exact: true },
  max: { operands: 2, value: (a, b) => `max2(${a},${b})`, exact: true },
  ex2: { operands: 1, value: (a) => `ex2Approx(${a})`, cut: true },
  tanh: { operands: 1, value: (a) => `tanhApprox(${a})`, cut: true },
};

/** The half form of `name`, or null when the instruction's type is no half type, or f32 with operands of 16 bits (`add.f32.f16`). */
export function packedHalf(d: Decoder, name: string): Operation | null {
  const parts = d.mnemonic.split(".");
  if (parts.includes("f32") || !halfTypes.some((type) => parts.includes(type))) return null;
  const form = forms[name];
  if (form === undefined) return d.refuse("not defined for half precision");
  if (form.cut === true) d.choice("approx");
  else d.option("rn");
  const ftz = d.flag("ftz");
  const nan = d.flag("NaN");
  const saturate = d.flag("sat");
  const relu = d.flag("relu");
  const oob = d.flag("oob");
  const xorsign = d.flag("xorsign") && d.flag("abs");
  const type = d.type(...halfTypes);
  const packed = type.endsWith("x2");
  const format = type.startsWith("bf") ? "Bf16" : "F16";
  const to = d.def(0, "int");
  const sources = Array.from({ length: form.operands }, (_, k) => d.use(k + 1, "int"));
  const suffix = nan ? "NaN" : "";
  const one = (part: (operand: Operand) => string): string => {
    const read = (operand: Operand | undefined): string => {
      if (operand === undefined) return "0";
      const value = `from${format}(${part(operand)})`;
      return ftz ? `flushHalf(${value})` : value;
    };
    const [a, b, c] = [read(sources[0]), read(sources[1]), read(sources[2])];
    let value = xorsign
      ? `xorsign(${form.value(`abs(${a})`, `abs(${b})`, c)},${a},${b})`
      : form.value(a, b, c);
    if (suffix !== "") value = value.replace("2(", `${suffix}(`);
    if (relu) value = `reluHalf(${value})`;
    if (saturate) value = `saturate(${value})`;
    if (form.cut === true) value = `cut${format}(${value})`;
    const bits = `to${format}(${value})`;
    // What a tensor map fills elements outside of the tensor with makes the result 0.
    if (oob) return `${sources.map((x) => `(${part(x)})===${outside}`).join("||")}?0:${bits}`;
    return ftz ? `flushHalfBits(${bits})` : bits;
  };
  return {
    kind: "lane",
    emit: (e) => {
      if (!packed)
        return e.setInt(
          to,
          one((operand) => e.narrow(operand, 16, false)),
        );
      const low = one((operand) => `${e.int(operand)}&65535`);
      const high = one((operand) => `${e.int(operand)}>>>16`);
      return e.setInt(to, `(${low})|((${high})<<16)`);
    },
  };
}
